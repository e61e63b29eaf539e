# SPDX-License-Identifier: GPL-2.0
"""
What is to stay on TCP, since somebody wants its packets signed, encrypted or
seen: both ends leave it there, and the wire shows it.
"""
import re
from contextlib import contextmanager

from machine import HERE, MOVED, SETTLED, Failed, Running, collector
from moving import drop, passes

CASES = []
case = collector(CASES)

TALK = ['both=50k', 'info', 'close']


@contextmanager
def sniffed(t, port):
    """Counts what crosses the link meanwhile; they are filled in at the end."""
    counts = {}
    p = Running(t.a, [f'{HERE}/sniff.py', 'eth0', port])
    p.line('sniffing')
    yield counts
    p.tell()
    p.finish()
    counts.update(p.json('tcp'))
    if p.code or not counts:
        raise Failed(repr(p))
    if counts['lost']:
        t.note(f'the sniffer lost {counts["lost"]} packets')


def only(t, name, counts, *kinds):
    """Of packets that could carry bytes these have crossed, and no others."""
    seen = {k for k in ('tcp', 'md5', 'ao', 'esp', 'macsec', 'rdma')
            if counts.get(k)}
    t.check(seen == set(kinds), f'{name}: the wire', counts)


def stays(t, name, s, c, client='secured', server='secured'):
    """On TCP, for these reasons, whose names are known (None: any)."""
    t.exact(name, s, c, moved=False)
    for who, p, want in (('client', c, client), ('server', s, server)):
        if want:
            t.check(p.info().get('reason') == want, f'{name}: {who}\'s reason',
                    p.info())


def at(m, six):
    return m.at(0, six)


@case(150)
def signed(t):
    """A connection with keys to sign it by is RDMA's at neither end."""
    # the refused ask for long, here where it is the other end that refuses
    t.b.sysctl('rdma_ms', 3000)
    for six in (False, True):
        fam = f'IPv{6 if six else 4}'
        key = {m: f'guard=key,{at(t.other(m), six)}' for m in (t.a, t.b)}
        now = {m: f'guardnow=key,{at(t.other(m), six)}' for m in (t.a, t.b)}
        port = t.port()
        with sniffed(t, port) as counts:
            s, c = t.talk(t.a, ['accept', *TALK], [SETTLED, *TALK], six=six,
                          port=port, s_before=[key[t.a]],
                          c_before=[key[t.b]])
        name = f'{fam}, keys'
        stays(t, name, s, c)
        only(t, name, counts, 'md5')
        t.check(not counts.get('cm'), f'{name}: no question', counts)

        port = t.port()
        with sniffed(t, port) as counts:
            s, c = t.talk(t.a, ['accept', MOVED, *TALK], [MOVED, *TALK],
                          six=six, port=port, s_before=[
                              f'guard=key,{at(t.a, six)}'])
        name = f'{fam}, a key for somebody else'
        t.exact(name, s, c)
        t.check(counts.get('rdma') and not counts.get('md5'),
                f'{name}: the wire', counts)

        # Asked, but not answered yet: the server has not accepted.
        port = t.port()
        with sniffed(t, port) as counts:
            s, _ = t.listen(t.a, ['hold', 'accept', now[t.a], *TALK],
                            port=port, six=six)
            c = t.b.step(f'connect={t.a.at(port, six)}', now[t.b], 'say=set',
                         *TALK)
            c.line('set')
            s.tell()
            c.finish()
            s.finish()
        name = f'{fam}, keys after connect()'
        stays(t, name, s, c, server=None)
        t.check(c.json('guard').get('err') == '', f'{name}: taken', repr(c))
        only(t, name, counts, 'md5', 'tcp')

        s, c = t.talk(t.a, ['accept', MOVED, now[t.a], *TALK],
                      [MOVED, now[t.b], *TALK], six=six)
        name = f'{fam}, keys after the move'
        t.exact(name, s, c)
        t.check({p.json('guard').get('err') for p in (s, c)} ==
                {'EOPNOTSUPP'}, f'{name}: refused', (s, c))


IPSEC = '''
modprobe -a esp4 esp6 xfrm_user gcm seqiv
for net in 10.5.0. fd05::; do
        for d in '1 2 0x100' '2 1 0x101'; do
                set -- $d
                ip xfrm state add src $net$1 dst $net$2 proto esp spi $3 \\
                        mode transport aead 'rfc4106(gcm(aes))' \\
                        0x0102030405060708090a0b0c0d0e0f1011121314 128
        done
done
'''
NO_IPSEC = 'ip xfrm policy flush; ip xfrm state flush'


