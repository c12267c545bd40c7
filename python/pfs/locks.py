"""Semaphores, events and barriers: those of ``threading``, standing on a ``pfs.Condition``.

They behave as the standard classes because they are them, but for the condition inside. It and its lock have the name that is
given: ``wait/synch/cond/<name>`` has an event for each time that a thread waits, ``wait/synch/mutex/<name>`` one for each call,
waiting or not.
"""

from __future__ import annotations

import threading

from pfs._core import Condition, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event as _StandardEvent
else:
    from pfs._green import original

    _StandardEvent = original("threading", "Event")  # the one that gevent puts in its place has no condition

__all__ = ["Barrier", "BoundedSemaphore", "Event", "Semaphore"]


def _condition(name: str) -> Condition:
    """A condition whose lock has its name, and is a plain lock."""
    return Condition(name, Lock(str.removeprefix(name, "wait/synch/cond/")))


class _Named:
    """What stands on a condition, and has its name."""

    _cond: Condition

    @property
    def name(self) -> str:
        """Full name of the instrument of its waits."""
        return self._cond.name


class Semaphore(_Named, threading.Semaphore):
    """A semaphore whose waits are seen: a drop-in for ``threading.Semaphore``.

    ``Semaphore("myapp/SEM_slots", 4)`` makes a condition ``wait/synch/cond/myapp/SEM_slots``, with an event for each time that an
    acquire waits, and a lock ``wait/synch/mutex/myapp/SEM_slots``, with an event for each acquire and release.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
        ValueError: the value is below 0.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, name: str, value: int = 1) -> None:
        super().__init__(value)
        self._cond = _condition(name)


class BoundedSemaphore(Semaphore, threading.BoundedSemaphore):
    """A semaphore that refuses to be released more often than acquired: a drop-in for ``threading.BoundedSemaphore``.

    Instruments and errors are those of ``Semaphore``.
    """

    __module__ = "pfs"  # where users find it


class Event(_Named, _StandardEvent):
    """A flag to wait for: a drop-in for ``threading.Event``.

    ``Event("myapp/EVENT_ready")`` makes a condition ``wait/synch/cond/myapp/EVENT_ready``, with an event for each wait that finds
    the flag not set, and a lock ``wait/synch/mutex/myapp/EVENT_ready``, with an event for each ``set``, ``clear`` and ``wait``.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, name: str) -> None:
        super().__init__()
        self._cond = _condition(name)


class Barrier(_Named, threading.Barrier):
    """A point where threads wait for one another: a drop-in for ``threading.Barrier``.

    ``Barrier("myapp/BARRIER_step", 4)`` makes a condition ``wait/synch/cond/myapp/BARRIER_step``, with events for the threads
    that wait for the last one, and a lock ``wait/synch/mutex/myapp/BARRIER_step``.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, name: str, parties: int, action: Callable[[], None] | None = None, timeout: float | None = None) -> None:
        super().__init__(parties, action, timeout)
        self._cond = _condition(name)
