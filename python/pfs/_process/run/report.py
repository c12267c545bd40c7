"""Reports what a program and its children waited for, from their segments."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pfs._process.attach import attach
from pfs._process.findings.facts import Facts
from pfs._process.findings.find import Finding, find
from pfs._process.recorded import GIL, JOIN, is_accept, is_idle, is_lock_wait
from pfs._read.places.elf import LEFT
from pfs._read.places.readable import Readable
from pfs._read.show import command_text
from pfs._read.source import losses
from pfs.errors import Error

if TYPE_CHECKING:
    from pfs._process.findings.facts import Recorded
    from pfs._process.processes import Found
    from pfs._process.run.launch import Took
    from pfs._process.run.program import Unrecorded
    from pfs._read.source import Rows

__all__ = ["MOST_ROWS", "Report", "add", "add_up", "class_of", "gather", "largest"]

MOST_ROWS = 1000  # of a list

Key = TypeVar("Key")

_CLASSES = {
    JOIN: "ends of threads of Python (join)",
    "wait/synch/mutex/": "mutexes",
    "wait/synch/rwlock/": "read-write locks",
    GIL: "the GIL of Python",
    "wait/synch/cond/": "conditions",
    "wait/io/file/": "files",
    "wait/io/socket/": "sockets",
    "wait/app/": "waits of the program's own",
    "idle": "idle (poll, select, epoll, accept)",
}
_LOCKS = ("wait/synch/mutex/", "wait/synch/rwlock/")
_IDLE = "idle threads (a condition)"
# Kinds of wait/system, which stand before the place: cpp/run/calls/objects.cpp.
_SYSTEM_WAIT = re.compile(r"wait/system/[^/]*/([a-z]+)-")
_SYSTEM_CLASSES = {
    "aio": "asynchronous I/O",
    "child": "child processes",
    "join": "ends of threads (join)",
    "message": "messages and semaphores",
    "msync": "mapped files (msync)",
    "openmp": "OpenMP",
    "resolve": "host names",
    "signal": "signals",
    "sleep": "time (sleep)",
    "sync": "files",
}
# The services that a program most often waits for, by their ports.
_SERVICES = {
    "53": "dns", "80": "http", "443": "https", "3306": "mysql", "5432": "postgresql", "5672": "amqp", "6379": "redis",
    "9092": "kafka", "11211": "memcached", "27017": "mongodb",
}  # fmt: skip
# A lock that is free takes some nanoseconds, and a thread that sleeps for one takes microseconds to wake up.
_SHORTEST_BLOCK = 1_000_000  # picoseconds
_FIRST_THREAD = 1  # THREAD_ID
_MOST_PROGRAMS = 3  # of an end of a pipe
_SHORTEST_OPEN = 10_000_000_000  # picoseconds
_WAITS = "events_waits_summary_global_by_event_name"
# The columns of each row of a report.
_IO = ("SUM_TIMER_WAIT", "COUNT_READ", "SUM_NUMBER_OF_BYTES_READ", "COUNT_WRITE", "SUM_NUMBER_OF_BYTES_WRITE")
_STATEMENTS = ("COUNT_STAR", "SUM_TIMER_WAIT", "SUM_ROWS_SENT", "SUM_ROWS_AFFECTED", "SUM_ERRORS", "MAX_TIMER_WAIT")
_MEMORY = ("COUNT_ALLOC", "SUM_NUMBER_OF_BYTES_ALLOC", "CURRENT_NUMBER_OF_BYTES_USED", "HIGH_NUMBER_OF_BYTES_USED")


def class_of(name: str) -> str | None:
    """Returns the class of waits that an instrument belongs to."""
    if is_accept(name):
        return _CLASSES["idle"]
    if kind := _SYSTEM_WAIT.match(name):
        return _SYSTEM_CLASSES.get(kind[1], kind[1])
    return next((text for prefix, text in _CLASSES.items() if name.startswith(prefix)), None)


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A wait that had not ended when its process did. Times are picoseconds."""

    pid: int
    thread: str
    name: str
    source: str
    time: int
    holder: str | None = None
    holder_source: str | None = None
    deadlock: str | None = None  # the threads that wait for each other


