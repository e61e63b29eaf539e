# SPDX-License-Identifier: GPL-2.0
"""iperf3: one and four streams, reversed, both ways, with sendfile()."""
import json

from harness import free_port

SIZE = 8 << 20
FORMS = {
    '1 stream': [],
    '4 streams': ['-P', 4],
    'reversed': ['-R'],
    'reversed, 4 streams': ['-R', '-P', 4],
    'both ways': ['--bidir'],
    'sendfile': ['-Z'],
    'small writes': ['-l', 1000],
    'IPv6': ['-6'],
}
# Each form has a control connection and at least one stream.
CONNECTIONS = 2 * len(FORMS) + 7
PAYLOAD = len(FORMS) * SIZE // 2


def session(s):
    port = free_port()
    out = {}
    # Not bound to an address: one IPv6 socket for both families.
    s.server(['iperf3', '-s', '-p', port, '--forceflush'], port,
             name='iperf3-server')
    for name, args in FORMS.items():
        host = '::1' if '-6' in args else '127.0.0.1'
        r = s.run(['iperf3', '-c', host, '-p', port, '-J', '-n', SIZE, *args],
                  timeout=300)
        try:
            got = json.loads(r.text)
        except ValueError:
            got = {'error': 'no JSON'}
        end = got.get('end', {})
        sent = end.get('sum_sent', {}).get('bytes', 0)
        received = end.get('sum_received', {}).get('bytes', 0)
        out[name] = (r.code, got.get('error'), len(end.get('streams', [])),
                     end.get('sender_tcp_congestion'),
                     [c.get('remote_host') for c in
                      got.get('start', {}).get('connected', [])])
        # The one that has counted to SIZE ends the test.
        s.check(max(sent, received) >= SIZE and received > 0 and
                not got.get('error'), f'{name}: transfers', r)
        if '--bidir' in args:
            back = end.get('sum_received_bidir_reverse', {}).get('bytes', 0)
            s.check(back > 0, f'{name}: the other way too', r)
    return out
