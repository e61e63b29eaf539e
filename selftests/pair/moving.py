# SPDX-License-Identifier: GPL-2.0
"""What moves to RDMA and what does not; no byte is lost on the way."""
import json
import time

from machine import (MOVED, REPO, SETTLED, SLOW, STAYS, Failed, Running,
                     collector)
import strangers

CASES = []
case = collector(CASES)


@case(120)
def moves(t):
    """Both directions, both families, wildcard addresses; what is said."""
    for m in (t.a, t.b):
        o = t.other(m)
        for six in (False, True):
            name = f'{o.name} to {m.name}, IPv{6 if six else 4}'
            before = {x.name: x.stat() for x in (m, o)}
            s, port = t.listen(
                m, ['accept', MOVED, 'pong=20,64', 'info', 'say=look', 'hold',
                    'eof', 'close'], six=six)
            c = o.step(f'connect={m.at(port, six)}', MOVED, 'ping=20,64',
                       'info', 'shut', 'say=look', 'hold', 'close')
            s.line('look')
            c.line('look')
            rows = [r for x in (m, o) for r in x.rows(port)
                    if r['state'] != 'listen']
            held = [x.stat().get('rdma_now') for x in (m, o)]
            after = {x.name: x.stat() for x in (m, o)}
            s.tell()
            c.tell()
            s.finish()
            c.finish()
            t.exact(name, s, c)
            t.check(len(rows) == 2 and
                    all(r['transport'] == 'rdma' for r in rows),
                    f'{name}: /proc/net/l5 says rdma', rows)
            t.check(held == [1, 1], f'{name}: rdma_now', held)

            def grew(x, key, by):
                return after[x.name].get(key, -1) - \
                    before[x.name].get(key, 0) >= by
            t.check(grew(m, 'conn_rdma', 1) and grew(o, 'conn_rdma', 1) and
                    grew(o, 'rdma_asked', 1) and
                    grew(o, 'rdma_posts', 20) and grew(m, 'rdma_posts', 20) and
                    grew(o, 'bytes_tx', 20 * 64) and
                    grew(o, 'bytes_rx', 20 * 64),
                    f'{name}: counters', after)
    for at, six in (('0.0.0.0', False), ('[::]', True), ('[::]', False)):
        port = t.port()
        s, c = t.talk(t.a, ['accept', MOVED, 'pong=5,3000', 'info', 'eof'],
                      [MOVED, 'ping=5,3000', 'info', 'shut', 'eof'], six=six,
                      port=port, at=f'{at}:{port}')
        t.exact(f'listener on {at}, IPv{6 if six else 4}', s, c)


@case(60)
def waits(t):
    """Option L5_RDMA_WAIT: connect() comes back when it is known."""
    s, c = t.talk(t.a, ['accept', 'get=100', 'put=100', 'info', 'eof'],
                  ['info=at', 'put=100', 'get=100', 'info', 'shut', 'eof'],
                  c_before=['set=rdma_wait:20000'])
    t.exact('moved', s, c)
    t.check(c.info('at').get('transport') == 'rdma',
            'moved when connect() returns', c.info('at'))
    # The listener does not even know yet that there is a client.
    s, c = t.talk(t.a, ['sleep=1500', 'accept', 'get=100', 'put=100',
                        MOVED, 'info', 'eof'],
                  ['put=100', 'get=100', MOVED, 'info', 'shut', 'eof'],
                  c_before=['set=rdma_wait:20000'])
    t.exact('accept() long after', s, c)
    s, c = t.talk(t.a, ['accept', 'get=100', 'put=100', 'info', 'eof'],
                  ['info=at', 'put=100', 'get=100', 'info', 'shut', 'eof'],
                  s_before=['plain'], c_before=['set=rdma_wait:20000'])
    t.exact('plain server', s, c, moved=False)
    s, c = t.talk(t.a, ['accept', MOVED, 'get=100', 'put=100', 'info', 'eof'],
                  [MOVED, 'put=100', 'get=100', 'info', 'shut', 'eof'],
                  c_before=['set=rdma_wait:20000'], connect='start')
    t.exact('non-blocking connect()', s, c)


@case(90)
def switches(t):
    """The option and the sysctl, at either end."""
    def stays(name, s_before=(), c_before=(), asks=None, reason=None):
        asked = t.a.stat().get('rdma_asked', -1)
        s, c = t.talk(t.b, ['accept', 'both=200k', 'info', 'close'],
                      [SETTLED, STAYS, 'both=200k', 'info', 'close'],
                      s_before=s_before, c_before=c_before)
        t.exact(f'{name}: stays TCP', s, c, moved=False)
        if reason:
            t.check(c.info().get('reason') == reason, f'{name}: reason',
                    c.info())
        if asks is not None:
            now = t.a.stat().get('rdma_asked', -1)
            t.check(now - asked == asks, f'{name}: asks {asks} times',
                    (asked, now))

    def moves_(name, **kw):
        s, c = t.talk(t.b, ['accept', 'duplex=100k', 'info', 'close'],
                      ['duplex=100k', 'info', 'close'], **kw)
        t.exact(f'{name}: moves', s, c)

    stays('client\'s option', c_before=['set=rdma:0'], asks=0)
    stays('listener\'s option', s_before=['set=rdma:0'], asks=1,
          reason='refused')
    t.a.sysctl('rdma', 0)
    stays('client\'s net.l5.rdma', asks=0)
    moves_('client\'s option over net.l5.rdma', c_before=['set=rdma:1'])
    t.a.sysctl('rdma', 1)
    t.b.sysctl('rdma', 0)
    stays('listener\'s net.l5.rdma', asks=1, reason='refused')
    moves_('listener\'s option over net.l5.rdma', s_before=['set=rdma:1'])
    t.b.sysctl('rdma', 1)
    moves_('as it was')


