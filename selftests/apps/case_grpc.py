# SPDX-License-Identifier: GPL-2.0
"""gRPC's own event loop, from Python: single calls and streams."""
import os

from harness import HERE, free_port

PYTHON = '/usr/bin/python3'
PROGRAM = os.path.join(HERE, 'grpc_echo.py')
CONNECTIONS = 2
PAYLOAD = 2 * 2000000


def session(s):
    port = free_port()
    out = {}
    server = s.server([PYTHON, PROGRAM, 'server', port], port, name='server')
    r = s.run([PYTHON, PROGRAM, 'client', port])
    out['client'] = (r.code, r.text, r.err)
    s.check(r.code == 0 and 'False' not in r.text and
            r.text.count('\n') == 12, 'client', r)
    out['SIGTERM'] = s.stop(server)
    s.nobody('the server')
    return out