def policy(m, o, way, port):
    """Packets of a connection to a port are to leave, or arrive, as ESP."""
    src, dst = (m, o) if way == 'out' else (o, m)
    for end in ('sport', 'dport'):
        m.sh(f'ip xfrm policy add src {src.address} dst {dst.address} '
             f'proto tcp {end} {port} dir {way} tmpl src {src.address} '
             f'dst {dst.address} proto esp mode transport')


@case(200)
def ipsec(t):
    """A connection that IPsec protects does not leave the host by RDMA."""
    def talk(name, port, moved, reasons=(), wire=()):
        with sniffed(t, port) as counts:
            s, c = t.talk(t.a, ['accept', *[MOVED] * moved, *TALK],
                          [MOVED if moved else SETTLED, *TALK], port=port)
        t.exact(name, s, c, moved=moved)
        if reasons:
            t.check(c.info().get('reason') in reasons, f'{name}: reason',
                    c.info())
        if wire:
            only(t, name, counts, *wire)

    port = t.port()
    try:
        for m in (t.a, t.b):
            m.sh(IPSEC)
            policy(m, t.other(m), 'out', port)
        talk('a policy at both', port, False, ['secured'], ['esp'])
        talk('not for this port', t.port(), True, (), ['tcp', 'rdma'])
        for m in (t.a, t.b):
            policy(m, t.other(m), 'in', port)
        talk('a policy for what arrives', port, False, ['secured'], ['esp'])
        # whatever one end asks for, the other goes without
        for m, reasons in ((t.a, ['secured']), (t.b, ['refused', 'silent',
                                                      'rdma'])):
            port = t.port()
            t.b.sysctl('rdma_ms', 3000)
            m.sh('ip xfrm policy flush')
            o = t.other(m)
            o.sh('ip xfrm policy flush')
            policy(o, m, 'in', 1)
            talk(f'a policy of {o.name} alone', port, False, reasons, ['tcp'])
    finally:
        for m in (t.a, t.b):
            m.sh(NO_IPSEC, check=False)
    talk('and without', t.port(), True)


@case(200)
def late_ipsec(t):
    """A policy that came between the handshake and accept() counts."""
    t.b.sysctl('rdma_ms', 3000)
    # With keys; without, where no program makes any; and where one might.
    for name, keys, monitor in (('keys', True, False), ('none', False, False),
                                ('to come', False, True)):
        port = t.port()
        try:
            for m in (t.a, t.b):
                m.sh(IPSEC)
            s, _ = t.listen(t.a, ['hold', 'accept', 'say=accepted', *TALK],
                            port=port)
            # a client that has sent its FIN by then, and one that has not
            c = t.b.step(f'connect={t.a.at(port)}', 'say=there',
                         *['hold'] * (not monitor), *TALK)
            c.line('there')
            p = None
            if monitor:
                p = Running(t.a, ['ip', 'xfrm', 'monitor', 'acquire'])
            if not keys:
                t.a.sh('ip xfrm state flush')
            policy(t.a, t.b, 'out', port)
            s.tell()
            s.line('accepted')
            c.tell()
            if not keys:
                # what was larval is in the way of these
                t.a.sh('ip xfrm state flush')
                t.a.sh(IPSEC)
            c.finish()
            s.finish()
            stays(t, f'keys: {name}', s, c, client=None)
            if p:
                p.kill()
                p.finish()
        finally:
            for m in (t.a, t.b):
                m.sh(NO_IPSEC, check=False)


@case(200)
def own_policy(t):
    """A policy that the socket itself has: option IP_XFRM_POLICY."""
    t.b.sysctl('rdma_ms', 3000)
    try:
        for m in (t.a, t.b):
            m.sh(IPSEC)
        for six in (False, True):
            fam = f'IPv{6 if six else 4}'
            peer = {m: at(t.other(m), six) for m in (t.a, t.b)}
            for name, ends, reasons in (
                    ('both', [t.a, t.b], ('secured', 'secured')),
                    ('client', [t.b], ('secured', None)),
                    ('server', [t.a], (None, 'secured'))):
                before = {m: [f'guard=out,{peer[m]}'] if m in ends else []
                          for m in (t.a, t.b)}
                if len(ends) == 2:
                    for m in ends:
                        before[m].append(f'guard=in,{peer[m]}')
                port = t.port()
                with sniffed(t, port) as counts:
                    s, c = t.talk(t.a, ['accept', *TALK], [SETTLED, *TALK],
                                  six=six, port=port, s_before=before[t.a],
                                  c_before=before[t.b])
                name = f'{fam}, {name}'
                stays(t, name, s, c, *reasons)
                only(t, name, counts, 'esp',
                     *['tcp'] * (len(ends) == 1))

            now = f'guardnow=out,{peer[t.b]}'
            s, _ = t.listen(t.a, ['hold', 'accept', *TALK], six=six)
            c = t.b.step(f'connect={t.a.at(t.ports, six)}', now, 'say=set',
                         *TALK)
            c.line('set')
            s.tell()
            c.finish()
            s.finish()
            name = f'{fam}, after connect()'
            stays(t, name, s, c, server=None)
            t.check(c.json('guard').get('err') == '', f'{name}: taken',
                    repr(c))
            s, c = t.talk(t.a, ['accept', MOVED, *TALK], [MOVED, now, *TALK],
                          six=six)
            name = f'{fam}, after the move'
            t.exact(name, s, c)
            t.check(c.json('guard').get('err') == 'EOPNOTSUPP',
                    f'{name}: refused', repr(c))
    finally:
        for m in (t.a, t.b):
            m.sh(NO_IPSEC, check=False)


