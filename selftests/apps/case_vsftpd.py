# SPDX-License-Identifier: GPL-2.0
"""vsftpd with its filter of system calls, which is on by default; curl."""
import os
import shutil

from harness import free_port, random_file, sha, sha_file

BIG = 1 << 20
CONFIG = '''
listen=YES
listen_address=127.0.0.1
listen_port={port}
background=NO
anonymous_enable=YES
no_anon_password=YES
local_enable=NO
write_enable=YES
anon_upload_enable=YES
anon_umask=022
anon_root={dir}/ftp
secure_chroot_dir={dir}/empty
vsftpd_log_file={dir}/log
'''
# For each file a control and a data connection, and a last without data.
CONNECTIONS = 9
PAYLOAD = 3 * BIG


def session(s):
    port = free_port()
    url = f'ftp://127.0.0.1:{port}'
    out = {}
    for name in ('empty', 'ftp', 'ftp/in'):
        os.mkdir(s.path(name), 0o755)
    shutil.chown(s.path('ftp/in'), 'ftp', 'nogroup')
    big = random_file(s.path('ftp/big'), BIG)
    with open(s.path('ftp/small'), 'w') as f:
        f.write('a small file\n')
    with open(s.path('config'), 'w') as f:
        f.write(CONFIG.format(port=port, dir=s.dir))
    server = s.server(['/usr/sbin/vsftpd', s.path('config')], port,
                      name='vsftpd')

    def curl(*args):
        r = s.run(['curl', '-sS', '--disable-epsv', *args])
        return r.code, r.out, r.err

    out['a small file'] = curl(f'{url}/small')
    code, data, err = curl(f'{url}/big')
    out['get'] = (code, len(data), sha(data), err)
    out['put'] = curl('-T', big, f'{url}/in/new')
    s.check(os.path.exists(s.path('ftp/in/new')) and
            sha_file(s.path('ftp/in/new')) == sha_file(big),
            'what was put is there', out['put'])
    code, data, err = curl(f'{url}/in/new')
    out['get what was put'] = (code, len(data), sha(data), err)
    out['no such file'] = curl(f'{url}/none')
    for what in ('a small file', 'get', 'put', 'get what was put'):
        s.check(out[what][0] == 0, what, out[what])
    out['SIGTERM'] = s.stop(server)
    s.nobody('vsftpd')
    return out