@case(60)
def wire(t):
    """What crosses the link: RoCE v2, and no more TCP than its own."""
    for six in (False, True):
        name = f'IPv{6 if six else 4}'
        s, port = t.listen(t.a, ['accept', MOVED, 'say=moved', 'pong=40,200',
                                 'info', 'hold', 'eof'], six=six)
        c = t.b.step(f'connect={t.a.at(port, six)}', MOVED, 'say=moved',
                     'hold', 'ping=40,200', 'info', 'say=over', 'hold', 'shut',
                     'eof')
        s.line('moved')
        c.line('moved')
        # what has come before the last packet, to port 4792, is seen by then
        tcpdump = ('exec tcpdump -i eth0 -nn -l -U udp port 4791 or '
                   f'udp port 4792 or port {port}')
        d = Running(t.a, ['bash', '-c', tcpdump])
        d.line('listening on')
        c.tell()
        c.line('over')
        t.b.sh(f'echo over >/dev/udp/{t.a.address}/4792')
        d.line('.4792')
        d.kill(2)
        d.finish()
        for p in (c, s):
            p.tell()
        c.finish()
        s.finish()
        t.exact(name, s, c)
        roce = [x for x in d.lines if '4791' in x]
        tcp = [x for x in d.lines if f'{port}' in x and 'Flags' in x and
               not x.endswith('length 0')]
        t.check(len(roce) >= 80, f'{name}: RoCE', f'{len(roce)} packets')
        t.check(not tcp, f'{name}: no payload on TCP', '\n'.join(tcp[:5]))


@case(240)
def ways(t):
    """Both directions busy from before the move until after it."""
    for i, way in enumerate(('block', 'poll', 'lt', 'et', 'timeo', 'iov',
                             'peek', 'waitall', 'splice', 'sendfile', 'more',
                             'mix', 'lib')):
        server = (t.a, t.b)[i % 2]
        s, c = t.talk(server, ['accept', 'duplex=600k', 'info', 'close'],
                      ['duplex=600k', 'info', 'close'],
                      s_before=[f'way={way}'], c_before=[f'way={way}'],
                      six=i % 3 == 2)
        t.exact(way, s, c)


@case(240)
def sleepers(t):
    """A sleeper in a call when the move comes is woken by what comes after."""
    for i, way in enumerate(('block', 'poll', 'lt', 'et', 'timeo', 'iov',
                             'peek', 'waitall', 'splice', 'lib')):
        server = (t.a, t.b)[i % 2]
        s, c = t.talk(
            server,
            ['accept', MOVED, 'sleep=200', 'put=1000', 'get=1000', 'info',
             'eof', 'close'],
            ['get=1000', 'sleep=200', 'put=1000', 'info', 'shut', 'eof',
             'close'], c_before=[f'way={way}', 'chunk=200'])
        t.exact(f'receiver, {way}', s, c)
    # The sender sleeps for room, first TCP's, then the ring's.
    for way in ('block', 'lt', 'et', 'timeo', 'splice', 'lib'):
        s, c = t.talk(
            t.a,
            ['accept', 'sleep=1500', 'get=12m', MOVED, 'sleep=500', 'get=2m',
             'put=10', 'info', 'eof', 'close'],
            ['put=12m', MOVED, 'put=2m', 'get=10', 'info', 'shut', 'eof',
             'close'], c_before=[f'way={way}'])
        t.exact(f'sender, {way}', s, c)


