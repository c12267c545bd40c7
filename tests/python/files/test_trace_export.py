"""Timelines of a trace: what viewers make of the two formats, read by parsers of these tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfs._save.trace import files, timeline
from tests.python._programs.trace_files import STAGES, STATEMENTS, TRANSACTIONS, WAITS, Thread, merged, pfs_trace


@dataclass
class Slice:
    track: str
    depth: int
    name: str
    start: int
    end: int | None
    arguments: dict[str, Any]

    @property
    def place(self) -> tuple[str, int, str, int, int | None]:
        return self.track, self.depth, self.name, self.start, self.end


Event = tuple[str, str, int, str, dict[str, Any]]  # B, E or i; track; time; name; arguments


def slices(events: Iterator[Event] | list[Event]) -> list[Slice]:
    """As viewers do: by time, an end closes what was opened last on its track. An instant has its own time as end."""
    made: list[Slice] = []
    stacks: dict[str, list[Slice]] = {}
    for what, track, time, name, arguments in sorted(events, key=lambda event: event[2]):
        stack = stacks.setdefault(track, [])
        if what == "E":
            ended = stack.pop()
            ended.end = time
            ended.arguments |= arguments
            continue
        made.append(Slice(track, len(stack), name, time, time if what == "i" else None, arguments))
        if what == "B":
            stack.append(made[-1])
    return made


def exported(folder: Path, form: str) -> bytes:
    found, _partial = files.sources(folder)
    output = BytesIO()
    timeline.export(found, output, form, sql_text=True)
    return output.getvalue()


def chrome(folder: Path) -> Iterator[Event]:
    text = exported(folder, "chrome")
    events = json.loads(text, parse_float=str)["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event.get("name") == "thread_name"}
    for event in events:
        if event["ph"] != "M":
            whole, _, part = str(event["ts"]).partition(".")
            assert len(part) == 6
            yield event["ph"], names[event["tid"]], int(whole + part), event.get("name", ""), event.get("args", {})


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message that are varints or have a length, from the description of the encoding."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            size = varint()
            assert at + size <= len(data)
            yield key >> 3, data[at : at + size]
            at += size


def one(data: bytes) -> dict[int, Any]:
    return dict(fields(data))


def perfetto(folder: Path) -> Iterator[Event]:
    """By the public numbers of the fields of Trace, TracePacket, TrackDescriptor, TrackEvent and DebugAnnotation."""
    tracks: dict[int, str] = {}
    for number, data in fields(exported(folder, "perfetto")):
        assert number == 1
        assert isinstance(data, bytes)
        packet = one(data)
        assert packet[10] == 1  # trusted_packet_sequence_id
        if 60 in packet:  # track_descriptor
            descriptor = one(packet[60])
            if 3 in descriptor:  # process
                process = one(descriptor[3])
                assert (process[1], process[6]) == (1234, b"process 1234")
                tracks[descriptor[1]] = ""
            elif 4 in descriptor:  # thread
                thread = one(descriptor[4])
                assert thread[1] == 1234
                assert thread[2] > 0
                tracks[descriptor[1]] = thread[5].decode()
            else:
                tracks[descriptor[1]] = descriptor[2].decode()
            assert descriptor.get(5, 1) in tracks  # parent_uuid
            continue
        event: dict[int, Any] = {}
        arguments: dict[str, Any] = {}
        for field_number, value in fields(packet[11]):
            if isinstance(value, bytes) and field_number == 4:  # debug_annotations
                name, said = argument(one(value))
                arguments[name] = said
            else:
                event[field_number] = value
        what = {1: "B", 2: "E", 3: "i"}[event[9]]
        yield what, tracks[event[11]], packet[8], event.get(23, b"").decode(), arguments


def argument(annotation: dict[int, Any]) -> tuple[str, Any]:
    name = annotation.pop(10).decode()
    ((kind, value),) = annotation.items()
    if kind == 6:
        return name, value.decode()
    return name, value - (1 << 64) if kind == 4 and value >= 1 << 63 else value  # uint_value is 3, int_value 4


def nested(thread: Thread) -> None:
    """All four kinds, one in the other, two rounds, some at one time."""
    for begin in (1_000_000, 2_000_000):
        transaction = thread.start(TRANSACTIONS, "transaction", begin, STATE="ACTIVE", ACCESS_MODE="READ WRITE")
        statement = thread.start(
            STATEMENTS, "statement/sql/select", begin, transaction, SQL_TEXT=b"SELECT '\xff'\n", SOURCE="app.c:1"
        )
        stage = thread.start(STAGES, "stage/app/scan", begin + 1000, statement)
        thread.wait(
            "wait/io/file/app/data", begin + 1000, begin + 5000, stage, OBJECT_NAME="/a", NUMBER_OF_BYTES=-1, OPERATION="read"
        )
        thread.wait("wait/synch/mutex/app/m", None, None, stage)
        thread.end(stage, begin + 6000)
        thread.end(statement, begin + 6000, ROWS_SENT=3, MYSQL_ERRNO=0)
        thread.end(transaction, begin + 7000, STATE="COMMITTED")


READERS = [(chrome, 1), (perfetto, 1000)]


@pytest.mark.parametrize(("viewer", "unit"), READERS, ids=["chrome", "perfetto"])
def test_slices_are_nested_on_the_track_of_their_thread(viewer: Any, unit: int, tmp_path: Path) -> None:
    """Transaction > statement > stage > wait, one track for each thread; arguments."""
    for number in (5, 6):
        thread = Thread(number, name=f"worker{number}")
        nested(thread)
        thread.write(tmp_path)
    made = slices(viewer(tmp_path))
    for track in ("worker5 (harry@localhost)", "worker6 (harry@localhost)"):
        own = [piece.place for piece in made if piece.track == track]
        assert own == [
            (track, depth, name, (begin + start) // unit, (begin + end) // unit)
            for begin in (1_000_000, 2_000_000)
            for depth, name, start, end in (
                (0, "transaction", 0, 7000),
                (1, "statement/sql/select", 0, 6000),
                (2, "stage/app/scan", 1000, 6000),
                (3, "wait/io/file/app/data", 1000, 5000),
                (3, "wait/synch/mutex/app/m", 5000, 5000),
            )
        ]
    by_name = {piece.name: piece.arguments for piece in made}
    assert by_name["wait/io/file/app/data"] == {
        "EVENT_ID": 9, "OBJECT_NAME": "/a", "NUMBER_OF_BYTES": -1, "OPERATION": "read", "TIMER_WAIT": 4000
    }  # fmt: skip
    assert by_name["statement/sql/select"] == {
        "EVENT_ID": 7, "SQL_TEXT": "SELECT '\\xff'\n", "SOURCE": "app.c:1", "ROWS_SENT": 3, "MYSQL_ERRNO": 0, "TIMER_WAIT": 6000
    }  # fmt: skip
    assert by_name["transaction"]["STATE"] == "COMMITTED"


@pytest.mark.parametrize(("viewer", "unit"), READERS, ids=["chrome", "perfetto"])
def test_events_that_overlap_have_tracks_of_their_own(viewer: Any, unit: int, tmp_path: Path) -> None:
    """A transaction that a statement begins and a later one ends; three tasks that take turns."""
    thread = Thread(5, actor="-")
    begin = thread.start(STATEMENTS, "begin", 1000)
    transaction = thread.start(TRANSACTIONS, "transaction", 2000, begin)
    thread.end(begin, 3000)
    commit = thread.start(STATEMENTS, "commit", 4000, transaction)
    thread.end(transaction, 5000)
    thread.end(commit, 6000)
    tasks = [thread.start(STAGES, f"task{i}", 7000 + 1000 * i) for i in range(3)]
    for i, task in enumerate(tasks):
        thread.wait(f"wait{i}", 10000 + i * 1000, 10000 + i * 1000, task)
        thread.end(task, 10000 + i * 1000)
    thread.write(tmp_path)
    made = {piece.name: piece for piece in slices(viewer(tmp_path))}
    for name, start, end in (
        ("begin", 1000, 3000), ("transaction", 2000, 5000), ("commit", 4000, 6000),
        ("task0", 7000, 10000), ("task1", 8000, 11000), ("task2", 9000, 12000), ("wait2", 12000, 12000),
    ):  # fmt: skip
        assert (made[name].start, made[name].end) == (start // unit, end // unit), name
    tracks = {name: piece.track for name, piece in made.items()}
    assert tracks["begin"] == tracks["task0"] == "worker"
    assert tracks["transaction"] == "worker, overlapping 1"
    assert len({tracks[f"task{i}"] for i in range(3)}) == 3
    assert {piece.depth for name, piece in made.items() if not name.startswith("wait")} == {0}


@pytest.mark.parametrize(("viewer", "unit"), READERS, ids=["chrome", "perfetto"])
def test_lost_rows_and_events_that_still_run(viewer: Any, unit: int, tmp_path: Path) -> None:
    """A lost end does not swallow what comes after it; what ran when the program was killed stays open."""
    thread = Thread(5)
    outer = thread.start(STATEMENTS, "outer", 1000)
    thread.start(WAITS, "lost end", 2000, outer)
    lost_start = thread.start(WAITS, "lost start", 3000, outer)
    thread.data.pop()
    thread.end(lost_start, 4000)
    thread.wait("after", 5000, 6000, outer)
    stage = thread.start(STAGES, "running stage", 7000, outer)
    thread.start(WAITS, "running wait", 8000, stage)
    thread.write(tmp_path, tail=b"INSERT INTO eve")
    made = slices(viewer(tmp_path))
    assert [(piece.depth, piece.name, piece.start, piece.end) for piece in made] == [
        (0, "outer", 1000 // unit, None),
        (1, "lost end", 2000 // unit, 2000 // unit),
        (1, "lost start", 3000 // unit, 4000 // unit),
        (1, "after", 5000 // unit, 6000 // unit),
        (1, "running stage", 7000 // unit, None),
        (2, "running wait", 8000 // unit, None),
    ]
    assert made[1].arguments["note"] == "the end of this event was lost"


def play(steps: list[tuple[int, int]]) -> tuple[Thread, dict[str, tuple[int, int]]]:
    """Events that begin and end in any order, each at a time of its own; and when."""
    thread = Thread(5)
    running: list[int] = []
    times: dict[str, tuple[int, int]] = {}
    now = 0
    for begins, pick in [*steps, *[(0, pick) for pick in range(len(steps))]]:
        now += 1000
        if begins:
            running.append(thread.start(WAITS, f"wait/{thread.last}", now, running[pick % len(running)] if running else None))
        elif running:
            event = running.pop(pick % len(running))
            thread.end(event, now)
            times[f"wait/{event - 1}"] = (thread.rows[event][1]["TIMER_START"], now)
    return thread, times


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5)), max_size=30))
def test_every_slice_has_its_own_times_whatever_overlaps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("overlap")
    thread, times = play(steps)
    thread.write(folder)
    for viewer, unit in READERS:
        made = slices(viewer(folder))
        assert {p.name: (p.start, p.end) for p in made} == {n: (s // unit, e // unit) for n, (s, e) in times.items()}
        assert len(made) == len(times)


def test_perfettos_own_classes_read_it(tmp_path: Path) -> None:
    """Every field is one that the published messages have."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

    thread = Thread(5)
    nested(thread)
    thread.write(tmp_path)
    path = tmp_path / "trace.pftrace"
    done = pfs_trace("export", tmp_path, "-o", path)
    assert done.returncode == 0, done.stderr
    assert "10 events of 1 thread\n" in done.stderr
    trace = messages.Trace.FromString(path.read_bytes())
    kinds = [packet.track_event.type for packet in trace.packet if packet.HasField("track_event")]
    assert kinds.count(messages.TrackEvent.TYPE_SLICE_BEGIN) == kinds.count(messages.TrackEvent.TYPE_SLICE_END) == 10
    assert {tuple(p.track_event.categories) for p in trace.packet if p.track_event.name} == {
        ("transaction",), ("statement",), ("stage",), ("wait",)
    }  # fmt: skip


def test_a_merged_file_exports_as_its_parts_do(tmp_path: Path) -> None:
    for number in (5, 6):
        thread = Thread(number, name=f"worker{number}")
        nested(thread)
        thread.write(tmp_path)
    path = tmp_path / "all.sql"
    path.write_bytes(merged(tmp_path))
    for viewer, _unit in READERS:
        both = [sorted(slices(viewer(place)), key=lambda piece: piece.place) for place in (tmp_path, path)]
        assert both[0] == both[1]
        assert len(both[0]) == 20


def test_chrome_needs_no_package(tmp_path: Path) -> None:
    thread = Thread(5)
    thread.wait("wait/a", 1, 2)
    thread.write(tmp_path)
    code = (
        "import sys; sys.modules['perfetto'] = None\n"
        "from pfs._ui.cli.commands import main\n"
        "for form in ('chrome', 'perfetto'):\n"
        f"    print(main(['trace', 'export', {str(tmp_path)!r}, '-f', form, '-o', {str(tmp_path / 'out')!r} + form]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["0", "1"]
    assert "pip install 'perfschema[perfetto]'" in done.stderr
    assert json.loads((tmp_path / "outchrome").read_text())["traceEvents"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".sql") == ["outchrome"]  # nothing half done
