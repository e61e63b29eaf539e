# SPDX-License-Identifier: GPL-2.0
"""
Our own echo server and clients in every way that such programs are built:
threads, processes, pools, epoll in all its forms, io_uring, stdio, bare system
calls, and all of them on one connection.
"""
import os
import random

from harness import HERE, free_port, have_module, sha

SERVER = os.path.join(HERE, 'build', 'echo_server')
CLIENT = os.path.join(HERE, 'build', 'echo_client')
BYTES = 30000
# A server and its clients, one after the other: name, connections. "_static"
# has nothing preloaded: bare system calls on an AF_L5 socket, as Go makes them.
PAIRS = (
    ('threads', (('threads', 100), ('epoll', 100), ('mixed', 20),
                 ('raw_static', 20))),
    ('pool', (('threads', 100),)),
    ('oneshot', (('threads', 100), ('epoll', 100))),
    ('exclusive', (('threads', 100), ('poll', 50))),
    ('edge', (('epoll', 100), ('mixed', 20))),
    ('nested', (('threads', 20), ('select', 20))),
    ('poll', (('poll', 50), ('raw', 20))),
    ('select', (('select', 50), ('stdio', 20))),
    ('stdio', (('stdio', 20), ('threads', 20))),
    ('fork', (('threads', 50), ('mixed', 20))),
    ('prefork', (('epoll', 100), ('threads', 50))),
    ('relay', (('threads', 1), ('mixed', 1))),
    ('exec', (('threads', 10), ('mixed', 10))),
    ('handoff', (('threads', 50), ('epoll', 50))),
    ('uring', (('threads', 50), ('uring', 20), ('epoll', 50))),
    ('raw', (('threads', 20), ('mixed', 20))),
    ('raw_static', (('threads', 50), ('epoll', 50), ('mixed', 20))),
    ('mixed', (('mixed', 50), ('epoll', 50), ('uring_static', 20))),
)
CONNECTIONS = sum(n for _, clients in PAIRS for _, n in clients)
PAYLOAD = 2 * BYTES * CONNECTIONS
# Programs that share one connection, or hand it on.
INETD = ('cat', '/bin/busybox cat', 'sh -c "cat; echo end"', 'tee /dev/null',
         'dd bs=1000 status=none', 'sort')


def command(s, path, kind, *args):
    """A program's name for this session, and whether nothing is preloaded."""
    static = kind.endswith('_static')
    argv = [path + '_static' * static]
    if static and s.mode != 'tcp' and have_module():
        argv.append('-l')
    return argv + [kind.removesuffix('_static'), *args], static


def echo(s, out):
    for kind, clients in PAIRS:
        port = free_port()
        argv, plain = command(s, SERVER, kind, port, 'cat')
        server = s.server(argv, port, plain=plain, name=f'{kind}-server')
        for client, n in clients:
            argv, plain = command(s, CLIENT, client, port, n, BYTES)
            r = s.run(argv, plain=plain)
            what = f'{kind} server, {client} client'
            out[what] = (r.text, r.err)
            s.check(r.code == 0, what, r)
        code = s.stop(server)
        with open(server.log) as f:
            # Once the last answer was sent, which a server may do just now.
            out[f'{kind} server'] = f.read()
        s.check(code == 0, f'{kind} server', out[f'{kind} server'])


def inetd(s, out):
    """socat accepts, and its connection is a program's input and output."""
    data = b''.join(b'%d\n' % n for n in random.Random(1).sample(
        range(1000000), 10000))
    for program in INETD:
        port = free_port()
        p = s.server(['socat', f'TCP-LISTEN:{port},reuseaddr,fork',
                      f'EXEC:{program},nofork'], port, name='inetd')
        r = s.run(['socat', '-t', 60, '-', f'TCP:127.0.0.1:{port}'],
                  data=data)
        out[f'inetd: {program}'] = (len(r.out), sha(r.out), r.err)
        s.check(r.code == 0 and len(r.out) >= len(data), f'inetd: {program}',
                r, '' if r.code else 'bytes were lost')
        s.stop(p)


def session(s):
    out = {}
    echo(s, out)
    inetd(s, out)
    return out


def run(t):
    t.compare(session, CONNECTIONS + len(INETD), PAYLOAD)
