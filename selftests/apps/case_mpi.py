# SPDX-License-Identifier: GPL-2.0
"""Open MPI by TCP: two processes and mpirun, which talks to both."""
import os

from harness import HERE

PROGRAM = os.path.join(HERE, 'build', 'mpi_pingpong')
# Between the two there are one or two, as they happen to connect.
CONNECTIONS = 1
PAYLOAD = 2 * 20 << 20


def session(s):
    # A user without password, as mpirun wants no root.
    os.chmod(s.dir, 0o777)
    r = s.run(['mpirun', '--oversubscribe', '-np', 2, '--mca', 'plm',
               'isolated', '--mca', 'pml', 'ob1', '--mca', 'btl', 'tcp,self',
               '--mca', 'btl_tcp_if_include', 'lo', '--mca',
               'oob_tcp_if_include', 'lo', PROGRAM], user='nobody',
              env=dict(os.environ, HOME=s.dir, TMPDIR=s.dir))
    s.check(r.code == 0 and ' 0 bytes wrong' in r.text, 'ping-pong', r)
    s.nobody('mpirun')
    return {'ping-pong': (r.code, r.text, r.err)}
