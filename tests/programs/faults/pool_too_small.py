"""Two workers ask a slow service for 40 answers; mended, 20 workers."""

import os
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

MENDED = "mended" in sys.argv
server = socket.create_server(("127.0.0.1", 0), backlog=64)
address = server.getsockname()
local = threading.local()


def serve(client: socket.socket) -> None:
    while text := client.recv(10):
        time.sleep(0.02)
        client.sendall(text)


def ask(_: int) -> bytes:
    if not hasattr(local, "client"):
        local.client = socket.create_connection(address)
    local.client.sendall(b"price?")
    return bytes(local.client.recv(10))  # FAULT


if not (child := os.fork()):
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
with ThreadPoolExecutor(20 if MENDED else 2) as pool:
    answers = list(pool.map(ask, range(40)))
assert answers == [b"price?"] * 40
os.kill(child, signal.SIGTERM)
os.waitpid(child, 0)