@dataclass(slots=True)
class Report:
    """Holds sums over all processes of a run. Times are picoseconds."""

    facts: Facts = field(default_factory=Facts)
    findings: list[Finding] = field(default_factory=list)  # `finish` looks for them
    took: Took | None = None  # of the run itself
    processes: list[dict[str, Any]] = field(default_factory=list)
    times: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # by role and state of thread_time: threads, time
    classes: dict[str, list[int]] = field(default_factory=dict)  # count, sum, longest
    locks: dict[str, list[int]] = field(default_factory=dict)  # count, sum, longest
    conditions: dict[str, list[int]] = field(default_factory=dict)  # for what other threads do: as locks
    idle: dict[str, list[int]] = field(default_factory=dict)  # where threads have nothing to do: as locks
    waits: dict[str, list[int]] = field(default_factory=dict)  # for children, time, signals ...: as locks
    blocked: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # by lock and line of the wait: as locks
    holders: dict[tuple[str, str, str], list[int]] = field(
        default_factory=dict
    )  # by lock, line that took it, and act: count, time
    open: list[OpenWait] = field(default_factory=list)
    files: dict[str, list[int]] = field(default_factory=dict)  # time, reads, bytes, writes, bytes, longest
    pipes: dict[str, tuple[set[str], set[str]]] = field(default_factory=dict)  # by name: programs that wrote, that read
    sockets: dict[str, list[int]] = field(default_factory=dict)  # the same without the longest, by instrument
    peers: dict[tuple[str, str], list[int]] = field(default_factory=dict)  # by address and instrument of a socket: as locks
    statements: dict[str, list[int]] = field(default_factory=dict)  # count, time, rows, affected, errors, longest
    memory: dict[str, list[int]] = field(default_factory=dict)  # allocations, bytes, bytes in use at the end, most in use
    overhead: dict[int, int] = field(default_factory=dict)  # by process that has a ceiling: millionths of its processor time
    segments: int = 0  # bytes that pfs took
    read: list[str] = field(default_factory=list)  # files: who may not read them may not read the report
    lives: bool = False  # the process still runs
    limit: int | None = None  # rows of each list of a report that was kept as JSON: smaller ones are not known
    host: str = field(default_factory=lambda: os.uname().nodename)  # where the processes ran
    only_counted: int = 0  # waits: TIMED is SAMPLED or STATE
    lost: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what the library says that it cannot see
    unread: list[str] = field(default_factory=list)  # segments, and programs' files, that could not be read
    unrecorded: dict[Unrecorded, int] = field(default_factory=dict)

    def finish(self, took: Took | None, cpu: int | None = None) -> None:
        """Says how long the run took. Looks for findings.

        Args:
            took: None: nobody has measured the run. `cpu` is its processor time then, if that is known.
        """
        self.took = took
        for name, ends in self.pipes.items():
            if all(ends) and name in self.files:  # those between the same programs are one row
                writers, readers = (", ".join(sorted(programs)[:_MOST_PROGRAMS]) for programs in ends)
                add_up(self.files, f"pipe from {writers} to {readers}", self.files.pop(name), longest=5)
        wall = took.wall if took is not None else None
        self.findings = find(self.facts, wall, took.user + took.system if took is not None else cpu)

    def most_unrecorded(self, limit: int) -> list[tuple[Unrecorded, int]]:
        """Returns processes and programs that are not recorded: the most frequent of each reason."""
        return sorted(self.unrecorded.items(), key=lambda item: (-item[1], item[0]))[:limit]

    def longest_open(self, limit: int) -> list[OpenWait]:
        """Returns the waits that had not ended, those of deadlocks first."""
        return sorted(self.open, key=lambda wait: (wait.deadlock is None, -wait.time, wait.thread))[:limit]

    def longest_blocked(self, limit: int) -> list[tuple[tuple[str, str], list[int]]]:
        """Returns the locks and lines with the longest single waits."""
        return sorted(self.blocked.items(), key=lambda item: (-item[1][2], item[0]))[:limit]

    def longest_held(self, limit: int) -> list[tuple[tuple[str, str, str], list[int]]]:
        """Returns what holders of locks did while other threads waited: the longest."""
        return sorted(self.holders.items(), key=lambda item: (-item[1][1], item[0]))[:limit]


