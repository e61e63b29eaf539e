#!/usr/bin/python3.11
# SPDX-License-Identifier: GPL-2.0
"""
Many connections to a memcached at once, with the text protocol, pipelined:
memcached_client.py PORT CLIENTS. Prints what has to be the same each time.
"""
import socket
import sys
import threading

PORT, CLIENTS = map(int, sys.argv[1:])
ROUNDS = 20
results = {}


def value(me, i):
    return (b'%d.%d.' % (me, i)) * (1 + 97 * i)


def talk(me):
    with socket.create_connection(('127.0.0.1', PORT)) as s:
        f = s.makefile('rwb')
        for i in range(ROUNDS):
            v = value(me, i)
            f.write(b'set k%d.%d %d 0 %d\r\n%s\r\n' % (me, i, i, len(v), v))
        f.flush()
        stored = sum(f.readline() == b'STORED\r\n' for _ in range(ROUNDS))
        f.write(b'get ' + b' '.join(b'k%d.%d' % (me, i)
                                    for i in range(ROUNDS)) + b'\r\n')
        for _ in range(ROUNDS):
            f.write(b'incr shared 1\r\n')
        f.flush()
        right = 0
        for i in range(ROUNDS):
            v = value(me, i)
            right += (f.readline() == b'VALUE k%d.%d %d %d\r\n' %
                      (me, i, i, len(v)) and
                      f.read(len(v) + 2) == v + b'\r\n')
        end = f.readline()
        counts = [int(f.readline()) for _ in range(ROUNDS)]
        rising = all(a < b for a, b in zip(counts, counts[1:]))
        f.write(b'quit\r\n')
        f.flush()
        rest = f.read()
        results[me] = stored, right, end, rising, rest


with socket.create_connection(('127.0.0.1', PORT)) as s:
    s.sendall(b'set shared 0 0 1\r\n0\r\n')
    assert s.recv(100) == b'STORED\r\n'
    threads = [threading.Thread(target=talk, args=(i,), daemon=True)
               for i in range(CLIENTS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(100)
    s.sendall(b'get shared\r\n')
    print(s.recv(100))
for i in sorted(results):
    print(i, results[i])
want = (ROUNDS, ROUNDS, b'END\r\n', True, b'')
sys.exit(not (len(results) == CLIENTS and
              all(r == want for r in results.values())))
