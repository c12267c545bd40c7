"""The socket calls of the C API for facts: pfs_socket_at() and its like by ctypes, addresses as text.

Their SOURCE is "facts.c:1"."""

from __future__ import annotations

import ctypes
import socket as plain
import struct
from typing import Any

from tests.python._programs.driver import C, key_of, perfschema

SOCKETS, SOCKETS_BY_INSTANCE = "socket_summary_by_event_name", "socket_summary_by_instance"
SOCKET = "wait/io/socket/"
AF_INET, AF_INET6, AF_UNIX = plain.AF_INET, plain.AF_INET6, plain.AF_UNIX
STREAM, DATAGRAM = plain.SOCK_STREAM, plain.SOCK_DGRAM
CREATE, CONNECT, BIND, CLOSE, SEND, RECV, SENDTO, RECVFROM, SENDMSG, RECVMSG, SEEK, OPT, STAT, SHUTDOWN = range(1, 15)
SELECT, LISTEN, ACCEPT = range(15, 18)
IDLE, ACTIVE = 1, 2
DONTWAIT = plain.MSG_DONTWAIT

_BYTES = ("send", "recv", "sendto", "recvfrom", "sendmsg", "recvmsg")
_LIBRARY = perfschema()


def call(name: str, *arguments: Any) -> int:
    function = getattr(_LIBRARY, f"pfs_{name}_at")
    function.restype = ctypes.c_ssize_t if name in _BYTES else ctypes.c_int
    return int(function(*arguments, b"facts.c", ctypes.c_uint32(1)))


def socket_key(name: str, flags: int = 0) -> int:
    """Key of "component/name"; 0 if there is no room."""
    component, _, rest = name.partition("/")

    class Info(ctypes.Structure):
        _fields_ = (
            ("key", ctypes.POINTER(ctypes.c_uint32)),
            ("name", ctypes.c_char_p),
            ("flags", ctypes.c_uint32),
            ("documentation", ctypes.c_char_p),
        )

    key = ctypes.c_uint32(12345)
    info = Info(ctypes.pointer(key), rest.encode(), flags, None)
    assert _LIBRARY.pfs_register_socket(component.encode(), ctypes.byref(info), 1) == 0
    return key.value


def address(domain: int, host: str, port: int = 0) -> bytes:
    """A sockaddr."""
    if domain == AF_UNIX:
        path = host.encode()
        return struct.pack("=H", domain) + (b"\0" + path[1:] if path.startswith(b"@") else path + b"\0")
    if domain == AF_INET:
        return struct.pack("=HH4s8x", domain, plain.htons(port), plain.inet_aton(host))
    return struct.pack("=HHI16sI", domain, plain.htons(port), 0, plain.inet_pton(domain, host), 0)


class Socket:
    """A descriptor and the calls on it. ``fd`` is -1 if there is none."""

    def __init__(self, of: str | int, domain: int = AF_INET, kind: int = STREAM, fd: int | None = None) -> None:
        self.domain = domain
        if fd is not None:
            self.fd = fd
        else:
            self.fd = call("socket", socket_key(of) if isinstance(of, str) else of, domain, kind, 0)

    def bind(self, host: str, port: int = 0) -> int:
        name = address(self.domain, host, port)
        return call("bind", self.fd, name, len(name))

    def listen(self) -> int:
        return call("listen", self.fd, 8)

    def connect(self, host: str, port: int = 0) -> int:
        name = address(self.domain, host, port)
        return call("connect", self.fd, name, len(name))

    def accept(self, key: int = 0) -> Socket:
        return Socket(0, self.domain, fd=call("accept", key, self.fd, None, None))

    def send(self, size: int, flags: int = 0) -> int:
        return call("send", self.fd, b"x" * size, ctypes.c_size_t(size), flags)

    def recv(self, size: int, flags: int = 0) -> int:
        return call("recv", self.fd, ctypes.create_string_buffer(size), ctypes.c_size_t(size), flags)

    def close(self) -> int:
        return int(C.close(self.fd))

    def name(self) -> tuple[str, int]:
        """Its own address as Python's sockets see it. No event."""
        with plain.socket(fileno=plain.dup(self.fd)) as other:
            return other.getsockname()[:2]  # type: ignore[no-any-return]


def listener(of: str | int, domain: int = AF_INET) -> Socket:
    """Bound to a port of the loopback that the system chose. Three events: create, bind, listen."""
    made = Socket(of, domain)
    assert made.bind("127.0.0.1" if domain == AF_INET else "::1") == 0
    assert made.listen() == 0
    return made


def pair(of: str | int, kind: int = STREAM) -> tuple[Socket, Socket]:
    """Two that are connected. One event, of the first."""
    fds = (ctypes.c_int * 2)()
    assert call("socketpair", socket_key(of) if isinstance(of, str) else of, AF_UNIX, kind, 0, fds) == 0
    return Socket(0, AF_UNIX, fd=fds[0]), Socket(0, AF_UNIX, fd=fds[1])


class Wait:
    """pfs_socket_wait_begin() and pfs_socket_wait_end()."""

    def __init__(self, fd: int, operation: int, requested: int = -1) -> None:
        self.room = (ctypes.c_uint64 * 16)()
        self.begun = call("socket_wait_begin", self.room, fd, operation, ctypes.c_int64(requested))

    def end(self, moved: int = -1) -> None:
        if self.room[0] != 0:
            _LIBRARY.pfs_socket_wait_end_(self.room, ctypes.c_int64(moved))


def set_thread(fd: int) -> None:
    _LIBRARY.pfs_socket_set_thread(fd)


def set_state(fd: int, state: int) -> None:
    _LIBRARY.pfs_socket_set_state(fd, state)


def set_address(fd: int, name: bytes | None) -> None:
    _LIBRARY.pfs_socket_set_address(fd, name, 0 if name is None else len(name))


def follow(key: int, fd: int) -> int:
    return int(_LIBRARY.pfs_socket_bind(key, fd))


def unfollow(fd: int) -> None:
    _LIBRARY.pfs_socket_unbind(fd)


def file_key(name: str) -> int:
    return key_of("file", name)