def gather(there: Iterable[Found], before: Report | None = None, ended: Mapping[int, int] | None = None) -> Report:
    """Reads segments and adds them up. A segment that cannot be read, or that may be another user's, is named in the report.

    Args:
        before: what is known of processes whose segments have gone.
        ended: when processes ended, as far as that is known: nanoseconds of the monotonic clock.
    """
    report = before or Report()
    for found in there:
        if found.doubt:
            report.unread.append(f"{found.path}: {found.doubt}")
            continue
        try:
            with attach(found.path) as schema:
                if ended is not None and schema.pid in ended:
                    schema._source.ran_until(ended[schema.pid])
                add(report, schema._source)
                report.segments += found.size
                report.read.append(found.path)
        except Error as error:
            report.unread.append(f"{found.path}: {error}")
        if len(report.blocked) > 2 * MOST_ROWS:
            report.blocked = dict(report.longest_blocked(MOST_ROWS))
        if len(report.holders) > 2 * MOST_ROWS:
            report.holders = dict(report.longest_held(MOST_ROWS))
    left = (f"symbols and lines of {path}: {why}" for path, why in LEFT.items())
    report.unread += [text for text in left if text not in report.unread]
    return report


def add(report: Report, source: Recorded) -> None:
    """Adds a process to a report, and to the facts for its findings."""
    columns = ("EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT", "MAX_TIMER_WAIT", "MAX_SOURCE", "COUNT_NOT_SAMPLED")
    waits = [row for row in source.rows(_WAITS, columns) if row[1] > 0]
    without_time = {name for name, timed in source.rows("setup_instruments", ("NAME", "TIMED")) if timed == "STATE"}
    report.only_counted += sum(row[1] if row[0] in without_time else row[5] for row in waits)
    command = command_text(source.identity.command)
    report.processes.append({"pid": source.pid, "command": command, "events": sum(row[1] for row in waits)})
    names = Readable(source)
    sums: dict[str, list[int]] = {}
    of_first: dict[str, list[int]] = {}
    for name, *numbers in (row[:4] for row in waits):
        add_up(sums, name, numbers, longest=2)
    for thread, name, time in _add_open(report, source, source.pid, names):
        for there in (sums, of_first) if thread == _FIRST_THREAD else (sums,):
            add_up(there, name, (1, time, time), longest=2)
    idle = _idle_in(source, sums, of_first, names)
    lines = {row[0]: row[4] for row in waits}
    told_apart = _ToldApart(source, {name for name, (_, time, _) in sums.items() if time > 0})
    for name, numbers in sums.items():
        kind = class_of(name) if name not in idle or is_accept(name) else _IDLE
        if kind is not None:
            add_up(report.classes, kind, numbers, longest=2)
        if name in idle:
            add_up(report.idle, names.name(name), numbers, longest=2)
        elif name.startswith("wait/synch/cond/"):
            add_up(report.conditions, names.name(name), numbers, longest=2)
        elif name.startswith((JOIN, "wait/system/", "wait/app/")):
            at = lines.get(name)
            shown = f"{name} ({at})" if at and name.startswith("wait/system/python/") else names.name(name)
            add_up(report.waits, shown, numbers, longest=2)
        elif name.startswith("wait/synch/"):
            for ordinal, part in told_apart.parts(name, numbers):
                add_up(report.locks, names.name(name) + ordinal, part, longest=2)
    for name, state, *numbers in source.rows("thread_time", ("NAME", "STATE", "COUNT_THREADS", "SUM_TIMER_WAIT")):
        add_up(report.times, (names.name(name), state), numbers)
    _add_files(report, source, names, os.path.basename(command.partition(" ")[0]))
    for name, count, *numbers in source.rows("socket_summary_by_event_name", ("EVENT_NAME", "COUNT_STAR", *_IO)):
        if count > 0:
            add_up(report.sockets, names.name(name), numbers)
    if report.sockets:
        _add_peers(report, source, names)
    for name, *numbers in source.rows("events_statements_summary_by_digest", ("DIGEST_TEXT", *_STATEMENTS)):
        add_up(report.statements, name or "(other statements)", numbers, longest=5)
    for name, *numbers in source.rows("memory_summary_global_by_event_name", ("EVENT_NAME", *_MEMORY)):
        if numbers[0] > 0 and not name.startswith("memory/performance_schema/"):
            add_up(report.memory, name, numbers)
    for name, count in losses(source).items():
        if count > 0:
            report.lost[name] = report.lost.get(name, 0) + count
    _add_blocked(report, source, {name: (longest, at) for name, _, _, longest, at, _ in waits}, names, told_apart)
    if report.blocked:
        _add_holders(report, source, names)
    for periods, overhead in source.rows("setup_overhead", ("PERIODS", "OVERHEAD_PPM")):
        if periods > 0:
            report.overhead[source.pid] = overhead
    for code, severity, text in source.rows("error_log", ("ERROR_CODE", "PRIO", "DATA")):
        if code == "PFS-RUN" and severity == "Warning" and text not in report.notes:
            report.notes.append(text)
    report.facts.add(source)


