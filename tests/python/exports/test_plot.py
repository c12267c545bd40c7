"""pfs.plot: what the pictures draw against the tables, a plain Python model and what the program did."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pfs
from pfs._export.plot import flame, heatmap, locks, timeline
from pfs._export.plot.events import TABLES, Event, events_of
from pfs.errors import InvalidValue
from tests.conftest import Run
from tests.python._programs.subject import Subject, subject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

matplotlib = pytest.importorskip("matplotlib")

WORK = """
import os, threading, time
lock = pfs.Lock("shop/LOCK_orders")
def work(path):
    for number in range(10):
        with pfs.statement("statement/sql/select", f"select {number} from orders"):
            with pfs.stage("stage/shop/reading"):
                with pfs.open(path, "w", name="shop/data") as file:
                    file.write("x")
            with lock: time.sleep(0.001)
threads = [pfs.Thread(target=work, args=(f"{folder}/{n}",), name=f"worker-{n}") for n in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
STATEMENTS = 30
DEADLOCK = """
import threading, time
a, b, c = (pfs.Lock(f"shop/LOCK_{name}") for name in "abc")
barrier = threading.Barrier(2)
def both(first, second):
    with first:
        barrier.wait()
        with second: pass
def one(lock):
    with lock: pass
c.acquire()
for name, work, arguments in (
    ("mover", both, (a, b)), ("payer", both, (b, a)), ("viewer", one, (a,)), ("reader-1", one, (c,)), ("reader-2", one, (c,)),
):
    pfs.Thread(target=work, args=arguments, name=name, daemon=True).start()
"""


@pytest.fixture(autouse=True)
def no_screen() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Subject]:
    folder = tmp_path / "segments"
    folder.mkdir(mode=0o700)
    with subject(folder) as program:
        program.do(f"folder = {str(tmp_path)!r}")
        yield program


