"""Each request looks the name of its server up, and the name server is slow; mended, the address is kept.

It must run as root: it has a network and a name server of its own.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import time

NEW_NAMESPACES = 0x00020000 | 0x40000000  # of mounts and of the network
BIND, PRIVATE = 4096, 1 << 18 | 1 << 14
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(NEW_NAMESPACES) == 0, os.strerror(ctypes.get_errno())
assert libc.mount(b"none", b"/", None, PRIVATE, None) == 0
with open("resolv.conf", "w") as file:
    file.write("nameserver 127.0.0.1\n")
assert libc.mount(b"resolv.conf", b"/etc/resolv.conf", None, BIND, None) == 0
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(server, 0x8914, struct.pack("16sh22x", b"lo", 1))  # SIOCSIFFLAGS: up
server.bind(("127.0.0.1", 53))
if not (child := os.fork()):
    while True:
        question, client = server.recvfrom(512)
        time.sleep(0.03)
        end = question.index(b"\0", 12) + 5
        answer = question[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question[12:end]
        server.sendto(answer + b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0a\0\0\1", client)
server.close()
address = None
for _ in range(10):
    if address is None or "mended" not in sys.argv:
        address = socket.getaddrinfo("orders.example.com", 80, socket.AF_INET)[0][4]  # FAULT
    assert address == ("10.0.0.1", 80)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
