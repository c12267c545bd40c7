"""Provides semaphores, events and barriers of ``threading`` that use a ``pfs.Condition``.

They behave as the standard classes because they are subclasses that replace only the condition. The condition and its lock have
the given name: ``wait/synch/cond/<name>`` has an event for each wait of a thread, ``wait/synch/mutex/<name>`` one for each call.
"""

from __future__ import annotations

import threading

from pfs._core import Condition, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event as _StandardEvent
else:
    from pfs._record.green import original

    _StandardEvent = original("threading", "Event")  # the one that gevent puts in its place has no condition

__all__ = ["Barrier", "BoundedSemaphore", "Event", "Semaphore"]


def _condition(name: str | None) -> Condition:
    """Returns a condition whose lock is a plain lock of the same name."""
    return Condition(name, Lock(None if name is None else str.removeprefix(name, "wait/synch/cond/")))


class _Named:
    """Gives a class the name of its condition."""

    _cond: Condition

    @property
    def name(self) -> str:
        """The full name of the instrument of its waits."""
        return self._cond.name


class Semaphore(_Named, threading.Semaphore):
    """A drop-in for ``threading.Semaphore`` whose waits are recorded.

    ``Semaphore("myapp/SEM_slots", 4)`` makes a condition ``wait/synch/cond/myapp/SEM_slots``, with an event for each time that an
    acquire waits, and a lock ``wait/synch/mutex/myapp/SEM_slots``, with an event for each acquire and release.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
        ValueError: the value is below 0.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, name: str | None = None, value: int = 1) -> None:
        super().__init__(value)
        self._cond = _condition(name)


class BoundedSemaphore(Semaphore, threading.BoundedSemaphore):
    """A drop-in for ``threading.BoundedSemaphore``, which refuses more releases than acquires.

    Instruments and errors are those of ``Semaphore``.
    """

    __module__ = "pfs"  # where users find it


class Event(_Named, _StandardEvent):
    """A drop-in for ``threading.Event`` whose waits are recorded.

    ``Event("myapp/EVENT_ready")`` makes a condition ``wait/synch/cond/myapp/EVENT_ready``, with an event for each wait that finds
    the flag not set, and a lock ``wait/synch/mutex/myapp/EVENT_ready``, with an event for each ``set``, ``clear`` and ``wait``.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._cond = _condition(name)


class Barrier(_Named, threading.Barrier):
    """A drop-in for ``threading.Barrier`` whose waits are recorded.

    ``Barrier("myapp/BARRIER_step", 4)`` makes a condition ``wait/synch/cond/myapp/BARRIER_step``, with events for the threads
    that wait for the last one, and a lock ``wait/synch/mutex/myapp/BARRIER_step``.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, name: str, parties: int, action: Callable[[], None] | None = None, timeout: float | None = None) -> None:
        super().__init__(parties, action, timeout)
        self._cond = _condition(name)
