"""Provides sockets of ``socket`` whose calls are events."""

from __future__ import annotations

import os
import socket as std
from functools import partial
from types import FunctionType, SimpleNamespace

from pfs import _core
from pfs._record.green import original, socket_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, SupportsIndex

    class _Base(std.socket):
        def _start(
            self, name: str, family: int, type: int, proto: int, fileno: SupportsIndex | None, is_followed: bool
        ) -> str: ...
        def _accept(self) -> tuple[int, Any]: ...

else:
    _Base = _core.socket_base(original("socket", "socket"))

__all__ = ["create_connection", "create_server", "socket", "socketpair"]

_NO_TIMEOUT: Any = std._GLOBAL_DEFAULT_TIMEOUT  # type: ignore[attr-defined]


def _with(function: Any, **names: object) -> Callable[..., Any]:
    """Returns a copy of a function of the standard library that sees other globals for these names."""
    changed = FunctionType(
        function.__code__, {**function.__globals__, **names}, function.__name__, function.__defaults__, function.__closure__
    )
    changed.__kwdefaults__ = function.__kwdefaults__
    return changed


class socket(_Base):
    """A drop-in for ``socket.socket``, and a subclass of it, whose calls are events.

    ``pfs.socket("myapp/client", socket.AF_INET, socket.SOCK_STREAM)`` counts as ``wait/io/socket/myapp/client`` and has a row
    in ``socket_instances`` until it is closed. Each system call is one event with its bytes; a call that fails or times out has
    no bytes. ``sendall`` is one ``send``, with all bytes or, if it fails, none; ``sendfile`` is a ``send`` for each part; a file
    of ``makefile`` makes ``recv`` and ``send`` when its buffer is empty or full. ``accept`` and ``dup`` return sockets of the
    same name. The descriptor that ``detach`` returns is not instrumented. The time of an event is that of Python's call, with the
    wait for the GIL after it.

    Args:
        name: "component/name" of the instrument, or its full name. All others are those of ``socket.socket``.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
        Whatever ``socket.socket`` raises.
    """

    __module__ = "pfs"  # where users find it
    __slots__ = ("_name",)

    def __init__(self, name: str, family: int = -1, type: int = -1, proto: int = -1, fileno: SupportsIndex | None = None) -> None:
        self._name = self._start(name, family, type, proto, fileno, False)

    @property
    def name(self) -> str:
        """The full name of the instrument."""
        return self._name

    def accept(self) -> tuple[socket, Any]:
        """Waits for a connection. Returns a socket of the same name, and the address of the peer."""
        fd, address = self._accept()
        made = _native(self._name, self.family, self.type, self.proto, fileno=fd)
        if std.getdefaulttimeout() is None and self.gettimeout():
            made.setblocking(True)  # the standard accept does the same: the connection may have inherited the listener's mode
        return made, address

    def dup(self) -> Self:
        """Returns a second socket of the same name on the same connection."""
        fd = std.dup(self.fileno())
        made = self.__class__(self._name, self.family, self.type, self.proto, fileno=fd)
        made.settimeout(self.gettimeout())
        return made

    # The standard sendfile, with an os.sendfile that is recorded.
    _sendfile_use_sendfile = _with(
        original("socket", "socket")._sendfile_use_sendfile,
        os=SimpleNamespace(**{**vars(os), "sendfile": _core.socket_sendfile}),
    )


_native = socket
if not TYPE_CHECKING and not issubclass(socket, std.socket):  # gevent or eventlet
    socket = socket_class(_native, std.socket)


def socketpair(name: str, family: int | None = None, type: int = std.SOCK_STREAM, proto: int = 0) -> tuple[socket, socket]:
    """Returns two connected sockets, as ``socket.socketpair`` does, that are ``pfs.socket`` of that name.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
        OSError: whatever ``socket.socketpair`` raises.
    """
    if family is None:
        family = std.AF_UNIX
    sockets = []
    for fd in _core.socket_pair(name, family, type, proto):
        made = _native.__new__(_native)
        made._name = made._start(name, family, type, proto, fd, True)
        sockets.append(made if socket is _native else socket(made))  # type: ignore[arg-type]
    return sockets[0], sockets[1]


def create_connection(
    name: str,
    address: tuple[str | None, int],
    timeout: float | None = _NO_TIMEOUT,
    source_address: tuple[str, int] | None = None,
    *,
    all_errors: bool = False,
) -> socket:
    """Connects to a host and port, as ``socket.create_connection`` does. Returns a ``pfs.socket`` of that name.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
        Whatever ``socket.create_connection`` raises.
    """
    connect = _with(original("socket", "create_connection"), socket=partial(socket, name), getaddrinfo=std.getaddrinfo)
    made: socket = connect(address, timeout, source_address, all_errors=all_errors)
    return made


def create_server(
    name: str,
    address: tuple[str, int],
    *,
    family: int = std.AF_INET,
    backlog: int | None = None,
    reuse_port: bool = False,
    dualstack_ipv6: bool = False,
) -> socket:
    """Listens on a host and port, as ``socket.create_server`` does. Returns a ``pfs.socket`` of that name.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
        Whatever ``socket.create_server`` raises.
    """
    serve = _with(original("socket", "create_server"), socket=partial(socket, name))
    made: socket = serve(address, family=family, backlog=backlog, reuse_port=reuse_port, dualstack_ipv6=dualstack_ipv6)
    return made
