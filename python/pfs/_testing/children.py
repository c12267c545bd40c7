"""What forked children of this process do: each has a segment of its own, which must outlive it until somebody has read it.

A child tells of its segment through a pipe, right after the fork. If it ends by a clean exit it leaves the segment, as it does
when it is killed or calls os._exit; whoever watches removes it. Only forks that Python knows of are heard: os.fork,
multiprocessing with "fork". Programs that are started by exec, spawn and forkserver are no forked children.
"""

from __future__ import annotations

import atexit
import os
import select
from _thread import allocate_lock
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pfs import _core
from pfs._outside import processes
from pfs._outside.segment import SegmentSource
from pfs._testing.totals import Totals
from pfs.errors import AttachError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Child", "Children", "close", "watched"]

_MOST_UNREAD = 16  # segments of dead children that may lie about before they are read and removed


def _file(descriptor: int) -> tuple[int, int]:
    """Which file this is: the program may have closed ours, and the number is another's now."""
    facts = os.fstat(descriptor)
    return facts.st_dev, facts.st_ino


@dataclass(slots=True)
class Child:
    """A forked child, or a child's child."""

    path: str
    counted: Totals = field(default_factory=lambda: Totals({}))  # of what has been asked for already

    def found(self) -> processes.Found | None:
        return processes.look(self.path)

    def source(self) -> SegmentSource | None:
        """None: it has left nothing that can be read."""
        try:
            return SegmentSource(_core.Segment(self.path), write=False)
        except AttachError:
            return None


class Children:
    """The children that are forked from now on until `close`, and theirs."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._pipe = _file(self._write)
        self._pid = os.getpid()
        self._text = b""
        self._known: dict[str, Child] = {}
        self._sum = Totals({})
        self._held = 0
        self._unread = 0
        self._turn = allocate_lock()
        self._leaves = False  # in a child: it leaves its segment
        os.register_at_fork(after_in_parent=self._in_parent, after_in_child=self._in_child)

    # In the child, where nothing may be raised and nobody may be waited for.

    def _is_heard(self) -> bool:
        """Whether our end of the pipe is still the pipe, and somebody has the other end."""
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
                    os.close(self._read)  # else the pipe would be heard as long as one child lives
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
            os.putenv("PFS_KEEP", "1")  # read by pfs at its end, which comes after this

    # In the process that watches.

    def _in_parent(self) -> None:
        if self._pid != os.getpid() or self._read < 0:
            return
        self._unread += 1
        if self._unread >= _MOST_UNREAD and not self._held and self._turn.acquire(blocking=False):
            try:
                self._unread = 0
                self._count()
            finally:
                self._turn.release()

    def _hear(self) -> None:
        with suppress(OSError):
            while _file(self._read) == self._pipe and (more := os.read(self._read, 65536)):
                self._text += more
        *paths, self._text = self._text.split(b"\n")
        for path in map(os.fsdecode, paths):
            self._known[path] = Child(path)

    def _count(self) -> None:
        """Adds what children have done since the last time, and removes those that are dead."""
        self._hear()
        for path, child in list(self._known.items()):
            found = child.found()
            source = child.source()
            if source is not None:
                with suppress(AttachError):  # it was damaged, or cut short
                    now = Totals.take(source)
                    self._sum += now.since(child.counted)
                    child.counted = now
                source.close()
            is_over = found is None or found.state == "dead"  # asked before it was read: what it did is complete
            if is_over and not self._held:
                del self._known[path]
                if found is not None and os.environ.get("PFS_KEEP") != "1":
                    processes.remove(found)

    def totals(self) -> Totals:
        """Of all children since the beginning, as far as they can be read."""
        if self._pid == os.getpid():
            with self._turn:
                self._count()
        return self._sum

    def there(self) -> list[Child]:
        """Children that live, or whose segment is held."""
        with self._turn:
            self._hear()
        return list(self._known.values())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Segments stay until the end of the block."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def close(self) -> None:
        """Children end as if nobody had watched."""
        self.totals()
        read, self._read = self._read, -1
        for end in (read, self._write):
            with suppress(OSError):
                if _file(end) == self._pipe:
                    os.close(end)


_watched: Children | None = None


def watched() -> Children:
    """Those of this process: watched from the first call on, until `close`."""
    global _watched
    if _watched is None or _watched._pid != os.getpid():
        _watched = Children()
    return _watched


def close() -> None:
    """Nobody watches any more."""
    global _watched
    if _watched is not None and _watched._pid == os.getpid():
        _watched.close()
        _watched = None
