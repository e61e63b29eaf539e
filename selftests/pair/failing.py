# SPDX-License-Identifier: GPL-2.0
"""What breaks under traffic: both ends are told, soon, and nothing is lost."""
import json
import time

from machine import (HERE, MOVED, SETTLED, SLOW, Failed, Running,
                     collector)

CASES = []
case = collector(CASES)

# RDMA gives up after some seconds, unless a case wants more; TCP alone would
# try for a quarter of an hour. This is the bound that counts as "in bounded
# time".
SOON = 45 * SLOW
ENDS = ('eof', 'shut', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH',
        'ENETDOWN', 'ECONNABORTED', 'ENETUNREACH', 'EIO',
        'ENOTCONN')  # of shutdown() after a reset, as TCP says


def flood(t, server, steps=(), way='block'):
    """Both ends busy in both directions, over RDMA."""
    s, port = t.listen(server, ['accept', MOVED, 'say=moved', 'flood', *steps,
                                'info'], before=[f'way={way}'])
    c = t.other(server).step(f'way={way}', f'connect={server.at(port)}', MOVED,
                             'say=moved', 'flood', *steps, 'info')
    s.line('flows')
    c.line('flows')
    return s, c


def over(t, text, *processes):
    """All come to an end, soon: an error, or all that was sent."""
    ends = []
    # Before one is killed, since that lets the others go on.
    end = time.monotonic() + SOON
    hang = [(p.machine.name,
             p.hangs(max(5 * SLOW, end - time.monotonic())))
            for p in processes]
    if any(x[1] for x in hang):
        for p, (name, stacks) in zip(processes, hang):
            t.note(f'{name} hangs: {stacks}')
            t.note(p.machine.do.read('/proc/net/l5'))
    for p in processes:
        p.finish(timeout=5 * SLOW)
        got = p.json('flood')
        ends.append(got)
        t.check(p.code == 0 and got.get('tx_end') in ENDS and
                got.get('rx_end') in ENDS,
                f'{text}: {p.machine.name} comes to an end', repr(p),
                'it hangs' if p.code is None else '')
    t.note(f'{text}: {ends}')
    if len(ends) == 2:
        s, c = ends
        for x, y in ((s, c), (c, s)):
            # An end that says end of file says that it is all.
            if x.get('rx_end') == 'eof':
                t.check(y.get('tx_end') == 'shut' and x['rx'] == y['tx'],
                        f'{text}: all there is has come', ends,
                        'an end that looks orderly')
            elif x and y:
                t.check(x['rx'] <= y['tx'], f'{text}: no more than was sent',
                        ends, 'bytes were doubled')
    return ends


def moves(t, text, server=None):
    s, c = t.talk(server or t.a, ['accept', 'duplex=100k', 'info', 'close'],
                  ['duplex=100k', 'info', 'close'])
    return t.exact(text, s, c)


def has_address(m):
    """Wait until a new RDMA device has the machine's address."""
    m.sh('for i in $(seq 100); do '
         'grep -qs ":ffff:" /sys/class/infiniband/*/ports/1/gids/* && exit; '
         'sleep .1; done; exit 1')