def _idle_in(source: Recorded, sums: Mapping[str, Sequence[int]], of_first: dict[str, list[int]], names: Readable) -> set[str]:
    """Returns the instruments at which threads have nothing to do. `of_first`: the first thread's open waits."""
    ran = source.now()

    def idle(name: str) -> bool:
        if name.startswith("wait/synch/cond/") and (said := names.is_idle(name)) is not None:
            return said
        count, time, _ = sums[name]
        count_of_first, time_of_first, _ = of_first.get(name, (0, 0, 0))
        return is_idle(name, count - count_of_first, time - time_of_first, ran)

    found = set(filter(idle, sums))
    columns = ("THREAD_ID", "EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT", "MAX_TIMER_WAIT")
    for thread, name, *numbers in source.rows("events_waits_summary_by_thread_by_event_name", columns) if found else ():
        if thread == _FIRST_THREAD and name in found:
            add_up(of_first, name, numbers, longest=2)
    return set(filter(idle, found))


def _add_open(report: Report, source: Rows, pid: int, names: Readable) -> list[tuple[int, str, int]]:
    """Adds the waits that had not ended, and returns thread, name and time of each: they count as those that had.

    Threads without work wait until the program ends. So waits that no lock blocks are shown only if the first thread waits, too.
    """
    columns = ("THREAD_ID", "EVENT_ID", "HOLDER", "HOLDER_SOURCE", "HOLDER_EVENT_SOURCE", "DEADLOCK")
    blocked = {(thread, event): holder for thread, event, *holder in source.rows("blocked", columns)}
    of_wait = ("THREAD_ID", "EVENT_ID", "EVENT_TYPE", "THREAD", "EVENT_NAME", "SOURCE", "TIMER_WAIT")
    running = [row for row in source.rows("running", of_wait) if row[2] == "WAIT" and row[6]]
    is_cut_short = any(row[0] == _FIRST_THREAD for row in running)
    for thread, event, _, who, name, at, time in running:
        held = blocked.get((thread, event))
        if time >= _SHORTEST_OPEN and (held is not None or is_cut_short):
            holder, held_at, does_at, deadlock = held or (None, None, None, None)
            holder = names.name(holder) if holder else None
            line = names.source(held_at or does_at)
            report.open.append(
                OpenWait(pid, names.name(who), names.name(name), names.source(at) or "", time, holder, line, deadlock)
            )
    return [(row[0], row[4], row[6]) for row in running]


