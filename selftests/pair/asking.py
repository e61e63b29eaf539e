# SPDX-License-Identifier: GPL-2.0
"""Where questions are asked and heard: devices, addresses, ports, rights."""
import json
import time

from machine import HERE, MOVED, SETTLED, STAYS, Running, collector

CASES = []
case = collector(CASES)

SERVES = ['accept', MOVED, 'both=50k', 'info', 'close']
ASKS = [MOVED, 'both=50k', 'info', 'close']
PLAIN = ['accept', 'both=20k', 'info', 'close']


def link_local(m):
    out = m.sh('ip -6 -j addr show dev eth0 scope link')['out']
    return next(a['local'] for i in json.loads(out)
                for a in i.get('addr_info', ()) if a)


@case(120)
def rights(t):
    """A listener that TCP let have its port has it for questions too."""
    path = '/proc/sys/net/ipv4/ip_unprivileged_port_start'
    t.a.old.setdefault(path, t.a.do.read(path))
    t.a.do.write(path, '0')
    nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
    for port, at in ((80, t.a.at(80)), (81, '0.0.0.0:81')):
        s, c = t.talk(t.a, SERVES, ASKS, port=port, at=at,
                      s_kw={'prefix': nobody})
        t.exact(f'port {port} of a user without rights', s, c)


@case(120)
def families(t):
    """Link-local addresses, both families on one port, a mapped address."""
    ll = f'[{link_local(t.a)}%eth0]'
    for at in (ll, '[::]'):
        port = t.port()
        s, _ = t.listen(t.a, SERVES, port=port, at=f'{at}:{port}')
        c = t.b.step(f'connect={ll}:{port}', *ASKS).finish()
        s.finish()
        t.exact(f'to a link-local address, listener on {at}', s, c)
    port = t.port()
    six, _ = t.listen(t.a, SERVES, port=port, before=['set=v6only:1'],
                      at=f'[::]:{port}')
    four, _ = t.listen(t.a, SERVES, port=port, at=f'0.0.0.0:{port}')
    for s, v6 in ((six, True), (four, False)):
        c = t.b.step(f'connect={t.a.at(port, v6)}', *ASKS).finish()
        s.finish()
        t.exact(f'a listener for each family, IPv{6 if v6 else 4}', s, c)
    port = t.port()
    s, c = t.talk(t.a, SERVES, ASKS, port=port,
                  at=f'[::ffff:{t.a.address}]:{port}')
    t.exact('a listener on a mapped address', s, c)


@case(120)
def addresses(t):
    """An address that comes and goes while there is a listener on all."""
    port = t.port()
    s, _ = t.listen(t.a, [*SERVES, 'accept', 'hold'], port=port,
                    at=f'0.0.0.0:{port}')

    def heard():
        return [x for x in t.a.sh('rdma resource show cm_id')['out']
                .splitlines() if 'LISTEN' in x and f'10.9.0.1:{port}' in x]
    t.check(not heard(), 'not there yet')
    for m, n in ((t.a, 1), (t.b, 2)):
        m.sh(f'ip addr add 10.9.0.{n}/24 dev eth0')
    try:
        t.wait(heard, 'the address is listened on')
        c = t.b.step(f'connect=10.9.0.1:{port}', *ASKS).finish()
        t.fine('it moves', c)
        t.check(c.info().get('transport') == 'rdma', 'by RDMA', c)
    finally:
        for m, n in ((t.a, 1), (t.b, 2)):
            m.sh(f'ip addr del 10.9.0.{n}/24 dev eth0', check=False)
    t.wait(lambda: not heard(), 'it is not any more')
    s.kill()
    s.finish()


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
    # A VLAN has addresses, and so GIDs, of its own.
    if t.a.do.shell('modprobe 8021q')['code']:
        t.skip('over a VLAN', 'this kernel has none')
        return
    t.b.sysctl('rdma_ms', 10000)
    for m, n in ((t.a, 1), (t.b, 2)):
        m.sh('ip link add link eth0 name eth0.7 type vlan id 7 && '
             f'ip addr add 10.10.0.{n}/24 dev eth0.7 && '
             'ip link set eth0.7 up')
    try:
        port = t.port()
        s, _ = t.listen(t.a, SERVES, port=port, at=f'0.0.0.0:{port}')
        t.wait(lambda: f'10.10.0.1:{port}' in t.a.sh(
            'rdma resource show cm_id')['out'], 'its address is listened on')
        c = t.b.step(f'connect=10.10.0.1:{port}', *ASKS).finish()
        s.finish()
        t.exact('over a VLAN', s, c)
    finally:
        for m in (t.a, t.b):
            m.sh('ip link del eth0.7', check=False)


