# SPDX-License-Identifier: GPL-2.0
"""
Two containers of an ordinary user, joined by a veth pair: redis-server in one,
its clients in the other. Each has namespaces of its own for users, the network,
processes, IPC, names and mounts, and a root without anything of ours: l5run
comes in by one bind mount. By preload, and by --static.
"""
import os
import pwd

from harness import Failed, wait_until

PORT = 6379
CLIENTS = 20
REQUESTS = 1000
ADDRESS = {'a': '10.61.0.1', 'b': '10.61.0.2'}
USER = 'nobody'
MODES = {
    'tcp': None,
    'socket': ['--mode=socket'],
    'full': ['--mode=full'],
    # by the supervisor alone
    'static': ['--static=always', 'env', '-u', 'LD_PRELOAD'],
}

# What a container has: the system's programs, and nothing of /work or /root.
IMAGE = r'''
set -e
root=$1 l5=$2
mount -t tmpfs image "$root"
cd "$root"
mkdir usr proc dev sys etc tmp l5
chmod 1777 tmp
for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$dir"; done
mount --rbind /usr usr
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
cp /etc/ld.so.cache etc
echo 'root:x:0:0::/:/bin/sh' >etc/passwd
mount --bind "$l5" l5
echo up >tmp/up
exec chroot . sleep infinity
'''


class Container:
    """A process that keeps the namespaces, and programs in them."""

    def __init__(self, s, name, l5):
        self.s, self.name = s, name
        root = s.path(name)
        os.mkdir(root)
        self.keeper = s.spawn(
            ['unshare', '--user', '--map-root-user', '--net', '--pid', '--ipc',
             '--uts', '--mount', '--fork', '--kill-child', 'sh', '-c', IMAGE,
             'image', root, l5], plain=True, user=USER, name=name)
        wait_until(self.find, f'container {name}')

    def find(self):
        """The process that sleeps in there."""
        if self.keeper.poll() is not None:
            raise Failed(f'container {self.name} did not come up')
        path = f'/proc/{self.keeper.pid}/task/{self.keeper.pid}/children'
        with open(path) as f:
            pids = f.read().split()
        if not pids:
            return False
        self.pid = pids[0]
        try:
            with open(f'/proc/{self.pid}/comm') as f:
                return f.read() == 'sleep\n'
        except FileNotFoundError:
            return False

    def enter(self, argv):
        """A command that runs in there as its root."""
        return ['nsenter', '-t', self.pid, '--all', '-r/proc/%s/root' %
                self.pid, '-w/', '--', 'env', '-i', 'PATH=/usr/bin:/usr/sbin',
                'L5_MAP_AFTER=1', *argv]

    def stat(self):
        """What the module counted in there."""
        try:
            with open(f'/proc/{self.pid}/net/l5_stat') as f:
                return {n: int(v) for n, v in map(str.split, f)}
        except FileNotFoundError:
            return {}


def join(s, a, b):
    """A cable between the two, which only the host's root can lay."""
    names = {'a': 'l5ca', 'b': 'l5cb'}
    s.must(['ip', 'link', 'add', names['a'], 'type', 'veth', 'peer', 'name',
            names['b']], plain=True)
    for c in (a, b):
        dev, at = names[c.name], ADDRESS[c.name] + '/24'
        s.must(['ip', 'link', 'set', dev, 'netns', c.pid], plain=True)
        for command in (['addr', 'add', at, 'dev', dev],
                        ['link', 'set', dev, 'up'], ['link', 'set', 'lo', 'up']):
            s.must(['nsenter', '-t', c.pid, '-n', 'ip', *command], plain=True)


