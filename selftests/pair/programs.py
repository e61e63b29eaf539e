# SPDX-License-Identifier: GPL-2.0
"""Real programs on two machines, unmodified, under l5run."""
import csv
import io
import json
import os
import time

from machine import REPO, SLOW, WAIT, Failed, Running, collector

CASES = []
case = collector(CASES)

# Wait for the outcome, so that all there is to say goes by RDMA; and let even
# what is short be mapped.
ENV = {'L5_RDMA_WAIT': '20000', 'L5_MAP_AFTER': '1'}
BIN = os.path.join(REPO, 'userspace', 'bin')


class Programs:
    """Commands under l5run, and what the counters say of them."""

    def __init__(self, t):
        self.t = t
        self.before = {m.name: m.stat() for m in (t.a, t.b)}
        # Where every user can read it: PostgreSQL refuses to be root.
        for m in (t.a, t.b):
            m.sh(f'mkdir -p /run/pair && cp {BIN}/l5run {BIN}/*.so* /run/pair')

    def start(self, m, argv, **kw):
        return Running(m, ['/run/pair/l5run', *argv], ENV, **kw)

    def run(self, m, argv, timeout=100 * SLOW, **kw):
        return self.start(m, argv, **kw).finish(timeout=timeout)

    def server(self, m, argv, port, **kw):
        p = self.start(m, argv, **kw)
        self.t.wait(lambda: m.do.shell(
            f'ss -Htln "sport = :{port}" | grep -q . || '
            f'awk \'$1 ~ /:/ && /listen/\' /proc/net/l5 | grep -q ":{port} "',
            timeout=20)['code'] == 0, f'{argv[0]} to listen')
        return p

    def moved(self, connections, payload):
        """At least so much went by RDMA, seen from both machines."""
        for m in (self.t.a, self.t.b):
            now, old = m.stat(), self.before[m.name]
            grown = {k: v - old.get(k, 0) for k, v in now.items()}
            self.t.note({k: v for k, v in grown.items() if v})
            self.t.check(grown.get('conn_rdma', 0) >= connections,
                         f'{m.name}: at least {connections} moved to RDMA',
                         grown)
            self.t.check(grown['bytes_tx'] + grown['bytes_rx'] >= payload,
                         f'{m.name}: at least {payload} bytes by rings',
                         grown)
            # rdma_broken may be a client that left before it had read all.
            self.t.check(grown['violations'] == 0,
                         f'{m.name}: nobody broke the rules', grown,
                         'a ring was wrong')


@case(150)
def redis(t):
    """redis-server on a; redis-cli and redis-benchmark on b."""
    p = Programs(t)
    port = t.port()
    server = p.server(t.a, [
        'redis-server', '--port', port, '--bind', t.a.address, '--save', '',
        '--protected-mode', 'no', '--dir', '/run/pair'], port)
    cli = ['redis-cli', '-h', t.a.address, '-p', port]
    for words, want in ((['SET', 'k', 'value'], 'OK'), (['GET', 'k'], 'value'),
                        (['INCRBY', 'n', '42'], '42'),
                        (['LPUSH', 'l', 'a', 'b', 'c'], '3')):
        r = p.run(t.b, cli + words)
        t.check(r.code == 0 and r.text.strip() == want, ' '.join(words), r)
    r = p.run(t.b, ['bash', '-c',
                    'head -c 1500000 /dev/urandom | base64 -w0 >/run/pair/v; '
                    f'redis-cli -h {t.a.address} -p {port} -x SET big '
                    '</run/pair/v && '
                    f'redis-cli -h {t.a.address} -p {port} --raw GET big | '
                    'head -c -1 | cmp - /run/pair/v && echo same'])
    t.check(r.code == 0 and 'same' in r.text, 'a value of 2 MB', r,
            '' if r.code else 'bytes differ')
    for name, args in (('50 clients', ['-c', 50, '-n', 2000]),
                       ('pipelined', ['-c', 20, '-n', 2000, '-P', 16]),
                       ('16 KiB', ['-c', 1, '-n', 200, '-d', 16384])):
        r = p.run(t.b, ['redis-benchmark', '-h', t.a.address, '-p', port,
                        '--csv', '-t', 'ping,set,get', *args])
        rows = list(csv.reader(io.StringIO('\n'.join(
            x for x in r.lines if x.startswith('"')))))
        t.check(r.code == 0 and len(rows) > 2 and
                all(float(x[1]) > 0 for x in rows[1:]),
                f'redis-benchmark, {name}', r)
    p.run(t.b, cli + ['SHUTDOWN', 'NOSAVE'])
    server.finish(WAIT)
    t.check(server.code == 0, 'the server ends', server)
    p.moved(60, 4 << 20)


