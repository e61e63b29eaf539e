# SPDX-License-Identifier: GPL-2.0
"""l5run itself: options, statuses, warnings, what it preloads and into what."""
import os
import re
import shutil
import subprocess

from harness import (HERE, REPO, Failed, family, free_port, have_module, in_vm,
                     stat, wait_until)

PROBE = os.path.join(HERE, 'build', 'preload_probe')
STATIC = PROBE + '_static'
# Sockets that are always plain, whatever is asked.
PLAIN = ('udp', 'unix dgram', 'seqpacket', 'mptcp', 'bad family', 'bad type',
         'bad protocol', 'socketpair')


def probe(s, *options, **kw):
    """Run the probe under l5run. Return {where: what it got} and the run."""
    r = s.run([*options, PROBE], **kw)
    return dict(line.split(': ', 1) for line in r.text.splitlines()), r


def lines(r, word):
    return [line for line in r.text.splitlines() if word in line]


def options(s, check):
    l5run = s.prefix[0]

    def run(*argv, **kw):
        return s.run([l5run, *argv], plain=True, **kw)

    r = run('--help')
    check(r.code == 0 and all(o in r.text for o in (
        '--unix', '--only', '--mode', '--config', '--spin', '--require',
        '--verbose', '--debug')), '--help names all options', r)
    r = run('--version')
    check(r.code == 0 and re.match(r'l5run .*\d+\.\d+', r.text),
          '--version', r)
    for argv in ([], ['--no-such-option', 'true'], ['--only=tcp', 'true'],
                 ['--only=', 'true'], ['--mode=magic', 'true'],
                 ['--spin=x', 'true'], ['--spin=-1', 'true'],
                 ['--spin=', 'true'], ['--spin=1000001', 'true']):
        r = run(*argv)
        check(r.code == 125 and b'l5run:' in r.err and not r.out,
              f'125 and a message for: {" ".join(argv) or "nothing"}', r)
    r = run('no-such-program')
    check(r.code == 127 and b'no-such-program' in r.err,
          '127 for a missing program', r)
    r = run('/no/such/program')
    check(r.code == 127, '127 for a missing path', r)
    with open(s.path('data'), 'w') as f:
        f.write('no program\n')
    os.chmod(s.path('data'), 0o644)
    r = run(s.path('data'))
    check(r.code == 126, '126 for what is not executable', r)
    r = run(s.dir)
    check(r.code == 126, '126 for a directory', r)
    for code in (0, 3, 255):
        r = run('sh', '-c', f'exit {code}')
        check(r.code == code, f'the status {code} of the program', r)
    r = run('sh', '-c', 'kill -9 $$')
    check(r.code == -9, 'the signal that kills the program', r)
    r = run('--', 'echo', '--unix', '--', '-v', 'a b')
    check(r.text == '--unix -- -v a b\n', '-- and options of the program', r)
    r = run('echo', '--require', '--help')
    check(r.text == '--require --help\n',
          'options after the program are the program\'s', r)
    r = run('cat', data=b'through stdin')
    check(r.text == 'through stdin', 'stdin and stdout are the program\'s', r)


def rules(s, check):
    """Bad rules are named; those that the user asked for end it."""
    l5run = s.prefix[0]
    home = s.path('home')
    os.makedirs(os.path.join(home, '.config'))
    conf = s.path('rules')

    def run(*argv, **kw):
        return s.run([l5run, *argv, 'echo', 'ran'], plain=True,
                     env=dict(os.environ, HOME=home, **kw))

    def put(path, text):
        with open(path, 'w') as f:
            f.write(text)

    for text, word in (('port x off', b'L5_POLICY:1: not a port'),
                       ('off;; address y on', b'L5_POLICY:3: not an address'),
                       ('port 1 off;port 2', b'L5_POLICY:2: what applies')):
        r = run(L5_POLICY=text)
        check(r.code == 125 and not r.out and b'l5run: ' + word in r.err,
              f'125 and a message for L5_POLICY="{text}"', r)
    for text in '', ';', 'off', ' port 1-2 off ; # on;mode full;':
        r = run(L5_POLICY=text)
        check(r.code == 0 and r.text == 'ran\n' and not r.err,
              f'L5_POLICY="{text}" is silent', r)
    filler = '# a comment\n' * 5500
    for text, word in (('on\nport x off', b':2: not a port'),
                       (filler + 'off', b': more than 65536 bytes')):
        put(conf, text)
        r = run(f'--config={conf}')
        check(r.code == 125 and not r.out and conf.encode() + b':' in r.err
              and word in r.err, f'--config: 125 and{word.decode()}', r)
        put(os.path.join(home, '.config', 'l5.conf'), text)
        r = run()
        check(r.code == 0 and r.text == 'ran\n' and
              b'.config/l5.conf:' in r.err and word in r.err,
              f'the usual file: it runs, and{word.decode()}', r)
    r = run('--config=/no/such/file')
    check(r.code == 125 and b'/no/such/file' in r.err,
          '125 for no such file', r)


