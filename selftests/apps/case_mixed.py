# SPDX-License-Identifier: GPL-2.0
"""An AF_L5 program and a plain one: TCP, right answers, no foreign byte."""
import itertools
import os
import signal

import case_nginx
from harness import (free_port, have_module, random_file, sha, sha_file,
                     wait_until)

BIG = 1 << 20


def redis(server_plain, client_plain):
    def session(s):
        port = free_port()
        out = {}
        server = s.server(
            ['redis-server', '--port', port, '--bind', '127.0.0.1', '--save',
             '', '--dir', s.dir], port, plain=server_plain, name='redis')

        def cli(*args, **kw):
            r = s.run(['redis-cli', '-p', port, *args], plain=client_plain,
                      **kw)
            return r.code, sha(r.out) if len(r.out) > 100 else r.out, r.err

        with open(random_file(s.path('big'), BIG), 'rb') as f:
            out['SET'] = cli('-x', 'SET', 'big', data=f.read())
        out['GET'] = cli('GET', 'big')
        out['STRLEN'] = cli('STRLEN', 'big')
        r = s.run(['redis-benchmark', '-p', port, '-n', 500, '-c', 20, '-q',
                   '-t', 'set,get'], plain=client_plain)
        out['benchmark'] = (r.code, r.err)
        cli('SHUTDOWN', 'NOSAVE')
        out['server ends with'] = s.wait(server, 'redis-server')
        return out
    return session


def nginx(server_plain, client_plain):
    def session(s):
        port = free_port()
        prefix = s.prefix
        s.prefix = [] if server_plain else prefix
        pid = case_nginx.start(s, port)
        s.prefix = prefix
        r = s.run(['curl', '-sS', f'http://127.0.0.1:{port}/big'],
                  plain=client_plain)
        out = {'big file': (r.code, len(r.out), r.err)}
        s.check(sha(r.out) == sha_file(s.path('www', 'big')),
                'the file has the right checksum', fatal='bytes differ')
        os.kill(pid, signal.SIGQUIT)
        wait_until(lambda: case_nginx.gone(pid), 'nginx to end')
        return out
    return session


def run(t):
    for program in (redis, nginx):
        want, _ = t.attempt('tcp', program(True, True))
        for mode, (name, plain) in itertools.product(t.modes, (
                ('AF_L5 server, plain client', (False, True)),
                ('plain server, AF_L5 client', (True, False)))):
            name = f'{mode}: {program.__name__}, {name}'
            got, moved = t.attempt(mode, program(*plain))
            t.check(got is not None and got == want,
                    f'{name}: same as on TCP', f'tcp: {want}\nmixed: {got}',
                    'another result than on TCP')
            if not t.l5run:
                continue
            if not have_module():
                t.skip(f'{name}: counters', 'the module is not loaded')
                continue
            t.check(moved['conn_base'] > 0 and
                    moved['fallback_peer'] == moved['conn_base'],
                    f'{name}: all on TCP because of the peer', moved)
            t.check(moved['conn_shm'] == moved['bytes_tx'] ==
                    moved['bytes_rx'] == moved.get('maps', 0) == 0,
                    f'{name}: nothing on rings', moved)
