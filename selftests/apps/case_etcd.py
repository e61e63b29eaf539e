# SPDX-License-Identifier: GPL-2.0
"""Programs written in Go, which nothing is preloaded into: etcd, hey."""
import os
import re

from harness import free_port, random_file, sha

BIG = 1 << 20
REQUESTS = 200
CLIENTS = 20
# etcd's own proxy of gRPC, two of hey's, one of each etcdctl
CONNECTIONS = 30
PAYLOAD = 2 * BIG
# nothing can be, but what curl has
MAPPED = 0


def session(s):
    port, peer = free_port(), free_port()
    url, out = f'http://127.0.0.1:{port}', {}
    env = dict(os.environ, ETCDCTL_API='3')
    server = s.server(
        ['etcd', '--name', 'one', '--data-dir', s.path('data'),
         '--listen-client-urls', url, '--advertise-client-urls', url,
         '--listen-peer-urls', f'http://127.0.0.1:{peer}',
         '--initial-advertise-peer-urls', f'http://127.0.0.1:{peer}',
         '--initial-cluster', f'one=http://127.0.0.1:{peer}',
         '--enable-v2=false', '--log-level', 'error'], port, name='etcd',
        env=env)

    def ctl(*args, **kw):
        r = s.run(['etcdctl', '--endpoints', f'127.0.0.1:{port}',
                   '--dial-timeout=60s', '--command-timeout=60s', *args],
                  env=env, **kw)
        return r.code, r.text, r.err.decode()

    out['put'] = ctl('put', 'key', 'value')
    s.check(out['put'] == (0, 'OK\n', ''), 'put', out['put'])
    out['get'] = ctl('get', 'key')
    out['none'] = ctl('get', 'none')
    out['count'] = ctl('del', 'key')
    with open(random_file(s.path('random'), BIG // 2), 'rb') as f:
        big = f.read().hex()
    r = ctl('put', 'big', data=big.encode())
    s.check(r[0] == 0, 'put of 1 MiB', r)
    r = ctl('get', 'big', '--print-value-only')
    s.check(r[1] == big + '\n', 'the big value comes back as it went',
            fatal='bytes differ')

    for name, args in (('hey', ()), ('hey, no keepalive',
                                     ('-disable-keepalive',))):
        r = s.run(['hey', '-n', REQUESTS, '-c', CLIENTS, '-t', 60, *args,
                   url + '/version'])
        found = re.search(r'\[200\]\s+(\d+) responses', r.text)
        out[name] = (r.code, found and found[1], 'Error' in r.text)
        s.check(found and int(found[1]) == REQUESTS, name, r)
    # a program with the library meets one without
    r = s.run(['curl', '-sS', url + '/version'])
    out['curl'] = (r.code, sha(r.out), r.err)
    out['server ends with'] = s.stop(server)
    s.nobody('etcd')
    return out
