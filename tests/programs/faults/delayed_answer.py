"""A web server sends the head and the body of an answer in two writes; mended, without Nagle's algorithm."""

import http.client
import http.server
import sys
import threading


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = "mended" in sys.argv

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *arguments: object) -> None:
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = http.client.HTTPConnection("127.0.0.1", server.server_port)
for _ in range(20):
    client.request("GET", "/")
    assert client.getresponse().read() == b"hello"  # FAULT