def _add_files(report: Report, source: Rows, names: Readable, program: str) -> None:
    """Adds the files, and for each instrument what the calls on files did that have no row: those that were removed or
    overwritten, and names that could not be opened."""
    left: dict[str, list[int]] = {}
    columns = ("COUNT_STAR", *_IO, "MAX_TIMER_WAIT")
    for name, count, *numbers in source.rows("file_summary_by_event_name", ("EVENT_NAME", *columns)):
        if count > 0:
            left[name] = [count, *numbers]
    for file, name, count, *numbers in source.rows("file_summary_by_instance", ("FILE_NAME", "EVENT_NAME", *columns)):
        if count > 0:
            add_up(report.files, file, numbers, longest=5)
            if file.startswith("pipe:"):
                for programs, used in zip(report.pipes.setdefault(file, (set(), set())), (numbers[3], numbers[1]), strict=True):
                    programs |= {program} if used else set()
            *sums, longest = left.get(name, [0] * 7)
            left[name] = [*(max(0, a - b) for a, b in zip(sums, (count, *numbers[:-1]), strict=True)), longest]
    for name, (count, *numbers) in left.items():
        if count > 0:
            add_up(report.files, f"(removed or not there) {names.name(name).removeprefix('wait/io/file/')}", numbers, longest=5)


class _ToldApart:
    """Tells locks apart that have one name, because one line makes them: by numbers, if threads wait for two to eight of them.

    More are the parts of one thing, such as the locks of a table by hash.
    """

    _MOST = 8

    def __init__(self, source: Rows, waited: Collection[str]) -> None:
        """`waited`: the names that threads waited for."""
        found: dict[str, dict[int, list[int]]] = {}
        columns = ("EVENT_NAME", "OBJECT_INSTANCE_BEGIN", "COUNT_STAR", "SUM_TIMER_WAIT", "MAX_TIMER_WAIT")
        is_needed = any(name.startswith(_LOCKS) for name in waited)
        for name, object_, *numbers in source.rows("events_waits_summary_by_instance", columns) if is_needed else ():
            if numbers[1] > 0 and name in waited and name.startswith(_LOCKS):
                found.setdefault(name, {})[object_] = numbers
        self._found = {name: objects for name, objects in found.items() if 2 <= len(objects) <= self._MOST}

    def ordinal(self, name: str, object_: int | None) -> str:
        """Returns `` #2`` for the second lock of a name, and nothing for one that is alone or unknown."""
        objects = self._found.get(name, {})
        return f" #{list(objects).index(object_) + 1}" if object_ in objects else ""

    def parts(self, name: str, numbers: Sequence[int]) -> Iterator[tuple[str, Sequence[int]]]:
        """Yields the count, time and longest wait of each lock of a name, and of the rest."""
        objects = self._found.get(name, {})
        for object_, of_object in objects.items():
            yield self.ordinal(name, object_), of_object
        rest = [numbers[i] - sum(of_object[i] for of_object in objects.values()) for i in (0, 1)]
        if rest[0] > 0:
            yield "", (*rest, numbers[2] if not objects else min(rest[1], numbers[2]))

    def longest(self, name: str, time: int) -> Iterator[tuple[str, int]]:
        """Yields the longest wait of each lock of a name. `time`: that of all, which may have been for a lock that is gone."""
        found = [(self.ordinal(name, object_), numbers[2]) for object_, numbers in self._found.get(name, {}).items()]
        yield from found
        if all(most < time for _, most in found):
            yield "", time


