# SPDX-License-Identifier: GPL-2.0
"""Node.js: an HTTP server, alone and as a cluster, its clients, curl, wrk."""
import os

from harness import HERE, free_port, random_file, sha_file

SCRIPT = os.path.join(HERE, 'node_http.js')
BIG = 2 << 20
CONNECTIONS = 2 * 20
PAYLOAD = 2 * 4 * 1000003
# Its clients' loop turns at a fraction of the speed in an emulated machine.
SLOW = 300


def talk(s, out, name, *args):
    port = free_port()
    url = f'http://127.0.0.1:{port}'
    server = s.server(['node', SCRIPT, 'server', port, *args], port,
                      name=name)
    r = s.run(['node', SCRIPT, 'client', port], timeout=SLOW)
    out[f'{name}: client'] = (r.text, r.err)
    s.check(r.code == 0, f'{name}: the client ends well', r)

    big = s.path('big')
    r = s.run(['curl', '-sS', '-T', big, '-X', 'POST', '-o', s.path('back'),
               '-w', '%{http_code}', f'{url}/echo'], timeout=SLOW)
    out[f'{name}: curl, upload and back'] = (r.text, r.err)
    s.check(sha_file(s.path('back')) == sha_file(big),
            f'{name}: curl gets back what it sent', fatal='bytes differ')
    r = s.run(['curl', '-sS', '-w', '%{num_connects} %{http_code}\n',
               *[f'{url}/chunked?size=3'] * 5])
    out[f'{name}: curl, keep-alive'] = (r.text, r.err)

    for path in ('small', 'big?size=100000'):
        s.wrk(f'{url}/{path}', f'{name}: wrk of {path}: no errors', '-c', 8)
    code = s.stop(server)
    s.check(code == 0, f'{name}: the server ends with 0', code)


def session(s):
    out = {}
    random_file(s.path('big'), BIG)
    talk(s, out, 'alone')
    talk(s, out, 'cluster', 'cluster')
    return out


def run(t):
    t.compare(session, CONNECTIONS, PAYLOAD)
