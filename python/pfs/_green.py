"""gevent and eventlet: what the standard library had before they replaced it, and sockets on theirs."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["original", "socket_class"]


def original(module: str, name: str) -> Any:
    """What `name` of a module of the standard library was before gevent or eventlet replaced it."""
    now = getattr(sys.modules[module], name)
    if getattr(now, "__module__", module) == module:
        return now
    if monkey := sys.modules.get("gevent.monkey"):
        return monkey.get_original(module, name)
    if patcher := sys.modules.get("eventlet.patcher"):
        return getattr(patcher.original(module), name)
    return now


def socket_class(native: Any, patched: Any) -> Any:
    """A class of sockets that let other greenlets run while they wait: a subclass of the patched `socket.socket`.

    Both libraries wrap a socket of the standard library, which never blocks, and wait for it in their own way. Here that is a
    `native` one of pfs. So an event is a call on the system that has done something, without the wait before it.
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
            # Not by name: eventlet gives a socket, for one that was accepted.
            self._native = name if isinstance(name, native) else native(name, family, type, proto, fileno)
            if hasattr(patched, "_gevent_sock_class"):
                super().__init__(self._native.family, self._native.type, self._native.proto)
            else:
                super().__init__(self._native, set_nonblocking=set_nonblocking)

        def _gevent_sock_class(self, *_ignored: object) -> Any:
            return self._native

        @property
        def name(self) -> str:
            """Full name of the instrument."""
            return self._native.name  # type: ignore[no-any-return]

        def accept(self) -> tuple[Any, Any]:
            """Waits for a connection. Gives a socket for it, of the same name, and the address of the other end."""
            made, address = super().accept()
            if isinstance(made, socket):
                return made, address
            timeout = made.gettimeout()
            made = socket(self.name, self.family, self.type, self.proto, made.detach())
            made.settimeout(timeout)
            return made, address

        def dup(self) -> Any:
            """A second socket, of the same name, for what this one is connected to."""
            made = socket(self._native.dup())
            made.settimeout(self.gettimeout())
            return made

    return socket
