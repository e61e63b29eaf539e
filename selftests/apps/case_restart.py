# SPDX-License-Identifier: GPL-2.0
"""
A server without SO_REUSEADDR, started again and again on one port: each time
its client closes first, so it is the client's end that TCP keeps (TIME_WAIT).
"""
import os
import time

from harness import HERE, Failed, free_port

PROGRAM = os.path.join(HERE, 'build', 'restart')
TIMES = 50
CONNECTIONS = TIMES
PAYLOAD = 2 * 20 * 1000 * TIMES


def start(s, port):
    # An end that waits does so for a minute; the last acknowledgment may only
    # be late.
    for i in range(10):
        try:
            return s.server([PROGRAM, 'server', port], port, name='server')
        except Failed:
            if i == 9:
                raise
            time.sleep(0.2)
    return None


def session(s):
    port = free_port()
    codes = []
    for _ in range(TIMES):
        try:
            server = start(s, port)
        except Failed as e:
            # The port is taken: all that follow would find the same.
            codes.append(str(e))
            break
        r = s.run([PROGRAM, 'client', port])
        codes.append((r.code, r.err, s.wait(server, 'the server')))
    out = {'started again': (len(codes), sorted(set(map(str, codes))))}
    s.check(codes == [(0, b'', 0)] * TIMES, f'{TIMES} times', codes[-1])
    s.nobody('the server')
    return out


def run(t):
    t.compare(session, CONNECTIONS, PAYLOAD)