def environment(s, check):
    l5run = s.prefix[0]
    show = 'import os; print(*(os.environ.get(n) for n in ' \
           '("LD_PRELOAD", "L5_SOCKETS", "L5_MODE", "L5_SPIN_US", ' \
           '"L5_DEBUG", "L5_CONF")))'

    def run(*argv, env=None):
        r = s.run([l5run, *argv, '/usr/bin/python3.11', '-c', show],
                  plain=True, env=dict(os.environ, **env) if env else None)
        return r.text.split()

    where = os.path.dirname(l5run)
    library = os.path.join(where, 'libl5preload.so')
    for argv in ((), ('--mode=full',)):
        check(run(*argv) == [library, 'inet,inet6', 'full'] + ['None'] * 3,
              f'the environment with {argv or "no options"}', run(*argv))
    got = run('--mode=socket')
    check(got == [os.path.join(where, 'libl5socket.so'), 'inet,inet6',
                  'socket'] + ['None'] * 3, 'the environment of mode socket',
          got)
    conf = s.path('conf')
    open(conf, 'w').close()
    got = run('--unix', '--spin=20', '--debug', f'--config={conf}')
    check(got[:6] == [library, 'inet,inet6,unix', 'full', '20', '1', conf],
          'the environment with options', got)
    got = run('--only=inet6')
    check(got[1] == 'inet6', '--only=inet6', got)
    got = run('--only', 'unix,inet')
    check(got[1] == 'inet,unix', '--only unix,inet', got)
    other = shutil.copy('/lib/x86_64-linux-gnu/libz.so.1', s.path('other.so')) \
        if os.path.exists('/lib/x86_64-linux-gnu/libz.so.1') else library
    got = run(env={'LD_PRELOAD': other})
    check(got[0] == f'{other}:{library}', 'LD_PRELOAD is kept, before ours',
          got)
    r = s.run([l5run, l5run, '--only=inet', '/usr/bin/python3.11', '-c', show],
              plain=True)
    check(r.code == 0 and r.text.split()[1] == 'inet', 'l5run under l5run', r)

    odd = s.path('a b')
    os.mkdir(odd)
    for name in (l5run, library):
        shutil.copy(name, odd)
    r = s.run([os.path.join(odd, 'l5run'), 'true'], plain=True)
    check(r.code == 125 and b'blank' in r.err,
          '125 when the loader could not read the library\'s path', r)
    os.unlink(os.path.join(odd, 'libl5preload.so'))
    r = s.run([os.path.join(odd, 'l5run'), 'true'], plain=True)
    check(r.code == 125 and b'libl5preload.so' in r.err,
          '125 when there is no library', r)


def install(s, check):
    r = s.run(['make', '-C', os.path.join(REPO, 'userspace'), '-s', 'install',
               f'DESTDIR={s.path("root")}', 'PREFIX=/opt/x'], plain=True)
    found = {os.path.relpath(os.path.join(where, n), s.path('root'))
             for where, _, names in os.walk(s.path('root')) for n in names}
    check(r.code == 0 and found >= {
        'opt/x/bin/l5run', 'opt/x/include/libl5.h', 'opt/x/lib/libl5.a',
        'opt/x/lib/libl5.so', 'opt/x/lib/libl5.so.0',
        'opt/x/lib/libl5preload.so', 'opt/x/lib/libl5socket.so',
        'opt/x/lib/pkgconfig/libl5.pc', 'opt/x/share/man/man1/l5run.1'},
          'make install', (r, found))
    r = s.run([s.path('root/opt/x/bin/l5run'), 'sh', '-c',
               'echo $LD_PRELOAD'], plain=True)
    check(r.text.strip() ==
          s.path('root/opt/x/lib/l5/$LIB/libl5preload.so'),
          'the installed l5run finds the installed library', r)
    r = s.run(['nm', '-D', '--defined-only',
               s.path('root/opt/x/lib/libl5socket.so')], plain=True)
    check([line.split()[-1] for line in r.text.splitlines()] ==
          ['setsockopt', 'socket'],
          'the library of mode socket wraps two functions', r)