def session_of(l5, options, counts):
    prefix = [] if options is None else ['/l5/l5run', *options]

    def session(s):
        out = {}
        a, b = Container(s, 'a', l5), Container(s, 'b', l5)
        join(s, a, b)
        inside = s.run(a.enter(['ls', '/', '/tmp']), plain=True)
        s.check(inside.code == 0 and 'work' not in inside.text,
                'the container has a root of its own', inside)

        server = s.spawn(a.enter(
            [*prefix, 'redis-server', '--port', str(PORT), '--bind', '0.0.0.0',
             '--protected-mode', 'no', '--save', '', '--dir', '/tmp']),
            plain=True, name='redis-server')

        def cli(*args):
            r = s.run(b.enter([*prefix, 'redis-cli', '-h', ADDRESS['a'], '-p',
                               str(PORT), *args]), plain=True)
            return r.code, r.text, r.err.decode()

        wait_until(lambda: cli('PING')[1] == 'PONG\n', 'redis-server')
        for command in ('SET k value', 'GET k', 'INCR n', 'LPUSH l a b c',
                        'LRANGE l 0 -1', 'WRONG'):
            out[command] = cli(*command.split())
        for what, more in (('benchmark', []), ('pipelined', ['-P', '16'])):
            r = s.run(b.enter([*prefix, 'redis-benchmark', '-h', ADDRESS['a'],
                               '-p', str(PORT), '-c', str(CLIENTS), '-n',
                               str(REQUESTS), '-t', 'set,get,incr', '--csv',
                               *more]), plain=True, timeout=300)
            rows = [line.split(',') for line in r.text.splitlines()]
            out[what] = (r.code, [row[0] for row in rows], r.err)
            s.check(len(rows) == 4 and
                    all(float(row[1].strip('"')) > 0 for row in rows[1:]),
                    f'{what}: every test has a rate', r)
        out['counted'] = cli('GET', 'counter:__rand_int__')
        out['INFO has us'] = ADDRESS['b'] in cli('CLIENT', 'LIST')[1]
        out['SHUTDOWN'] = cli('SHUTDOWN', 'NOSAVE')[0]
        out['server ends with'] = s.wait(server, 'redis-server')

        def over():
            return not any(c.stat().get('pairs') for c in (a, b))
        try:
            wait_until(over, 'the pairs to end', 60)
        except Failed:
            s.check(False, 'pairs are given back', (a.stat(), b.stat()),
                    'a leak')
        counts.append((a.stat(), b.stat()))
        for c in (a, b):
            c.keeper.kill()
            s.wait(c.keeper, 'a container')
        return out
    return session


def carried(test, mode, server, client):
    """By rings, all of it, and mapped where that can be."""
    least = 2 * CLIENTS
    row, failures = test.row(mode), test.failures
    for side, moved in (('server', server), ('client', client)):
        for k in ('conn_shm', 'conn_base', 'maps'):
            row.moved[k] = row.moved.get(k, 0) + moved.get(k, 0)
        test.check(moved['conn_shm'] >= least,
                   f'{mode}: at least {least} connections of the {side} have '
                   'rings', moved)
        test.check(moved['conn_base'] == 0,
                   f'{mode}: all connections of the {side} have', moved)
        test.check(moved['violations'] == 0, f'{mode}: no violation', moved,
                   'a ring was wrong')
        if mode == 'full':
            test.check(moved['maps'] >= CLIENTS, f'{mode}: mapped by the {side}',
                       moved)
        else:
            test.check(not moved.get('maps'), f'{mode}: nothing is mapped',
                       moved)
    row.failures += test.failures - failures


def run(test):
    try:
        pwd.getpwnam(USER)
    except KeyError:
        test.skip('containers', f'no user {USER}')
        return
    if not test.l5run:
        test.skip('containers', 'L5RUN is empty')
        return
    l5 = os.path.dirname(test.l5run[0])
    counts = []
    tcp, _ = test.attempt('tcp', session_of(l5, None, counts))
    for mode in ('socket', 'full', 'static'):
        if mode in ('socket', 'full') and mode not in test.modes:
            continue
        counts = []
        l5_out, _ = test.attempt(mode, session_of(l5, MODES[mode], counts))
        if tcp is None or l5_out is None or not counts:
            continue
        test.same(mode, tcp, l5_out)
        if counts[0][0]:
            carried(test, mode, *counts[0])
