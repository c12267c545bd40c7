"""A client asks a web server over one connection."""

import http.client
import http.server
import threading


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    def log_message(self, *arguments: object) -> None:
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = http.client.HTTPConnection("127.0.0.1", server.server_port)
for _ in range(200):
    client.request("GET", "/")
    assert client.getresponse().read() == b"hello"