def leaves(box: flame.Box, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    for name, upper in box.boxes.items():
        yield (*path, name), upper.own
        yield from leaves(upper, (*path, name))


@st.composite
def nested(draw: st.DrawFn) -> list[Event]:
    """Events of a few threads, each inside its parent: times that a program can have."""
    events: list[Event] = []

    def grow(thread: int, start: int, length: int, parent: int | None, depth: int) -> None:
        at = start
        for _ in range(draw(st.integers(0, 3))):
            wait = draw(st.integers(0, start + length - at))
            id = len(events) + 1
            name = ("transaction", "statement/sql/select", "stage/shop/x", "wait/synch/mutex/shop/LOCK")[min(depth, 3)]
            events.append(Event(thread, id, name, at, wait, parent=parent))
            if depth < 4:
                grow(thread, at, wait, id, depth + 1)
            at += wait

    for thread in range(draw(st.integers(1, 3))):
        grow(thread, 0, 1000, None, 0)
    return draw(st.permutations(events))


@settings(max_examples=100, deadline=None)
@given(nested())
def test_flame_by_nesting_is_own_time_and_what_is_inside(events: list[Event]) -> None:
    root = flame.by_nesting(events)
    assert root.time == sum(event.wait for event in events if event.parent is None)
    by_id = {event.id: event for event in events}
    expected: dict[tuple[str, ...], int] = {}
    for event in events:
        path, around = [flame._title(event)], event
        while around.parent is not None:
            around = by_id[around.parent]
            path.insert(0, flame._title(around))
        own = event.wait - sum(other.wait for other in events if other.parent == event.id)
        expected[tuple(path)] = expected.get(tuple(path), 0) + own
    found = dict(leaves(root))
    assert {path: found[path] for path in expected} == expected
    assert sum(found.values()) == sum(expected.values())


def test_events_that_are_their_own_parents_end() -> None:
    circle = [Event(1, 1, "stage/a/b", 0, 5, parent=2), Event(1, 2, "stage/a/c", 0, 5, parent=1)]
    assert flame.by_nesting(circle).depth > 2


@pytest.mark.parametrize("state", ["live", "dead", "snapshot"])
def test_pictures_have_the_sums_of_the_tables(worker: Subject, state: str) -> None:
    worker.do(WORK)
    if state == "dead":
        worker.kill()
    with pfs.attach(worker.path) as schema:
        what = schema.snapshot() if state == "snapshot" else schema
        events = events_of(what)
        assert len(events) == sum(len(schema.table(name)) for name in TABLES)
        statements = schema.table(TABLES[1])
        assert len(statements) == STATEMENTS
        waits = schema.table(TABLES[3])

        # By nesting: all is in statements, of one form.
        ((title, box),) = flame.by_nesting(events).boxes.items()
        assert title == "SELECT ? FROM `orders`"
        assert box.time == statements["TIMER_WAIT"].sum()
        locked = waits.loc[waits["EVENT_NAME"].str.startswith("wait/synch/"), "TIMER_WAIT"]
        assert box.boxes["mutex/shop/LOCK_orders"].time == locked.sum()
        assert box.boxes["shop/reading"].time == schema.table(TABLES[2])["TIMER_WAIT"].sum()

        # By source: each line has the sum of its waits.
        by_line = waits.groupby("SOURCE")["TIMER_WAIT"].sum()
        files = flame.by_source(events).boxes
        assert {line: box.time for file in files.values() for line, box in file.boxes.items()} == by_line.to_dict()

        # A bar for each event, where it was.
        ax = pfs.plot.timeline(what)
        first, last = min(event.start for event in events), max(event.end for event in events)
        boxes = [path.get_extents() for bars in ax.collections for path in bars.get_paths()]
        assert len(boxes) == len(events)
        size = (last - first) / ax.get_xlim()[1]
        assert sum(box.width for box in boxes) * size == pytest.approx(sum(event.wait for event in events))
        assert [label.get_text().split()[-1] for label in ax.get_yticklabels()] == [
            str(thread) for thread in sorted(statements["THREAD_ID"].unique())
        ]

        grid = heatmap.of_events(what)
        assert grid is not None
        columns, rows, counts = grid
        assert counts.sum() == STATEMENTS
        assert rows[0] <= statements["TIMER_WAIT"].min() <= statements["TIMER_WAIT"].max() <= rows[-1]
        assert columns[-1] == pytest.approx((statements["TIMER_END"].max() - statements["TIMER_END"].min()) / 1e12)
        for draw in (pfs.plot.heatmap, pfs.plot.flame, lambda it: pfs.plot.flame(it, by="source")):
            draw(what).figure.canvas.draw()


def test_heatmap_of_snapshots_counts_each_statement_once(worker: Subject) -> None:
    with pfs.attach(worker.path, write=True) as schema:
        taken = [schema.snapshot()]
        for _ in range(3):
            worker.do(WORK)
            taken.append(schema.snapshot())
        grid = heatmap.of_snapshots(taken)
        assert grid is not None
        columns, rows, counts = grid
        assert counts.sum(axis=0).tolist() == [STATEMENTS] * 3
        assert len(columns) == 4
        waits = schema.table(TABLES[1])["TIMER_WAIT"]
        for limit in rows:  # a bucket that begins below a border may reach above it: by a twentieth
            below = (waits < limit).sum()
            nearly = (waits < limit * 1.06).sum()
            assert below <= counts[: list(rows).index(limit)].sum() <= nearly
        schema.truncate("events_statements_histogram_global")
        worker.do(WORK)
        taken.append(schema.snapshot())
        again = heatmap.of_snapshots(taken[-2:])
        assert again is not None
        assert again[2].sum() == STATEMENTS
        pfs.plot.heatmap(taken).figure.canvas.draw()


def test_locks_show_who_waits_for_whom(worker: Subject) -> None:
    worker.do(DEADLOCK)
    with pfs.attach(worker.path) as schema:
        until = time.monotonic() + 30
        while len(schema.table("blocked")) < 5:
            assert time.monotonic() < until
            time.sleep(0.01)
        graph = locks.graph_of(schema.table("blocked"))
        name = {key: title.split("/")[-1].split()[0] for key, title in graph.names.items()}
        assert sorted((name[wait.thread], wait.lock[-1], name[wait.holder]) for wait in graph.waits) == [
            ("mover", "b", "payer"),
            ("payer", "a", "mover"),
            ("reader-1", "c", "MainThread"),
            ("reader-2", "c", "MainThread"),
            ("viewer", "a", "mover"),
        ]
        assert {name[key] for key in graph.deadlocked} == {"mover", "payer"}
        spots = {name[key]: spot for key, spot in locks.places(graph).items()}
        assert {who for who, (_, y) in spots.items() if y == 0} == {"mover", "payer", "MainThread"}
        assert len(set(spots.values())) == len(spots)
        ax = pfs.plot.locks(schema)
        ax.figure.canvas.draw()
        texts = [text.get_text() for text in ax.texts]
        assert sum("LOCK_c" in text for text in texts) == 2
        assert ax.get_title(loc="left") == "deadlock of 2 threads"


def test_circles_and_readers_have_a_place() -> None:
    row = dict.fromkeys(("HOLDER", "DEADLOCK", "SOURCE", "HOLDER_THREAD_ID", "TIMER_WAIT"))
    wait = {**row, "EVENT_NAME": "wait/synch/mutex/a/b", "READ_LOCKED_BY_COUNT": 0, "THREAD": "thread/x"}
    frame = pd.DataFrame(
        [
            {**wait, "THREAD_ID": 1, "HOLDER_THREAD_ID": 2},
            {**wait, "THREAD_ID": 2, "HOLDER_THREAD_ID": 1},
            {**wait, "THREAD_ID": 3, "HOLDER_THREAD_ID": 3, "DEADLOCK": "3 -> 3"},
            {**wait, "THREAD_ID": 4, "READ_LOCKED_BY_COUNT": 7},
        ]
    ).astype({"HOLDER_THREAD_ID": "UInt64", "TIMER_WAIT": "UInt64"})
    graph = locks.graph_of(frame)
    assert len(locks.places(graph)) == len(graph.names) == 5
    ax = pfs.plot.locks(frame)
    ax.figure.canvas.draw()
    assert any("7 readers" in text.get_text() for text in ax.texts)


def waits_of(spans: dict[int, tuple[int, int]]) -> list[Event]:
    return [Event(thread, 1, "wait/io/file/a/b", start, end - start) for thread, (start, end) in spans.items()]


def test_a_lane_for_each_thread_unless_there_are_too_many() -> None:
    assert timeline.lanes_of(waits_of({7: (0, 9), 3: (5, 6)})) == ([[3], [7]], 0)
    # 100 threads, two at a time: two lanes.
    lanes, left_out = timeline.lanes_of(waits_of({thread: (10 * thread, 10 * thread + 20) for thread in range(100)}))
    assert lanes == [list(range(0, 100, 2)), list(range(1, 100, 2))]
    assert left_out == 0
    # 100 threads at once: the 40 busiest.
    lanes, left_out = timeline.lanes_of(waits_of({thread: (0, thread) for thread in range(1, 101)}))
    assert sorted(lanes) == [[thread] for thread in range(61, 101)]
    assert left_out == 60


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 100)), min_size=41, max_size=80))
def test_threads_of_a_lane_follow_one_another(spans: list[tuple[int, int]]) -> None:
    known = {thread: (start, start + length) for thread, (start, length) in enumerate(spans)}
    lanes, left_out = timeline.lanes_of(waits_of(known))
    assert len(lanes) <= 40
    assert len({thread for lane in lanes for thread in lane}) == sum(map(len, lanes))
    assert left_out == len(known) - sum(map(len, lanes))
    for lane in lanes:
        assert all(known[before][1] <= known[after][0] for before, after in pairwise(lane))


