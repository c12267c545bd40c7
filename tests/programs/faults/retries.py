"""Each call first tries a server that refuses it, and pauses; mended, the server that answers is remembered."""

import socket
import sys
import time

MENDED = "mended" in sys.argv
closed = socket.create_server(("127.0.0.1", 0))
gone = closed.getsockname()
closed.close()
server = socket.create_server(("127.0.0.1", 0), backlog=64)
client = None
for _ in range(60):
    if not MENDED:
        try:
            socket.create_connection(gone)  # FAULT
        except ConnectionRefusedError:
            time.sleep(0.002)
    if client is None:
        client = socket.create_connection(server.getsockname())
        accepted = server.accept()[0]
    client.sendall(b"job")
    assert accepted.recv(10) == b"job"
