# SPDX-License-Identifier: GPL-2.0
"""MariaDB: a thread a connection, its client, mysqlslap."""
import os
import re
import shutil
import tempfile

from harness import free_port, sha, wait_until

USER = 'mysql'
ROWS = 2000
CONNECTIONS = 20
PAYLOAD = 3 << 20


def own(path):
    for where, _, names in os.walk(path):
        for name in [where] + [os.path.join(where, n) for n in names]:
            shutil.chown(name, USER, USER)


def session(s, template):
    port = free_port()
    out = {}
    data = s.path('data')
    shutil.copytree(template, data)
    own(data)
    shutil.chown(s.dir, USER, USER)
    server = s.server(
        ['/usr/sbin/mariadbd', '--no-defaults', f'--datadir={data}',
         f'--port={port}', f'--socket={s.path("socket")}',
         '--bind-address=127.0.0.1', '--innodb-flush-log-at-trx-commit=0',
         '--innodb-buffer-pool-size=32M', '--skip-name-resolve'],
        port, user=USER, name='mariadbd')
    where = ['--no-defaults', '--protocol=tcp', '-h', '127.0.0.1', '-P',
             str(port), '-u', 'root']

    def sql(text, **kw):
        r = s.run(['mariadb', *where, '-B', '-N', '-e', text], **kw)
        return r.code, r.text, r.err.decode()

    wait_until(lambda: sql('select 1')[0] == 0, 'MariaDB to answer')
    for text in ('select 1 + 1', 'select no_such_column', 'select 1/0',
                 'create database d', 'show databases',
                 'select repeat("x", 100000)',
                 'create table d.t (i int primary key, s varchar(200))'):
        out[text] = sql(text)
    r = s.run(['mariadb', *where, '-B', '-N', '--max-allowed-packet=64M',
               '-e', 'select repeat("0123456789", 300000)'])
    out['a row of 3 MB'] = (r.code, len(r.out), sha(r.out), r.err)
    rows = ', '.join(f'({i}, "{"%032x" % (i * 0x9e3779b97f4a7c15)}")'
                     for i in range(ROWS))
    r = s.run(['mariadb', *where, 'd'],
              data=f'insert into t values {rows};\n'.encode())
    out['insert'] = (r.code, r.text, r.err)
    out['sum'] = sql('select count(*), sum(i), md5(group_concat(s order by i '
                     'limit 20)) from d.t')
    code, text, err = sql('select * from d.t order by i')
    out['all rows'] = (code, len(text), sha(text.encode()), err)
    s.check(text.count('\n') == ROWS, 'all rows', text[-1000:])
    out['a transaction'] = sql(
        'use d; begin; delete from t; select count(*) from t; rollback; '
        'select count(*) from t')
    r = s.run(['mysqlslap', *where, '--concurrency=4', '--iterations=2',
               '--number-of-queries=200', '--auto-generate-sql',
               '--auto-generate-sql-load-type=mixed'])
    # all but the times
    out['mysqlslap'] = (r.code, re.findall(
        r'(Number of clients.*|Average number of queries.*)', r.text), r.err)
    s.check(r.code == 0, 'mysqlslap', r)
    out['threads left'] = sql('select count(*) from information_schema.'
                              'processlist where user = "root"')
    out['SIGTERM'] = s.stop(server)
    s.nobody('MariaDB')
    return out


def run(t):
    scratch = tempfile.mkdtemp(prefix='l5apps-mariadb.')
    try:
        os.chmod(scratch, 0o755)
        template = os.path.join(scratch, 'data')

        def install(s):
            return s.must(
                ['mariadb-install-db', '--no-defaults', '--skip-test-db',
                 '--auth-root-authentication-method=normal',
                 f'--datadir={template}'], timeout=300).code
        code, _ = t.attempt('tcp', install)
        if code == 0:
            t.compare(lambda s: session(s, template), CONNECTIONS, PAYLOAD)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
