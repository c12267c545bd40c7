"""Follows the processes of a run from a thread: their parents, those that are not recorded, and those that have ended.

A process that ends leaves its segment for the report. Thousands of them would fill the file system. So while the program runs,
the segments of most dead processes move into the sums of the report. A process that cannot be recorded leaves a note in the
folder (``cpp/src/shm/place.h``): a link whose target is the reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self

from pfs._base import paths
from pfs._process import owners, processes
from pfs._process.run.program import REASONS, Unrecorded
from pfs._process.run.tree import FILE, ancestors

if TYPE_CHECKING:
    from types import TracebackType

    from pfs._process.run.report import Report

__all__ = ["Watch"]

_CREATE, _MOVED_TO, _DELETE = 0x100, 0x80, 0x200  # of inotify(7)
_OVERFLOW, _IS_FOLDER = 0x4000, 0x40000000
_EVENT = struct.Struct("iIII")
_MOST_DEAD = 64  # segments of dead processes that stay beside each other,
_MOST_BYTES = 16 << 20  # and their memory
_MOST_NOTES = 1000
_MOST_FOLLOWED = 256  # processes at a time: each takes a descriptor
_SECONDS_TO_START = 1
_NOTE = re.compile(r"(\d+)(-\d+)?\.unseen")
_SEGMENT = re.compile(r"(\d+)\D.*pfs")


def _note(path: str) -> tuple[str, str] | None:
    """Returns what a process says about itself: what kind of note it is, and a text. None if a stranger may have written it."""
    if os.lstat(path).st_uid not in paths.readable_by(os.lstat(os.path.dirname(path))):
        return None
    kind, _, what = os.readlink(path).partition(" ")
    return kind, what


def _of_segment(why: str) -> str:
    """Returns why there is no segment, with its folder instead of its name."""
    return re.sub(r"(?:the file )?(\S*)/[^/ ]+\.pfs", r"a file in \1", why)


class Watch:
    """Follows the processes whose segments are in a folder, while it is entered.

    Attributes:
        report: the sums of segments that have been removed. None if there are none.
        ended: when processes ended, by their numbers: nanoseconds of the monotonic clock. Only of those that the system tells of.
    """

    def __init__(self, folder: str, takes: bool, says: Callable[[str], None] | None = None) -> None:
        """`takes`: segments of dead processes may be removed. `says`: tells at once why the first process without a segment has
        none."""
        self.report: Report | None = None
        self.ended: dict[int, int] = {}
        self._alive: dict[int, int] = {}  # processes by the descriptors that tell of their ends
        self._poll = select.epoll()
        self._folder, self._takes, self._says = folder, takes, says
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._watch = self._stop = self._parents = -1
        self._thread: threading.Thread | None = None
        self._folders: dict[int, str] = {}  # by the number of their watch
        self._there: set[str] = set()  # segments
        self._next = _MOST_DEAD  # this many segments are worth a look
        self._taken: set[str] = set()
        self._gone: Counter[int] = Counter()  # segments that somebody else has removed, by process
        self._notes: set[str] = set()
        self._without: set[int] = set()  # processes that say that they have no segment
        self._unrecorded: Counter[Unrecorded] = Counter()
        self._is_complete = True

    def __enter__(self) -> Self:
        self._watch = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._watch >= 0 and self._add(self._folder) >= 0:
            self._stop = os.eventfd(0)
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._thread is not None:
            os.eventfd_write(self._stop, 1)
            self._thread.join()
            os.close(self._stop)
        for descriptor in self._alive:
            os.close(descriptor)
        self._poll.close()
        if self._watch >= 0:
            os.close(self._watch)
        for folder in processes.with_users(self._folder):
            with contextlib.suppress(OSError):
                for name in os.listdir(folder):
                    if _NOTE.fullmatch(name):
                        self._read_note(os.path.join(folder, name))

    def unrecorded(self) -> Counter[Unrecorded]:
        """Returns what is not recorded, and how often. It is for the end of the run."""
        found = self._unrecorded.copy()
        gone = sum(count for pid, count in self._gone.items() if pid not in self._without)
        if gone:
            found["", "the segment was removed before the report could read it"] = gone
        for folder in processes.with_users(self._folder)[1:]:
            shut = _shut_for(folder)
            if shut and not os.listdir(folder):
                user = owners.user(os.lstat(folder).st_uid)
                found["", f"{shut} is closed to {user}, whom they became (chmod o+x opens it)"] += 1
        if not self._is_complete:
            found["", "there were too many at once to follow all of them"] += 1
        return found

    def _add(self, folder: str) -> int:
        number = int(self._libc.inotify_add_watch(self._watch, os.fsencode(folder), _CREATE | _MOVED_TO | _DELETE))
        if number >= 0:
            self._folders[number] = folder
        return number

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # the file system is full: the tree has one level
            self._parents = paths.made(os.path.join(self._folder, FILE))
        for descriptor in (self._watch, self._stop):
            self._poll.register(descriptor, select.EPOLLIN)
        is_over = False
        while not is_over:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            is_over = self._stop in ready
            for descriptor in ready & self._alive.keys():
                self.ended[self._alive.pop(descriptor)] = time.monotonic_ns()
                os.close(descriptor)
            with contextlib.suppress(BlockingIOError):
                while data := os.read(self._watch, 1 << 16):
                    for number, mask, name in _events(data):
                        self._on(number, mask, name)
                    if self._takes:
                        self._take()
                    if len(self._notes) > _MOST_NOTES:
                        self._read_notes()
        if self._parents >= 0:
            os.close(self._parents)

    def _on(self, number: int, mask: int, name: str) -> None:
        if mask & _OVERFLOW:
            self._is_complete = False
        folder = self._folders.get(number)
        if folder is None:
            return
        path = os.path.join(folder, name)
        of_segment = _SEGMENT.fullmatch(name)
        if of_segment is not None and mask & _DELETE:
            self._there.discard(path)
            if path in self._taken:
                self._taken.discard(path)
            else:
                self._gone[int(of_segment[1])] += 1
        elif of_segment is not None:
            self._there.add(path)
            self._follow(int(of_segment[1]))
            chain = ancestors(int(of_segment[1]))
            if chain and self._parents >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._parents, (" ".join(f"{pid}:{ticks}" for pid, ticks in chain) + "\n").encode())
        elif mask & _IS_FOLDER and mask & _CREATE and re.fullmatch(r"pfs-\d+", name):
            of_user = self._add(path)
            for other in os.listdir(path):  # made before it was watched
                self._on(of_user, _CREATE, other)
        elif _NOTE.fullmatch(name):
            (self._notes.discard if mask & _DELETE else self._notes.add)(path)
            if self._says is not None and not mask & _DELETE:
                with contextlib.suppress(OSError):
                    self._say(path, self._says)

    def _follow(self, pid: int) -> None:
        """Waits for the end of a process, too. Of some it hears nothing: they are of another user, or there are too many."""
        if pid not in self._alive.values() and len(self._alive) < _MOST_FOLLOWED:
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(pid)
                self._alive[descriptor] = pid
                self._poll.register(descriptor, select.EPOLLIN)

    def _read_notes(self) -> None:
        """Reads notes that are there for a while: one is taken back at once if its program does not start."""
        for path in list(self._notes):
            with contextlib.suppress(OSError):
                if time.time() - os.lstat(path).st_mtime > _SECONDS_TO_START:
                    self._read_note(path)
                    self._notes.discard(path)

    def _say(self, path: str, says: Callable[[str], None]) -> None:
        if (note := _note(path)) is not None and note[0] == "segment":
            self._says = None
            says(_of_segment(note[1]))

    def _read_note(self, path: str) -> None:
        try:
            note = _note(path)
            if note is None:
                return
            os.unlink(path)
        except OSError:
            return
        kind, what = note
        if kind == "segment":
            self._without.add(int(os.path.basename(path).split(".")[0]))
            self._unrecorded["", _of_segment(what)] += 1
        else:
            self._unrecorded[what, REASONS.get(kind, kind)] += 1

    def _take(self) -> None:
        """Moves segments of dead processes into the report, the oldest first, if there are many."""
        count = len(self._there)
        if count < self._next and (count % 8 != 7 or sum(map(_bytes, self._there)) < _MOST_BYTES):
            return
        from pfs._process.run import report as reports  # not before it is needed

        self.report = self.report or reports.Report()
        dead = [found for found in processes.scan_all(processes.with_users(self._folder)) if found.state == "dead"]
        for found in sorted(dead, key=lambda found: found.info.st_mtime_ns)[: max(0, len(dead) - _MOST_DEAD // 4)]:
            reports.gather([found], self.report, self.ended)
            self._taken.add(found.path)  # before its event comes
            if not processes.remove(found):
                self._taken.discard(found.path)
            self._there.discard(found.path)
        self._next = len(self._there) + _MOST_DEAD // 2


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yields events of inotify: the number of the watch, what happened, and the name of the file."""
    at = 0
    while at < len(data):
        number, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield number, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length


def _bytes(path: str) -> int:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0


def _shut_for(folder: str) -> str:
    """Returns a folder above a user's folder that others cannot enter, or ""."""
    while (folder := os.path.dirname(folder)) != "/":
        if not os.stat(folder).st_mode & 0o001:
            return folder
    return ""
