"""Provides threads with a parent and an instrument, and functions that describe the calling thread."""

from __future__ import annotations

import threading

from pfs import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

__all__ = ["Thread", "set_account", "set_thread_name"]


class Thread(threading.Thread):
    """A ``threading.Thread`` with a row in ``threads`` from its start. PARENT_THREAD_ID is the thread that started it, and it
    works for the same account.

        worker = pfs.Thread(target=work, args=(queue,))                   # thread/python/Thread-1 (work)
        worker = pfs.Thread(target=work, instrument="myapp/worker")       # thread/myapp/worker, a row of setup_threads
        worker.start()

    The row is gone when ``join`` returns, and the account has one connection less.

    Arguments are those of ``threading.Thread``, and `instrument`: the "component/name" of a thread instrument, which is the NAME
    of the thread then; ``setup_threads`` says whether its threads are instrumented. A plain ``threading.Thread`` is instrumented
    as well: it appears at its first event, without a parent.

    Raises:
        InvalidValue: `instrument` breaks the rules of instrument names.
    """

    __module__ = "pfs"  # where users find it

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
        instrument: str | None = None,
    ) -> None:
        super().__init__(group, target, name, args, kwargs, daemon=daemon)
        if instrument is not None:
            _core.thread_instrument(instrument)
        self._pfs_instrument = instrument or ""

    def start(self) -> None:
        """Starts the thread, as ``threading.Thread.start`` does."""
        origin, run = _core.thread_origin(), self.run

        def begin_and_run() -> None:
            self.__dict__.pop("run", None)
            _core.thread_begin(origin, "python/" + self.name, self._pfs_instrument)
            try:
                run()
            finally:
                _core.thread_end()

        # It runs before run(), which a subclass may override.
        self.__dict__["run"] = begin_and_run
        try:
            super().start()
        except BaseException:
            self.__dict__.pop("run", None)
            raise


def set_account(user: str, host: str) -> None:
    """Sets the account that the calling thread works for: its later events count in rows of ``accounts``, ``users``, ``hosts``.

    ``setup_actors`` then says whether the thread is instrumented. A user is cut after 32 bytes, a host after 255. "" for both
    means no account.
    """
    _core.set_account(user, host)


def set_thread_name(name: str) -> None:
    """Names the calling thread: "myapp/worker" is shown as ``thread/myapp/worker`` in ``threads``.

    Raises:
        InvalidValue: the name is empty or has more than 120 bytes.
    """
    _core.set_thread_name(name)
