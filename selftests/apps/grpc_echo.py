# SPDX-License-Identifier: GPL-2.0
"""
grpc_echo.py server|client PORT: gRPC without generated code: calls with one
message and with streams of them, either way.
"""
import concurrent.futures
import hashlib
import signal
import sys
import threading

import grpc

SIZES = (0, 1, 100, 5000, 70000, 400000)


def total(messages, _):
    h, n = hashlib.sha256(), 0
    for m in messages:
        h.update(m)
        n += len(m)
    return b'%d %s' % (n, h.hexdigest().encode())


def count(message, _):
    for i in range(int(message)):
        yield b'%d' % i * 100


def server(port):
    s = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    s.add_generic_rpc_handlers((grpc.method_handlers_generic_handler('Echo', {
        'One': grpc.unary_unary_rpc_method_handler(lambda m, _: m),
        'Up': grpc.stream_unary_rpc_method_handler(total),
        'Down': grpc.unary_stream_rpc_method_handler(count),
        'Both': grpc.stream_stream_rpc_method_handler(lambda m, _: m),
    }),))
    end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    if not s.add_insecure_port(f'127.0.0.1:{port}'):
        return 1
    s.start()
    end.wait()
    s.stop(None).wait()
    return 0


def pattern(n):
    return bytes(i * 7 + n & 0xff for i in range(n))


def client(port):
    messages = [pattern(n) for n in SIZES]
    # Channels to one address share a connection unless they are told not to.
    for i in range(2):
        with grpc.insecure_channel(
                f'127.0.0.1:{port}', (('grpc.use_local_subchannel_pool', 1),)
                ) as c:
            one = c.unary_unary('/Echo/One')
            print('one:', [one(m, timeout=100) == m for m in messages])
            print('many:', sum(one(b'%d' % n, timeout=100) == b'%d' % n
                               for n in range(100)))
            print('up:', c.stream_unary('/Echo/Up')(
                iter(messages), timeout=100).decode())
            down = list(c.unary_stream('/Echo/Down')(b'300', timeout=100))
            print('down:', len(down), total(down, None).decode())
            both = list(c.stream_stream('/Echo/Both')(
                iter(messages * 2), timeout=100))
            print('both:', both == messages * 2)
            try:
                c.unary_unary('/Echo/None')(b'', timeout=100)
            except grpc.RpcError as e:
                print('none:', e.code())
    return 0


if __name__ == '__main__':
    sys.exit({'server': server, 'client': client}[sys.argv[1]](sys.argv[2]))