@case(180)
def first(t):
    """Either end speaks first, and what was said long before accept()."""
    for m in (t.a, t.b):
        s, c = t.talk(m, ['accept', 'put=100k', 'get=100k', MOVED, 'put=10',
                          'get=10', 'info', 'eof'],
                      ['get=100k', 'put=100k', MOVED, 'get=10', 'put=10',
                       'info', 'shut', 'eof'])
        t.exact(f'server {m.name}', s, c)
        s, c = t.talk(m, ['accept', 'get=100k', 'put=100k', MOVED, 'get=10',
                          'put=10', 'info', 'eof'],
                      ['put=100k', 'get=100k', MOVED, 'put=10', 'get=10',
                       'info', 'shut', 'eof'])
        t.exact(f'client, server {m.name}', s, c)
    s, c = t.talk(t.a, ['sleep=2500', 'accept', 'get=30k', MOVED, 'pong=5,9',
                        'info', 'eof'],
                  ['put=30k', MOVED, 'ping=5,9', 'info', 'shut', 'eof'])
    t.exact('accept() long after', s, c)
    s, c = t.talk(t.a, ['sleep=2500', 'accept', 'get=30k', 'eof', 'put=9000',
                        'shut', 'info'],
                  ['put=30k', 'shut', 'get=9000', 'eof', 'info'])
    t.fine('accept() long after shutdown()', s, c)
    s, c = t.talk(t.a, ['sleep=2500', 'accept', 'get=30k', 'eof', 'close'],
                  ['put=30k', 'close'])
    t.fine('accept() long after close()', s, c)
    # Half-closed at once, the other direction goes on through the move.
    s, c = t.talk(t.a, ['accept', 'get=10', 'eof', 'put=200k', 'sleep=700',
                        'put=200k', 'info', 'close'],
                  ['put=10', 'shut', 'get=400k', 'eof', 'info', 'close'])
    t.fine('shutdown() at once, the answer after the move', s, c)
    s, c = t.talk(t.a, ['accept', 'shut', 'get=200k', 'eof', 'close'],
                  ['put=100k', 'sleep=700', 'put=100k', 'eof', 'close'])
    t.fine('shutdown() at once by the server', s, c)
    # After the move: half-closed for long.
    s, c = t.talk(t.a, ['accept', MOVED, 'get=50k', 'eof', 'sleep=500',
                        'put=100k', 'info', 'close'],
                  [MOVED, 'put=50k', 'shut', 'get=100k', 'eof', 'info',
                   'close'])
    t.exact('half-closed after the move', s, c)


@case(180)
def short(t):
    """Connections that end before the question is answered, or just then."""
    refused = [m.stat()['rdma_refused'] for m in (t.a, t.b)]
    for m in (t.a, t.b):
        name = f'server {m.name}'
        s, c = t.talk(m, ['30[', 'accept', 'put=1500', 'shut', 'close', ']'],
                      ['30[', f'connect={m.at(t.ports + 1)}', 'get=1500',
                       'eof', 'close', ']'], connect='say')
        t.fine(f'{name}: it says all and closes', s, c)
        s, c = t.talk(m, ['30[', 'accept', 'get=5000', 'eof', 'close', ']'],
                      ['30[', f'connect={m.at(t.ports + 1)}', 'put=5000',
                       'close', ']'], connect='say')
        t.fine(f'{name}: the client says all and closes', s, c)
    # After 0, 10, 20 ... ms: around the moment of the move.
    sleeps = [n * 10 for n in range(0, 25)]
    s_steps, c_steps = [], []
    for n in sleeps:
        s_steps += ['accept', 'get=20k', 'eof', 'close']
        c_steps += [f'connect={t.a.at(t.ports + 1)}', f'sleep={n}', 'put=20k',
                    'close']
    s, c = t.talk(t.a, s_steps, c_steps, connect='say')
    t.fine('the client sends and closes around the move', s, c)
    s_steps, c_steps = [], []
    for n in sleeps:
        s_steps += ['accept', f'sleep={n}', 'put=20k', 'close']
        c_steps += [f'connect={t.a.at(t.ports + 1)}', 'get=20k', 'eof',
                    'close']
    s, c = t.talk(t.a, s_steps, c_steps, connect='say')
    t.fine('the server sends and closes around the move', s, c)
    # The same, to a client that is busy sending and reads later.
    s_steps, c_steps = [], []
    for n in sleeps[::2]:
        s_steps += ['accept', 'get=3000', f'sleep={n}', 'put=200k', 'shut',
                    'eof', 'close']
        c_steps += [f'connect={t.a.at(t.ports + 1)}', 'put=3000',
                    f'sleep={n}', 'shut', 'sleep=100', 'get=200k', 'eof',
                    'close']
    s, c = t.talk(t.a, s_steps, c_steps, connect='say')
    t.fine('both shut down around the move', s, c)
    s_steps, c_steps = [], []
    for n in sleeps[::2]:
        s_steps += ['accept', 'get=3000', f'sleep={n}', 'put=200k', 'close']
        c_steps += [f'connect={t.a.at(t.ports + 1)}', 'put=3000', 'sleep=400',
                    'get=200k', 'eof', 'close']
    s, c = t.talk(t.a, s_steps, c_steps, connect='say')
    t.fine('the server answers and closes, read later', s, c)
    s_steps, c_steps = [], []
    for n in sleeps:
        s_steps += ['accept', 'drain', 'close']
        c_steps += [f'connect={t.a.at(t.ports + 1)}', f'sleep={n}', 'reset']
    s, c = t.talk(t.a, s_steps, c_steps, connect='say')
    t.fine('the client resets around the move', s, c)
    s, c = t.talk(t.b, ['100[', 'accept', 'pong=1,100', 'eof', 'close', ']'],
                  ['100[', f'connect={t.b.at(t.ports + 1)}', 'ping=1,100',
                   'shut', 'eof', 'close', ']'], connect='say')
    t.fine('100 one after the other', s, c)
    s, c = t.talk(t.b, ['8{', '12[', 'accept', 'pong=1,100', 'eof', 'close',
                        ']', '}'],
                  ['8{', '12[', f'connect={t.b.at(t.ports + 1)}', 'ping=1,100',
                   'shut', 'eof', 'close', ']', '}'], connect='say')
    t.fine('8 at a time', s, c)
    # No connection of these says anything of the destination.
    for m, n in zip((t.a, t.b), refused):
        t.check(m.stat()['rdma_refused'] == n, f'{m.name}: nobody is refused',
                m.stat())
    # A process that ends leaves what it sent to the kernel.
    s, c = t.talk(t.a, ['accept', MOVED, 'sleep=1500', 'get=150k', 'eof'],
                  [MOVED, 'put=150k'])
    t.fine('the process ends after sending', s, c)