def macsec_up(m, o):
    """An encrypted network of both, on top of the link."""
    n, k = ('1', '01') if m.name == 'a' else ('2', '02')
    p, q = ('2', '02') if m.name == 'a' else ('1', '01')
    mac = o.sh('cat /sys/class/net/eth0/address')['out'].strip()
    key = '0102030405060708090a0b0c0d0e0f'
    m.sh('modprobe macsec && ip link add link eth0 mac0 type macsec '
         f'encrypt on && ip macsec add mac0 tx sa 0 pn 1 on key {k} {key}{k} '
         f'&& ip macsec add mac0 rx port 1 address {mac} && '
         f'ip macsec add mac0 rx port 1 address {mac} sa 0 pn 1 on key {q} '
         f'{key}{q} && ip addr add 10.7.0.{n}/24 dev mac0 && '
         'ip link set mac0 up')
    return p


@case(120)
def macsec(t):
    """A connection that the device below would encrypt does not go round it."""
    try:
        for m in (t.a, t.b):
            macsec_up(m, t.other(m))
        for force in ([], ['set=force:3']):
            port = t.port()
            with sniffed(t, port) as counts:
                s, _ = t.listen(t.a, ['accept', *TALK], port=port,
                                at=f'10.7.0.1:{port}', before=force)
                c = t.b.step(*force, f'connect=10.7.0.1:{port}', SETTLED,
                             *TALK).finish()
                s.finish()
            name = f'macsec, {force}'
            stays(t, name, s, c, client='secured' if force else None)
            only(t, name, counts, 'macsec')
            t.check(not counts.get('cm'), f'{name}: no question', counts)
    finally:
        for m in (t.a, t.b):
            m.sh('ip link del mac0', check=False)


@case(60)
def aborted(t):
    """ss -K ends what RDMA carries, at both ends."""
    for m in (t.a, t.b):
        for way in ('block', 'lib'):
            s, port = t.listen(t.a, ['accept', MOVED, 'say=moved', 'drain'],
                               before=[f'way={way}'])
            c = t.b.step(f'way={way}', f'connect={t.a.at(port)}', MOVED,
                         'say=moved', 'drain')
            s.line('moved')
            c.line('moved')
            m.sh(f'ss -K -t state established "( sport = :{port} or '
                 f'dport = :{port} )"')
            own, peer = (s, c) if m is t.a else (c, s)
            for p, err in ((own, 'ECONNABORTED'), (peer, 'ECONNRESET')):
                p.finish()
                t.check(p.code == 0 and p.json('drain').get('rx_end') == err,
                        f'{way}, at {m.name}: {p.machine.name} hears {err}',
                        repr(p))


def rule(m, line):
    """Write a line of /proc/net/l5_deny: what went wrong, or None."""
    return m.do.write('/proc/net/l5_deny', line + '\n')


def rules(m):
    return (m.do.read('/proc/net/l5_deny') or '').splitlines()


