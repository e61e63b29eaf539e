# SPDX-License-Identifier: GPL-2.0
"""
What the program tests share: checks as KTAP lines, counters, processes.

A case is a module case_NAME.py. Most have session(s), which is run on plain
TCP and under l5run, once in each of its modes, and returns {what: result}:
results must be equal, and the counters must say that all but the first moved
its bytes through shared memory, and in mode "full" that the program had mapped
it. A case may have run(t) instead and do everything itself.
"""
import ctypes
import errno
import glob
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
STAT = '/proc/net/l5_stat'
TABLE = '/proc/net/l5'
FAMILY = '/sys/module/af_l5/parameters/family'
FAMILY_DEFAULT = 18
SOL_L5 = 0x4c35
L5_TRANSPORT = 1
TRANSPORTS = ('none', 'base', 'shm')

# How l5run does it; without it there is one nameless way.
MODES = ('socket', 'full')

# Nothing here measures speed. The bounds are for a busy emulated machine, and
# only ever reached when something hangs.
WAIT = 120


class Failed(Exception):
    """A session cannot go on; the text says what was waited for."""


class Hangs(Failed):
    """The same, since it took longer than anything may."""


def in_vm():
    return 'L5_KERNEL' in os.environ


def have_module():
    return os.path.exists(STAT)


def family():
    try:
        with open(FAMILY) as f:
            return int(f.read())
    except OSError:
        return FAMILY_DEFAULT


def stat():
    """The counters, or {} without the module."""
    try:
        with open(STAT) as f:
            return {name: int(value) for name, value in map(str.split, f)}
    except FileNotFoundError:
        return {}


def table():
    """/proc/net/l5 as a list of {column: word}."""
    with open(TABLE) as f:
        columns = f.readline().split()
        return [dict(zip(columns, line.split())) for line in f]


def crash(pid):
    """Where a process crashed, as the kernel's log says."""
    r = subprocess.run(['dmesg'], capture_output=True, text=True)
    return ' | '.join(line for line in r.stdout.splitlines()
                      if f'[{pid}]' in line)