@case(120)
def plain(t):
    """A peer that knows nothing of it: no foreign byte, no time lost."""
    s, c = t.talk(t.a, ['accept', 'both=300k', STAYS, 'info'],
                  ['both=300k', 'info', 'sleep=1600'], c_before=['plain'])
    t.exact('plain client', s, c, moved=False)
    before = t.b.stat()
    port = t.port()
    s, c = t.talk(t.a, ['accept', 'both=300k', 'info'],
                  [SETTLED, STAYS, 'both=300k', 'info'], s_before=['plain'],
                  port=port)
    t.exact('plain server', s, c, moved=False)
    t.check(c.info().get('reason') == 'refused', 'plain server: reason',
            c.info())
    mid = t.b.stat()
    t.check(mid.get('rdma_asked', 0) - before.get('rdma_asked', 0) == 1 and
            mid.get('rdma_refused', 0) - before.get('rdma_refused', 0) == 1,
            'plain server: asked once, refused', mid)
    s, c = t.talk(t.a, ['6[', 'accept', 'pong=1,10', 'eof', 'close', ']'],
                  ['6[', f'connect={t.a.at(port)}', SETTLED, 'ping=1,10',
                   'tally', 'shut', 'eof', 'close', ']'], s_before=['plain'],
                  port=port, connect='say')
    t.fine('plain server again', s, c)
    t.check(t.b.stat().get('rdma_asked') - mid.get('rdma_asked') < 6 and
            c.done.get('why_refused') == 6,
            'plain server again: the answer is remembered', t.b.stat())
    t.b.sysctl('rdma_memo_s', 1)
    port = t.port()
    asked = []
    for pause in (0, 0, 2500):
        time.sleep(pause / 1000)
        s, c = t.talk(t.a, ['accept', 'pong=1,10', 'eof'],
                      [SETTLED, 'ping=1,10', 'shut'], s_before=['plain'],
                      port=port)
        asked.append(t.b.stat().get('rdma_asked', 0))
    t.check(asked[2] > asked[1], 'what is remembered is forgotten', asked)
    t.b.sysctl('rdma_memo_s', 0)
    time.sleep(1.5)
    for _ in range(2):
        s, c = t.talk(t.a, ['accept', 'pong=1,10', 'eof'],
                      [SETTLED, 'ping=1,10', 'shut'], s_before=['plain'],
                      port=port)
        asked.append(t.b.stat().get('rdma_asked', 0))
    t.check(asked[4] > asked[3] > asked[2], 'nothing is remembered', asked)
    # Nobody listens at all.
    c = t.b.step(f'connect={t.a.at(t.port())}').finish()
    t.check('ECONNREFUSED' in c.text, 'nobody listens', repr(c))
    # Said, not judged: machines of this kind cannot measure it.
    for kind in ('plain', 'l5'):
        s, c = t.talk(t.a, ['20[', 'accept', 'eof', 'close', ']'],
                      [kind, '20[', f'connect={t.a.at(t.ports + 1)}', 'info',
                       'close', ']'], s_before=['plain'], connect='say')
        ms = [json.loads(x)['connect_ms'] for x in c.lines
              if x.startswith('{"info"')]
        t.note(f'{kind} connect() to a plain server: {sorted(ms)} ms')
        t.fine(f'20 connections, {kind}', s, c)


@case(90)
def force(t):
    """Option L5_FORCE, between hosts and on one."""
    base, shm, rdma = (f'set=force:{n}' for n in (1, 2, 3))
    both = ['both=100k', 'info']

    def run(name, want, opt, server=None, client=None, at=None, s_opt=None,
            moved=None):
        port = t.port()
        server = server or t.a
        client = client or t.b
        address = f'{at}:{port}' if at else server.at(port)
        steps = ['duplex=100k', 'info'] if want == 'rdma' else both
        s, _ = t.listen(server, ['accept'] + steps, port=port, at=address,
                        before=s_opt if s_opt is not None else opt)
        asked = client.stat().get('rdma_asked', 0)
        c = client.step(*opt, f'connect={address}', *steps)
        c.finish()
        s.finish()
        good = c.info().get('transport') == s.info().get('transport') == want
        t.check(good and s.code == c.code == 0, f'{name}: {want}',
                f'{s!r}\n{c!r}')
        asked = client.stat().get('rdma_asked', 0) - asked
        if want != 'rdma':
            t.check(asked == 0, f'{name}: no question', asked)

    run('base', 'base', [base])
    run('shm', 'base', [shm])
    run('rdma', 'rdma', [rdma])
    run('one host, nothing', 'shm', [], client=t.a)
    run('one host, base', 'base', [base], client=t.a)
    run('one host, shm', 'shm', [shm], client=t.a)
    run('one host, rdma', 'rdma', [rdma], client=t.a)
    run('loopback address, rdma', 'base', [rdma], client=t.a, at='127.0.0.1')
    s, c = t.talk(t.a, ['accept', 'duplex=2m', 'info'], ['duplex=2m', 'info'],
                  client=t.a, six=True, s_before=[rdma], c_before=[rdma])
    t.exact('one host, rdma, IPv6', s, c)


