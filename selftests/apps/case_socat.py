# SPDX-License-Identifier: GPL-2.0
"""
socat with bare numbers: families, protocols and addresses that it does not
know, nor turns into anything else on their way to the kernel.
"""
import socket
import struct

from harness import (free_port, listening, random_file, sha, sha_file,
                     wait_until)

BIG = 8 << 20
ECHO = 1 << 20
CONNECTIONS = 9
PAYLOAD = 3 * (BIG + 2 * ECHO)


def addresses(s):
    """name: (family, protocol, sockaddr without its family, port or path)"""
    four, six, path = free_port(), free_port(), s.path('sock')
    return {
        'IPv4': (socket.AF_INET, 0,
                 struct.pack('!H4s8x', four,
                             socket.inet_pton(socket.AF_INET, '127.0.0.1')),
                 four),
        'IPv6': (socket.AF_INET6, 0,
                 struct.pack('!HI16sI', six, 0,
                             socket.inet_pton(socket.AF_INET6, '::1'), 0),
                 six),
        'unix': (socket.AF_UNIX, 0,
                 path.encode() + b'\0', path),
    }


def is_up(where):
    if isinstance(where, int):
        return listening(where)
    with open('/proc/net/unix') as f:
        return any(line.split()[-1] == where and line.split()[3] == '00010000'
                   for line in f)


def session(s):
    out = {}
    big = random_file(s.path('big'), BIG)
    if s.prefix:
        s.prefix = s.prefix + ['--unix']
    for name, (af, proto, raw, where) in addresses(s).items():
        at = f'{af}:{proto}:x{raw.hex()}'

        def socat(*args, **kw):
            # 60 s, not half a one, for the other direction to end.
            return s.run(['socat', '-b', 65536, '-t', 60, *args], **kw)

        # On TCP and by a shell's words this says "refused" and ends with 1.
        if name != 'unix':
            r = socat('-u', 'OPEN:/dev/null', f'SOCKET-CONNECT:{at}')
            out[f'{name}: nobody listens'] = (r.code,
                                              b'Connection refused' in r.err)

        p = s.spawn(['socat', '-t', 60,
                     f'SOCKET-LISTEN:{at},reuseaddr,fork', 'EXEC:cat'],
                     name=f'echo-{name}')
        wait_until(lambda: is_up(where), 'socat to listen')
        r = socat('-', f'SOCKET-CONNECT:{at}', data=b'one line\n')
        out[f'{name}: echo'] = (r.code, r.out, r.err)
        # Only the end of our direction makes cat end, and with it the other.
        with open(big, 'rb') as f:
            data = f.read(ECHO)
        r = socat('-', f'SOCKET-CONNECT:{at}', data=data)
        out[f'{name}: echo of 1 MiB after half-close'] = (r.code, r.err)
        s.check(sha(r.out) == sha(data), f'{name}: the echo is exact',
                f'{len(r.out)} bytes', 'bytes differ')
        p.terminate()
        s.wait(p, 'socat')
        if name == 'unix':
            s.run(['rm', '-f', where])

        got = s.path(f'got-{name}')
        p = s.spawn(['socat', '-u', f'SOCKET-LISTEN:{at},reuseaddr',
                     f'CREATE:{got}'], name=f'sink-{name}')
        wait_until(lambda: is_up(where), 'socat to listen')
        r = socat('-u', f'OPEN:{big}', f'SOCKET-CONNECT:{at}')
        out[f'{name}: a file'] = (r.code, r.err, s.wait(p, 'socat'))
        s.check(sha_file(got) == sha_file(big),
                f'{name}: the file is exact', fatal='bytes differ')
    return out
