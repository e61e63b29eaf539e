# SPDX-License-Identifier: GPL-2.0
"""
The two machines of a pair as objects with the same methods. The program of the
tests runs on a and does there by itself what it asks the agent on b to do: one
line of JSON a call, over a plain TCP connection.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(os.path.dirname(HERE))
STEP = os.path.join(HERE, 'build', 'step')
PORT = 999

# How much longer than usual things may take here (a debug kernel: 4).
SLOW = max(1, int(os.environ.get('L5_SLOW') or 1))
# Nothing here measures speed. The bounds are for a busy emulated machine, and
# only ever reached when something hangs.
WAIT = 60 * SLOW


class Failed(Exception):
    """What cannot go on; the text says what was waited for."""


class Hangs(Failed):
    """The same, since it took longer than anything may."""


class Lost(Exception):
    """The other machine does not answer any more."""


# A move takes a fraction of a second; this only ends what never comes.
MOVED = 'moved=15000'
SETTLED = 'settled=15000'
# Long enough for a question to be answered, where the answer must be no.
STAYS = 'stays=1500'


def collector(cases):
    """The decorator for a list of cases."""
    def case(seconds, last=False, keep=False):
        """
        @seconds: what ends it if it hangs; @last: b does not survive it;
        @keep: does not look whether all is given back.
        """
        def mark(f):
            f.seconds, f.last, f.keep = seconds, last, keep
            cases.append(f)
            return f
        return mark
    return case


class Process:
    """A child, whose lines are kept as they come."""

    def __init__(self, argv, env, cwd, user):
        self.argv = argv
        self.lines = []
        self.more = threading.Condition()
        extra = {}
        if user:
            extra = {'user': user, 'group': user, 'extra_groups': []}
        self.child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=dict(os.environ, **(env or {})),
            cwd=cwd, start_new_session=True, **extra)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.child.stdout:
            with self.more:
                self.lines.append(line.decode(errors='replace').rstrip('\n'))
                self.more.notify_all()
        with self.more:
            self.more.notify_all()


class Local:
    """What can be asked of a machine. Arguments and results are JSON."""

    def __init__(self):
        self.processes = {}
        self.count = 0

    def start(self, argv, env=None, cwd=None, user=None):
        self.count += 1
        self.processes[self.count] = Process(argv, env, cwd, user)
        return self.count

    def line(self, number, text, timeout):
        """The first line of its output that has @text in it, or None."""
        p = self.processes[number]
        end = time.monotonic() + timeout
        with p.more:
            while True:
                for line in p.lines:
                    if text in line:
                        return line
                left = end - time.monotonic()
                if left <= 0 or not p.reader.is_alive():
                    return None
                p.more.wait(min(left, 0.5))

    def tell(self, number, text):
        p = self.processes[number]
        try:
            p.child.stdin.write(text.encode())
            p.child.stdin.flush()
        except OSError:
            pass

    def kill(self, number, sig):
        self.processes[number].child.send_signal(sig)

    def asleep(self, number, timeout):
        """Does its first thread come to sleep?"""
        end = time.monotonic() + timeout
        seen = 0
        while seen < 5 and time.monotonic() < end:
            stat = self.read(f'/proc/{self.processes[number].child.pid}/stat')
            state = stat.rpartition(')')[2].split()[0] if stat else 'X'
            if state in 'ZX':
                return False
            seen = seen + 1 if state in 'SD' else 0
            time.sleep(0.01)
        return seen == 5

    def ends(self, number, timeout):
        """Does it end? If not, where are its threads?"""
        p = self.processes[number]
        try:
            p.child.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.stacks(p.child.pid)
        return []

    def finish(self, number, timeout):
        """The status, None if it does not end, and the output."""
        p = self.processes[number]
        stacks = []
        try:
            code = p.child.wait(timeout)
            p.reader.join(5)
        except subprocess.TimeoutExpired:
            code = None
            stacks = self.stacks(p.child.pid)
            p.child.kill()
        return {'code': code, 'lines': p.lines[-5000:], 'stacks': stacks,
                'argv': p.argv}

    @staticmethod
    def stacks(pid):
        out = []
        try:
            for task in sorted(os.listdir(f'/proc/{pid}/task')):
                with open(f'/proc/{pid}/task/{task}/stack') as f:
                    out.append(f'task {task}: ' + ' < '.join(
                        re.findall(r'\] (\S+)', f.read())))
        except OSError:
            pass
        return out

    def clean(self):
        """Kill what still runs; what could not be killed."""
        left = []
        for p in self.processes.values():
            if p.child.poll() is None:
                p.child.kill()
        for p in self.processes.values():
            try:
                p.child.wait(10 * SLOW)
            except subprocess.TimeoutExpired:
                left.append([p.argv] + self.stacks(p.child.pid))
        self.processes = {}
        return left

    def shell(self, command, timeout=60):
        try:
            r = subprocess.run(['bash', '-c', command], timeout=timeout,
                               stdin=subprocess.DEVNULL, capture_output=True)
        except subprocess.TimeoutExpired:
            return {'code': None, 'out': '', 'err': 'time-out'}
        return {'code': r.returncode, 'out': r.stdout.decode(errors='replace'),
                'err': r.stderr.decode(errors='replace')}

    def read(self, path):
        try:
            with open(path) as f:
                return f.read()
        except OSError:
            return None

    def write(self, path, text):
        try:
            with open(path, 'w') as f:
                f.write(text)
        except OSError as e:
            return str(e)
        return None


class Remote:
    """The same methods, on the other machine."""

    def __init__(self, address):
        end = time.monotonic() + WAIT
        while True:
            try:
                self.socket = socket.create_connection(address, timeout=5)
                break
            except OSError:
                if time.monotonic() > end:
                    raise Lost('no agent') from None
                time.sleep(0.2)
        self.file = self.socket.makefile('r')
        self.number = 0

    def __getattr__(self, name):
        def call(*args, **kw):
            self.number += 1
            try:
                # The machine may be cut off for a while, on purpose.
                self.socket.settimeout(kw.get('timeout', 0) + 60 * SLOW)
                self.socket.sendall(json.dumps(
                    [self.number, name, args, kw]).encode() + b'\n')
                while True:
                    number, good, value = json.loads(self.file.readline())
                    # An answer that no thread waits for any more?
                    if number == self.number:
                        break
            except (OSError, ValueError) as e:
                raise Lost(f'{name}{args}: {e}') from None
            if not good:
                raise Failed(value)
            return value
        return call


def agent():
    """On b: do what a says until it hangs up."""
    local = Local()
    with socket.create_server(('10.5.0.2', PORT)) as listener:
        s, _ = listener.accept()
        with s, s.makefile('r') as f:
            for line in f:
                number, name, args, kw = json.loads(line)
                try:
                    answer = [number, True, getattr(local, name)(*args, **kw)]
                except Exception as e:      # pylint: disable=broad-except
                    answer = [number, False, repr(e)]
                s.sendall(json.dumps(answer).encode() + b'\n')
    local.clean()


class Running:
    """A process on a machine, and what it said when it has ended."""

    def __init__(self, machine, argv, env=None, **kw):
        self.machine = machine
        self.number = machine.do.start([str(a) for a in argv], env, **kw)
        self.code = None
        self.lines = []
        self.stacks = []
        self.argv = argv

    def line(self, text, timeout=WAIT):
        line = self.machine.do.line(self.number, text, timeout=timeout)
        if line is None:
            self.finish(timeout=0.1)
            kind = Hangs if self.code is None else Failed
            raise kind(f'{self.machine.name} did not say {text!r}: {self!r}')
        return line

    def asleep(self, timeout=WAIT):
        if not self.machine.do.asleep(self.number, timeout=timeout):
            self.finish(timeout=0.1)
            raise Failed(f'{self.machine.name} does not sleep: {self!r}')

    def tell(self, text='\n'):
        self.machine.do.tell(self.number, text)

    def kill(self, sig=signal.SIGKILL):
        self.machine.do.kill(self.number, sig)

    def finish(self, timeout=2 * WAIT):
        got = self.machine.do.finish(self.number, timeout=timeout)
        self.code, self.lines = got['code'], got['lines']
        self.stacks = got['stacks']
        return self

    def hangs(self, timeout):
        """Where, if it does not end."""
        return self.machine.do.ends(self.number, timeout=timeout)

    @property
    def text(self):
        return '\n'.join(self.lines)

    def json(self, key, value=None):
        """The first line that has it, of those that are JSON."""
        for line in self.lines:
            if line.startswith('{'):
                got = json.loads(line)
                if key in got and value in (None, got[key]):
                    return got
        return {}

    def info(self, label=''):
        return self.json('info', label)

    @property
    def done(self):
        return self.json('done')

    def __repr__(self):
        return (f'{self.machine.name}: {" ".join(map(str, self.argv))[-600:]}'
                f'\n  status {self.code}\n' +
                '\n'.join('  ' + x for x in self.lines[-12:] + self.stacks))


class Machine:
    """a or b, seen from the tests."""

    def __init__(self, name, do):
        self.name, self.do = name, do
        n = 1 if name == 'a' else 2
        self.address = f'10.5.0.{n}'
        self.address6 = f'fd05::{n}'
        self.old = {}

    def at(self, port, six=False):
        return f'[{self.address6}]:{port}' if six else f'{self.address}:{port}'

    def step(self, *steps, env=None, prefix=()):
        return Running(self, [*prefix, STEP, *steps], env)

    def stat(self):
        text = self.do.read('/proc/net/l5_stat') or ''
        return {k: int(v) for k, v in map(str.split, text.splitlines())}

    def rows(self, port):
        """Lines of /proc/net/l5 that have this port at an end."""
        lines = (self.do.read('/proc/net/l5') or '').splitlines()
        columns = lines[0].split() if lines else []
        rows = [dict(zip(columns, line.split())) for line in lines[1:]]
        return [r for r in rows if any(
            r.get(end, '').endswith(f':{port}') for end in
            ('local', 'remote'))]

    def sysctl(self, name, value):
        """Set net.l5.NAME until the end of the case."""
        path = f'/proc/sys/net/l5/{name}'
        was = self.do.read(path)
        if was is None:
            raise Failed(f'{self.name} has no net.l5.{name}')
        self.old.setdefault(path, was)
        why = self.do.write(path, f'{value}\n')
        if why:
            raise Failed(f'{self.name}: net.l5.{name}={value}: {why}')

    def restore(self):
        for path, was in self.old.items():
            self.do.write(path, was)
        self.old = {}

    def sh(self, command, timeout=60, check=True):
        r = self.do.shell(command, timeout=timeout)
        if check and r['code'] != 0:
            raise Failed(f'{self.name}: {command}: {r["code"]} {r["err"]}')
        return r

    def resources(self):
        """{kind: how many} that RDMA devices have."""
        out = self.do.shell('rdma resource show', timeout=30)['out']
        total = {}
        for kind, n in re.findall(r'(\w+) (\d+)', out):
            total[kind] = total.get(kind, 0) + int(n)
        return total


if __name__ == '__main__':
    sys.exit('this is no program')
