# SPDX-License-Identifier: GPL-2.0
"""haproxy in front of two small servers, replaced under load."""
import os
import re

from harness import HERE, free_port, random_file, sha, wait_until

PYTHON = '/usr/bin/python3.11'
SERVER = os.path.join(HERE, 'http_small.py')
BIG = 1 << 20
# http-reuse never: haproxy 2.6 frees the connections to servers that nobody
# uses in its last moment, and may crash then, on TCP as well: in one reload of
# 150 under load, and in none of 2700 without such connections. A connection to
# a server still serves as many requests as its client sends.
CONFIG = '''
global
	maxconn 200
	stats socket {dir}/admin mode 600
defaults
	mode http
	timeout connect 60s
	timeout client 60s
	timeout server 60s
	timeout http-keep-alive 60s
frontend in
	bind 127.0.0.1:{port}
	default_backend two
backend two
	balance roundrobin
	http-reuse never
	option httpchk GET /
	server a 127.0.0.1:{a} check
	server b 127.0.0.1:{b} check
'''
CONNECTIONS = 16
PAYLOAD = 4 * BIG


def session(s):
    port, a, b = free_port(), free_port(), free_port()
    url = f'http://127.0.0.1:{port}'
    out = {}
    behind = [s.server([PYTHON, SERVER, p, name], p, name=name)
              for p, name in ((a, 'a'), (b, 'b'))]
    with open(s.path('config'), 'w') as f:
        f.write(CONFIG.format(dir=s.dir, port=port, a=a, b=b))
    argv = ['haproxy', '-db', '-f', s.path('config')]
    proxy = s.server(argv, port, name='haproxy')

    def curl(*args, **kw):
        r = s.run(['curl', '-sS', *args], **kw)
        return r.code, r.out, r.err

    def both():
        """Each of them has its turn."""
        return sorted(curl(url) for _ in range(4))

    out['in turns'] = both()
    s.check(out['in turns'][0] == (0, b'a\n', b'') and
            out['in turns'][3] == (0, b'b\n', b''), 'in turns',
            out['in turns'])
    r = [curl(f'{url}/big') for _ in range(2)]
    out['big'] = sorted((code, sha(data), err) for code, data, err in r)
    big = random_file(s.path('big'), BIG)
    code, data, err = curl('--data-binary', f'@{big}', url)
    with open(big, 'rb') as f:
        s.check(data == f.read(), 'what was posted comes back', err)
    out['POST'] = (code, sha(data), err)
    out['keep-alive'] = curl('-w', '%{num_connects} %{http_code}\n', *(
        ['-o', '/dev/null', url] * 10))

    load = s.spawn(['wrk', '-t', 2, '-c', 8, '-d', '6s', '--timeout', '60s',
                    url], name='wrk')
    for i in range(2):
        old, proxy = proxy, s.spawn(argv + ['-sf', str(proxy.pid)],
                                    name='haproxy')
        wait_until(lambda: s.log_has(old, b'Proxy in stopped'),
                   'the old one to hand over')
        # whose turn it is, is up to the load
        r = [curl(url) for _ in range(4)]
        s.check(all(x in ((0, b'a\n', b''), (0, b'b\n', b'')) for x in r),
                f'after reload {i}', r)
        out[f'the old one ends with {i}'] = s.wait(old, 'the old haproxy')
    code = s.wait(load, 'wrk')
    with open(load.log) as f:
        text = f.read()
    done = re.search(r'(\d+) requests in', text)
    bad = re.search(r'Socket errors: connect (\d+), read (\d+), '
                    r'write (\d+), timeout (\d+)', text)
    bad = [int(n) for n in bad.groups()] if bad else [0] * 4
    # A connection that is closed as it is idle may get one more request, on
    # TCP too.
    s.check(code == 0 and done and int(done[1]) > 0 and
            'Non-2xx' not in text and bad[0] == bad[3] == 0 and
            bad[1] + bad[2] <= 2 * 8, 'wrk: two reloads meanwhile', text)
    out['SIGTERM'] = s.stop(proxy)
    out['SIGTERM to those behind'] = [s.stop(p) for p in behind]
    s.nobody('haproxy')
    return out
