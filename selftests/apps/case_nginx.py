# SPDX-License-Identifier: GPL-2.0
"""nginx as a daemon with workers, reloaded and upgraded; curl and wrk."""
import os
import re
import shutil
import signal

from harness import (children, free_port, listening, random_file, sha,
                     sha_file, wait_until)

BIG = 8 << 20
WORKERS = 2
CONNECTIONS = 30
PAYLOAD = 3 * BIG
CONF = '''
daemon on;
user www-data;
worker_processes {workers};
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ worker_connections 512; }}
http {{
	sendfile on;
	tcp_nopush on;
	access_log off;
	client_body_temp_path {dir}/body;
	proxy_temp_path {dir}/proxy;
	fastcgi_temp_path {dir}/fastcgi;
	uwsgi_temp_path {dir}/uwsgi;
	scgi_temp_path {dir}/scgi;
	default_type application/octet-stream;
	server {{
		listen [::1]:{port};
		listen 127.0.0.1:{port}{options};
		root {dir}/www;
		location /proxy/ {{
			proxy_pass http://127.0.0.1:{port}/;
		}}
	}}
}}
'''


def start(s, port, options=''):
    """A daemon with small, big and empty files. Its output is its logs."""
    os.mkdir(s.path('www'), 0o755)
    with open(s.path('www', 'small'), 'w') as f:
        f.write('a small file\n')
    open(s.path('www', 'empty'), 'w').close()
    random_file(s.path('www', 'big'), BIG)
    with open(s.path('nginx.conf'), 'w') as f:
        f.write(CONF.format(dir=s.dir, port=port, options=options,
                            workers=WORKERS))
    s.logs += [s.path('error.log')]
    # Its own path, since an upgrade executes argv[0].
    s.must([shutil.which('nginx'), '-p', s.dir, '-c', s.path('nginx.conf')])
    wait_until(lambda: listening(port), 'nginx to listen')
    return pid_of(s)


def pid_of(s, name='nginx.pid'):
    try:
        with open(s.path(name)) as f:
            return int(f.read())
    except (FileNotFoundError, ValueError):
        return None


def gone(pid):
    """Reap the daemon: it is our child now."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not os.path.exists(f'/proc/{pid}')


def workers(pid):
    """All workers, once they are their full number."""
    now = children(pid)
    return now if len(now) == WORKERS else None


def reload(s, pid):
    old = children(pid)     # and those still busy since the last reload
    os.kill(pid, signal.SIGHUP)

    def changed():
        now = children(pid)
        return len(now - old) >= WORKERS
    wait_until(changed, 'new workers')
    return old


def session(s):
    port = free_port()
    url = f'http://127.0.0.1:{port}'
    out = {}
    pid = start(s, port)
    wait_until(lambda: workers(pid), 'the workers')

    def curl(*args):
        r = s.run(['curl', '-sS', *args], timeout=300)
        return r.code, r.out, r.err

    def headers(text):
        # without the date
        return [line for line in text.decode().split('\r\n')
                if not re.match('Date|Last-Modified|ETag', line)]

    out['small file'] = curl(f'{url}/small')
    out['empty file'] = curl(f'{url}/empty')
    out['IPv6'] = curl(f'http://[::1]:{port}/small')
    out['no such file'] = curl('-w', '%{http_code}', '-o', '/dev/null',
                               f'{url}/none')
    code, text, err = curl('-I', f'{url}/big')
    out['HEAD'] = (code, headers(text), err)
    out['POST'] = curl('-w', '%{http_code}', '-o', '/dev/null', '-d', 'x=1',
                       f'{url}/small')
    code, data, err = curl('-r', '100000-2000000', f'{url}/big')
    out['range'] = (code, len(data), sha(data), err)
    want = sha_file(s.path('www', 'big'))
    for name in ('big', 'proxy/big'):
        code, data, err = curl(f'{url}/{name}')
        out[name] = (code, len(data), err)
        s.check(sha(data) == want, f'{name} arrives with the right checksum',
                fatal='bytes differ')
    out['keep-alive: connections, status'] = curl(
        '-w', '%{num_connects} %{http_code}\n', *(
            ['-o', '/dev/null', f'{url}/small'] * 10))
    out['no keep-alive'] = curl(
        '-H', 'Connection: close', '-w', '%{num_connects} %{http_code}\n', *(
            ['-o', '/dev/null', f'{url}/small'] * 5))
    out['in parallel'] = curl(
        '-Z', '--no-progress-meter', '--parallel-max', '8', '-w', '%{http_code}\n', *(
            ['-o', '/dev/null', f'{url}/big'] * 4))

    def wrk(path, *args):
        # With "-s" left out wrk says on stdout all that went wrong.
        return s.spawn(['wrk', '-t', 2, '-c', 8, '--timeout', '60s', *args,
                        f'{url}/{path}'], name='wrk')

    def wrk_report(p, name, reads=0):
        code = s.wait(p, 'wrk')
        with open(p.log) as f:
            text = f.read()
        done = re.search(r'(\d+) requests in', text)
        bad = re.search(r'Socket errors: connect (\d+), read (\d+), '
                        r'write (\d+), timeout (\d+)', text)
        bad = [int(n) for n in bad.groups()] if bad else [0] * 4
        # A connection that is being closed as it is idle may get one more
        # request: an error of a reload on TCP too. More than one error for a
        # connection is not.
        good = (code == 0 and done and int(done[1]) > 0 and
                'Non-2xx' not in text and bad[0] == bad[3] == 0 and
                bad[1] + bad[2] <= reads)
        s.check(good, name, text)

    for path in ('small', 'big'):
        s.wrk(f'{url}/{path}', f'wrk: {path} file, no errors', '-c', 8)

    p = wrk('small', '-d', '6s')
    answers = []
    old = set()
    for _ in range(2):
        old |= reload(s, pid)
        answers += [curl(f'{url}/small') for _ in range(3)]
    out['new connections while reloading'] = answers
    wrk_report(p, 'wrk: two reloads meanwhile', reads=2 * 8)
    wait_until(lambda: not old & children(pid), 'the old workers to end')
    out['master after reload'] = pid_of(s) == pid

    # The new binary inherits the listening sockets through exec, and with an
    # environment in which nothing is preloaded.
    os.kill(pid, signal.SIGUSR2)
    wait_until(lambda: pid_of(s) not in (None, pid), 'the new binary')
    new = pid_of(s)
    os.kill(pid, signal.SIGQUIT)
    wait_until(lambda: gone(pid), 'the old master to end')
    wait_until(lambda: workers(new), 'the new workers')
    out['after the upgrade'] = curl(f'{url}/small')

    with open(s.path('error.log')) as f:
        bad = [line for line in f
               if re.search(r'\[(error|crit|alert|emerg)\]', line) and
               'No such file' not in line]
    s.check(not bad, 'no error in the log', ''.join(bad))
    os.kill(new, signal.SIGQUIT)
    wait_until(lambda: gone(new), 'nginx to end')
    return out


def reuseport(s):
    """Each worker has a listener of its own, on the same port."""
    port = free_port()
    pid = start(s, port, ' reuseport')
    url = f'http://127.0.0.1:{port}/small'
    answers = [s.run(['curl', '-sS', url]) for _ in range(20)]
    os.kill(pid, signal.SIGQUIT)
    wait_until(lambda: gone(pid), 'nginx to end')
    return {'a listener a worker': [(r.code, r.out, r.err) for r in answers]}


def run(t):
    t.compare(session, CONNECTIONS, PAYLOAD)
    t.compare(reuseport, 20, 20 * 200)
