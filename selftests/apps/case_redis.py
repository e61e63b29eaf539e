# SPDX-License-Identifier: GPL-2.0
"""redis-server, redis-cli, redis-benchmark."""
import csv
import io
import signal

from harness import Failed, free_port, random_file, sha, wait_until

CLIENTS = 50
REQUESTS = 1000
BIG = 1 << 20
# Every benchmark opens its clients anew.
CONNECTIONS = 2 * CLIENTS
PAYLOAD = 4 * BIG
TESTS = 'ping,set,get,incr,lpush,rpop,sadd,hset,mset'


def session(s):
    port = free_port()
    out = {}
    server = s.server(
        ['redis-server', '--port', port, '--bind', '127.0.0.1', '--save', '',
         '--dir', s.dir, '--enable-debug-command', 'yes',
         '--repl-diskless-sync-delay', '0'], port, name='redis-server')

    def cli(*args, **kw):
        r = s.run(['redis-cli', '-p', port, *args], **kw)
        return r.code, r.text, r.err.decode()

    def info(section, field):
        for line in cli('INFO', section)[1].splitlines():
            if line.startswith(field + ':'):
                return line.split(':', 1)[1]
        return None

    for command in ('PING', 'SET k value', 'GET k', 'GET none', 'INCR n',
                    'INCRBY n 41', 'LPUSH l a b c', 'LRANGE l 0 -1',
                    'HSET h f1 v1 f2 v2', 'HGETALL h', 'WRONG command',
                    'LPUSH k not-a-list', 'EXPIRE k 1000', 'DBSIZE',
                    'EVAL return{1,2,ARGV[1]} 0 x'):
        out[command] = cli(*command.split(' '))
    out['pipe with MULTI'] = cli(
        data=b'MULTI\nINCR a\nINCRBY a 9\nGET a\nEXEC\nMULTI\nSET a 0\n'
             b'DISCARD\nGET a\n')

    with open(random_file(s.path('big'), BIG), 'rb') as f:
        big = f.read()
    out['SET of 1 MiB'] = cli('-x', 'SET', 'big', data=big)
    r = s.run(['redis-cli', '-p', port, '--raw', 'GET', 'big'])
    out['GET of 1 MiB'] = (r.code, sha(r.out))
    s.check(r.out[:-1] == big, 'the big value comes back as it went',
            fatal='bytes differ')

    # 2000 commands in the protocol's own form in one stream.
    r = s.run(['redis-cli', '-p', port, '--pipe'], data=b''.join(
        b'*3\r\n$3\r\nSET\r\n$8\r\nkey%05d\r\n$5\r\n%05d\r\n' % (i, i)
        for i in range(2000)))
    out['mass insertion'] = (r.code, r.text)

    subscriber = s.spawn(['redis-cli', '-p', port, 'SUBSCRIBE', 'news'],
                         name='subscriber')
    wait_until(lambda: cli('PUBSUB', 'NUMSUB', 'news')[1] == 'news\n1\n',
               'the subscription')
    if s.l5:
        rows = s.rows(port)
        s.check([r for r in rows if r['state'] == 'listen'],
                'the listener is in /proc/net/l5', rows)
        s.check(len([r for r in rows if r['state'] == 'open' and
                     r['transport'] == 'shm']) >= 2,
                'both ends of the subscription are, on shm', rows)
    out['PUBLISH'] = cli('PUBLISH', 'news', 'hello')
    wait_until(lambda: s.log_has(subscriber, b'hello'), 'the message')
    out['CLIENT KILL'] = cli('CLIENT', 'KILL', 'TYPE', 'pubsub')
    # redis-cli notices, says so and tries again or ends: all that counts is
    # that the server has seen it go.
    subscriber.kill()
    s.wait(subscriber, 'the subscriber')
    wait_until(lambda: cli('PUBSUB', 'NUMSUB', 'news')[1] == 'news\n0\n',
               'the subscriber to be gone')
    with open(subscriber.log) as f:
        out['subscriber'] = f.read().split('\n')[:6]

    out['BGSAVE'] = cli('BGSAVE')
    wait_until(lambda: info('persistence', 'rdb_bgsave_in_progress') == '0',
               'the saving child')
    out['BGSAVE status'] = info('persistence', 'rdb_last_bgsave_status')

    # A replica: the master's forked child writes the snapshot into sockets
    # it has inherited.
    rport = free_port()
    replica = s.server(
        ['redis-server', '--port', rport, '--bind', '127.0.0.1', '--save', '',
         '--dir', s.dir, '--dbfilename', 'replica.rdb',
         '--enable-debug-command', 'yes',
         '--replicaof', '127.0.0.1', port], rport, name='replica')
    wait_until(lambda: 'master_link_status:up' in s.run(
        ['redis-cli', '-p', rport, 'INFO', 'replication']).text,
        'the replica to be in sync')
    # WAIT is about what its own connection has written.
    out['WAIT for the replica'] = cli(data=b'SET after sync\nWAIT 1 60000\n')
    ours = cli('DEBUG', 'DIGEST')
    theirs = s.run(['redis-cli', '-p', rport, 'DEBUG', 'DIGEST'])
    s.check(ours[1] == theirs.text and len(ours[1].strip()) == 40,
            'the replica has the same data', (ours, theirs), 'bytes differ')
    replica.send_signal(signal.SIGTERM)
    out['replica ends with'] = s.wait(replica, 'the replica')

    for name, args in (('benchmark', ['-c', CLIENTS]),
                       ('benchmark, pipelined', ['-c', CLIENTS, '-P', 16]),
                       ('benchmark, 1 client, 16 KiB',
                        ['-c', 1, '-d', 16384, '-t', 'set,get']),
                       ('benchmark, 2 threads',
                        ['-c', CLIENTS, '--threads', 2, '-t', 'set,get'])):
        tests = [] if '-t' in args else ['-t', TESTS]
        r = s.run(['redis-benchmark', '-p', port, '-n', REQUESTS, '--csv',
                   *args, *tests], timeout=300)
        rows = list(csv.reader(io.StringIO(r.text)))
        out[name] = (r.code, [row[0] for row in rows], r.err)
        s.check(len(rows) > 2 and all(float(row[1]) > 0 for row in rows[1:]),
                f'{name}: every test has a rate', r)
    out['INCRs counted'] = cli('GET', 'counter:__rand_int__')

    out['SHUTDOWN'] = cli('SHUTDOWN', 'NOSAVE')[0]
    out['server ends with'] = s.wait(server, 'redis-server')
    return out