@case(150)
def iperf3(t):
    """iperf3, all directions."""
    p = Programs(t)
    port = t.port()
    server = p.server(t.a, ['iperf3', '-s', '-p', port], port)
    size = 6 << 20
    forms = {'1 stream': [], '4 streams': ['-P', 4], 'reversed': ['-R'],
             'both ways': ['--bidir'], 'sendfile': ['-Z'],
             'small writes': ['-l', 1000], 'IPv6': ['-6']}
    for name, args in forms.items():
        host = t.a.address6 if '-6' in args else t.a.address
        r = p.run(t.b, ['iperf3', '-c', host, '-p', port, '-J', '-n', size,
                        *args])
        try:
            got = json.loads(r.text[r.text.index('{'):])
        except ValueError:
            got = {'error': 'no JSON'}
        end = got.get('end', {})
        # The direction that has counted to that ends the test.
        n = max(v.get('bytes', 0) for k, v in
                {'sum': {}, **end}.items() if k.startswith('sum'))
        t.check(r.code == 0 and not got.get('error') and n >= size, name,
                f'{n} of {size}, {got.get("error")}\n{r!r}')
    server.kill(2)
    server.finish()
    p.moved(2 * len(forms), len(forms) * size // 2)


@case(200)
def postgres(t):
    """PostgreSQL on a, psql and pgbench on b."""
    p = Programs(t)
    port = t.port()
    found = t.a.sh('ls -d /usr/lib/postgresql/*/bin | tail -n 1')['out']
    if not found:
        raise Failed('no PostgreSQL')
    bin_ = found.strip()
    t.a.sh('mkdir -p /run/pair/pg && chown postgres /run/pair/pg')
    r = Running(t.a, [f'{bin_}/initdb', '-D', '/run/pair/pg/data', '-N', '-A',
                      'trust', '-E', 'UTF8', '--locale=C.UTF-8'],
                user='postgres', cwd='/run/pair').finish(timeout=120 * SLOW)
    if r.code:
        raise Failed(repr(r))
    t.a.sh('echo "host all all all trust" >>/run/pair/pg/data/pg_hba.conf')
    server = p.server(t.a, [
        f'{bin_}/postgres', '-D', '/run/pair/pg/data', '-p', port, '-k',
        '/run/pair/pg', '-c', 'listen_addresses=10.5.0.1', '-c', 'fsync=off',
        '-c', 'autovacuum=off'], port, user='postgres', cwd='/run/pair')
    to = ['-h', t.a.address, '-p', port, '-U', 'postgres']
    psql = ['psql', '-X', '-A', '-t', *to, '-d', 'postgres', '-c']
    for _ in range(100):
        r = p.run(t.b, psql + ['select 1 + 1'])
        if r.code == 0:
            break
        time.sleep(0.5)
    t.check(r.code == 0 and r.text.strip() == '2', 'select', r)
    r = p.run(t.b, psql + ["select repeat('0123456789', 300000)"])
    t.check(r.code == 0 and r.text.strip() == '0123456789' * 300000,
            'a row of 3 MB', r.code, '' if r.code else 'bytes differ')
    bench = ['pgbench', *to]
    r = p.run(t.b, bench + ['-i', '-q', '-s', 1, 'postgres'])
    t.check(r.code == 0, 'pgbench -i', r)
    for name, args in (('mixed', ['-c', 4, '-j', 2, '-t', 15]),
                       ('select, prepared', ['-S', '-M', 'prepared', '-c', 4,
                                             '-j', 2, '-t', 40]),
                       ('a connection a transaction',
                        ['-S', '-C', '-c', 2, '-t', 8])):
        r = p.run(t.b, bench + ['-n', *args, 'postgres'])
        t.check(r.code == 0 and 'number of transactions actually' in r.text,
                f'pgbench, {name}', r)
    r = p.run(t.b, psql + ['select (select sum(abalance) from '
                           'pgbench_accounts) = (select sum(bbalance) from '
                           'pgbench_branches)'])
    t.check(r.text.strip() == 't', 'pgbench, the sums agree', r)
    server.kill(2)
    server.finish()
    t.check(server.code == 0, 'the server ends', server)
    p.moved(20, 4 << 20)
