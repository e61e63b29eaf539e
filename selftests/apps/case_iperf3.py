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
        bidir = '--bidir' in args
        sent, received, back_sent, back = (
            end.get('sum_' + way, {}).get('bytes', 0) for way in
            ('sent', 'received', 'sent_bidir_reverse',
             'received_bidir_reverse'))
        out[name] = (r.code, got.get('error'), len(end.get('streams', [])),
                     end.get('sender_tcp_congestion'),
                     [c.get('remote_host') for c in
                      got.get('start', {}).get('connected', [])])
        # The client ends the test when it has sent so much or received so
        # much. Both ways at once it is the faster one that ends it, on TCP
        # too, and the other has less by then.
        counted = max(sent, back if bidir else received)
        s.check(counted >= SIZE and received > 0 and not got.get('error'),
                f'{name}: transfers', r)
        s.check(received <= sent, f'{name}: no byte but what was sent', r,
                'bytes were doubled')
        if bidir:
            s.check(0 < back <= back_sent, f'{name}: the other way too', r)
    return out
