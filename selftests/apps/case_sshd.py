# SPDX-License-Identifier: GPL-2.0
"""
OpenSSH with the sandbox it comes with: commands, scp, sftp, forwarded ports.
"""
import os

from harness import free_port, random_file, sha, sha_file

BIG = 1 << 20
CONFIG = '''
Port {port}
ListenAddress 127.0.0.1
HostKey {dir}/host
AuthorizedKeysFile {dir}/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
Subsystem sftp /usr/lib/openssh/sftp-server
'''
# A connection to ask, one refused, scp, sftp, one that forwards, its client,
# and what it connects to.
CONNECTIONS = 7
PAYLOAD = 5 * BIG


def session(s):
    port, inner, forward = free_port(), free_port(), free_port()
    out = {}
    for name in ('host', 'user', 'stranger'):
        s.must(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f',
                s.path(name)], plain=True)
    with open(s.path('config'), 'w') as f:
        f.write(CONFIG.format(port=port, dir=s.dir))
    os.makedirs('/run/sshd', 0o755, exist_ok=True)
    server = s.server(['/usr/sbin/sshd', '-D', '-e', '-f', s.path('config')],
                      port, name='sshd')
    options = ['-F', 'none', '-o', 'StrictHostKeyChecking=no', '-o',
               f'UserKnownHostsFile={s.path("known")}', '-o',
               'LogLevel=ERROR', '-o', 'IdentitiesOnly=yes', '-o',
               'BatchMode=yes',
               # an emulated machine takes seconds for the default
               '-o', 'KexAlgorithms=curve25519-sha256']
    mine = options + ['-i', s.path('user')]
    where = 'root@127.0.0.1'
    big = random_file(s.path('big'), BIG)
    with open(big, 'rb') as f:
        data = f.read()

    r = s.run(['ssh', *mine, '-p', port, where, 'echo begin; cat; exit 7'],
              data=data[:50000])
    out['a command'] = (r.code, r.out[:6], sha(r.out), r.err)
    s.check(r.code == 7 and r.out == b'begin\n' + data[:50000],
            'a command', r.err)
    r = s.run(['ssh', *options, '-i', s.path('stranger'), '-p', port, where,
               'true'])
    out['a stranger'] = (r.code, r.text)
    s.check(r.code == 255, 'a stranger', r)

    r = s.run(['scp', '-q', *mine, '-P', port, big, f'{where}:{s.path("up")}'])
    out['scp'] = (r.code, r.err)
    s.check(r.code == 0 and sha_file(s.path('up')) == sha(data), 'scp', r)
    r = s.run(['sftp', '-q', *mine, '-P', port, '-b', '-', where], data=(
        f'put {big} {s.path("put")}\nget {s.path("put")} {s.path("got")}\n'
        f'rm {s.path("put")}\n').encode())
    out['sftp'] = (r.code, r.err)
    s.check(r.code == 0 and sha_file(s.path('got')) == sha(data) and
            not os.path.exists(s.path('put')), 'sftp', r)

    # The program behind the server sends back what it gets.
    p = s.server(['socat', f'TCP-LISTEN:{inner},bind=127.0.0.1,reuseaddr,fork',
                  'EXEC:cat'], inner, name='inner')
    tunnel = s.server(['ssh', *mine, '-p', port, '-N', '-L',
                       f'127.0.0.1:{forward}:127.0.0.1:{inner}', where],
                      forward, name='ssh -L')
    r = s.run(['socat', '-t', 60, '-', f'TCP:127.0.0.1:{forward}'], data=data)
    out['ssh -L'] = (r.code, sha(r.out), r.err)
    s.check(r.out == data, 'ssh -L', r.err)
    out['the tunnel ends with'] = s.stop(tunnel)
    s.stop(p)
    out['SIGTERM'] = s.stop(server)
    s.nobody('sshd')
    return out
