# SPDX-License-Identifier: GPL-2.0
"""sockperf over TCP, which receives by recvfrom() and sends by sendto()."""
import re

from harness import free_port

# Its clients connect once more to say that they have ended.
CONNECTIONS = 3
PAYLOAD = 3 * 1000


def session(s):
    port = free_port()
    out = {}
    server = s.server(['sockperf', 'server', '--tcp', '-i', '127.0.0.1', '-p',
                       port], port, name='sockperf')
    for name, args in (
            ('ping-pong', ['ping-pong', '-m', 64]),
            ('ping-pong, bytes checked', ['ping-pong', '-m', 1000,
                                          '--data-integrity']),
            ('throughput', ['throughput', '-m', 1400])):
        # On a slow machine a short run may see no message at all.
        for seconds in (1, 8, 60):
            r = s.run(['sockperf', *args, '--tcp', '-i', '127.0.0.1', '-p',
                       port, '-t', seconds])
            lost = dict(re.findall(r'# (\S+ messages) = (\d+)', r.text))
            if r.code or lost or name == 'throughput':
                break
        out[name] = (r.code, lost)
        s.check(r.code == 0 and 'ERROR' not in r.text and
                set(lost.values()) <= {'0'} and (lost or name == 'throughput'),
                name, r)
    out['SIGTERM'] = s.stop(server)
    s.nobody('sockperf')
    return out
