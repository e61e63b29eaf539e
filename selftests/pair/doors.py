# SPDX-License-Identifier: GPL-2.0
"""Where questions are asked and heard: devices, addresses, ports, rights."""
from machine import collector
from moving import SETTLED, STAYS

CASES = []
case = collector(CASES)

PLAIN = ['accept', 'both=20k', 'info', 'close']


@case(120)
def routes(t):
    """
    A client asks where a device speaks for its address on the interface that
    its route leaves by: that may lie above the device's own.
    """
    def asks(name, want, server, at, **kw):
        before = t.b.stat()['rdma_asked']
        port = t.port()
        s, _ = t.listen(server, PLAIN, port=port, before=['plain'],
                        at=f'{at}:{port}', **kw)
        c = t.b.step(f'connect={at}:{port}', SETTLED, STAYS, 'both=20k',
                     'info').finish()
        s.finish()
        t.exact(name, s, c, moved=False)
        asked = t.b.stat()['rdma_asked'] - before
        t.check(asked == want, f'{name}: asks {want} times', asked)

    t.b.sysctl('rdma_ms', 1000)
    # rxe gives its GIDs to a bridge above it, and hears nothing through that.
    t.b.sh('ip netns add box && '
           'ip link add v7 type veth peer name v8 netns box && '
           'ip link add br7 type bridge && ip link set v7 master br7 && '
           'ip link set v7 up && ip link set br7 up && '
           'ip addr add 10.7.0.1/24 dev br7 && '
           'ip -n box addr add 10.7.0.2/24 dev v8 && '
           'ip -n box link set v8 up && '
           'rdma link add rxe7 type rxe netdev v7')
    try:
        asks('over a bridge', 1, t.b, '10.7.0.2',
             prefix=['ip', 'netns', 'exec', 'box'])
    finally:
        t.b.sh('rdma link delete rxe7; ip link del br7; ip link del v7; '
               'ip netns del box', check=False)
    # An address that no device speaks for, by a route that leads to one.
    t.b.sh('ip link add dm7 type dummy && ip link set dm7 up && '
           'ip addr add 10.8.0.2/32 dev dm7 && '
           'ip route add 10.5.0.1/32 dev eth0 src 10.8.0.2')
    t.a.sh('ip route add 10.8.0.2/32 via 10.5.0.2')
    try:
        asks('from an address of another interface', 0, t.a, t.a.address)
    finally:
        t.b.sh('ip route del 10.5.0.1/32; ip link del dm7', check=False)
        t.a.sh('ip route del 10.8.0.2/32', check=False)