@case(150)
def killed(t):
    """kill -9 of either process under traffic."""
    for way in ('block', 'et', 'lib'):
        for m in (t.a, t.b):
            s, c = flood(t, t.a, way=way)
            victim, other = (s, c) if m is t.a else (c, s)
            victim.kill()
            other.finish(timeout=SOON)
            victim.finish(timeout=SOON)
            got = other.json('flood')
            t.check(other.code == 0 and got.get('tx_end') in
                    ('EPIPE', 'ECONNRESET') and
                    got.get('rx_end') in ('eof', 'ECONNRESET'),
                    f'{way}, on {m.name}', repr(other))
    # Waiting for the dead one, in a call and in epoll_wait().
    for way in ('block', 'et', 'peek', 'waitall', 'splice', 'lib'):
        s, port = t.listen(t.a, ['accept', MOVED, 'say=moved', 'drain'],
                           before=[f'way={way}'])
        c = t.b.step(f'connect={t.a.at(port)}', MOVED, 'say=moved', 'hold')
        s.line('moved')
        c.line('moved')
        c.kill()
        s.finish(timeout=SOON)
        c.finish()
        t.check(s.code == 0 and s.json('drain').get('rx_end') in
                ('eof', 'ECONNRESET'), f'a receiver that waits, {way}',
                repr(s))
    # Unread bytes at a close are a reset, as TCP has it.
    s, port = t.listen(t.a, ['accept', MOVED, 'unread=50k', 'close'])
    c = t.b.step(f'connect={t.a.at(port)}', MOVED, 'put=50k', 'say=put',
                 'drain', 'break')
    c.line('put')
    c.finish()
    s.finish()
    t.check(s.code == 0 and c.code == 0 and
            c.json('break').get('tx_end') in ('EPIPE', 'ECONNRESET'),
            'close() with bytes unread', f'{s!r}\n{c!r}')
    moves(t, 'afterwards')


def renew(t):
    """
    New RDMA devices. What rxe manages connections with does not survive that
    it cannot send (Linux 6.1; rping finds the same without AF_L5).
    """
    for m in (t.a, t.b):
        m.sh('rdma link delete rxe0; '
             'rdma link add rxe0 type rxe netdev eth0', timeout=SOON)


def hears(t):
    """Both know again how to reach each other."""
    for m in (t.a, t.b):
        m.do.shell(f'ping -c 1 -W 5 {t.other(m).address}', timeout=30)


@case(200)
def flaps(t):
    """The link goes and comes back, under random traffic both ways."""
    for m in (t.a, t.b):
        # whose queue pair rxe breaks cannot tell the other end
        m.sysctl('rdma_timeout_ms', 7000)
        # IPv6 addresses would go with the link, and with them more than this
        # is about.
        m.sh('echo 1 >/proc/sys/net/ipv6/conf/eth0/keep_addr_on_down')
    for name, m, way, pattern in (
            ('0.3 s, three times', t.a, 'block', '.3 1 .3 1 .3 1'),
            ('1 s, twice', t.b, 'mix', '1 2 1 2'),
            ('4 s', t.a, 'lib', '4 1')):
        s, c = flood(t, t.b, way=way)
        command = ''
        for i, seconds in enumerate(pattern.split()):
            command += (f'ip link set eth0 {("down", "up")[i % 2]}; '
                        f'sleep {seconds}; ')
        f = Running(m, ['bash', '-c', command])
        f.finish(timeout=60 * SLOW)
        hears(t)
        for p in (s, c):
            p.tell()
        over(t, name, s, c)
        renew(t)
        moves(t, f'{name}: afterwards')


@case(200)
def silent(t):
    """The link stays away: keepalive, or a sender, notices."""
    for m in (t.a, t.b):
        m.sysctl('rdma_timeout_ms', 7000)
    keep = ['set=keepalive:1', 'set=idle:1', 'set=intvl:1', 'set=cnt:3']
    ways = ('block', 'et', 'lib')
    waiting = []
    for way in ways:
        s, port = t.listen(t.a, ['accept', MOVED, 'say=moved', 'drain'],
                           before=[f'way={way}', *keep])
        c = t.b.step(*keep, f'connect={t.a.at(port)}', MOVED, 'say=moved',
                     'drain')
        waiting += [(s, f'keepalive, a receiver, {way}'),
                    (c, f'keepalive, its peer, {way}')]
    for way in ways:
        s, port = t.listen(t.a, ['accept', MOVED, 'say=moved', 'hold',
                                 'break'])
        c = t.b.step(f'way={way}', f'connect={t.a.at(port)}', MOVED,
                     'say=moved', 'sleep=4000', 'break')
        waiting += [(c, f'a sender, {way}')]
        s.line('moved')
    for p, _ in waiting:
        p.line('moved')
    s, c = flood(t, t.b)
    # From b, which hears nothing until the link is back. A sender that waits
    # for room may take 22 s by its own clock (7 s, and L5_STUCK), which a busy
    # machine stretches.
    down = 50 * SLOW
    Running(t.b, ['bash', '-c', f'sleep .5; ip link set eth0 down; '
                  f'sleep {down}; ip link set eth0 up'])
    start = time.monotonic()
    for p, name in waiting:
        if p.machine is t.a:
            p.finish(timeout=down - 5)
            t.check(p.code == 0, f'{name}: notices',
                    repr(p) + f'\nafter {time.monotonic() - start:.1f} s')
    s_ends = [x for x in (s, c) if x.machine is t.a][0]
    s_ends.finish(timeout=max(1, down - (time.monotonic() - start)))
    t.check(s_ends.code == 0, 'both ways, on a: notices',
            repr(s_ends) + f'\nafter {time.monotonic() - start:.1f} s')
    for p, name in waiting:
        if p.machine is t.b:
            p.finish(timeout=SOON)
            t.check(p.code == 0, f'{name}: notices', repr(p))
    other = s if s_ends is c else c
    other.finish(timeout=SOON)
    t.check(other.code == 0, 'both ways, on b: notices', repr(other))
    hears(t)
    renew(t)
    moves(t, 'afterwards')