@case(150)
def iwarp(t):
    """
    iWARP's connection manager listens for TCP on the port of the application:
    no listener of ours is there, and nobody else's is the worse for ours.
    """
    if t.a.do.shell(f'modprobe -a rdma_cm libcrc32c && '
                    f'insmod {HERE}/build/siw/siw.ko')['code']:
        t.skip('iWARP', 'no siw for this kernel')
        return
    add = 'rdma link add siw7 type siw netdev dm7'
    t.a.sh('ip link add dm7 type dummy && ip addr add 10.77.0.1/24 dev dm7 && '
           'ip link set dm7 up')

    def mine():
        return [x for x in t.a.sh('rdma resource show cm_id')['out']
                .splitlines() if 'siw7' in x]
    try:
        t.a.sh(add)
        port = t.port()
        s, c = t.talk(t.a, SERVES, ASKS, port=port, at=f'0.0.0.0:{port}')
        t.exact('beside one: moves', s, c)
        port = t.port()
        s, c = t.talk(t.a, PLAIN, ['both=20k', 'info', 'close'], port=port,
                      at=f'0.0.0.0:{port}', c_before=['plain'])
        t.exact('a client of plain TCP', s, c, moved=False)
        t.a.sh('rdma link delete siw7')
        port = t.port()
        s, _ = t.listen(t.a, SERVES, port=port, at=f'0.0.0.0:{port}')
        t.a.sh(add)
        t.check(not mine(), 'one that comes has no listener', mine())
        other = t.port()
        r = Running(t.a, [f'{HERE}/build/stranger', 'answer', '10.77.0.1',
                          other, 'ignore'])
        t.check(t.a.do.line(r.number, 'ready', timeout=20),
                'and is of use to others', repr(r))
        r.kill()
        r.finish()
        c = t.b.step(f'connect={t.a.at(port)}', *ASKS).finish()
        s.finish()
        t.exact('the listener from before: moves', s, c)
        port = t.port()
        s, _ = t.listen(t.a, ['accept', 'both=20k', 'info', 'close'],
                        port=port, at=f'10.77.0.1:{port}')
        t.check(not mine(), 'a listener on its address', mine())
        s.kill()
        s.finish()
    finally:
        t.a.sh('rdma link delete siw7; ip link del dm7; rmmod siw',
               check=False)


@case(120)
def bounce(t):
    """A device that does not see memory as the CPU does carries nothing."""
    m, link = t.b, 'rdma link add rxe0 type rxe netdev eth0'

    def heard(port):
        return f':{port}' in m.sh('rdma resource show cm_id')['out']

    def talk(name, reason):
        s, c = t.talk(t.a, PLAIN, [SETTLED, STAYS, 'both=20k', 'info',
                                   'close'], s_before=['plain'])
        t.exact(name, s, c, moved=False)
        t.check(c.info().get('reason') == reason, f'{name}: reason', c.info())

    m.sh('rdma link delete rxe0')
    m.sh(f'insmod {HERE}/build/bounce-$(uname -r)/bounce.ko')
    try:
        m.sh(link)
        before = m.stat()['rdma_asked']
        talk('the first', 'rdma')
        t.check('rxe0 does not see memory coherently' in m.sh('dmesg')['out'],
                'the log says so')
        talk('the next', 'peer')
        t.check(m.stat()['rdma_asked'] - before == 1, 'only one asks',
                m.stat())
        s, port = t.listen(m, PLAIN)
        c = t.a.step('plain', f'connect={m.at(port)}', 'both=20k',
                     'close').finish()
        s.finish()
        t.fine('a listener there', s, c)
        s, port = t.listen(m, ['accept', 'hold'])
        time.sleep(0.5)
        t.check(not heard(port), 'is not asked')
        s.kill()
        s.finish()
    finally:
        m.sh('rdma link delete rxe0; rmmod bounce', check=False)
        m.sh(link)
    s, c = t.talk(t.a, SERVES, ASKS)
    t.exact('without it', s, c)