@case(150)
def sizes(t):
    """Rings of different sizes."""
    def run(name, s_before=(), c_before=()):
        s, c = t.talk(t.a, ['accept', 'duplex=400k', 'info'],
                      ['duplex=400k', 'info'], s_before=s_before,
                      c_before=c_before)
        if not t.exact(name, s, c):
            return {}
        si, ci = s.info(), c.info()
        t.check(si['tx_size'] == ci['rx_size'] and
                ci['tx_size'] == si['rx_size'], f'{name}: sizes agree',
                (si, ci))
        t.note(f'{name}: {ci["tx_size"]} and {ci["rx_size"]}')
        return ci

    run('default')
    run('large client', ['set=sndbuf:4096', 'set=rcvbuf:4096'],
        ['set=sndbuf:1m', 'set=rcvbuf:1m'])
    run('large server', ['set=sndbuf:1m', 'set=rcvbuf:1m'],
        ['set=sndbuf:4096', 'set=rcvbuf:4096'])
    t.a.sysctl('ring_kb', 16)
    t.b.sysctl('ring_kb', 16)
    # Each host pays for its copies of both rings, as long as the rings are: so
    # what one alone asks for is not made.
    for name, s, c in (('reader', ['set=rcvbuf:150k'], []),
                       ('writer', [], ['set=sndbuf:150k'])):
        c = run(f'{name} alone', s, c)
        t.check(c and c['tx_size'] == c['rx_size'] == 16384,
                f'{name} alone: no larger', c)
    c = run('one way', ['set=rcvbuf:150k'], ['set=sndbuf:150k'])
    t.check(c and c['tx_size'] > c['rx_size'], 'one way: larger', c)
    c = run('the other way', ['set=sndbuf:150k'], ['set=rcvbuf:150k'])
    t.check(c and c['tx_size'] < c['rx_size'], 'the other way: larger', c)
    t.b.sysctl('ring_kb', 1024)
    run('ring_kb 16 and 1024')
    t.a.sysctl('ring_kb', 2048)
    t.b.sysctl('ring_kb', 4)
    run('ring_kb 2048 and 4')


@case(300)
def notify(t):
    """Every way to tell of a record, separate and chained, with the poller."""
    def run(name, mapped=False):
        for how in [('block', [])] + [('map', ['map=30000'])] * mapped:
            s, c = t.talk(
                t.a, ['accept', MOVED, *how[1], 'pong=30,64', 'pong=8,20000',
                      'both=600k', 'info'],
                [MOVED, *how[1], 'ping=30,64', 'ping=8,20000', 'both=600k',
                 'info'], s_before=[f'way={how[0]}'],
                c_before=[f'way={how[0]}'])
            t.exact(f'{name}, {how[0]}', s, c)

    for poll in (0, 1):
        for chain in (0, 1):
            for n in range(5):
                if poll and chain:
                    continue
                for m in (t.a, t.b):
                    m.sysctl('rdma_poll', poll)
                    m.sysctl('rdma_chain', chain)
                    m.sysctl('rdma_notify', n)
                    # all ways, also those that no device is known to be safe
                    # for
                    m.sysctl('rdma_safe', 15)
                # a receiver of records of one WRITE cannot map them
                run(f'notify {n}, chain {chain}, poll {poll}',
                    not chain and n != 1)
    for m in (t.a, t.b):
        m.sysctl('rdma_poll', 0)
    for na, nb in ((0, 1), (3, 2)):
        t.a.sysctl('rdma_notify', na)
        t.b.sysctl('rdma_notify', nb)
        run(f'notify {na} and {nb}')


TWO, ONE, IMM, SEND, AUTO = range(5)


@case(200)
def order(t):
    """Each end publishes as the other has stated to be safe."""
    # what the sender would like, net.l5.rdma_safe of the receiver, what is used
    for wish, safe, used in ((TWO, 0, TWO), (TWO, 12, IMM), (ONE, 0, IMM),
                             (ONE, 13, IMM), (ONE, 2, ONE), (SEND, 4, IMM),
                             (SEND, 0, SEND), (AUTO, 0, IMM)):
        for m in (t.a, t.b):
            o = t.other(m)
            m.sysctl('rdma_notify', wish)
            m.sysctl('rdma_safe', 0)
            o.sysctl('rdma_safe', safe)
            # a receiver that asked takes bytes by SEND only if it sends so
            o.sysctl('rdma_notify', wish if o is t.b else IMM)
            s, c = t.talk(t.a, ['accept', MOVED, 'pong=8,3000', 'both=100k',
                                'info'],
                          [MOVED, 'ping=8,3000', 'both=100k', 'info'])
            name = f'{m.name} would {wish}, safe {safe}'
            t.exact(name, s, c)
            got = (s if m is t.a else c).info().get('notify')
            t.check(got == used, f'{name}: by {used}', (got, s, c))
    t.a.sysctl('rdma_notify', SEND)
    t.b.sysctl('rdma_notify', IMM)
    s, c = t.talk(t.a, ['accept', MOVED, 'both=100k', 'info'],
                  [MOVED, 'both=100k', 'info'])
    t.exact('no room for a SEND', s, c)
    t.check(s.info().get('notify') == IMM, 'no room for a SEND: none', s)


