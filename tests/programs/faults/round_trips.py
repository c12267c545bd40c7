"""A client of redis sets 1,000 keys one by one; mended, it sends them in pipelines."""

import socket
import sys
import threading
from typing import Any

import redis

MENDED = "mended" in sys.argv
KEYS = 1000


def serve(server: socket.socket) -> None:
    """Answers OK to each command, and knows no other answer."""
    connection, _ = server.accept()
    commands = connection.makefile("rb")
    while (line := commands.readline()).startswith(b"*"):
        for _ in range(int(line[1:])):
            commands.read(int(commands.readline()[1:]) + 2)
        connection.sendall(b"+OK\r\n")


def main() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(server,), daemon=True).start()
    client: Any = redis.Redis(port=server.getsockname()[1], protocol=2, decode_responses=True)
    if MENDED:
        for first in range(0, KEYS, 100):
            pipeline = client.pipeline(transaction=False)
            for number in range(first, first + 100):
                pipeline.set(f"key:{number}", number)
            pipeline.execute()
        return
    for number in range(KEYS):
        client.set(f"key:{number}", number)  # FAULT


main()
