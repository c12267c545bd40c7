"""Copies the columns that the rules need from the tables of processes into SQLite, in memory.

=========  =====================================================================================================
process    p (its number here), pid, parent, command, began (microseconds), span (until its end), busy (without idle)
wait       the last waits: kind, p, thread, event, name, place, op, object, file, bytes, t0, t1, dt, nest, scale, more, waited_for
statement  the last statements: p, thread, event, name, place, text, rows, t0, t1, dt, nest
task       the last waits of tasks of asyncio: p, name, place, lock, held_at (an await of its holder), t0, t1, dt
total      sums of waits by p and name: kind, n, dt, place (of the longest), kept (time in `wait`)
file       sums of files by p and name: kind, reads, read_bytes, read_dt, writes, write_bytes, write_dt
digest     sums of statements by p and text: n, dt, rows, errors, first and last (when they ended: microseconds)
sent       sums of statements by p and name: n, dt
queue      locks with waiters, by p and object: name, place, waits, threads, dt (somebody waited), whole (likewise, for any lock
           of that name), scale, computes
under      calls while others waited for the lock of an object: what, thing (and others), ops, n, dt, turns, place
circle     waits of a deadlock: p, thread, place, dt
stuck      other waits for locks that have not ended: p, thread, name, kind, place, dt, holder (a thread)
thread     threads by p, name and state: n, dt (without that of runnable threads)
call       calls by p, kind, op, place and error that failed or found nothing: failed, empty, dt, thing (a name)
run        one row: wall, busy, cpu (NULL if it is not known)
=========  =====================================================================================================

Times are picoseconds. The history has the last events only: `scale` is how many times as long all waits of that name took, `more`
how many times as many there are.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pfs._process.findings.queues import Covered, Wait, add_queues, threads_waited_for, times_outside
from pfs._process.recorded import GIL, JOIN, START, is_accept, is_lock_wait, is_noise, is_pause, object_waited_for
from pfs._read.places.readable import Readable
from pfs._read.show import command_text, storable
from pfs.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Protocol

    from pfs._read.source import Rows

    class Identity(Protocol):
        """Says which process wrote the tables. `started` is microseconds since 1970; `parent` is 0 where it is not known."""

        @property
        def parent(self) -> int: ...
        @property
        def started(self) -> int: ...
        @property
        def command(self) -> bytes: ...

    from pfs._process.segment import SegmentSource

    class Recorded(Rows, Protocol):
        """A source whose process is known: a segment, or a snapshot."""

        @property
        def identity(self) -> Identity: ...


__all__ = ["Facts", "Moment", "task_of"]

_SCHEMA = """
create table process(p integer primary key, pid, parent, command, began, span, busy);
create table wait(p, thread, event, name, kind, place, op, object, file, bytes, t0, t1, dt, nest, scale, more, waited_for);
create table statement(p, thread, event, name, place, text, rows, t0, t1, dt, nest);
create table task(p, name, place, lock, held_at, t0, t1, dt);
create table total(p, name, kind, n, dt, place, kept);
create table file(p, name, kind, reads, read_bytes, read_dt, writes, write_bytes, write_dt);
create table digest(p, text, n, dt, rows, errors, first, last);
create table sent(p, name, n, dt);
create table queue(p, object, name, place, waits, threads, dt, whole, scale, computes);
create table under(p, object, what, thing, others, ops, n, dt, turns, place);
create table circle(p, thread, place, dt);
create table stuck(p, thread, name, kind, place, dt, holder);
create table call(p, kind, op, place, error, failed, empty, dt, thing);
create table thread(p, name, n, dt);
create table run(wall, busy, cpu);
create view imported as select distinct file from wait where file glob '*/python3.*' or file glob '*/__pycache__*'
  or file glob '*-packages/*' or file glob '*/pyvenv.cfg' or file glob 'pipe:*' or file glob 'anon_inode:*'
  or file glob '/proc/*' or file glob '/sys/*' or file glob '/etc/*' or file glob '/usr/*' or file glob '/dev/*';