# RTU, the connection manager's message that the answer has come; and the
# packets of any other queue pair.
RTU = '@th,104,24 1 @th,352,16 0x14'
DATA = '@th,104,24 != 1'


def drop(m, what):
    """No packet of the kind comes to the machine by RDMA, until passes()."""
    m.sh('nft add table ip l5_drop && nft add chain ip l5_drop in '
         '"{ type filter hook input priority 0; }" && nft add rule ip l5_drop '
         f'in udp dport 4791 {what} counter drop')


def passes(m):
    """How many did not come?"""
    out = m.sh('nft list table ip l5_drop; nft delete table ip l5_drop')['out']
    return int(out.partition('counter packets ')[2].split()[0])


@case(90)
def early(t):
    """The server hears the client before, and never, that it has the answer."""
    for m in (t.a, t.b):
        drop(m, RTU)
        try:
            s, c = t.talk(m, ['accept', MOVED, 'both=100k', 'info'],
                          [MOVED, 'both=100k', 'info'])
        finally:
            lost = passes(m)
        t.exact(f'server {m.name}', s, c)
        t.check(lost, f'server {m.name}: the word was lost', lost)
    # Ends that come just when it does; all is given back at once.
    drop(t.a, RTU)
    try:
        s, port = t.listen(t.a, ['5{', '40[', 'accept', 'eof', 'close', ']',
                                 '}'])
        steps = []
        for n in range(40):
            steps += [f'connect={t.a.at(port)}', f'sleep={10 + 2 * n}',
                      'close']
        c = t.b.step('5{', *steps, '}').finish()
        s.finish()
        t.fine('they end when they are heard', s, c)
        # a connection that keeps an id of the connection manager's does so for
        # a minute
        try:
            t.wait(lambda: not t.a.resources().get('cm_id'), 'ids', 30 * SLOW)
            good = True
        except Failed:
            good = False
    finally:
        lost = passes(t.a)
    t.check(good and lost, 'which leaves nothing', (t.a.resources(), lost))


@case(120)
def unused(t):
    """RDMA that fails when both have made their rings leaves nothing."""
    for m in (t.a, t.b):
        m.sysctl('rdma_memo_s', 0)
        m.sysctl('rdma_timeout_ms', 1000)
        drop(m, DATA)
    try:
        s, port = t.listen(t.a, ['accept', 'settled=40000', 'say=settled',
                                 'hold', 'both=100k', 'info'])
        # it calls nothing that would look whether there is something to free
        c = t.b.step(f'start={t.a.at(port)}', 'settled=40000', 'say=settled',
                     'hold', 'both=100k', 'info')
        for p in (s, c):
            p.line('settled')
        lost = [passes(m) for m in (t.a, t.b)]
    except Exception:
        for m in (t.a, t.b):
            m.sh('nft delete table ip l5_drop', check=False)
        raise
    t.check(all(lost), 'what was said is lost', lost)

    def nothing(m):
        now = m.stat()
        return not any(now[k] for k in ('rdma_now', 'rings_kb', 'reserved_kb'))
    for m in (t.a, t.b):
        try:
            t.wait(lambda m=m: nothing(m), 'nothing', 20 * SLOW)
        except Failed:
            pass
        t.check(nothing(m), f'{m.name}: all is given back', m.stat())
    for p in (s, c):
        p.tell()
        p.finish()
    t.exact('bytes', s, c, moved=False)
    t.check(c.info().get('reason') == 'rdma', 'reason', c.info())