@pytest.mark.parametrize("draw", [pfs.plot.timeline, pfs.plot.heatmap, pfs.plot.flame, pfs.plot.locks])
def test_nothing_to_draw_is_said(worker: Subject, draw: Callable[[object], Axes]) -> None:
    with pfs.attach(worker.path) as schema:
        assert draw(schema).texts[0].get_text().startswith("no ")


def test_a_picture_says_where_its_waits_begin() -> None:
    """The history of waits may hold a shorter time than that of statements: the time before had waits, too."""
    columns = ["THREAD_ID", "EVENT_ID", "EVENT_NAME", "TIMER_START", "TIMER_WAIT"]
    statements = [(1, id, "statement/sql/select", id * 1000, 900) for id in range(100)]
    for first, is_said in ((0, False), (50, True)):
        waits = [(1, 200 + id, "wait/io/file/app/data", id * 1000, 500) for id in range(first, 100)]
        ax = pfs.plot.timeline(pd.DataFrame(statements + waits, columns=columns))
        assert ["no older waits" in text.get_text() for text in ax.texts] == [True] * is_said


def test_axes_of_the_user_are_drawn_on(worker: Subject) -> None:
    from matplotlib import pyplot

    worker.do(WORK)
    _, (left, right) = pyplot.subplots(1, 2)
    with pfs.attach(worker.path) as schema:
        assert pfs.plot.timeline(schema, ax=left) is left
        assert pfs.plot.flame(schema, ax=right) is right
    assert len(pyplot.get_fignums()) == 1


def test_mistakes_are_said(worker: Subject) -> None:
    with pfs.attach(worker.path) as schema:
        waits = schema.table("events_waits_history_long")
        with pytest.raises(InvalidValue, match="EVENT_ID, EVENT_NAME, TIMER_START, TIMER_WAIT is missing"):
            pfs.plot.timeline(waits[["THREAD_ID"]])
        with pytest.raises(InvalidValue, match="not in ms"):
            pfs.plot.flame(schema.table("events_waits_history_long", unit="ms"))
        with pytest.raises(InvalidValue, match="legal are 'nesting', 'source'"):
            pfs.plot.flame(schema, by="line")  # type: ignore[arg-type]
        taken = schema.snapshot()
        for bad in ([], [taken], [taken, taken]):
            with pytest.raises(InvalidValue, match="two or more snapshots"):
                pfs.plot.heatmap(bad)
        with pytest.raises(InvalidValue, match="needs a frame of the table blocked"):
            pfs.plot.locks(waits)


def test_matplotlib_is_imported_by_the_first_picture_only(fresh: Run) -> None:
    out = fresh("""
        import sys
        import pfs
        assert "pfs.plot" not in sys.modules
        pfs.plot.timeline
        print("matplotlib" in sys.modules, "pandas" in sys.modules)
        sys.modules["matplotlib"] = None
        for draw in (pfs.plot.timeline, pfs.plot.heatmap, pfs.plot.flame, pfs.plot.locks):
            try:
                draw()
            except pfs.Error as error:
                print(error)
    """)
    assert out.splitlines() == ["False False"] + ["pictures need matplotlib: pip install 'perfschema[plot]'"] * 4
