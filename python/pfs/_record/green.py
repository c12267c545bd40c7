"""Supports gevent and eventlet: finds what they replaced in the standard library, and builds sockets on their sockets."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["original", "socket_class"]


def original(module: str, name: str) -> Any:
    """Returns `name` of a module of the standard library as it was before gevent or eventlet replaced it."""
    now = getattr(sys.modules[module], name)
    if getattr(now, "__module__", module) == module:
        return now
    if monkey := sys.modules.get("gevent.monkey"):
        return monkey.get_original(module, name)
    if patcher := sys.modules.get("eventlet.patcher"):
        return getattr(patcher.original(module), name)
    return now


def socket_class(native: Any, patched: Any) -> Any:
    """Returns a subclass of the patched `socket.socket`, whose sockets let other greenlets run while they wait.

    Both libraries wrap a nonblocking socket of the standard library and wait for it in their own way. This class wraps a
    `native` socket of pfs instead. So an event is a system call that transferred something, without the wait before it.
    """

    class socket(patched):  # type: ignore[misc]
        __doc__ = native.__doc__
        __module__ = "pfs"  # where users find it

        def __init__(
            self,
            name: Any,
            family: int = -1,
            type: int = -1,
            proto: int = -1,
            fileno: Any = None,
            *,
            set_nonblocking: bool = True,
        ) -> None:
            # `name` is positional: eventlet passes a socket there when it accepts a connection.
            self._native = name if isinstance(name, native) else native(name, family, type, proto, fileno)
            if hasattr(patched, "_gevent_sock_class"):
                super().__init__(self._native.family, self._native.type, self._native.proto)
            else:
                super().__init__(self._native, set_nonblocking=set_nonblocking)

        def _gevent_sock_class(self, *_ignored: object) -> Any:
            return self._native

        @property
        def name(self) -> str:
            """The full name of the instrument."""
            return self._native.name  # type: ignore[no-any-return]

        def accept(self) -> tuple[Any, Any]:
            """Waits for a connection. Returns a socket of the same name, and the address of the peer."""
            made, address = super().accept()
            if isinstance(made, socket):
                return made, address
            timeout = made.gettimeout()
            made = socket(self.name, self.family, self.type, self.proto, made.detach())
            made.settimeout(timeout)
            return made, address

        def dup(self) -> Any:
            """Returns a second socket of the same name on the same connection."""
            made = socket(self._native.dup())
            made.settimeout(self.gettimeout())
            return made

    return socket
