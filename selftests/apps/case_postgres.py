# SPDX-License-Identifier: GPL-2.0
"""PostgreSQL: a process a connection, pgbench, psql, cancel, COPY."""
import glob
import os
import re
import shutil
import signal
import tempfile

from harness import Failed, free_port, sha_file, wait_until

USER = 'postgres'
ROWS = 20000
CONNECTIONS = 20
PAYLOAD = 4 << 20


def program(name):
    found = glob.glob(f'/usr/lib/postgresql/*/bin/{name}')
    if not found:
        raise Failed(f'no {name}')
    return max(found, key=lambda p: int(p.split('/')[4]))


def session(s, template):
    port = free_port()
    out = {}
    data = s.path('data')
    shutil.copytree(template, data)
    for where, _, names in os.walk(data):
        for name in [where] + [os.path.join(where, n) for n in names]:
            shutil.chown(name, USER, USER)
    os.chmod(data, 0o700)
    shutil.chown(s.dir, USER, USER)

    # The server takes AF_UNIX too; the clients only where it is asked for.
    with_unix = s.prefix + ['--unix'] if s.prefix else []
    tcp_only = s.prefix
    s.prefix = with_unix
    server = s.server(
        [program('postgres'), '-D', data, '-p', port, '-k', s.dir,
         '-c', 'listen_addresses=127.0.0.1', '-c', 'fsync=off',
         '-c', 'autovacuum=off', '-c', 'log_min_messages=warning'],
        port, user=USER, name='postgres')
    s.prefix = tcp_only

    env = dict(os.environ, PGHOST='127.0.0.1', PGPORT=str(port), PGUSER=USER,
               PGDATABASE='postgres', PGCONNECT_TIMEOUT='60')
    psql = ['psql', '-X', '-A', '-t', '-v', 'VERBOSITY=terse']

    def sql(text, host=None, **kw):
        e = dict(env, PGHOST=host) if host else env
        r = s.run(psql + ['-c', text], user=USER, env=e, **kw)
        return r.code, r.text, r.err.decode()

    wait_until(lambda: sql('select 1')[0] == 0, 'PostgreSQL to answer')

    def several(name, host=None):
        for text in ('select 1 + 1', 'select repeat(md5($$x$$), 3)',
                     'select no_such_column', 'select 1/0',
                     'select inet_server_addr() is null',
                     'select generate_series(1, 500)',
                     'select length(repeat($$y$$, 3000000))'):
            out[f'{name}: {text}'] = sql(text, host)

    several('psql')
    r = s.run(psql + ['-c', 'select repeat($$0123456789$$, 300000)'],
              user=USER, env=env)
    out['a row of 3 MB'] = (r.code, len(r.out))
    s.check(r.out == b'0123456789' * 300000 + b'\n', 'the row is right',
            fatal='bytes differ')

    # What a client can copy out must be what went in.
    rows = s.path('rows')
    with open(rows, 'w') as f:
        for i in range(ROWS):
            f.write(f'{i}\t{"%032x" % (i * 0x9e3779b97f4a7c15)}'
                    f'\t{"z" * (i % 200)}\n')
    sql('create table big (i int primary key, t text, z text)')
    for name, host in (('', None), (', AF_UNIX', s.dir)):
        s.prefix = with_unix if host else tcp_only
        back = s.path('back')
        out[f'COPY in{name}'] = sql(
            f'truncate big', host), sql(f"\\copy big from '{rows}'", host)
        out[f'COPY out{name}'] = sql(
            f"\\copy (select * from big order by i) to '{back}'", host)
        s.check(os.path.exists(back) and sha_file(back) == sha_file(rows),
                f'COPY{name}: the same rows come back', fatal='bytes differ')
        os.unlink(back)
    several('AF_UNIX', s.dir)
    s.prefix = tcp_only

    r = s.run(['pgbench', '-i', '-q', '-s', 1], user=USER, env=env,
              timeout=300)
    out['pgbench -i'] = r.code
    s.check(r.code == 0, 'pgbench -i', r)
    for name, args in (('mixed', ['-c', 4, '-j', 2, '-t', 20]),
                       ('select, prepared',
                        ['-S', '-M', 'prepared', '-c', 4, '-j', 2, '-t', 50]),
                       ('a connection a transaction',
                        ['-S', '-C', '-c', 2, '-t', 10])):
        r = s.run(['pgbench', '-n', *args], user=USER, env=env, timeout=300)
        said = re.findall('^number of (?:transactions|failed).*$', r.text,
                          re.M)
        out[f'pgbench {name}'] = (r.code, said)
        s.check(r.code == 0 and said, f'pgbench {name}', r)
    out['pgbench sums agree'] = sql(
        'select (select sum(abalance) from pgbench_accounts) ='
        ' (select sum(bbalance) from pgbench_branches), '
        '(select sum(delta) from pgbench_history) ='
        ' (select sum(tbalance) from pgbench_tellers), '
        '(select count(*) from pgbench_history)')

    def sleeper():
        p = s.spawn(psql + ['-c', 'select pg_sleep(1000)'], user=USER,
                    env=env, name='sleeper')
        pid = wait_until(lambda: sql(
            "select pid from pg_stat_activity where state = 'active' and "
            "query like 'select pg_sleep%'")[1].strip(), 'the query to run')
        return p, pid

    def said(p):
        with open(p.log) as f:
            return s.wait(p, 'psql'), f.read()

    # Ctrl-C makes psql open a second connection that asks to cancel.
    p, _ = sleeper()
    p.send_signal(signal.SIGINT)
    out['Ctrl-C'] = said(p)
    p, pid = sleeper()
    out['pg_cancel_backend'] = sql(f'select pg_cancel_backend({pid})'), said(p)
    p, pid = sleeper()
    out['pg_terminate_backend'] = (
        sql(f'select pg_terminate_backend({pid})'), said(p))

    # A client that is killed: its server process notices and goes.
    p, pid = sleeper()
    p.kill()
    s.wait(p, 'psql')
    sql(f'select pg_cancel_backend({pid})')
    wait_until(lambda: sql(f'select count(*) from pg_stat_activity where pid ='
                           f' {pid}')[1].strip() == '0',
               'the killed client\'s server process to end')
    out['server ends with'] = s.stop(server, signal.SIGINT)
    return out


def run(t):
    scratch = tempfile.mkdtemp(prefix='l5apps-initdb.')
    try:
        shutil.chown(scratch, USER, USER)
        template = os.path.join(scratch, 'data')

        def initdb(s):
            return s.must([program('initdb'), '-D', template, '-N', '-A',
                           'trust', '-E', 'UTF8', '--locale=C.UTF-8'],
                          user=USER, timeout=300).code
        code, _ = t.attempt('tcp', initdb)
        if code == 0:
            t.compare(lambda s: session(s, template), CONNECTIONS, PAYLOAD)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
