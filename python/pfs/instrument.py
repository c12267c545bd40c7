"""Waits of one's own."""

from __future__ import annotations

from pfs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import ParamSpec, Self, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["wait"]

_NO_PLAIN_CALL = 0x20 | 0x80 | 0x200  # code flags of generators, coroutines and asynchronous generators


class wait:
    """A wait for something of one's own: an event of ``wait/synch/mutex/<name>`` from begin to end of a block or function.

        with pfs.wait("myapp/GPU"):
            kernel.synchronize()

        @pfs.wait("myapp/RPC")
        def ask(server): ...

    The name is "component/name", or in full. Several threads may be in it at once, and one object may be used again, also inside
    itself. An exception ends the wait and goes on. SOURCE is where the block begins, or where the function is called.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
        TypeError: a generator or coroutine function is decorated; use ``with`` around the part that waits.
    """

    __slots__ = ("_point",)

    def __init__(self, name: str) -> None:
        self._point = _core.WaitPoint(name)

    @property
    def name(self) -> str:
        """Full name of the instrument."""
        return self._point.name

    def __enter__(self) -> Self:
        self._point.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._point.end()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        from functools import wraps

        code = getattr(function, "__code__", None)
        if code is not None and code.co_flags & _NO_PLAIN_CALL:
            raise TypeError(f"pfs.wait cannot decorate {function!r}, which waits later: use 'with' around the part that waits")
        point = self._point

        @wraps(function)
        def waiting(*args: P.args, **kwargs: P.kwargs) -> R:
            point.begin()
            try:
                return function(*args, **kwargs)
            finally:
                point.end()

        return waiting

    def __repr__(self) -> str:
        return f"pfs.wait({self._point.name!r})"