@case(240)
def denied(t):
    """The administrator's rules: no RDMA by a device, a network, for users."""
    t.b.sysctl('rdma_ms', 3000)
    for line, code in (('rdma', 22), ('rdma dev', 22), ('rdma dev a/b', 22),
                       ('rdma net x', 22), ('rdma net 10.5.0.0/33', 22),
                       ('rdma net fd05::/129', 22), ('rdma inode 5', 22),
                       ('rdma dev eth0 eth1', 22), ('dev eth0', 22),
                       ('net 10.0.0.0/8', 22), ('rdmaall', 22),
                       ('allow rdma dev eth0', 2)):
        why = rule(t.a, line)
        t.check(why and f'Errno {code}]' in why, f'{line!r} is refused', why)
    try:
        for m in (t.a, t.b):
            for line in ('rdma dev eth0', 'rdma net 10.5.0.0/24',
                         'rdma net fd05::/64', 'rdma all', 'rdma uid 0-5'):
                rule(m, line)
                t.check(rules(m) == [line], f'{line} is shown', rules(m))
                name = f'{line}, at {m.name}'
                port = t.port()
                with sniffed(t, port) as counts:
                    s, c = t.talk(t.a, ['accept', *TALK], [SETTLED, *TALK],
                                  six=':' in line, port=port)
                stays(t, name, s, c, client='denied' if m is t.b else None,
                      server='denied' if m is t.a else None)
                only(t, name, counts, 'tcp')
                rule(m, 'allow ' + line)
                t.check(not rules(m), f'{line} is taken back', rules(m))
        # Sockets that the rule does not name, and connections of one host.
        other = ['rdma dev eth7', 'rdma net 10.6.0.0/16', 'rdma net ::/0',
                 'rdma uid 7-7', 'rdma net 10.5.0.9/32']
        for m in (t.a, t.b):
            for line in other:
                rule(m, line)
            t.check(rules(m) == other, f'{m.name}: all are shown', rules(m))
        s, c = t.talk(t.a, ['accept', MOVED, *TALK], [MOVED, *TALK])
        t.exact('other rules', s, c)
        rule(t.a, 'rdma all')
        port = t.port()
        s, _ = t.listen(t.a, ['accept', *TALK], port=port,
                        at=f'127.0.0.1:{port}')
        c = t.a.step(f'connect=127.0.0.1:{port}', *TALK).finish()
        s.finish()
        t.check(c.info().get('transport') == s.info().get('transport') ==
                'shm', 'in memory they meet', (s, c))
        # A rule that comes after accept(), and before a question that is late.
        rule(t.a, 'allow rdma all')
        t.b.sysctl('rdma_ms', 20000)
        drop(t.a, '@th,104,24 1 @th,352,16 0x10')
        try:
            s, port = t.listen(t.a, ['accept', 'say=accepted', *TALK])
            c = t.b.step(f'connect={t.a.at(port)}', SETTLED, *TALK)
            s.line('accepted')
            t.wait(lambda: t.a.sh('nft list table ip l5_drop')['out']
                   .find('packets 0') < 0, 'the question')
            rule(t.a, 'rdma all')
        finally:
            passes(t.a)
        for p in (c, s):
            p.finish()
        stays(t, 'a rule before a late question', s, c, client=None,
              server='denied')
        t.b.sysctl('rdma_ms', 3000)
        if t.a.do.shell('modprobe 8021q')['code']:
            t.skip('a VLAN on it', 'this kernel has none')
            return
        # what sits on a device leads by it
        for m, n in ((t.a, 1), (t.b, 2)):
            if 'rdma all' in rules(m):
                rule(m, 'allow rdma all')
            m.sh('ip link add link eth0 name v5 type vlan '
                 f'id 5 && ip addr add 10.8.0.{n}/24 dev v5 && '
                 'ip link set v5 up')
        rule(t.b, 'rdma dev eth0')
        port = t.port()
        s, _ = t.listen(t.a, ['accept', *TALK], port=port,
                        at=f'10.8.0.1:{port}')
        c = t.b.step(f'connect=10.8.0.1:{port}', SETTLED, *TALK).finish()
        s.finish()
        stays(t, 'a VLAN on it', s, c, client='denied', server=None)
    finally:
        for m in (t.a, t.b):
            m.sh('ip link del v5', check=False)
            for line in rules(m):
                rule(m, 'allow ' + line)


@case(90)
def unseen(t):
    """A rule of the firewall that comes after the move stops nothing."""
    s, port = t.listen(t.a, ['accept', MOVED, 'say=moved', 'pong=20,64',
                             'info', 'say=over', 'hold', 'eof', 'close'])
    c = t.b.step(f'connect={t.a.at(port)}', MOVED, 'say=moved', 'hold',
                 'ping=20,64', 'info', 'say=over', 'hold', 'shut', 'eof',
                 'close')
    s.line('moved')
    c.line('moved')
    try:
        for hook, end in (('input', 'dport'), ('output', 'sport')):
            t.a.sh(f'nft "add table ip unseen_{hook}; add chain ip '
                   f'unseen_{hook} c {{ type filter hook {hook} priority 0 ; '
                   f'}} ; add rule ip unseen_{hook} c tcp {end} {port} drop"')
        c.tell()
        c.line('over')
        s.line('over')
        shown = t.a.sh(f'ss -tinH sport = :{port}')['out']
    finally:
        for hook in ('input', 'output'):
            t.a.sh(f'nft delete table ip unseen_{hook}', check=False)
    for p in (s, c):
        p.tell()
        p.finish()
    t.exact('through a rule that drops its TCP', s, c)
    got = re.search(r'bytes_received:(\d+)', shown)
    t.check('ESTAB' in shown and
            int(got[1] if got else 0) == s.info().get('rx_cut'),
            'ss shows what TCP carried', (shown, s.info()))