def wait_until(condition, what, timeout=WAIT):
    """Poll until condition() gives something true, and return that."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Hangs(f'waited {timeout} s for {what}')
        time.sleep(0.05)


def listening(port):
    """Does a TCP socket listen there? Asks without making a connection."""
    for name in ('/proc/net/tcp', '/proc/net/tcp6'):
        try:
            with open(name) as f:
                for line in list(f)[1:]:
                    word = line.split()
                    if word[3] == '0A' and int(word[1][-4:], 16) == port:
                        return True
        except FileNotFoundError:
            pass
    return False


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def random_file(path, size, seed=0):
    """Reproducible bytes that no compression or offset error survives."""
    import random
    with open(path, 'wb') as f:
        f.write(random.Random(seed).randbytes(size))
    return path


def sha(data):
    import hashlib
    return hashlib.sha256(data).hexdigest()


def sha_file(path):
    with open(path, 'rb') as f:
        return sha(f.read())


def children(pid='self'):
    """Those of a process, ours without a pid; it and its threads may end."""
    if not os.path.exists('/proc/thread-self/children'):
        raise OSError('this kernel lacks CONFIG_PROC_CHILDREN')
    out = set()
    for path in glob.glob(f'/proc/{pid}/task/*/children'):
        try:
            with open(path) as f:
                out.update(map(int, f.read().split()))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return out


def adopt_orphans():
    """Daemons become our children, so that none outlives its test."""
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_children():
    """Kill all our descendants. Return the names of those there were."""
    names = []
    while True:
        pids = children()
        if not pids:
            return names
        for pid in pids:
            try:
                with open(f'/proc/{pid}/comm') as f:
                    names.append(f.read().strip())
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (FileNotFoundError, ProcessLookupError,
                    ChildProcessError):
                pass


class Tap:
    """KTAP output."""

    def __init__(self):
        self.number = 0
        self.failed = 0
        print('KTAP version 1', flush=True)

    def line(self, good, name, more=''):
        self.number += 1
        self.failed += not good
        word = 'ok' if good else 'not ok'
        print(f'{word} {self.number} - {name}{more}', flush=True)
        return good

    def note(self, text):
        for line in str(text).splitlines():
            print(f'# {line}', flush=True)

    def end(self):
        print(f'1..{self.number}', flush=True)
        return self.failed != 0


class Result:
    """The result of a finished command."""

    def __init__(self, argv, code, out, err):
        self.argv, self.code, self.out, self.err = argv, code, out, err

    @property
    def text(self):
        return self.out.decode(errors='replace')

    def __repr__(self):
        return (f'{self.argv} gave {self.code}\n{self.text[-3000:]}\n'
                f'{self.err.decode(errors="replace")[-3000:]}')


class Session:
    """
    One run of a case: a scratch directory, processes, and the prefix that
    makes a program an AF_L5 one, which is empty in the TCP run.
    """

    def __init__(self, test, mode, prefix):
        self.test, self.mode, self.prefix = test, mode, prefix
        self.dir = tempfile.mkdtemp(prefix=f'l5apps-{test.name}-{mode}.')
        os.chmod(self.dir, 0o755)
        self.logs = []

    @property
    def l5(self):
        """Is shared memory to be expected?"""
        return self.mode != 'tcp' and bool(self.prefix) and have_module()

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def check(self, good, name, detail='', fatal=''):
        return self.test.check(good, f'{self.mode}: {name}', detail, fatal)

    def command(self, argv, plain=False, user=None):
        argv = [str(a) for a in argv]
        if not plain:
            argv = self.prefix + argv
        if user:
            argv = ['setpriv', '--reuid', user,
                    '--regid', str(pwd.getpwnam(user).pw_gid),
                    '--init-groups', '--'] + argv
        return argv

    def spawn(self, argv, plain=False, user=None, name=None, **kw):
        """Start a program; its output goes to a file, named by p.log."""
        argv = self.command(argv, plain, user)
        log = self.path(f'{len(self.logs)}-{name or "log"}')
        self.logs.append(log)
        kw.setdefault('stdin', subprocess.DEVNULL)
        kw.setdefault('cwd', self.dir)
        with open(log, 'wb') as f:
            kw.setdefault('stdout', f)
            p = subprocess.Popen(argv, stderr=f, **kw)
        p.log = log
        return p

    def server(self, argv, port, **kw):
        """Start a server and wait until it listens."""
        p = self.spawn(argv, **kw)

        def up():
            if p.poll() not in (None, 0):   # 0: became a daemon
                raise Failed(f'{argv[0]} ended with {p.returncode}')
            return listening(port)

        wait_until(up, f'{argv[0]} to listen on {port}')
        return p

    def run(self, argv, plain=False, user=None, data=None, timeout=WAIT,
            **kw):
        """Run a command to its end."""
        argv = self.command(argv, plain, user)
        kw.setdefault('cwd', self.dir)
        stdin = {'input': data} if data is not None else {
            'stdin': subprocess.DEVNULL}
        try:
            r = subprocess.run(argv, timeout=timeout, capture_output=True,
                               **stdin, **kw)
        except subprocess.TimeoutExpired as e:
            raise Hangs(f'{" ".join(argv)} took more than {timeout} s; '
                        f'out: {(e.stdout or b"")[-500:]} '
                        f'err: {(e.stderr or b"")[-500:]}') from None
        return Result(argv, r.returncode, r.stdout, r.stderr)

    def must(self, argv, **kw):
        """A command without which nothing else makes sense."""
        r = self.run(argv, **kw)
        if r.code:
            raise Failed(repr(r))
        return r

    def wait(self, p, what, timeout=WAIT):
        """The exit status of a process that is about to end."""
        try:
            code = p.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Hangs(f'waited {timeout} s for {what} to end') from None
        if code in (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL):
            print(f'# {what} crashed: {crash(p.pid)}', flush=True)
        return code

    def wrk(self, url, name, *args):
        """
        wrk with @args: answers, and no errors. On a slow machine a short run
        may not see a single answer; then a longer one.
        """
        for seconds in (1, 8, 60):
            r = self.run(['wrk', '-t', 2, '-d', f'{seconds}s', '--timeout',
                          '60s', *args, url], timeout=2 * WAIT)
            done = re.search(r'(\d+) requests in', r.text)
            if r.code or (done and int(done[1])):
                break
        self.check(r.code == 0 and done and int(done[1]) > 0 and
                   'Non-2xx' not in r.text and 'Socket errors' not in r.text,
                   name, r)

    def stop(self, p, sig=signal.SIGTERM, what=None):
        p.send_signal(sig)
        return self.wait(p, what or p.args[-1])

    def nobody(self, what):
        """At the end: whatever was started has ended, and by itself."""
        def none():
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return True
            return False
        wait_until(none, f'{what} to leave no process')

    def log_has(self, p, text):
        with open(p.log, 'rb') as f:
            return text in f.read()

    def rows(self, port, **want):
        """Lines of /proc/net/l5 with that port at an end, and these words."""
        def at(row):
            return any(row.get(end, '').endswith(f':{port}')
                       for end in ('local', 'remote'))
        return [r for r in table() if at(r) and
                all(r.get(k) == v for k, v in want.items())]

    def show_logs(self):
        for log in self.logs:
            try:
                with open(log, errors='replace') as f:
                    lines = f.read().splitlines()
            except OSError:
                continue
            self.test.tap.note(f'--- {log}, {len(lines)} lines, the last:')
            self.test.tap.note('\n'.join(lines[-30:]))

    def close(self):
        kill_children()
        shutil.rmtree(self.dir, ignore_errors=True)


class Row:
    """The line of the table about a case in a mode."""

    def __init__(self, name, mode):
        self.name, self.mode = name, mode
        self.results = self.equal = self.failures = 0
        self.moved = {}

    def add(self, moved):
        for k, v in moved.items():
            self.moved[k] = self.moved.get(k, 0) + v

    def line(self):
        same = '-'
        if self.mode != 'tcp':
            same = f'{self.equal}/{self.results}'
        ends = (str(self.moved.get(k, '-')) for k in
                ('conn_shm', 'conn_base', 'maps'))
        word = f'{self.failures} not ok' if self.failures else 'ok'
        return ('%-10s %-7s %9s %7s %7s %7s  %s' %
                (self.name, self.mode, same, *ends, word))

    @staticmethod
    def head():
        return ('%-10s %-7s %9s %7s %7s %7s' %
                ('program', 'mode', 'as on TCP', 'rings', 'TCP', 'mapped'))


class Test:
    """A case being run."""

    def __init__(self, name, tap, l5run, modes, long):
        self.name, self.tap, self.l5run = name, tap, l5run
        self.modes, self.long = modes, long
        self.failures = 0
        self.rows = {}

    def row(self, mode):
        return self.rows.setdefault(mode, Row(self.name, mode))

    def check(self, good, name, detail='', fatal=''):
        """@fatal: what a failure means; no noise makes that."""
        good = bool(good)
        if not good and fatal:
            self.tap.note(f'FATAL: {fatal}')
        self.tap.line(good, f'{self.name}: {name}')
        if not good:
            self.failures += 1
            self.tap.note(detail)
        return good

    def skip(self, name, why):
        self.tap.line(True, f'{self.name}: {name}', f' # SKIP {why}')

    def note(self, text):
        self.tap.note(f'{self.name}: {text}')

    def session(self, mode):
        prefix = []
        if mode != 'tcp':
            prefix = self.l5run + [f'--mode={mode}'] * (mode in MODES)
        return Session(self, mode, prefix)

    def attempt(self, mode, session):
        """Run one session. Return its results and what the counters did."""
        failures = self.failures
        s = self.session(mode)
        before, start = stat(), time.monotonic()
        result = None
        try:
            result = session(s)
        except (Failed, OSError, subprocess.SubprocessError, ValueError,
                IndexError, KeyError) as e:
            self.check(False, f'{mode}: ran to its end',
                       traceback.format_exc(),
                       'it hangs' if isinstance(e, Hangs) else '')
        finally:
            after = stat()
            if self.failures > failures:
                s.show_logs()
            s.close()
        if after:
            self.given_back(mode, before)
        self.note(f'{mode}: {time.monotonic() - start:.1f} s')
        moved = {k: after[k] - before.get(k, 0) for k in after}
        self.row(mode).add(moved)
        self.row(mode).failures += self.failures - failures
        return result, moved

    def given_back(self, mode, before):
        """All processes have ended: so have all pairs and their memory."""
        gauges = ('pairs', 'rings_kb', 'reserved_kb')

        def level():
            now = stat()
            return all(now[g] <= before[g] for g in gauges)
        try:
            wait_until(level, 'gauges', 60)
            good = True
        except Failed:
            good = False
        if not good or mode != 'tcp':
            self.check(good, f'{mode}: pairs and ring memory are given back',
                       f'before: {before}\nnow: {stat()}\n{table()}',
                       'a leak')

    def compare(self, session, connections, payload, mapped=None, base=0):
        """
        session(s) on TCP and under l5run. At least that many connections and
        that many bytes of payload have to go through shared memory. In mode
        "full" so many ends (default: one a connection) are mapped. So many
        ends stay on TCP; None means that any number may.
        """
        tcp, moved = self.attempt('tcp', session)
        if moved:
            self.check(moved['conn_shm'] == 0, 'tcp: no AF_L5 connection',
                       moved)
        for mode in self.modes:
            l5, moved = self.attempt(mode, session)
            if tcp is None or l5 is None:
                continue
            self.same(mode, tcp, l5)
            self.shared_memory(mode, moved, connections, payload,
                               connections if mapped is None else mapped,
                               base)

    def same(self, mode, tcp, l5):
        """Check that the results of two sessions are."""
        row, failures = self.row(mode), self.failures
        for what in list(tcp) + [k for k in l5 if k not in tcp]:
            row.results += 1
            row.equal += self.check(
                tcp.get(what) == l5.get(what),
                f'{mode}: same as on TCP: {what}',
                f'tcp: {tcp.get(what)!r}\nl5:  {l5.get(what)!r}',
                'another result than on TCP')
        row.failures += self.failures - failures

    def shared_memory(self, mode, moved, connections, payload, mapped,
                      base=0):
        """Check the counters of a run under l5run."""
        if not self.l5run:
            return
        if not have_module():
            self.skip(f'{mode}: counters', 'the module is not loaded')
            return
        self.note({k: v for k, v in moved.items() if v})
        failures = self.failures
        # Both ends are counted.
        self.check(moved['conn_shm'] >= 2 * connections,
                   f'{mode}: at least {connections} connections on shared '
                   'memory', moved)
        if base is not None:
            self.check(moved['conn_base'] == base,
                       f'{mode}: {base or "no"} ends stayed on TCP', moved)
        self.check(moved['bytes_tx'] >= payload,
                   f'{mode}: at least {payload} bytes through rings', moved)
        self.check(moved['violations'] == 0, f'{mode}: no ring violation',
                   moved, 'a ring was wrong')
        if mode == 'full':
            self.check(moved['maps'] >= mapped,
                       f'{mode}: at least {mapped} mapped ends', moved)
        elif mode == 'socket':
            self.check(not moved.get('maps'), f'{mode}: nothing is mapped',
                       moved)
        self.row(mode).failures += self.failures - failures