@case(240)
def device(t):
    """rdma link delete under traffic, and a new device."""
    delete = 'rdma link delete rxe0'
    add = 'rdma link add rxe0 type rxe netdev eth0'
    for m in (t.a, t.b):
        o = t.other(m)
        # This server listens through all of it, at all addresses, that one at
        # the device's.
        s1, port1 = t.listen(m, ['20[', 'accept', 'pong=1,10', 'eof',
                                 'close', ']'])
        port2 = t.port()
        s2, port2 = t.listen(m, ['20[', 'accept', 'pong=1,10', 'eof',
                                 'close', ']'], port=port2,
                             at=f'0.0.0.0:{port2}')
        idle_s, port = t.listen(m, ['accept', MOVED, 'say=moved', 'drain'])
        idle_c = o.step(f'connect={m.at(port)}', MOVED, 'say=moved', 'drain')
        idle_s.line('moved')
        idle_c.line('moved')
        s, c = flood(t, m)
        got = Running(m, delete.split()).finish(timeout=SOON)
        t.check(got.code == 0, f'{m.name}: {delete}', repr(got))
        ends = over(t, f'{m.name}: deleted', s, c)
        t.check(all(e and (e['rx_end'] not in ('eof',) or
                           e['tx_end'] != 'shut') for e in ends),
                f'{m.name}: both know that it failed', ends)
        for p in (idle_s, idle_c):
            p.finish(timeout=SOON)
            t.check(p.code == 0, f'{m.name}: an idle one, {p.machine.name}',
                    repr(p))
        # The other machine has a device, this one not: it refuses or is
        # silent.
        for x in (t.a, t.b):
            x.sysctl('rdma_ms', 1500)
            x.sysctl('rdma_memo_s', 60)
        port = t.port()
        for again in ('', ' again'):
            was = o.stat()
            s, c = t.talk(m, ['accept', 'both=100k', 'info', 'close'],
                          [SETTLED, 'both=100k', 'info', 'close'], port=port)
            t.exact(f'{m.name}: a client of a host without a device{again}',
                    s, c, moved=False)
            now = o.stat()
            t.check(c.info().get('reason') in ('silent', 'refused'),
                    f'{m.name}: reason{again}', c.info())
            t.check(again or now.get('rdma_asked', -1) -
                    was.get('rdma_asked', 0) == 1, f'{m.name}: asks{again}',
                    (was, now))
        s, c = t.talk(o, ['accept', 'both=100k', 'info', 'close'],
                      [SETTLED, 'both=100k', 'info', 'close'])
        t.exact(f'{m.name}: a client without a device', s, c, moved=False)
        # connect() does not wait for the silence.
        o.sysctl('rdma_ms', 20000)
        s, c = t.talk(m, ['accept', 'both=10k', 'info', 'close'],
                      ['both=10k', 'info', 'close'])
        t.check(c.code == 0 and c.info().get('connect_ms', 99999) < 8000,
                f'{m.name}: connect() does not wait', repr(c))
        got = Running(m, add.split()).finish(timeout=SOON)
        t.check(got.code == 0, f'{m.name}: {add}', repr(got))
        for x in (t.a, t.b):
            x.sysctl('rdma_ms', 20000)
            x.sysctl('rdma_memo_s', 0)
        has_address(m)
        moves(t, f'{m.name}: a new listener on the new device', m)
        moves(t, f'{m.name}: a new client on the new device', o)
        for port, name in ((port1, 'its own address'), (port2, 'any')):
            for _ in range(10):
                c = o.step(f'connect={m.at(port)}', 'ping=1,10', SETTLED,
                           'info', 'shut', 'eof').finish()
                if c.info().get('transport') == 'rdma' or c.code:
                    break
                time.sleep(0.5)
            t.check(c.info().get('transport') == 'rdma',
                    f'{m.name}: a listener that was there, {name}', repr(c))
        for p in (s1, s2):
            p.kill()
            p.finish()


