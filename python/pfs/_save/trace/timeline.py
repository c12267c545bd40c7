"""Exports a trace for viewers of timelines: the protobuf of Perfetto, and the JSON of Chrome's old viewer.

Each thread is a track, each event a slice on it from its start row to its end row. The files are read twice, because only all
rows show which events overlap without being nested (statements of two tasks that alternate on a thread, a transaction that one
statement begins and a later one ends), and which events have lost their end.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Any, Protocol

from pfs import _core
from pfs._read.kinds import literals_of
from pfs._save.trace import files
from pfs._save.trace.files import Layout, Progress, Source, Token
from pfs.errors import Error

__all__ = ["FORMATS", "Exported", "export"]

FORMATS = ("perfetto", "chrome")

_MANY = 1000  # packets that are encoded together

# These columns are the name, place and length of a slice.
_NOT_ARGUMENTS = {"THREAD_ID", "END_EVENT_ID", "EVENT_NAME", "TIMER_START", "TIMER_END", "NESTING_EVENT_ID", "NESTING_EVENT_TYPE"}


# ---- First reading: where each event is drawn


@dataclass
class _Plan:
    """Holds the exceptions of a thread that the second reading must know in advance."""

    lanes: dict[int, int] = field(default_factory=dict)  # by EVENT_ID: the track of the thread, if it is not the first
    lost: set[int] = field(default_factory=set)  # events that have ended without an end row
    most: int = 0  # highest lane

    _pending: list[int] = field(default_factory=list)  # EVENT_IDs without an end row so far, rising
    _running: list[int] = field(default_factory=list)  # the events of it that may still run
    _taken: dict[int, set[int]] = field(default_factory=dict)  # lanes of ended events that overlap a pending one

    def start(self, event: int, nesting: int) -> None:
        if self._pending and self._pending[-1] >= event:  # the writer never does that: it is another run with the same PID
            self._pending, self._running, self._taken = [], [], {}
        # If an event began outside a pending event, that event is over, or the two alternate.
        while self._running and self._running[-1] > nesting:
            self._running.pop()
        self._running.append(event)
        self._pending.append(event)

    def end(self, event: int) -> None:
        lane = self._lane(event)
        _remove(self._running, event)
        _remove(self._pending, event)
        for later in self._pending[bisect_left(self._pending, event) :]:  # began in this event and outlives it
            self._taken.setdefault(later, set()).add(lane)

    def finish(self) -> None:
        self.lost = set(self._pending).difference(self._running)
        for event in self._running:
            self._lane(event)
        self._pending, self._running, self._taken = [], [], {}

    def _lane(self, event: int) -> int:
        taken = self._taken.pop(event, ())
        lane = 0
        while lane in taken:
            lane += 1
        if lane:
            self.lanes[event] = lane
            self.most = max(self.most, lane)
        return lane


def _remove(rising: list[int], value: int) -> None:
    at = bisect_left(rising, value)
    if at < len(rising) and rising[at] == value:
        del rising[at]


def _number(layout: Layout, row: Sequence[Token], column: str) -> int | None:
    token = row[layout.place[column]]
    return None if token == b"NULL" else int(token)


def _plans(sources: Sequence[Source], progress: Progress | None) -> dict[int, _Plan]:
    plans: dict[int, _Plan] = {}
    for source in sources:
        for layout, row in files.rows(source, progress):
            plan = plans.setdefault(int(row[0]), _Plan())
            if row[2] == b"NULL":
                plan.start(int(row[1]), _number(layout, row, "NESTING_EVENT_ID") or 0)
            else:
                plan.end(int(row[1]))
    for plan in plans.values():
        plan.finish()
    return plans


# ---- Second reading: the slices


class _Writer(Protocol):
    def track(self, process: int, thread: int, lane: int, name: str) -> None: ...
    def begin(self, track: tuple[int, int], time: int, name: str, kind: str, arguments: Mapping[str, int | str]) -> None: ...
    def instant(self, track: tuple[int, int], time: int, name: str, kind: str, arguments: Mapping[str, int | str]) -> None: ...
    def end(self, track: tuple[int, int], time: int, arguments: Mapping[str, int | str]) -> None: ...
    def finish(self) -> None: ...


@dataclass
class Exported:
    """Counts what an export has done."""

    threads: int
    events: int
    lost_ends: int  # events that have ended, of which only the start is known
    running: int  # events that had not ended when the trace did


@dataclass
class _Thread:
    now: int = 0  # picoseconds; never falls
    open: dict[int, tuple[Token, ...]] = field(default_factory=dict)  # start rows of events that have not ended


@lru_cache(maxsize=2 * len(files.TABLES))
def _said(table: str, sql_text: bool) -> list[tuple[int, str, bool]]:
    """Returns the columns that become arguments: their places and names, and whether 0 is left out."""
    columns = enumerate(_core.table_info(table)["columns"])
    left_out = _NOT_ARGUMENTS if sql_text else _NOT_ARGUMENTS | literals_of(table)
    return [(number, c["name"], not c["nullable"]) for number, c in columns if c["name"] not in left_out]


def _arguments(
    layout: Layout, row: Sequence[Token], sql_text: bool, start: Sequence[Token] | None = None
) -> dict[str, int | str]:
    """Returns the columns with a value; of an end row, those that differ from its start row."""
    found: dict[str, int | str] = {}
    for number, name, is_count in _said(layout.table, sql_text):
        token = row[number]
        if token == b"NULL" or (start is not None and start[number] == token):
            continue
        if token[:1] in (b"'", b"C"):
            found[name] = files.text_of(token, "backslashreplace")
        elif token != b"0" or not is_count or start is not None:
            found[name] = int(token)
    return found


def _names(sources: Sequence[Source]) -> dict[int, str]:
    """Returns the names of threads, with the accounts that they have worked for."""
    names: dict[int, tuple[str, list[str]]] = {}
    for source in sources:
        for header in source.headers:
            actors = names.setdefault(header.thread_id, (header.thread, []))[1]
            if header.actor != "-" and header.actor not in actors:
                actors.append(header.actor)
    return {thread: f"{name} ({', '.join(actors)})" if actors else name for thread, (name, actors) in names.items()}


def export(
    sources: Sequence[Source], output: IO[bytes], form: str, progress: Progress | None = None, sql_text: bool = False
) -> Exported:
    """Writes a trace as a file of a viewer. It keeps the open events and the events that do not nest in memory.

    Args:
        sources: the files that ``files.sources`` returns.
        output: a binary file.
        form: of FORMATS.
        progress: called with the number of bytes that were read since the last time; all files are read twice.
        sql_text: also texts that can hold literals.

    Raises:
        Error: the package perfetto is missing.
    """
    process = sources[0].process if sources else 0
    writer: _Writer = _Perfetto(output, process) if form == "perfetto" else _Chrome(output, process)
    plans = _plans(sources, progress)
    names = _names(sources)
    for thread, plan in sorted(plans.items()):
        name = names.get(thread, f"thread {thread}")
        for lane in range(plan.most + 1):
            writer.track(process, thread, lane, name if lane == 0 else f"{name}, overlapping {lane}")
    done = Exported(len(plans), 0, 0, 0)
    threads: dict[int, _Thread] = {thread: _Thread() for thread in plans}
    for source in sources:
        for layout, row in files.rows(source, progress):
            _draw(writer, layout, row, plans[int(row[0])], threads[int(row[0])], done, sql_text)
    done.running = sum(len(thread.open) for thread in threads.values())
    writer.finish()
    return done


def _draw(
    writer: _Writer, layout: Layout, row: tuple[Token, ...], plan: _Plan, thread: _Thread, done: Exported, sql_text: bool
) -> None:
    event = int(row[1])
    track = (int(row[0]), plan.lanes.get(event, 0))
    kind = layout.table.split("_")[1].removesuffix("s")
    name = files.text_of(row[3], "backslashreplace")
    started = _number(layout, row, "TIMER_START")
    if row[2] == b"NULL":
        done.events += 1
        thread.now = max(thread.now, started or 0)
        arguments = _arguments(layout, row, sql_text)
        if event in plan.lost:
            done.lost_ends += 1
            writer.instant(track, thread.now, name, kind, {**arguments, "note": "the end of this event was lost"})
        else:
            thread.open[event] = row
            writer.begin(track, thread.now, name, kind, arguments)
        return
    start = thread.open.pop(event, None)
    ended = _number(layout, row, "TIMER_END")
    if start is None:  # its start row was lost, but the end row has all its columns; viewers sort by time
        done.events += 1
        writer.begin(track, thread.now if started is None else started, name, kind, _arguments(layout, row, sql_text))
    thread.now = max(thread.now, ended or 0)
    writer.end(track, thread.now, {} if start is None else _arguments(layout, row, sql_text, start))


# ---- Perfetto: a stream of TracePackets, times in nanoseconds


class _Perfetto:
    _SEQUENCE = 1

    def __init__(self, output: IO[bytes], process: int) -> None:
        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages
        except ImportError:
            raise Error(
                "Perfetto's own format needs the package perfetto: pip install 'perfschema[perfetto]'; --format chrome needs none"
            ) from None
        self._messages = messages
        self._output = output
        self._trace = messages.Trace()
        self._tracks: dict[tuple[int, int], int] = {}
        packet = self._packet()
        packet.sequence_flags = messages.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        descriptor = packet.track_descriptor
        descriptor.uuid = 1
        descriptor.process.pid = process
        descriptor.process.process_name = f"process {process}"

    def track(self, process: int, thread: int, lane: int, name: str) -> None:
        uuid = self._tracks[thread, lane] = len(self._tracks) + 2
        descriptor = self._packet().track_descriptor
        descriptor.uuid = uuid
        if lane:
            descriptor.parent_uuid = self._tracks[thread, 0]
            descriptor.name = name
        else:
            descriptor.parent_uuid = 1
            descriptor.thread.pid = process
            descriptor.thread.tid = thread & 0x7FFFFFFF  # the field has no more bits
            descriptor.thread.thread_name = name

    def begin(self, track: tuple[int, int], time: int, name: str, kind: str, arguments: Mapping[str, int | str]) -> None:
        event = self._event(track, time, self._messages.TrackEvent.TYPE_SLICE_BEGIN, arguments)
        event.name = name
        event.categories.append(kind)

    def instant(self, track: tuple[int, int], time: int, name: str, kind: str, arguments: Mapping[str, int | str]) -> None:
        event = self._event(track, time, self._messages.TrackEvent.TYPE_INSTANT, arguments)
        event.name = name
        event.categories.append(kind)

    def end(self, track: tuple[int, int], time: int, arguments: Mapping[str, int | str]) -> None:
        self._event(track, time, self._messages.TrackEvent.TYPE_SLICE_END, arguments)

    def finish(self) -> None:
        self._write()

    def _event(self, track: tuple[int, int], time: int, type_: int, arguments: Mapping[str, int | str]) -> Any:
        packet = self._packet()
        packet.timestamp = time // 1000
        event = packet.track_event
        event.type = type_
        event.track_uuid = self._tracks[track]
        for name, value in arguments.items():
            annotation = event.debug_annotations.add()
            annotation.name = name
            if isinstance(value, str):
                annotation.string_value = value
            elif value < 0:
                annotation.int_value = value
            else:
                annotation.uint_value = value
        return event

    def _packet(self) -> Any:
        if len(self._trace.packet) >= _MANY:
            self._write()
        packet = self._trace.packet.add()
        packet.trusted_packet_sequence_id = self._SEQUENCE
        return packet

    def _write(self) -> None:
        self._output.write(self._trace.SerializeToString())  # concatenated traces are one trace
        self._trace.Clear()


# ---- Chrome: JSON, times in microseconds


class _Chrome:
    _LANE = 10**12  # between the numbers of the tracks of one thread: far above every THREAD_ID, exact in a double

    def __init__(self, output: IO[bytes], process: int) -> None:
        self._output = output
        self._process = process
        self._lines: list[str] = []
        self._between = '{"displayTimeUnit":"ns","traceEvents":[\n'
        self._meta("process_name", 0, f"process {process}")

    def track(self, process: int, thread: int, lane: int, name: str) -> None:
        self._meta("thread_name", self._tid((thread, lane)), name)

    def begin(self, track: tuple[int, int], time: int, name: str, kind: str, arguments: Mapping[str, int | str]) -> None:
        self._event(f'"ph":"B","name":{json.dumps(name)},"cat":"{kind}"', track, time, arguments)

    def instant(self, track: tuple[int, int], time: int, name: str, kind: str, arguments: Mapping[str, int | str]) -> None:
        self._event(f'"ph":"i","s":"t","name":{json.dumps(name)},"cat":"{kind}"', track, time, arguments)

    def end(self, track: tuple[int, int], time: int, arguments: Mapping[str, int | str]) -> None:
        self._event('"ph":"E"', track, time, arguments)

    def finish(self) -> None:
        self._write()
        self._output.write(b"\n]}\n")

    def _tid(self, track: tuple[int, int]) -> int:
        return track[0] + track[1] * self._LANE

    def _meta(self, what: str, tid: int, name: str) -> None:
        self._add(f'{{"ph":"M","name":"{what}","pid":{self._process},"tid":{tid},"args":{json.dumps({"name": name})}}}')

    def _event(self, head: str, track: tuple[int, int], time: int, arguments: Mapping[str, int | str]) -> None:
        # A double has too few digits for picoseconds.
        when = f"{time // 10**6}.{time % 10**6:06}"
        # A reader of JSON may read numbers as doubles.
        exact = {
            name: value if isinstance(value, str) or abs(value) < 1 << 53 else str(value) for name, value in arguments.items()
        }
        args = f',"args":{json.dumps(exact)}' if exact else ""
        self._add(f'{{{head},"pid":{self._process},"tid":{self._tid(track)},"ts":{when}{args}}}')

    def _add(self, line: str) -> None:
        self._lines.append(line)
        if len(self._lines) >= _MANY:
            self._write()

    def _write(self) -> None:
        if self._lines:
            self._output.write((self._between + ",\n".join(self._lines)).encode("ascii"))
            self._between = ",\n"
            self._lines.clear()