create index of_thread on wait(p, thread, t0);
create index of_file on wait(p, file, op);
create index of_kind on wait(p, kind, op);
"""
_WAITS = (
    "THREAD_ID", "EVENT_ID", "EVENT_NAME", "SOURCE", "OPERATION", "OBJECT_INSTANCE_BEGIN", "OBJECT_NAME", "NUMBER_OF_BYTES",
    "TIMER_START", "TIMER_END", "TIMER_WAIT", "NESTING_EVENT_ID", "NESTING_EVENT_TYPE",
)  # fmt: skip
_STATEMENTS = (
    "THREAD_ID", "EVENT_ID", "EVENT_NAME", "SOURCE", "DIGEST_TEXT", "ROWS_SENT", "TIMER_START", "TIMER_END", "TIMER_WAIT",
    "NESTING_EVENT_ID", "NESTING_EVENT_TYPE",
)  # fmt: skip
# Tables of sums, their columns, and which of these identify a row. The columns after the sums, if there are any, are no sums.
_SUMS = {
    "events_waits_summary_global_by_event_name": (("EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT", "MAX_SOURCE"), 1, 2),
    "file_summary_by_instance": (
        ("FILE_NAME", "EVENT_NAME", "COUNT_READ", "SUM_NUMBER_OF_BYTES_READ", "SUM_TIMER_READ", "COUNT_WRITE",
         "SUM_NUMBER_OF_BYTES_WRITE", "SUM_TIMER_WRITE"), 2, 6,
    ),
    "events_statements_summary_by_digest": (
        ("DIGEST_TEXT", "COUNT_STAR", "SUM_TIMER_WAIT", "SUM_ROWS_SENT", "SUM_ERRORS", "FIRST_SEEN", "LAST_SEEN"), 1, 4,
    ),
    "events_statements_summary_global_by_event_name": (("EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT"), 1, 2),
    "call_sites": (
        ("EVENT_NAME", "OPERATION", "SOURCE", "ERRNO", "COUNT_FAILED", "COUNT_EMPTY", "SUM_TIMER_WAIT", "OBJECT_NAME"), 4, 3,
    ),
}  # fmt: skip
_INTERPRETER = re.compile(
    r"(?:libpython|python3|libruby|libperl)[^/:]*\+0x|(?:perl|ruby|php|node|(?:ba|da|k|z)?sh)[0-9.]*\+0x"
    r"|[^/:]*\.cpython-[^/:]*\+0x|(?:lib)?sqlite3\+0x"
)
_SHELL = re.compile(r"(?:ba|da|k|z)?sh")
_OF_SCRIPTS = re.compile(r"(?:python|perl|ruby|php|node|(?:ba|da|k|z)?sh)[0-9.]*")
_SUBCOMMAND = re.compile(r"[a-z][a-z-]*")
_LIBRARY = re.compile(
    r"[<&]*std::(?!sys::backtrace::__rust_begin)|(?:libstdc\+\+|libc\+\+|php[^/:]*)\+0x|(?:threading|queue|(?:asyncio|concurrent\.futures|multiprocessing)[.\w]*):\d"
)
_KINDS = {JOIN: "join", START: "start", GIL: "gil"}
_KIND = re.compile(r"wait/(?:synch|io|system/[^/]*)/([a-z]+)")
# States of thread_time in which a thread does nothing: no fault takes of them. A busy machine makes threads runnable for longer.
_PASSIVE = ("runnable", "idle", "/sleep", "/join", ".join", "/cond", "starting", "ending")
_OF_TASKS = "statement/asyncio/"
_MOST = 2**63 - 1  # of an integer of SQLite
_MOST_ROWS = 500_000  # of histories: later processes give their sums only


def kind_of(name: str, place: str | None) -> str:
    """Returns `lock`, `work` (a worker waits for work in a lock of Python), `gil`, `cond`, `file`, `socket`, `accept` ...

    Without the GIL, Python has `object` (it locks single ones) and `pause` (of all threads).
    """
    if name in _KINDS:
        return _KINDS[name]
    if is_noise(name):
        return "noise"
    if is_accept(name):
        return "accept"
    if object_waited_for(name) is not None:
        return "object"
    if is_pause(name):
        return "pause"
    found = _KIND.match(name)
    kind = found[1] if found is not None else name.partition("/")[0]
    if kind in ("mutex", "rwlock", "prlock", "sxlock"):
        return "lock" if is_lock_wait(name, place or "") else "work"
    return kind


def task_of(command: str) -> str:
    """Returns the program of a command line with its script or subcommand: ``git add`` and ``git commit`` do not do the same."""
    program, *words = command.split() or [""]
    program = os.path.basename(program)
    if _SHELL.fullmatch(program) and words[:1] == ["-c"] and len(words) > 1:
        return os.path.basename(words[1].strip("\"'"))
    words = words[words[:1] == ["-m"] :]
    word = words[0] if words else ""
    is_part = word[:1] not in ("", "-") if _OF_SCRIPTS.fullmatch(program) else _SUBCOMMAND.fullmatch(word)
    return f"{program} {os.path.basename(word)}" if is_part else program


def _stored(value: Any) -> Any:
    """Returns a value that SQLite takes: a number of 63 bits, and text that can be written as UTF-8."""
    if isinstance(value, int):
        return min(value, _MOST)
    return storable(value) if isinstance(value, str) else value


class Moment:
    """A moment of a process, and its sums then: what has happened since is the difference."""

    def __init__(self, source: SegmentSource) -> None:
        self.time = source.now()
        self.is_last = source.state == "dead"
        self._sums: dict[str, dict[tuple[Any, ...], Sequence[int]]] = {}
        for table, (columns, keys, sums) in _SUMS.items():
            self._sums[table] = {row[:keys]: row[keys : keys + sums] for row in source.rows(table, columns)}

    def since(self, table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns a row with what has been added to its sums."""
        _, keys, sums = _SUMS[table]
        then = self._sums[table].get(row[:keys])
        if then is None:
            return row
        added = (max(0, now - before) for now, before in zip(row[keys:], then, strict=False))
        return (*row[:keys], *added, *row[keys + sums :])


