# SPDX-License-Identifier: GPL-2.0
"""http_small.py PORT NAME: answers with its name, and to /big with 1 MiB."""
import http.server
import signal
import sys

NAME = sys.argv[2].encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        data = NAME * (1 << 20) if self.path == '/big' else NAME + b'\n'
        self.send_response(200)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        data = self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True


signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
Server(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
