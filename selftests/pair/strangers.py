# SPDX-License-Identifier: GPL-2.0
"""Strangers and relays that use rdma_cm. Cases of the group moving."""
from machine import HERE, MOVED, SETTLED, Running, collector

CASES = []
case = collector(CASES)


@case(150)
def strangers(t):
    """Strangers ask and answer by rdma_cm as AF_L5 would not."""
    stranger = f'{HERE}/build/stranger'
    question = None
    for how, reasons in (('ignore', ['silent']), ('reject', ['refused']),
                         ('accept', ['refused', 'rdma']),
                         ('garbage', ['refused', 'rdma']),
                         ('leave', ['refused', 'rdma'])):
        t.b.sysctl('rdma_ms', 1500 if how == 'ignore' else 20000)
        port = t.port()
        r = Running(t.a, [stranger, 'answer', t.a.address, port, how])
        r.line('ready')
        s, c = t.talk(t.a, ['accept', 'both=200k', 'info', 'close'],
                      ['both=200k', SETTLED, 'info', 'close'],
                      s_before=['plain'], port=port)
        t.check(c.code == 0 and c.info().get('transport') == 'base',
                f'answer {how}: stays TCP', repr(c))
        t.check(c.info().get('reason') in reasons, f'answer {how}: reason',
                c.info())
        r.kill()
        r.finish()
        for line in r.lines:
            if line.startswith('RDMA_CM_EVENT_CONNECT_REQUEST '):
                question = line.split()[1]
    if not t.check(question and len(question) == 112,
                   'a question has 56 bytes', question):
        return
    # A good question about a connection that is not there, and the like.
    bad = ['-', '00', '00' * 56, 'ff' * 56, question[:-2], question]
    for i in range(0, 112, 8):
        flipped = int(question[i:i + 2], 16) ^ 0x81
        bad.append(question[:i] + f'{flipped:02x}' + question[i + 2:])
    # a client that asks honestly is to have the time
    t.b.sysctl('rdma_ms', 20000)
    s, port = t.listen(t.a, ['accept', 'both=50k', 'info'])
    broken = t.a.stat()['violations']
    r = Running(t.b, [stranger, 'ask', t.a.address, port, *bad,
                      *[question] * 30])
    c = t.b.step(f'connect={t.a.at(port)}', 'both=50k', 'info').finish()
    t.fine('a client in between', c)
    r.finish()
    t.check(r.code == 0 and len(r.lines) >= len(bad) + 30 and
            not any('ESTABLISHED' in x for x in r.lines),
            'none of them is let in', repr(r))
    t.check(t.a.stat()['violations'] == broken, 'nobody broke anything',
            t.a.stat())
    s.finish()
    s, c = t.talk(t.a, ['accept', MOVED, 'both=50k', 'info', 'close'],
                  [MOVED, 'both=50k', 'info', 'close'])
    t.exact('and one afterwards', s, c)


def relayed(t, late):
    """
    Somebody without rights keeps the question of a client and sends it on, to
    the service and to a listener of its own. The service cannot listen with
    rdma_cm, or, @late, can again.
    """
    name = 'a relay, ' + ('late' if late else 'the port is taken')
    t.b.sysctl('rdma_ms', 30000)
    port = t.port()
    r = Running(t.a, [f'{HERE}/build/stranger', 'relay', t.a.address, port])
    r.line('ready')
    # the listener hears no question, since rdma_cm's port is taken
    s, _ = t.listen(t.a, ['hold', 'accept', 'say=accepted', 'hold',
                          'both=20k', 'info', 'close'], port=port)
    c = t.b.step(f'connect={t.a.at(port)}', 'both=20k', 'info', 'close')
    r.line('holding')
    if late:
        # when a device comes, what failed to listen tries again
        t.a.sh('ip link add dm0 type dummy; ip link set dm0 up; '
               'rdma link add rxd type rxe netdev dm0')
        t.wait(lambda: any(
            'LISTEN' in line and f'{t.a.address}:{port}' in line for line in
            t.a.sh('rdma resource show cm_id')['out'].splitlines()),
            'the service listens with rdma_cm')
    own, own_port = t.listen(t.a, ['hold'])
    before = t.a.stat()['rdma_forged']
    s.tell()
    s.line('accepted')
    for how in ('own', 'same'):
        for to in (port, own_port):
            r.tell(f'{how} {to}\n')
            r.line(f'asked {how} {to}')
    # from the client's host nothing but the seal is wrong
    question = r.line('CONNECT_REQUEST').split()[1][:112]
    near = Running(t.b, [f'{HERE}/build/stranger', 'ask', t.a.address, port,
                         question]).finish()
    r.tell('end\n')
    s.tell()
    own.tell()
    for p in (r, s, c, own):
        p.finish()
    t.check(r.code == 0 and r.text.count('asked') == 4 and
            'ESTABLISHED' not in r.text, f'{name}: nobody lets it in', repr(r))
    t.check(near.code == 0 and 'ESTABLISHED' not in near.text and
            near.lines, f'{name}: nor from the client\'s host', repr(near))
    t.a.sh('rdma link delete rxd; ip link del dm0', check=False)
    t.exact(f'{name}: bytes', s, c, moved=False)
    t.check(c.info().get('transport') == s.info().get('transport') == 'base',
            f'{name}: both stay on TCP', (s, c))
    if late:
        t.check(t.a.stat()['rdma_forged'] - before == 5, f'{name}: counted',
                (t.a.stat(), r, near))


@case(200)
def relays(t):
    """A relay of a question, from the port or to it, gets nowhere."""
    relayed(t, False)
    relayed(t, True)
    s, c = t.talk(t.a, ['accept', MOVED, 'both=50k', 'info', 'close'],
                  [MOVED, 'both=50k', 'info', 'close'])
    t.exact('and one afterwards', s, c)
