# SPDX-License-Identifier: GPL-2.0
"""
nginx as a reverse proxy in front of nginx: kept connections behind, files both
ways, buffered and not, an upstream that goes away, a proxy of bytes.
"""
import os
import re
import shutil
import signal

from case_nginx import gone
from harness import free_port, random_file, sha, sha_file, wait_until, listening

BIG = 3 << 20
CONNECTIONS = 60
PAYLOAD = 10 * BIG
COMMON = '''
daemon on;
user www-data;
worker_processes 2;
pid {dir}/{name}.pid;
error_log {dir}/{name}.log;
events {{ worker_connections 512; {events} }}
http {{
	access_log off;
	sendfile on;
	tcp_nopush on;
	default_type application/octet-stream;
	client_max_body_size 0;
	client_body_temp_path {dir}/{name}-body;
	proxy_temp_path {dir}/{name}-proxy;
	fastcgi_temp_path {dir}/{name}-fastcgi;
	uwsgi_temp_path {dir}/{name}-uwsgi;
	scgi_temp_path {dir}/{name}-scgi;
	{http}
}}
'''
BACK = '''
	keepalive_requests 100000;
	server {{
		listen 127.0.0.1:{back};
		root {dir}/www;
		location /put/ {{
			dav_methods PUT DELETE;
		}}
	}}
'''
FRONT = '''
	upstream back {{
		server 127.0.0.1:{back};
		keepalive 8;
		keepalive_requests 100000;
	}}
	upstream gone {{
		server 127.0.0.1:{none} max_fails=0;
		server 127.0.0.1:{back} backup;
		keepalive 4;
	}}
	proxy_http_version 1.1;
	proxy_set_header Connection "";
	proxy_next_upstream error timeout;
	server {{
		listen 127.0.0.1:{front};
		location / {{
			proxy_pass http://back;
		}}
		location /raw/ {{
			proxy_pass http://back/;
			proxy_buffering off;
			proxy_request_buffering off;
		}}
		location /close/ {{
			proxy_pass http://127.0.0.1:{back}/;
			proxy_set_header Connection close;
		}}
		location /backup/ {{
			proxy_pass http://gone/;
		}}
		location /twice/ {{
			proxy_pass http://127.0.0.1:{front}/;
		}}
	}}
'''


def nginx(s, name, ports, http, events=''):
    conf = s.path(f'{name}.conf')
    with open(conf, 'w') as f:
        f.write(COMMON.format(dir=s.dir, name=name, events=events,
                              http=http.format(dir=s.dir, **ports)))
    s.logs.append(s.path(f'{name}.log'))
    s.must([shutil.which('nginx'), '-p', s.dir, '-c', conf])
    wait_until(lambda: listening(ports[name]), f'{name} to listen')
    with open(s.path(f'{name}.pid')) as f:
        return int(f.read())


def session(s):
    out = {}
    ports = dict(back=free_port(), front=free_port(), none=free_port())
    os.mkdir(s.path('www'), 0o755)
    os.mkdir(s.path('www', 'put'))
    os.chmod(s.path('www', 'put'), 0o777)
    with open(s.path('www', 'small'), 'w') as f:
        f.write('a small file\n')
    big = random_file(s.path('www', 'big'), BIG)
    want = sha_file(big)
    back = nginx(s, 'back', ports, BACK)
    front = nginx(s, 'front', ports, FRONT)
    url = f'http://127.0.0.1:{ports["front"]}'

    def curl(*args):
        r = s.run(['curl', '-sS', *args], timeout=300)
        return r.code, r.out, r.err

    for where in ('', 'raw/', 'close/', 'backup/', 'twice/'):
        out[f'/{where}small'] = curl(f'{url}/{where}small')
        out[f'/{where}none'] = curl('-o', '/dev/null', '-w', '%{http_code}',
                                    f'{url}/{where}none')
        code, data, err = curl(f'{url}/{where}big')
        out[f'/{where}big'] = (code, len(data), err)
        s.check(sha(data) == want,
                f'/{where}big arrives with the right checksum', fatal='bytes differ')
    out['kept'] = curl('-w', '%{num_connects} %{http_code}\n', *(
        ['-o', '/dev/null', f'{url}/small'] * 20))
    out['range'] = [sha(d) if isinstance(d, bytes) and d else d for d in
                    curl('-r', '5000-2000000', f'{url}/raw/big')]
    out['in parallel'] = curl(
        '-Z', '--no-progress-meter', '--parallel-max', '4', '-w',
        '%{http_code}\n', *(['-o', '/dev/null', f'{url}/raw/big'] * 4))
    # Bodies the other way, kept in a file by the proxy or passed on at once.
    for where in ('put/', 'raw/put/', 'twice/put/'):
        out[f'PUT /{where}'] = curl('-T', big, '-w', '%{http_code}',
                                    f'{url}/{where}file')
        s.check(sha_file(s.path('www', 'put', 'file')) == want,
                f'PUT /{where} stores the right file', fatal='bytes differ')
        out[f'DELETE /{where}'] = curl('-X', 'DELETE', '-w', '%{http_code}',
                                       f'{url}/{where}file')
    out['too slow a reader'] = curl('--limit-rate', '3M', '-o', '/dev/null',
                                    '-w', '%{http_code} %{size_download}',
                                    f'{url}/raw/big')
    # A client that goes away half-way takes its upstream with it.
    for _ in range(3):
        curl('-o', '/dev/null', '--max-filesize', '100', f'{url}/raw/big')
        curl('-o', '/dev/null', '-m', '0.02', f'{url}/raw/big')
    out['afterwards'] = curl(f'{url}/raw/small')

    for path, conns in (('small', 32), ('raw/small', 32), ('twice/small', 16),
                        ('raw/big', 4)):
        s.wrk(f'{url}/{path}', f'wrk of {path}: no errors', '-c', conns)

    # The upstream stops: 502, and 200 again once it is back.
    os.kill(back, signal.SIGQUIT)
    wait_until(lambda: gone(back), 'the upstream to end')
    out['no upstream'] = curl('-o', '/dev/null', '-w', '%{http_code}',
                              f'{url}/small')
    back = nginx(s, 'back', ports, BACK)
    out['upstream again'] = curl(f'{url}/small')
    for pid in (front, back):
        os.kill(pid, signal.SIGQUIT)
        wait_until(lambda: gone(pid), 'nginx to end')
    with open(s.path('front.log')) as f:
        # Refused connections and clients that went away are meant.
        bad = [line for line in f
               if re.search(r'\[(crit|alert|emerg)\]', line) or
               ('[error]' in line and 'refused' not in line)]
    s.check(not bad, 'no other error in the log', ''.join(bad))
    return out


def run(t):
    t.compare(session, CONNECTIONS, PAYLOAD)