def warnings(s, check):
    l5run = s.prefix[0]

    def never(*argv, **kw):
        return s.run([l5run, '--static=never', *argv], plain=True, **kw)

    r = never(STATIC)
    check(r.code == 0 and b'statically linked' in r.err and
          'inet: plain' in r.text, 'a static program is warned about and runs',
          r)
    script = s.path('script')
    with open(script, 'w') as f:
        f.write(f'#! {STATIC} arg\n')
    os.chmod(script, 0o755)
    r = never(script)
    check(r.code == 0 and b'statically linked' in r.err,
          'and a script of a static interpreter', r)
    r = never('preload_probe_static', env=dict(
        os.environ, PATH=f'{os.path.dirname(STATIC)}:{os.environ["PATH"]}'))
    check(r.code == 0 and b'statically linked' in r.err,
          'and one that is found in PATH', r)
    script = s.path('script2')
    with open(script, 'w') as f:
        f.write('#!/bin/sh\nexit 5\n')
    os.chmod(script, 0o755)
    for argv, code in (([PROBE], 0), ([script], 5)):
        r = s.run(argv)
        check(r.code == code and not r.err, 'no warning for '
              f'{os.path.basename(argv[0])}', r)
    if os.geteuid():
        return
    r = s.run([STATIC])
    check(r.code == 0 and not r.err, 'nor for a static one, as root', r)
    # The loader's own rule: nothing is preloaded where privileges change.
    setuid = shutil.copy(PROBE, s.path('setuid'))
    os.chmod(setuid, 0o4755)
    r = s.run([setuid], user='nobody')
    check(r.code == 0 and b'set-user-ID' in r.err and 'inet: plain' in r.text,
          'a set-user-ID program is warned about and runs on TCP', r)


def secure(s, check):
    """With the module, of a library that the loader trusts."""
    library = '/usr/lib/libl5preload.so'
    if os.path.exists(library):
        return
    shutil.copy(os.path.join(os.path.dirname(s.prefix[0]),
                             'libl5preload.so'), library)
    os.chmod(library, 0o4755)
    program = shutil.copy(PROBE, s.path('secure'))
    env = dict(os.environ, LD_PRELOAD='libl5preload.so', L5_DEBUG='1')
    try:
        r = s.run([program], plain=True, user='nobody', env=env)
        check(r.code == 0 and 'inet: l5' in r.text,
              'a library that is found by name', r)
        os.chmod(program, 0o4755)
        r = s.run([program], plain=True, user='nobody', env=env)
        check(r.code == 0 and 'inet: plain' in r.text and
              r.err.count(b'no AF_L5 socket (the program is set-user-ID') ==
              r.err.count(b'\n') == 1,
              'a set-user-ID program that has the library says why', r)
    finally:
        os.unlink(library)


def sockets(s, check):
    """With the module: the calls that get an AF_L5 socket."""
    plain = s.run([PROBE], plain=True)
    got, r = probe(s)
    check(r.code == 0 and not r.err, 'the probe runs', r)
    for where in ('constructor', 'inet', 'inet6', 'signal', 'vfork'):
        check(got[where] == 'l5', f'{where}: AF_L5', r)
    check(got['unix'] == 'plain', 'unix: not without --unix', r)
    want, _ = probe(s, plain=True)
    for where in PLAIN + ('no files',):
        check(got[where] == want[where], f'{where}: {want[where]}', r)
    check(got['flags'] == 'l5 nonblock 1 cloexec 1',
          'SOCK_NONBLOCK and SOCK_CLOEXEC', r)
    check(got['errno'] == 'kept', 'errno is kept', r)
    total = got['threads'].split()
    check(total[0] == total[2], 'threads: all AF_L5', r)
    check(lines(r, 'SO_') == lines(plain, 'SO_'),
          'SO_DOMAIN, SO_PROTOCOL, SO_TYPE, SO_REUSEPORT, SO_PEEK_OFF as on '
          'TCP', (r, plain))
    check(lines(r, 'setsockopt') == lines(plain, 'setsockopt'),
          'setsockopt() of no file as on TCP', (r, plain))
    raw = s.run(['/usr/bin/python3.11', '-c',
                 'import socket, sys\n'
                 's = socket.socket(int(sys.argv[1]), socket.SOCK_STREAM)\n'
                 'print(s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN))',
                 family()], plain=True)
    check(raw.text.strip() == '2',
          'without the library, too', raw)

    l5run = s.prefix
    s.prefix = l5run + ['--unix']
    got, r = probe(s)
    check((got['inet'], got['inet6'], got['unix'], got['socketpair']) ==
          ('l5', 'l5', 'l5', 'plain'), '--unix', r)
    check(lines(r, 'SO_') == lines(plain, 'SO_'), '--unix: the options too',
          (r, plain))
    s.prefix = l5run + ['--only=inet6']
    got, r = probe(s)
    check((got['inet'], got['inet6'], got['unix']) ==
          ('plain', 'l5', 'plain'), '--only=inet6', r)
    s.prefix = l5run + ['--only=unix', '--require']
    got, r = probe(s)
    check((got['inet'], got['inet6'], got['unix']) ==
          ('plain', 'plain', 'l5'), '--only=unix --require', r)
    spin = ('import socket\n'
            's = socket.socket()\n'
            f'print(s.getsockopt({0x4c35}, 3))')
    for us in (0, 20, 1000000):
        s.prefix = l5run + [f'--spin={us}']
        r = s.run(['/usr/bin/python3.11', '-c', spin])
        check(r.text.strip() == str(us), f'--spin={us}', r)
    s.prefix = l5run


