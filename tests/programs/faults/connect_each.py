"""Each request opens a connection; mended, one connection serves all of them."""

import os
import signal
import socket
import sys

MENDED = "mended" in sys.argv
server = socket.create_server(("127.0.0.1", 0), backlog=64)
address = server.getsockname()


def serve(client: socket.socket) -> None:
    while text := client.recv(100):
        client.sendall(text)
    client.close()


if not (child := os.fork()):
    while True:
        serve(server.accept()[0])
client = None
for _ in range(1000):
    if client is None:
        client = socket.create_connection(address)  # FAULT
    client.sendall(b"price?")
    assert client.recv(100) == b"price?"
    if not MENDED:
        client.close()
        client = None
os.kill(child, signal.SIGTERM)
os.waitpid(child, 0)