# What comes by RDMA to a machine is dropped there, TCP is not.
DROP = ('nft add table ip l5_lost && '
        'nft add chain ip l5_lost in "{ type filter hook input priority 0; }" '
        '&& nft add rule ip l5_lost in udp dport 4791 drop')
PASS = 'nft delete table ip l5_lost'


def lose(t, text, m, s, act):
    """While nothing comes to @m by RDMA do @act; its process ends well."""
    m.sh(DROP)
    try:
        act()
        s.finish(timeout=SOON)
    finally:
        m.sh(PASS)
    t.check(s.code == 0 and s.json('lost').get('rx_end') in ENDS[2:],
            f'{m.name}: {text}', repr(s))


@case(300)
def lost(t):
    """
    Bytes on their way by RDMA, and TCP ends: whichever call took TCP's error
    first, each reader is told that they are lost, and none that this is the
    end.
    """
    takes = (('a reader', 'block', ['lost=3'], []),
             ('a reader behind a FIN', 'block', ['lost=3'], ['shut']),
             ('SO_ERROR took the error', 'block', ['taken', 'lost=3'], []),
             ('a sender took the error', 'block', ['break', 'lost=3'], []),
             ('SO_ERROR, epoll', 'et', ['taken', 'lost=3'], []),
             ('SO_ERROR, poll', 'poll', ['taken', 'lost=3'], ['shut']),
             ('SO_ERROR, splice', 'splice', ['taken', 'lost=3'], []),
             ('SO_ERROR, peek', 'peek', ['taken', 'lost=3'], []),
             ('SO_ERROR, mapped', 'lib', ['taken', 'lost=3'], ['shut']))
    for m, which in ((t.a, takes), (t.b, takes[:4])):
        for text, way, take, end in which:
            s, port = t.listen(m, ['accept', MOVED, 'say=moved', 'hold',
                                   *take], before=[f'way={way}'])
            c = t.other(m).step(f'connect={m.at(port)}', MOVED, 'say=moved',
                                'hold', 'put=20k', *end, 'say=put', 'hold',
                                'reset')
            s.line('moved')
            c.line('moved')

            def act(s=s, c=c):
                c.tell()
                c.line('put')
                s.tell()
                s.asleep()
                c.tell()
                c.finish()
            lose(t, text, m, s, act)
            t.fine(f'{m.name}: {text}: all was sent', c)
    moves(t, 'afterwards')


