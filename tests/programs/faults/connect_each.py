"""Each line of a log is sent over a connection of its own; mended, one connection has all of them."""

import os
import signal
import socket
import sys

MENDED = "mended" in sys.argv
server = socket.create_server(("127.0.0.1", 0), backlog=1024)
address = server.getsockname()


def serve(client: socket.socket) -> None:
    while client.recv(4096):
        pass
    client.close()


if not (child := os.fork()):
    while True:
        serve(server.accept()[0])
client = None
for number in range(1000):
    if client is None:
        client = socket.create_connection(address)  # FAULT
    client.sendall(b"line %d\n" % number)
    if not MENDED:
        client.close()
        client = None
os.kill(child, signal.SIGTERM)
os.waitpid(child, 0)
