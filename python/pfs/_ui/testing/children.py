"""Counts what children of this process do. Each child has its own segment, which must outlive it until it was read.

Two classes find them: `Forked` here, and `Started` in unchanged.py for a session that records every program.

A forked child sends the path of its segment through a pipe right after the fork. It leaves its segment also at a clean exit,
as it does when it is killed or calls os._exit; the parent removes it. Only forks that Python makes are known: os.fork and
multiprocessing with "fork". Programs that exec, spawn and forkserver start are no forked children.
"""

from __future__ import annotations

import atexit
import os
import select
from _thread import allocate_lock
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pfs import _core
from pfs._process import processes
from pfs._process.recorded import hidden
from pfs._process.segment import SegmentSource
from pfs._read.source import OWN
from pfs._ui.testing.totals import Totals
from pfs.errors import AttachError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pfs._read.source import Source

__all__ = ["Child", "Children", "Forked", "close", "follow", "followed"]

_MOST_UNREAD = 16  # segments of dead children that may stay before they are read and removed


def _file(descriptor: int) -> tuple[int, int]:
    """Identifies an open file: the program may have closed ours, and opened another with the same descriptor."""
    info = os.fstat(descriptor)
    return info.st_dev, info.st_ino


@dataclass(slots=True)
class Child:
    """A forked child, or a child of one."""

    path: str
    counted: Totals = field(default_factory=lambda: Totals({}))  # the counts at the last reading

    def found(self) -> processes.Found | None:
        return processes.look(self.path)

    def source(self) -> SegmentSource | None:
        """Opens its segment, or returns None if there is nothing to read."""
        try:
            return SegmentSource(_core.Segment(self.path), write=False)
        except AttachError:
            return None


class Children:
    """Sums what children do from the first look at them until `close`. A subclass says which there are."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._known: dict[str, Child] = {}
        self._sum = Totals({})
        self._held = 0
        self._lock = allocate_lock()

    def sources(self) -> list[Source]:
        """Returns what to read for this process itself. The last one has what its tests do."""
        return [OWN]

    def _hear(self) -> None:
        """Adds new children to `_known`."""
        raise NotImplementedError

    def _keeps(self) -> bool:
        """Returns whether the user wants to keep the segments."""
        return os.environ.get("PFS_KEEP") == "1"

    def _count(self) -> None:
        """Adds what children have done since the last call, and removes the segments of dead children."""
        self._hear()
        for path, child in list(self._known.items()):
            found = child.found()
            source = child.source()
            if source is not None:
                with suppress(AttachError):  # it is damaged or truncated
                    now = Totals.take(source)
                    self._sum += now.since(child.counted)
                    child.counted = now
                source.close()
            is_over = found is None or found.state == "dead"  # it was dead before the reading, so the reading is complete
            if is_over and not self._held:
                del self._known[path]
                if found is not None and not self._keeps():
                    processes.remove(found)

    @hidden()
    def totals(self) -> Totals:
        """Returns the counts of all children since the beginning, as far as they can be read."""
        if self._pid == os.getpid():
            with self._lock:
                self._count()
        return self._sum

    def there(self) -> list[Child]:
        """Returns the children that run, and those whose segment is held."""
        with self._lock:
            self._hear()
        return list(self._known.values())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps all segments until the end of the block."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def close(self) -> None:
        """Ends the counting."""
        self.totals()


class Forked(Children):
    """Follows the children that are forked until `close`, and their children."""

    def __init__(self) -> None:
        super().__init__()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._pipe = _file(self._write)
        self._text = b""
        self._unread = 0
        self._leaves = False  # in a child: it will leave its segment
        os.register_at_fork(after_in_parent=self._in_parent, after_in_child=self._in_child)

    # In the child. Nothing here may raise or block.

    def _is_heard(self) -> bool:
        """Returns whether our descriptor is still that of the pipe, and the pipe has a reader."""
        with suppress(OSError):
            if _file(self._write) == self._pipe:
                poll = select.poll()
                poll.register(self._write, select.POLLOUT)
                return [state for _, state in poll.poll(0)] == [select.POLLOUT]
        return False

    def _in_child(self) -> None:
        if self._read >= 0:
            with suppress(OSError):
                if _file(self._read) == self._pipe:
                    os.close(self._read)  # else the pipe would have a reader as long as one child runs
            self._read = -1
        path = _core.segment_path()
        if path and self._is_heard():
            with suppress(OSError):
                os.write(self._write, os.fsencode(path) + b"\n")
        if not self._leaves:
            self._leaves = True
            atexit.register(self._leave)

    def _leave(self) -> None:
        if self._is_heard():
            os.putenv("PFS_KEEP", "1")  # pfs reads it at its own exit, which comes later

    # In the process that counts.

    def _in_parent(self) -> None:
        if self._pid != os.getpid() or self._read < 0:
            return
        self._unread += 1
        if self._unread >= _MOST_UNREAD and not self._held and self._lock.acquire(blocking=False):
            try:
                self._unread = 0
                self._count()
            finally:
                self._lock.release()

    def _hear(self) -> None:
        with suppress(OSError):
            while _file(self._read) == self._pipe and (more := os.read(self._read, 65536)):
                self._text += more
        *paths, self._text = self._text.split(b"\n")
        for path in map(os.fsdecode, paths):
            self._known[path] = Child(path)

    def close(self) -> None:
        """Ends the counting. Later exits of children are as without it."""
        super().close()
        read, self._read = self._read, -1
        for end in (read, self._write):
            with suppress(OSError):
                if _file(end) == self._pipe:
                    os.close(end)


_followed: Children | None = None
_class: type[Children] = Forked


def follow(children: type[Children]) -> None:
    """Chooses the class of `followed`, before its first call."""
    global _class
    _class = children


def followed() -> Children:
    """Returns the children of this process, which are followed from the first call until `close`."""
    global _followed
    if _followed is None or _followed._pid != os.getpid():
        _followed = _class()
    return _followed


def close() -> None:
    """Ends the counting of the children of this process."""
    global _followed
    if _followed is not None and _followed._pid == os.getpid():
        _followed.close()
        _followed = None
