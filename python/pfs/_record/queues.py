"""Provides queues of ``queue`` that use a ``pfs.Lock`` and three ``pfs.Condition``."""

from __future__ import annotations

import queue  # noqa: F401  (original() looks for it)

from pfs._core import Condition, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queue import LifoQueue as _LifoQueue
    from queue import PriorityQueue as _PriorityQueue
    from queue import Queue as _Queue
    from typing import TypeVar

    from _typeshed import SupportsRichComparison

    T = TypeVar("T")
    Ordered = TypeVar("Ordered", bound=SupportsRichComparison)
else:
    from pfs._record.green import original

    T = Ordered = "T"
    # Those that gevent puts in their place have no lock and conditions.
    _Queue, _LifoQueue, _PriorityQueue = (original("queue", name) for name in ("Queue", "LifoQueue", "PriorityQueue"))

__all__ = ["LifoQueue", "PriorityQueue", "Queue"]


class Queue(_Queue[T]):
    """A drop-in for ``queue.Queue`` whose waits are recorded.

    ``Queue("myapp/QUEUE_jobs", 100)`` makes a lock ``wait/synch/mutex/myapp/QUEUE_jobs``, with an event for each call, and
    the conditions ``wait/synch/cond/myapp/QUEUE_jobs/not_empty``, ``.../not_full`` and ``.../all_tasks_done``, with an event for
    each time that a thread waits in ``get``, ``put`` and ``join``. ``queue.Empty`` and ``queue.Full`` are the standard ones.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, name: str | None = None, maxsize: int = 0) -> None:
        super().__init__(maxsize)
        mutex = Lock(name)
        short = mutex.name.removeprefix("wait/synch/mutex/")
        self.mutex = mutex  # type: ignore[assignment]
        self.not_empty = Condition(f"{short}/not_empty", mutex)  # type: ignore[assignment]
        self.not_full = Condition(f"{short}/not_full", mutex)  # type: ignore[assignment]
        self.all_tasks_done = Condition(f"{short}/all_tasks_done", mutex)  # type: ignore[assignment]

    @property
    def name(self) -> str:
        """The full name of the instrument of its lock."""
        return self.mutex.name  # type: ignore[no-any-return, attr-defined]


class PriorityQueue(Queue[Ordered], _PriorityQueue[Ordered]):
    """A drop-in for ``queue.PriorityQueue``. Its instruments are those of ``Queue``."""

    __module__ = "pfs"  # where users find it


class LifoQueue(Queue[T], _LifoQueue[T]):
    """A drop-in for ``queue.LifoQueue``. Its instruments are those of ``Queue``."""

    __module__ = "pfs"  # where users find it
