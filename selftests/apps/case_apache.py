# SPDX-License-Identifier: GPL-2.0
"""
Apache with Debian's modules and defaults: event MPM, TCP_DEFER_ACCEPT. curl, ab.
"""
import os
import re
import signal

from harness import children, free_port, random_file, sha, wait_until

BIG = 1 << 20
REQUESTS, CLIENTS = 200, 4
CONFIG = '''
ServerRoot {dir}
ServerName localhost
DefaultRuntimeDir {dir}
PidFile {dir}/pid
User www-data
Group www-data
Timeout 300
KeepAlive On
MaxKeepAliveRequests 100
KeepAliveTimeout 5
ErrorLog {dir}/error.log
IncludeOptional /etc/apache2/mods-enabled/*.load
IncludeOptional /etc/apache2/mods-enabled/*.conf
Listen 127.0.0.1:{port}
DocumentRoot {dir}/www
<Directory {dir}/www>
	Require all granted
</Directory>
'''
CONNECTIONS = 12 + CLIENTS
PAYLOAD = BIG


def session(s):
    port = free_port()
    url = f'http://127.0.0.1:{port}'
    out = {}
    os.mkdir(s.path('www'), 0o755)
    with open(s.path('www', 'small'), 'w') as f:
        f.write('a small file\n')
    random_file(s.path('www', 'big'), BIG)
    with open(s.path('config'), 'w') as f:
        f.write(CONFIG.format(dir=s.dir, port=port))
    s.logs.append(s.path('error.log'))
    env = dict(os.environ, APACHE_RUN_DIR=s.dir, APACHE_PID_FILE='pid',
               APACHE_RUN_USER='www-data', APACHE_RUN_GROUP='www-data',
               APACHE_LOG_DIR=s.dir, APACHE_LOCK_DIR=s.dir)
    server = s.server(['/usr/sbin/apache2', '-f', s.path('config'),
                       '-DFOREGROUND'], port, env=env, name='apache2')

    def curl(*args):
        r = s.run(['curl', '-sS', *args])
        return r.code, r.out, r.err

    def ask():
        out['a small file'] = curl(f'{url}/small')
        code, data, err = curl(f'{url}/big')
        out['a big file'] = (code, len(data), sha(data), err)
        code, data, err = curl('-r', '1000-200000', f'{url}/big')
        out['a range'] = (code, len(data), sha(data), err)
        out['no such file'] = curl('-w', '%{http_code}', '-o', '/dev/null',
                                   f'{url}/none')
        out['POST'] = curl('-w', '%{http_code}', '-o', '/dev/null', '-d',
                           'x=1', f'{url}/small')
        out['keep-alive'] = curl('-w', '%{num_connects} %{http_code}\n', *(
            ['-o', '/dev/null', f'{url}/small'] * 10))

    def ab(name, *args):
        r = s.run(['ab', '-q', '-n', REQUESTS, '-c', CLIENTS, *args,
                   f'{url}/small'])
        # all but the times
        out[name] = (r.code, re.findall(
            r'^((?:Complete|Failed|Keep-Alive|Non-2xx|HTML).*)', r.text, re.M))
        s.check(r.code == 0 and
                re.search(r'^Failed requests: +0$', r.text, re.M), name, r)

    ask()
    s.check(out['a small file'][:2] == (0, b'a small file\n'),
            'a small file', out['a small file'])
    ab('ab -k', '-k')
    ab('ab')
    # New children, while the old ones still have requests to answer.
    old = children(server.pid)
    server.send_signal(signal.SIGUSR1)
    wait_until(lambda: children(server.pid) - old, 'new children')
    out['after a reload'] = curl(f'{url}/small')
    out['SIGTERM'] = s.stop(server)
    s.nobody('apache2')
    return out


def run(t):
    # The connection that wakes a child for a reload may carry nothing: then
    # the client's end stays undecided, which is TCP.
    t.compare(session, CONNECTIONS, PAYLOAD, base=None)
