"""The second segment of a process that runs under ``pfs run``: the library that records the program has one of its own."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Iterator

from pfs import _core
from pfs._process import processes
from pfs._process.segment import SegmentSource

__all__ = [
    "GIL", "JOIN", "START", "hidden", "is_accept", "is_idle", "is_lock_wait", "is_noise", "is_pause", "is_recorded",
    "object_waited_for", "recorded", "tell_where",
]  # fmt: skip

# Locks of the interpreter, and what pfs and the kernel of a notebook do themselves: how often says nothing of a program. The wait
# for the GIL (wait/synch/cond/python/gil) counts.
_NOISE = re.compile(
    r"wait/synch/(?:mutex/python/(?:gil|gil-switch|interpreter)|cond/python/interpreter)$|wait/\w+/\w+/(?:libperfsch\w*|_core\.\w+)/"
    r"|wait/synch/\w+/python/pfs\.|wait/system/python/\w+-ipykernel\."
)
# The wait for the end of a thread: threads do not compete for its lock.
JOIN = "wait/synch/mutex/python/threading.Thread.join"
# The wait until a new thread runs.
START = "wait/synch/cond/python/threading.Thread.start"
GIL = "wait/synch/cond/python/gil"
# A Python without the GIL locks single objects, and stops all threads to collect garbage or to change what all of them use.
_OBJECT = re.compile(r"wait/synch/mutex/python/(?:(?:object|two-objects)-([^-:]+)(?:-(with-)?([^:]+))?|types)$")
_PAUSE = re.compile(r"wait/synch/cond/python/(?:stop-the-world|stopped-by)-\w+$")  # of the thread that stops others, and of these
_ON_THE_WAY = re.compile(r"(?:pfs|IPython|contextlib|decorator)(?:\.|$)")  # modules between a question and the line that asks
_SHORTEST_IDLE = 10_000_000_000  # picoseconds
_MODULE_OF_WAITING = re.compile(r"(?:threading|queue|asyncio|concurrent\.futures|multiprocessing)(?:\.\w+)*:\d+$")


def is_recorded() -> bool:
    """Returns whether this process runs under ``pfs run``, or below a session with --pfs-instrument."""
    library = os.environ.get("PFS_RUN_PRELOAD", "")
    return library != "" and library in os.environ.get("LD_PRELOAD", "")


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """Lets the library record nothing of this thread in the block: what pfs reads is no part of the program."""
    native = sys.modules.get("_pfs_run_native")  # without the Python layer of pfs run there is none
    hide = getattr(native, "hide", None)
    thread = hide() if hide is not None else 0
    try:
        yield
    finally:
        if thread:
            native.show(thread)  # type: ignore[union-attr]


def is_noise(name: str) -> bool:
    """Returns whether an instrument is one of the interpreter's own locks, or of pfs itself."""
    return _NOISE.match(name) is not None


def is_lock_wait(name: str, source: str) -> bool:
    """Returns whether a wait is one for a lock that another thread holds.

    A worker of a pool waits for work in a lock of Python: a thread whose frames are all in modules of waiting has the module and
    the line there for SOURCE. A condition is no lock, and a join waits for the end of a thread.
    """
    is_lock = name.startswith(("wait/synch/mutex/", "wait/synch/rwlock/", "wait/synch/prlock/", "wait/synch/sxlock/"))
    return is_lock and name != JOIN and not is_noise(name) and _MODULE_OF_WAITING.match(source) is None


def object_waited_for(name: str) -> str | None:
    """Returns the words for what a thread waits for that has no GIL: ``one dict (counts)``, ``classes`` ...

    ``one dict (with Plain.x)`` is what has an attribute or a variable that the thread sets. Returns None if a wait is for
    something else.
    """
    found = _OBJECT.match(name)
    if found is None:
        return None
    of_type, is_owner, variable = found.groups()
    if of_type is None:
        return "classes"
    return f"one {of_type}" + (f" ({'with ' if is_owner else ''}{variable})" if variable else "")


def is_pause(name: str) -> bool:
    """Returns whether a wait is a pause of all threads: they wait for its end, or its thread waits until they stop."""
    return _PAUSE.match(name) is not None


def is_accept(name: str) -> bool:
    """Returns whether an instrument is that of listening sockets: a thread there has nothing to do until somebody connects.

    thread_time and active_session_history call it idle, too: WaitStateOf in cpp/src/base/time_states.h.
    """
    return name.startswith("wait/io/socket/") and name.endswith("/listen")


def is_idle(name: str, count: int, time: int, ran: int) -> bool:
    """Returns whether the waits of an instrument are those of threads that have nothing to do: a pool without work, a helper of a
    library.

    That is so for a listening socket, always, and for a condition at which threads other than the first one waited for half of
    the time that the process ran, or longer, and for 10 ms each time. A queue that is full, or a barrier, looks the same if
    threads wait there for as long: the report lists it among the idle threads then. `pfs run --all` lists all conditions
    together. A thread without the GIL is not idle while all threads are stopped.

    Args:
        count, time: of the waits of threads other than the first one, which begins and ends the work. Times are picoseconds.
        ran: how long the process ran.
    """
    return is_accept(name) or (
        name.startswith("wait/synch/cond/")
        and not is_noise(name)
        and name != GIL
        and not is_pause(name)
        and time >= ran / 2
        and time >= count * _SHORTEST_IDLE
    )


def recorded(write: bool = False) -> SegmentSource | None:
    """Returns what the library has recorded of this process, or None if there is no such segment."""
    own = os.path.realpath(_core.segment_path() or "/")  # PFS_DIR may be relative
    with hidden():
        for found in processes.scan_all(processes.with_users(processes.default_directory())):
            # A dead one is of the program that this process ran before exec.
            if found.identity.pid == os.getpid() and os.path.realpath(found.path) != own and found.state != "dead":
                return SegmentSource(_core.Segment(found.path), write)
    return None


def tell_where(table: str) -> None:
    """Warns that a table of this process is empty because ``pfs run`` has tables of its own; does nothing without ``pfs run``."""
    if is_recorded() and recorded() is not None:
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and _ON_THE_WAY.match(frame.f_globals.get("__name__", "")):
            level, frame = level + 1, frame.f_back
        warnings.warn(
            f"{table} is empty: this process has no object of pfs. What pfs run has recorded of it is in pfs.attach(os.getpid())",
            stacklevel=level,
        )