def cuts_late(t, m, *steps):
    """
    Two ends, the one at @m reads later, and the other does @steps once it has
    sent all and had to cut. The question is put off until the other is inside
    TCP: no cut there.
    """
    m.sh(DROP)
    try:
        s, port = t.listen(m, ['accept', 'moving=30000', 'say=moving', 'hold',
                               'get=1m', 'say=got', 'info', 'taken', 'lost=3'],
                           before=['set=rcvbuf:65536'])
        c = t.other(m).step('set=sndbuf:65536', f'connect={m.at(port)}',
                            'say=sends', 'whole=1m', 'put=20k', 'say=put',
                            'hold', *steps)
        c.line('sends')
        # in one call, which the peer's buffer does not let come back
        c.asleep()
    finally:
        m.sh(PASS)
    s.line('moving')
    # until it, too, is allowed to; it is in a call, and nobody else can tell
    time.sleep(SLOW)
    return s, c, port


@case(200)
def uncut(t):
    """
    The same where the peer's word of its cut is lost along with the bytes: to
    a reader there TCP carries all of it.
    """
    for m in (t.a, t.b):
        s, c, _ = cuts_late(t, m)

        def act(s=s, c=c):
            s.tell()
            s.line('got')
            c.line('put')
            c.kill()
            c.finish()
        lose(t, 'bytes after a cut not heard of', m, s, act)
        t.check(s.info().get('rx_cut') == 0, f'{m.name}: not heard of it',
                repr(s))
    moves(t, 'afterwards')


@case(200)
def leaves(t):
    """A peer that does not answer a cut keeps no thread in a call."""
    for how in ('close', 'shut'):
        s, c, port = cuts_late(t, t.a, how, 'say=left', 'hold')

        def act(s=s, c=c, how=how, port=port):
            s.tell()
            s.line('got')
            c.line('put')
            c.tell()
            c.line('left')
            now = t.b.sh(f'ss -tnH dport = :{port}')['out']
            t.check('ESTAB' in now, f'{how}: before TCP is ended', now)
        lose(t, f'after {how}', t.a, s, act)
        c.tell()
        c.finish()
        t.check(c.code == 0, f'{how}: fine', repr(c))
    moves(t, 'afterwards')


@case(200)
def unload(t):
    """The module stays while it is used, and goes when it is not."""
    s, c = flood(t, t.a)
    for m in (t.a, t.b):
        r = m.do.shell('rmmod af_l5', timeout=30)
        t.check(r['code'] not in (0, None), f'{m.name}: in use, it stays', r)
    for p in (s, c):
        p.tell()
    over(t, 'it goes on', s, c)
    for m in (t.a, t.b):
        # While closed connections linger: not all is read, questions are open.
        port = t.port()
        s, _ = t.listen(t.a, ['4[', 'accept', ']', 'sleep=700'], port=port)
        c = t.b.step('4[', f'connect={t.a.at(port)}', 'put=30k', ']')
        c.finish()
        s.finish()
        r = m.do.shell(
            'for i in $(seq 20); do rmmod af_l5 && exit; sleep 1; done; '
            'lsmod; cat /proc/net/l5; exit 1', timeout=100 * SLOW)
        if not t.check(r['code'] == 0, f'{m.name}: rmmod', r):
            continue
        r = m.do.shell('insmod /run/lab/job/af_l5.ko', timeout=60)
        t.check(r['code'] == 0, f'{m.name}: insmod', r)
        for x in (t.a, t.b):
            x.sysctl('rdma_ms', 20000)
            x.sysctl('match_ms', 5000)
        moves(t, f'{m.name}: moves with the new one', m)
    # RDMA itself cannot go, or goes and takes the connections along.
    s, c = flood(t, t.a)
    r = t.b.do.shell('modprobe -r rdma_rxe', timeout=60 * SLOW)
    t.check(r['code'] is not None, 'b: modprobe -r rdma_rxe comes back', r)
    gone = 'rxe0' not in t.b.sh('rdma link')['out']
    if not gone:
        for p in (s, c):
            p.tell()
    over(t, 'rdma_rxe ' + ('gone' if gone else 'stays'), s, c)
    if gone:
        t.b.sh('modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0')
        has_address(t.b)
        moves(t, 'with a new rdma_rxe')