@case(120)
def mapped(t):
    """Rings that both ends have mapped, with and without the library."""
    for way, also in (('map', ['map=30000']), ('lib', [])):
        for i, m in enumerate((t.a, t.b)):
            s, c = t.talk(
                m, ['accept', MOVED, *also, 'pong=100,64', 'pong=10,70000',
                    'both=2m', 'info', 'close'],
                [MOVED, *also, 'ping=100,64', 'ping=10,70000', 'both=2m',
                 'info', 'close'], s_before=[f'way={way}'],
                c_before=[f'way={way}'], six=bool(i))
            t.exact(f'{way}, server {m.name}', s, c)
            t.check(s.info().get('mapped') and c.info().get('mapped'),
                    f'{way}, server {m.name}: mapped', (s.info(), c.info()))
    # One end maps, the other makes system calls.
    for way, also in (('map', ['map=30000']), ('lib', [])):
        s, c = t.talk(t.a, ['accept', MOVED, 'pong=50,64', 'both=1m', 'info'],
                      [MOVED, *also, 'ping=50,64', 'both=1m', 'info'],
                      c_before=[f'way={way}'])
        t.exact(f'{way}, only the client', s, c)
    # Through the move with the library: mapped as soon as that can be.
    s, c = t.talk(t.b, ['accept', 'duplex=1m', 'info'],
                  ['duplex=1m', 'info'], s_before=['way=lib'],
                  c_before=['way=lib'])
    t.exact('lib, through the move', s, c)
    before = t.a.stat()
    run = [f'{REPO}/userspace/bin/l5run']
    env = {'L5_RDMA_WAIT': '20000', 'L5_MAP_AFTER': '1'}
    for mode in ('socket', 'full'):
        s, c = t.talk(t.a, ['accept', 'pong=100,64', 'both=1m', 'info'],
                      ['ping=100,64', 'both=1m', 'info'], s_before=['plain'],
                      c_before=['plain'],
                      s_kw={'prefix': [*run, f'--mode={mode}'], 'env': env},
                      c_kw={'prefix': [*run, f'--mode={mode}'], 'env': env})
        t.exact(f'l5run --mode={mode}', s, c)
    after = t.a.stat()
    t.check(after.get('maps', 0) > before.get('maps', 0),
            'l5run: mapped', after)


@case(200)
def many(t):
    """200 connections at once."""
    n = 200
    # So many share two processors with what else runs there.
    for m in (t.a, t.b):
        m.sysctl('rdma_timeout_ms', 30000)
    server = ['accept', 'pong=4,100', MOVED, 'pong=4,100', 'tally', 'eof',
              'close']
    client = ['ping=4,100', MOVED, 'meet', 'ping=4,100', 'meet', 'tally',
              'shut', 'eof', 'close']
    for way in ('block', 'lib'):
        s, port = t.listen(t.a, [f'{n}' + '{', *server, '}'],
                           before=[f'way={way}'],
                           env={'STEP_SECONDS': '120'})
        c = t.b.step(f'way={way}', f'{n}' + '{', 'stagger=60',
                     f'connect={t.a.at(port)}', *client, '}',
                     env={'STEP_SECONDS': '120'})
        c.finish(timeout=130 * SLOW)
        s.finish()
        t.fine(f'{way}: all answered', s, c)
        t.check(c.done.get('rdma') == n and s.done.get('rdma') == n,
                f'{way}: all moved', (s.done, c.done))
    for m in (t.a, t.b):
        m.sysctl('rdma_timeout_ms', 7000)


@case(120)
def mailbox(t):
    """A server that hears by its mailbox alone which clients have spoken."""
    n = 24
    port = t.port()
    s = t.a.step(f'listen={t.a.at(port)}', f'mailbox={n},100')
    s.line('ready')
    c = t.b.step(f'{n}' + '{', f'connect={t.a.at(port)}', MOVED, 'sleep=1000',
                 'ping=20,100', 'tally', 'shut', 'eof', 'close', '}')
    c.finish()
    s.finish()
    t.fine('all answered', s, c)
    got = s.json('mailbox')
    t.check(got.get('mailbox') == n, 'each has a byte', repr(s))
    t.check(got.get('missed') == 0 and got.get('said', 0) >= 20,
            'it misses nothing', repr(s))
    # Without RDMA there is no mailbox.
    port = t.port()
    s = t.a.step('set=rdma:0', f'listen={t.a.at(port)}', 'mailbox=1').finish()
    t.check('EOPNOTSUPP' in s.text, 'a listener without RDMA has none',
            repr(s))


@case(90)
def limit(t):
    """net.l5.rdma_max: connections beyond it stay TCP."""
    def three(name, want):
        # queue pairs of those before go later than these themselves
        t.wait(lambda: all(m.stat().get('rdma_now') == 0 for m in (t.a, t.b)),
               'no queue pairs', 30 * SLOW)
        s, port = t.listen(t.a, ['3[', 'accept', 'pong=2,50', 'tally', ']',
                                 'say=all', 'hold'])
        c = t.b.step(*['1[', f'connect={t.a.at(port)}', SETTLED, 'ping=2,50',
                       'tally', ']'] * 3, 'say=all', 'hold')
        c.line('all')
        now = t.b.stat().get('rdma_now'), t.a.stat().get('rdma_now')
        for p in (c, s):
            p.tell()
        c.finish()
        s.finish()
        t.fine(f'{name}: all exact', s, c)
        t.check(c.done.get('rdma') == want and
                c.done.get('base') == 3 - want, f'{name}: {want} moved',
                (c.done, s.done))
        t.check(all(x is not None and x <= want for x in now),
                f'{name}: rdma_now', now)
        return c

    t.b.sysctl('rdma_max', 2)
    c = three('client 2', 2)
    t.check(c.done.get('why_limit') == 1, 'client 2: reason', c.done)
    t.b.sysctl('rdma_max', 0)
    c = three('client 0', 0)
    t.check(c.done.get('why_limit') == 3, 'client 0: reason', c.done)
    t.b.sysctl('rdma_max', 1024)
    t.b.sysctl('rdma_memo_s', 0)
    t.a.sysctl('rdma_max', 1)
    three('server 1', 1)
    t.a.sysctl('rdma_max', 0)
    three('server 0', 0)
    t.a.sysctl('rdma_max', 1024)
    three('as it was', 3)


