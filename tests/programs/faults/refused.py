"""Each call first tries a server that refuses it, with a timeout, and pauses; mended, the server that answers is asked first."""

import socket
import sys
import time

MENDED = "mended" in sys.argv
gone = socket.socket()
gone.bind(("127.0.0.1", 0))  # it does not listen
server = socket.create_server(("127.0.0.1", 0), backlog=64)
for _ in range(40):
    for each in (server, gone) if MENDED else (gone, server):
        try:
            client = socket.create_connection(each.getsockname(), timeout=1)  # FAULT
            break
        except ConnectionRefusedError:
            time.sleep(0.002)
    server.accept()[0].close()
    client.close()