@case(240)
def stands(t):
    """A device that neither does nor fails what was posted."""
    # one end is like the other, and this takes long
    for m in (t.a,):
        o = t.other(m)
        s, port = t.listen(o, ['accept', MOVED, 'pong=5,64', 'say=moved',
                               'drain'])
        c = m.step(f'connect={o.at(port)}', MOVED, 'ping=5,64', 'say=moved',
                   'hold', 'put=5000', 'close')
        for p in (s, c):
            p.line('moved')
        m.sh(f'insmod {HERE}/build/still-$(uname -r)/still.ko')
        try:
            c.tell()
            c.finish(timeout=SOON)
            t.check(c.code == 0, f'{m.name}: close() comes back', repr(c),
                    'it hangs')
            try:
                # as long as what was sent may take to be acknowledged
                t.wait(lambda m=m: m.stat()['rdma_now'] == 0, 'its end',
                       30 + SOON)
            except Failed:
                pass
            good = t.check(m.stat()['rdma_now'] == 0,
                           f'{m.name}: its queue pair is given back', m.stat(),
                           'it hangs')
            if good:
                r = m.do.shell('rmmod af_l5', timeout=SOON)
                t.check(r['code'] == 0, f'{m.name}: rmmod', r, 'it hangs')
        finally:
            m.sh('rmmod still')
        s.finish(timeout=SOON)
        t.check(s.code == 0 and s.json('drain').get('rx_end') != 'eof',
                f'{o.name}: hears that bytes are lost', repr(s))
        if good:
            m.sh('insmod /run/lab/job/af_l5.ko')
            for k, v in (('rdma_ms', 20000), ('match_ms', 5000)):
                m.sysctl(k, v)
            moves(t, f'{m.name}: afterwards', m)


@case(150, last=True)
def death(t):
    """The other machine dies without a word."""
    for m in (t.a, t.b):
        m.sysctl('rdma_timeout_ms', 7000)
    keep = ['set=keepalive:1', 'set=idle:1', 'set=intvl:1', 'set=cnt:3']
    waiting = []
    for way in ('block', 'et', 'lib'):
        s, port = t.listen(t.b, ['accept', MOVED, 'say=moved', 'hold',
                                 'drain'])
        c = t.a.step(f'way={way}', *keep, f'connect={t.b.at(port)}', MOVED,
                     'say=moved', 'drain')
        waiting.append((c, f'keepalive, {way}'))
        s, port = t.listen(t.b, ['accept', MOVED, 'say=moved', 'hold',
                                 'drain'])
        c2 = t.a.step(f'way={way}', f'connect={t.b.at(port)}', MOVED,
                      'say=moved', 'sleep=3000', 'break')
        waiting.append((c2, f'a sender, {way}'))
        s, c3 = flood(t, t.b, way=way)
        waiting.append((c3, f'both ways, {way}'))
    # Nothing more to send, and TCP has said so: still an end must notice.
    s, port = t.listen(t.b, ['accept', MOVED, 'say=moved', 'get=1000', 'eof',
                             'hold'])
    c4 = t.a.step(*keep, f'connect={t.b.at(port)}', MOVED, 'say=moved',
                  'put=1000', 'shut', 'drain')
    waiting.append((c4, 'keepalive, half closed'))
    for p, _ in waiting:
        p.line('moved')
    t.b.sh('(sleep 1; echo 1 >/proc/sys/kernel/sysrq; '
           'echo b >/proc/sysrq-trigger) >/dev/null 2>&1 </dev/null &')
    time.sleep(1)
    for p, name in waiting:
        p.finish(timeout=SOON)
        t.check(p.code == 0, f'{name}: notices', repr(p))
        t.note(f'{name}: {[json.loads(x) for x in p.lines if "_end" in x]}')
    c = t.a.step(f'connect={t.a.at(t.port())}').finish()
    if 'ECONNREFUSED' not in c.text:
        raise Failed(repr(c))

    def nothing():
        s = t.a.stat()
        return s.get('rdma_now') == 0 and s.get('rings_kb') == 0
    t.wait(nothing, 'all to be given back', 60 * SLOW)
    t.check(True, 'all is given back')