def _add_blocked(
    report: Report, source: Rows, longest: dict[str, tuple[int, str | None]], names: Readable, told_apart: _ToldApart
) -> None:
    """Adds the waits for locks. The history has the last events only, so the longest wait of a lock may be missing there.

    `longest`: that wait by instrument, and its line. The longest wait of another lock of the instrument has lost its line.
    """
    seen: dict[tuple[str, str], int] = {}

    def add(name: str, at: str | None, time: int, ordinal: str) -> None:
        if time >= _SHORTEST_BLOCK and is_lock_wait(name, at or ""):
            add_up(report.blocked, (names.name(name) + ordinal, names.source(at) or ""), (1, time, time), longest=2)

    columns = ("EVENT_NAME", "SOURCE", "TIMER_WAIT", "OBJECT_INSTANCE_BEGIN")
    for name, at, time, object_ in source.rows("events_waits_history_long", columns):
        if time and name.startswith("wait/synch/"):  # a wait that has not ended has no time
            ordinal = told_apart.ordinal(name, object_)
            seen[name, ordinal] = max(seen.get((name, ordinal), 0), time)
            add(name, at, time, ordinal)
    for name, (longest_of_all, at) in longest.items():
        for ordinal, time in told_apart.longest(name, longest_of_all):
            is_of_all = time == longest_of_all
            # Without a line, a lock of Python may be where an idle worker waits.
            if time > seen.get((name, ordinal), 0) and (is_of_all or not name.startswith("wait/synch/mutex/python/")):
                add(name, at if is_of_all else None, time, ordinal)


def _add_peers(report: Report, source: Rows, names: Readable) -> None:
    """Adds up the events of sockets by address, as far as the history has them. Those that were accepted count by host."""
    for name, address, time in source.rows("events_waits_history_long", ("EVENT_NAME", "OBJECT_NAME", "TIMER_WAIT")):
        if not address or not time or not name.startswith("wait/io/socket/"):
            continue
        host, _, port = address.rpartition(":")
        if host and name.endswith("/accepted"):
            address = host
        elif port in _SERVICES:
            address = f"{_SERVICES[port]} {address}"
        add_up(report.peers, (address, names.name(name)), (1, time, time), longest=2)


def _add_holders(report: Report, source: Rows, names: Readable) -> None:
    """Adds what the holders of locks did while other threads waited for them."""
    columns = ("LOCK_NAME", "HOLDER_SOURCE", "EVENT_NAME", "OPERATION", "OBJECT_NAME", "SOURCE", "COUNT_STAR", "SUM_TIMER_WAIT")
    for lock, held_at, event, operation, thing, at, *numbers in source.rows("lock_reasons", columns):
        if is_lock_wait(lock, held_at or ""):
            did = f"{operation or ''} {thing or names.name(event)}".lstrip() if event else "in no wait, as computing"
            act = f"{did} at {names.source(at)}" if at else did
            add_up(report.holders, (names.name(lock), names.source(held_at) or "", act), numbers)


def add_up(sums: dict[Key, list[int]], name: Key, numbers: Sequence[int], longest: int = -1) -> None:
    """Adds numbers to those of a name; of the one at index `longest` the largest is kept."""
    more = list(numbers)
    there = sums.get(name)
    if there is None:
        sums[name] = more
    else:
        sums[name] = [max(a, b) if i == longest else a + b for i, (a, b) in enumerate(zip(there, more, strict=True))]


def largest(sums: dict[Key, list[int]], by: int, limit: int | None) -> list[tuple[Key, list[int]]]:
    """Returns the `limit` largest rows by the number at index `by`."""
    # Many rows of locks have no time: those of a lock that was always free come by their counts.
    return sorted(sums.items(), key=lambda item: (-item[1][by], -max(item[1]), item[0]))[:limit]
