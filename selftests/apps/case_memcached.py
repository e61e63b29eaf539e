# SPDX-License-Identifier: GPL-2.0
"""memcached with four threads, libmemcached's conformance test and others."""
import os
import re

from harness import HERE, free_port, random_file, sha_file

THREADS = 4
CLIENTS = 8
BIG = 900 << 10
CONNECTIONS = CLIENTS
PAYLOAD = 2 * BIG


def session(s):
    port = free_port()
    out = {}
    server = s.server(['memcached', '-p', port, '-l', '127.0.0.1', '-U', 0,
                       '-t', THREADS, '-u', 'root'], port, name='memcached')

    # Each line of it is one test of the text or of the binary protocol.
    # 2 s for each answer are little on a busy machine
    r = s.run(['memccapable', '-t', '20', '-h', '127.0.0.1', '-p', port],
              timeout=300)
    lines = re.findall(r'^(.*?)\s+\[(\w+)\]', r.text, re.M)
    out['memccapable'] = (r.code, lines)
    s.check(sum(v == 'pass' for _, v in lines) > 20,
            'memccapable passes something', r)

    servers = f'--servers=127.0.0.1:{port}'
    big = random_file(s.path('big'), BIG)
    for argv in (['memcping', servers], ['memccp', servers, big],
                 ['memcexist', servers, 'big'], ['memctouch', servers, 'big'],
                 ['memcexist', servers, 'none']):
        r = s.run(argv)
        what = f"{argv[0]} {os.path.basename(argv[-1])}"
        what = what if len(argv) > 2 else argv[0]
        out[what] = (r.code, r.text)
    out['memccat'] = s.run(
        ['memccat', servers, f'--file={s.path("back")}', 'big']).code
    s.check(sha_file(s.path('back')) == sha_file(big),
            'the value comes back as it went', fatal='bytes differ')

    for test in ('set', 'get', 'mget'):
        # It prints times and nothing that can be compared.
        r = s.run(['memcslap', servers, f'--test={test}',
                   f'--concurrency={CLIENTS}', '--execute-number=100',
                   '--initial-load=200'], timeout=300)
        out[f'memcslap {test}'] = r.code

    r = s.run(['/usr/bin/python3.11', os.path.join(HERE, 'memcached_client.py'),
               port, CLIENTS], timeout=300)
    out['threaded client'] = (r.code, r.text)
    s.check(r.code == 0, 'threaded client', r)

    out['memcrm'] = s.run(['memcrm', servers, 'big']).code
    out['memcflush'] = s.run(['memcflush', servers]).code
    out['server ends with'] = s.stop(server)
    return out