@case(60)
def memory(t):
    """No memory for rings, or none that may be used: TCP."""
    t.b.sysctl('mem_max_kb', 64)
    s, c = t.talk(t.a, ['accept', 'both=200k', 'info'],
                  [SETTLED, 'both=200k', 'info'])
    t.exact('the client\'s', s, c, moved=False)
    t.check(c.info().get('reason') in ('limit', 'nomem'),
            'the client\'s: reason', c.info())
    t.b.restore()
    t.a.sysctl('mem_max_kb', 64)
    s, c = t.talk(t.a, ['accept', 'both=200k', 'info'],
                  [SETTLED, 'both=200k', 'info'])
    t.exact('the server\'s', s, c, moved=False)


@case(90)
def namespaces(t):
    """A namespace without an RDMA device stays TCP."""
    t.b.sh('ip netns add box && ip link add v0 type veth peer name v1 netns '
           'box && ip addr add 10.6.0.1/24 dev v0 && ip link set v0 up && '
           'ip -n box addr add 10.6.0.2/24 dev v1 && '
           'ip -n box link set v1 up && ip -n box link set lo up && '
           'ip -n box route add default via 10.6.0.1 && '
           'echo 1 >/proc/sys/net/ipv4/ip_forward')
    t.a.sh('ip route add 10.6.0.0/24 via 10.5.0.2')
    try:
        inside = ['ip', 'netns', 'exec', 'box']
        stat = 'ip netns exec box cat /proc/net/l5_stat'
        s, c = t.talk(t.a, ['accept', 'both=200k', 'info'],
                      [SETTLED, STAYS, 'both=200k', 'info'],
                      c_kw={'prefix': inside})
        t.exact('client in one', s, c, moved=False)
        r = t.b.sh(stat)
        asked = [x for x in r['out'].splitlines() if x.startswith('rdma_asked')]
        t.check(asked and asked[0].split()[1] == '0',
                'client in one: no question', asked)
        port = t.port()
        s, _ = t.listen(t.b, ['accept', 'both=200k', 'info'], port=port,
                        prefix=inside, at=f'10.6.0.2:{port}')
        c = t.a.step(f'connect=10.6.0.2:{port}', SETTLED, STAYS, 'both=200k',
                     'info').finish()
        s.finish()
        t.exact('server in one', s, c, moved=False)
        # And the machine itself goes on as before.
        s, c = t.talk(t.b, ['accept', 'duplex=100k', 'info'],
                      ['duplex=100k', 'info'])
        t.exact('beside it', s, c)
    finally:
        t.b.sh('ip netns del box; ip link del v0', check=False)
        t.a.sh('ip route del 10.6.0.0/24', check=False)


CASES += strangers.CASES


@case(120)
def one_shot(t):
    """A program that serves one connection closes its listener at once."""
    for i in range(10):
        s, c = t.talk(t.a, ['accept', 'unlisten', MOVED, 'both=50k', 'info',
                            'close'], [MOVED, 'both=50k', 'info', 'close'])
        if not t.exact(f'listener closed, {i}', s, c):
            break


@case(90)
def found(t):
    """The tools see it: /proc/net/l5_stat agrees with what was done."""
    s0, c0 = t.a.stat(), t.b.stat()
    for key in ('conn_rdma', 'rdma_asked', 'rdma_refused', 'rdma_silent',
                'rdma_failed', 'rdma_broken', 'rdma_posts', 'rdma_messages',
                'rdma_wakes', 'rdma_now', 'fallback_refused',
                'fallback_silent', 'fallback_rdma'):
        if key not in s0:
            raise Failed(f'no {key} in /proc/net/l5_stat')
    s, c = t.talk(t.a, ['accept', MOVED, 'get=100k', 'sleep=300', 'put=100k',
                        'info', 'eof'],
                  [MOVED, 'put=100k', 'get=100k', 'info', 'shut', 'eof'])
    t.exact('a connection', s, c)
    s1, c1 = t.a.stat(), t.b.stat()
    t.check(s1['conn_rdma'] - s0['conn_rdma'] == 1 and
            c1['conn_rdma'] - c0['conn_rdma'] == 1, 'conn_rdma', (s1, c1))
    t.check(c1['rdma_asked'] - c0['rdma_asked'] == 1 and
            s1['rdma_asked'] == s0['rdma_asked'], 'rdma_asked', (s1, c1))
    t.check(c1['rdma_posts'] > c0['rdma_posts'], 'rdma_posts', (c0, c1))
    t.check(s1['rdma_wakes'] > s0['rdma_wakes'] or
            s1['rdma_messages'] > s0['rdma_messages'],
            'a sleeper was woken', (s0, s1))
    t.check(s1['rdma_broken'] == s0['rdma_broken'] and
            c1['rdma_broken'] == c0['rdma_broken'] and
            s1['violations'] == c1['violations'] == 0, 'nothing broke',
            (s1, c1))