class Facts:
    """A database in memory with facts of one or many processes. ``add`` may be called from any thread, one at a time."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.db.executescript(_SCHEMA)
        self.db.create_function("is_of_user", 2, self._is_of_user, deterministic=True)
        self.db.create_function("task", 1, task_of, deterministic=True)
        self.db.create_function("object_waited_for", 1, object_waited_for, deterministic=True)
        self.db.create_aggregate("covered", 2, Covered)  # type: ignore[arg-type]
        self.began: list[int] = []  # when each process did: microseconds since 1970
        self.ended: list[int] = []  # when it is known to have run
        self.active: dict[int, int] = {}  # picoseconds of all threads of p in which they did something, if that is known
        self._names: list[Readable] = []
        self._rows = 0

    def add(self, source: Recorded, since: Moment | None = None) -> None:
        """Adds a process. `since`: only what it did from then on, as far as the history has it; sums are exact."""
        p = len(self._names)
        names = Readable(source)
        self._names.append(names)
        start = since.time if since is not None else 0
        span = source.now() - start
        self.began.append(source.identity.started + start // 1_000_000)
        self.ended.append(self.began[-1] + span // 1_000_000)
        total = self._add_sums(p, source, since)
        idle = 0
        if self._rows < _MOST_ROWS and any(dt for _, dt in total.values()):
            idle = self._add_history(p, source, total, start)
            names.source("?+0x0")  # reads the places while the segment is open
        if since is None:
            times = source.rows("thread_time", ("NAME", "STATE", "COUNT_THREADS", "SUM_TIMER_WAIT"))
            self.active[p] = sum(time for _, state, _, time in times if not state.endswith(_PASSIVE))
            self._insert("thread", [(p, name, n, 0 if state == "runnable" else time) for name, state, n, time in times])
        parent = source.identity.parent or None
        command = command_text(source.identity.command)
        self._insert("process", [(p, source.pid, parent, command, self.began[-1], span, max(span - idle, 0))])

    def place(self, p: int, source: str | None) -> str | None:
        """Returns a place of a process in words, or None if it is within an interpreter: a user cannot mend that line.

        The name of threads stands for their function.
        """
        if source is None or _INTERPRETER.match(source):
            return None
        try:
            if source.startswith("thread/"):
                return self._names[p].name(source)
            return self._names[p].source(source)
        except StateError:  # a module that no lock or file is named after
            return source

    def lines(self) -> Iterator[tuple[str, str, str, float]]:
        """Yields the instrument, its name and the place in words, and the time of waits there.

        The sum of an instrument is exact; its places have the shares that they have in the history.
        """
        sums = self.db.execute("select p, name, dt, place from total where dt > 0 and kind <> 'noise'").fetchall()
        shares: dict[tuple[int, str], list[tuple[str | None, int]]] = defaultdict(list)
        for p, name, place, time in self.db.execute("select p, name, place, sum(dt) from wait group by 1, 2, 3"):
            shares[p, name].append((place, time))
        for p, name, whole, longest in sums:
            there = shares.get((p, name), [])
            seen = sum(time for _, time in there)
            for place, time in there if seen else [(longest, whole)]:
                with suppress(StateError):  # a module that no lock or file is named after
                    place = self._names[p].source(place)
                shown = name
                with suppress(StateError):
                    shown = self._names[p].name(name)
                yield name, shown, place or "", time * whole / seen if seen else whole

    def _is_of_user(self, p: int, source: str | None) -> bool:
        place = self.place(p, source)
        return place is not None and _LIBRARY.match(place) is None

    def _insert(self, table: str, rows: Iterable[Any]) -> None:
        rows = list(rows)
        if not rows:
            return
        text = f"insert into {table} values({', '.join('?' * len(rows[0]))})"
        self.db.execute("savepoint inserted")
        try:
            self.db.executemany(text, rows)
        except (OverflowError, UnicodeEncodeError):  # seldom: the test of each value would take longer than all the rest
            self.db.execute("rollback to inserted")
            self.db.executemany(text, [list(map(_stored, row)) for row in rows])
        self.db.execute("release inserted")

    def _add_sums(self, p: int, source: Recorded, since: Moment | None) -> dict[str, tuple[int, int]]:
        """Returns the count and the sum of each name's waits."""

        def rows(table: str) -> list[tuple[Any, ...]]:
            now = source.rows(table, _SUMS[table][0])
            return now if since is None else [since.since(table, row) for row in now]

        waits = rows("events_waits_summary_global_by_event_name")
        self._insert("total", [(p, name, kind_of(name, at), n, dt, at, 0) for name, n, dt, at in waits if n])
        files = rows("file_summary_by_instance")
        self._insert("file", [(p, name, kind.rpartition("/")[2], *rest) for name, kind, *rest in files if rest[0] or rest[3]])
        self._insert("digest", [(p, *row) for row in rows("events_statements_summary_by_digest") if row[0] and row[1]])
        self._insert("sent", [(p, *row) for row in rows("events_statements_summary_global_by_event_name") if row[1]])
        columns = ("THREAD_ID", "EVENT_NAME", "SOURCE", "TIMER_WAIT", "HOLDER_THREAD_ID", "DEADLOCK")
        for thread, name, place, time, holder, circle in source.rows("blocked", columns):
            if circle is not None:
                self._insert("circle", [(p, thread, place, time)])
            else:
                self._insert("stuck", [(p, thread, name, kind_of(name, place), place, time, holder)])
        self._insert("call", [(p, kind_of(name, place), op, place, *rest) for name, op, place, *rest in rows("call_sites")])
        return {name: (n, dt) for name, n, dt, _ in waits}

    def _add_history(self, p: int, source: Recorded, total: dict[str, tuple[int, int]], since: int) -> int:
        """Returns for how long the first thread was idle.

        A process that has children waits for them; a loop of asyncio is not idle while a task waits for a lock.
        """
        waits = []
        count: dict[str, int] = defaultdict(int)
        seen: dict[str, int] = defaultdict(int)
        for row in source.rows("events_waits_history_long", _WAITS):
            name, place, t0, dt = row[2], row[3], row[8], row[10]
            if dt is not None and t0 >= since and (kind := kind_of(name, place)) != "noise":
                waits.append(Wait._make((*row[:3], kind, *row[3:11], row[11] if row[12] == "STATEMENT" else None)))
                count[name] += 1
                seen[name] += dt
        statements, tasks = [], []
        for row in source.rows("events_statements_history_long", _STATEMENTS):
            _, _, name, place, text, _, *times, nest, nest_type = row
            if times[2] is None or times[0] < since:
                continue
            if name.startswith(_OF_TASKS):
                lock, _, held_at = (text or "").strip("`").partition(" held at ")
                tasks.append((p, name.removeprefix(_OF_TASKS), place, lock, held_at, *times))
            else:
                statements.append((p, *row[:-2], nest if nest_type == "STATEMENT" else None))
        self._rows += len(waits) + len(statements) + len(tasks)
        kept = ((time, p, name) for name, time in seen.items())
        self.db.executemany("update total set kept = ? where p = ? and name = ?", kept)
        more = {name: max(1.0, total.get(name, (0, 0))[0] / n) for name, n in count.items()}
        scale = {name: max(1.0, total.get(name, (0, 0))[1] / time) if time else 1.0 for name, time in seen.items()}
        behind = threads_waited_for(waits)
        self._insert("wait", [(p, *wait, scale[wait.name], more[wait.name], wait.thread in behind) for wait in waits])
        self._insert("statement", statements)
        self._insert("task", tasks)
        add_queues(p, waits, statements, scale, more, self._insert)
        if any(wait.kind == "child" for wait in waits):
            return 0
        idle = [wait for wait in waits if wait.thread == 1 and wait.kind in ("idle", "accept")]
        queued = [(t0, t1) for _, name, *_, t0, t1, _ in tasks if name == "lock"]
        return sum(int(time * scale[wait.name]) for wait, time in zip(idle, times_outside(idle, queued), strict=True))