def says(s):
    """What mode full says of its sockets, and the rules that it follows."""
    port = free_port()
    argv = ['socat', '-t', 60, '-', f'TCP:127.0.0.1:{port}']
    server = s.server(['socat', f'TCP-LISTEN:{port},reuseaddr,fork',
                       'EXEC:cat,nofork'], port, name='echo')
    data = b'x' * 100000
    conf = s.path('l5.conf')
    for name, rules, words, shm, maps in (
            ('nothing', '', 'mapped, rings of', 2, 1),
            ('another port', f'port {port + 1} off\n', 'mapped, rings', 2, 1),
            ('this port', f'port {port} off\n', 'off: the policy', 0, 0),
            ('ports', f'# text\nport {port}-{port} mode socket\n',
             'not mapped: the policy', 2, 0),
            ('this program', 'program socat mode socket\n',
             'not mapped: the policy', 2, 0),
            ('this program, off', 'program socat off\n',
             'no AF_L5 socket (the policy says so)', 0, 0),
            ('an address', 'address 127.0.0.0/8 off\n', 'off: the policy', 0,
             0),
            ('another program', 'program cat off\n', 'mapped, rings', 2, 1)):
        for where in 'file', 'environment':
            with open(conf, 'w') as f:
                f.write(rules if where == 'file' else '')
            env = dict(os.environ, L5_DEBUG='1', L5_CONF=conf)
            if where == 'environment':
                env['L5_POLICY'] = rules.replace('\n', ';')
            before = stat()
            r = s.run(argv, data=data, env=env)
            moved = {k: v - before[k] for k, v in stat().items()}
            text = r.err.decode()
            s.check(r.code == 0 and r.out == data and words in text and
                    moved['conn_shm'] == shm,
                    f'a rule of the {where} about {name}: {words}',
                    (r, moved))
            # The client's rules: the server's are not asked.
            s.check(('mapped, rings' in text) == bool(maps),
                    f'a rule of the {where} about {name}: '
                    f'{"mapped" if maps else "not mapped"}', r)
    s.stop(server)


def absent(s, check):
    """Without the module."""
    plain = s.run([PROBE], plain=True)
    r = s.run([PROBE])
    check(r.code == 0 and not r.err and r.out == plain.out,
          'without the module: plain sockets, silently', (r, plain))
    l5run = s.prefix
    s.prefix = l5run + ['--debug']
    r = s.run([PROBE])
    check(r.out == plain.out and r.err.count(b'l5: ') >= 1 and
          r.err.count(b'EAFNOSUPPORT') == r.err.count(b'\n') == 1,
          'without the module: --debug says so once', r)
    s.prefix = l5run + ['--require']
    r = s.run([PROBE])
    check(r.code == 125 and not r.out and b'AF_L5' in r.err,
          'without the module: --require fails', r)
    s.prefix = l5run


def unloaded(s, check):
    """Take the module out for absent(), and put it back."""
    found = [f for f in (os.path.join(REPO, 'kmod', 'af_l5.ko'),
                         os.path.join(REPO, 'af_l5.ko')) if os.path.exists(f)]
    if not found:
        raise Failed('no af_l5.ko to load again')
    # A socket of the last program may outlive it by a moment.
    wait_until(lambda: s.run(['rmmod', 'af_l5'], plain=True).code == 0,
               'the module to be unused')
    try:
        absent(s, check)
    finally:
        s.must(['insmod', found[0]], plain=True)
    got, r = probe(s)
    check(got['inet'] == 'l5', 'AF_L5 again with the module loaded again', r)


def run(t):
    if not t.l5run or os.path.basename(t.l5run[0]) != 'l5run':
        t.skip('all', 'L5RUN is not l5run')
        return

    def session(s):
        def check(good, name, detail=''):
            t.check(good, name, detail)
        options(s, check)
        environment(s, check)
        rules(s, check)
        install(s, check)
        warnings(s, check)
        if in_vm() and have_module():
            secure(s, check)
        if in_vm() and have_module():
            unloaded(s, check)
        elif not have_module():
            absent(s, check)

    def one_mode(s):
        def check(good, name, detail=''):
            t.check(good, f'{s.mode}: {name}', detail)
        sockets(s, check)
    t.attempt('l5run', session)
    for mode in t.modes:
        if have_module():
            t.attempt(mode, one_mode)
    if 'full' in t.modes and have_module():
        t.attempt('full', says)
