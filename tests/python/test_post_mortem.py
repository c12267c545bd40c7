"""The segment of a program that died opens, every row of it is right, and it says what every thread was doing.

tests/programs/checked.c makes rows that prove themselves. A test run kills a few programs; PFS_KILLS=200 kills more.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from pfs import _core
from tests.conftest import Build
from tests.python.test_programs import Row, Talker, environment, segments_in
from tests.python.test_programs import rows as rows_of

KILLS = int(os.environ.get("PFS_KILLS", "12"))
BLOCK, WORKERS = 1000, 4
OPTIONS = ",".join(
    ["performance_schema_instrument='%=ON'"]
    + [
        f"performance_schema_consumer_events_{kind}_{view}=ON"
        for kind in ("waits", "stages", "statements", "transactions")
        for view in ("current", "history", "history_long")
    ]
)


class Tables:
    """All tables of a dead segment, as rows."""

    def __init__(self, path: str) -> None:
        self.segment = _core.Segment(path)
        self.skipped: Counter[str] = Counter()

    def __getitem__(self, table: str) -> list[Row]:
        names = [column["name"] for column in _core.table_info(table)["columns"]]
        self.skipped[table] += _core.read(table, None, self.segment)[1]
        return [dict(zip(names, row, strict=True)) for row in _core.rows(table, names, self.segment)]

    def all(self) -> dict[str, list[Row]]:
        many = "events_statements_histogram_by_digest"  # 450 rows a digest, which nothing else tells anything about
        return {table: self[table] for table in _core.tables() if table != many}


def text_of(n: int) -> str:
    return f"SELECT {n} /" + chr(ord("a") + n % 26) * (n % 60)


def check_event(row: Row, is_current: bool) -> None:
    is_open = row["END_EVENT_ID"] is None
    assert is_current or not is_open, row
    if row["TIMER_START"] is not None and not is_open:
        assert row["TIMER_END"] - row["TIMER_START"] == row["TIMER_WAIT"] < 120 * 10**12, row
        assert row["END_EVENT_ID"] >= row["EVENT_ID"] > (row["NESTING_EVENT_ID"] or 0), row


def check_statement(row: Row) -> None:
    n, is_open = row["STATEMENT_ID"], row["END_EVENT_ID"] is None
    if not is_open:
        assert n is not None, row
    # While it runs each is there or not yet: never another statement's.
    for column, expected in (
        ("CURRENT_SCHEMA", f"s{n}"),
        ("SQL_TEXT", text_of(n or 0)),
        ("ROWS_EXAMINED", n),
        ("ROWS_SENT", 3 * (n or 0)),
    ):
        assert row[column] == expected or (is_open and row[column] in (None, 0)), (column, row)
    if row["SQL_TEXT"] is not None and row["DIGEST_TEXT"] is not None:
        assert re.fullmatch(r"SELECT \? /( `?[a-z]+`?)?", row["DIGEST_TEXT"]), row


def check_file(name: str, read: int, written: int) -> None:
    m, size = map(int, re.fullmatch(r".*/w\d-(\d+)-(\d+)", name).groups())  # type: ignore[union-attr]
    assert size == 64 + m % 512, name
    assert read in (0, size), (name, read)
    assert written in (0, size), (name, written)


def check(tables: dict[str, list[Row]]) -> None:
    """Every row that is there says what the program did."""
    for kind in ("waits", "stages", "statements", "transactions"):
        for view in ("current", "history", "history_long"):
            for row in tables[f"events_{kind}_{view}"]:
                check_event(row, view == "current")
    for view in ("current", "history", "history_long"):
        for row in tables[f"events_statements_{view}"]:
            check_statement(row)
        for row in tables[f"events_stages_{view}"]:
            done, all_of_it = row["WORK_COMPLETED"], row["WORK_ESTIMATED"]
            assert 2 * done == all_of_it or (row["END_EVENT_ID"] is None and done == 0), row
        for row in tables[f"events_transactions_{view}"]:
            n = row["TRX_ID"]
            assert row["GTID"] == f"g{n}" or (row["END_EVENT_ID"] is None and row["GTID"] is None), row
        for row in tables[f"events_waits_{view}"]:
            if row["OBJECT_TYPE"] == "FILE" and row["OPERATION"] in ("read", "write") and row["END_EVENT_ID"] is not None:
                bytes = row["NUMBER_OF_BYTES"]
                check_file(row["OBJECT_NAME"], bytes, bytes) if row["OBJECT_NAME"] else None
                assert bytes != 0, row
    for row in tables["file_summary_by_instance"]:
        check_file(row["FILE_NAME"], row["SUM_NUMBER_OF_BYTES_READ"], row["SUM_NUMBER_OF_BYTES_WRITE"])
        assert row["COUNT_STAR"] == row["COUNT_READ"] + row["COUNT_WRITE"] + row["COUNT_MISC"], row
    for row in tables["threads"]:
        if row["PROCESSLIST_USER"] is not None:
            assert row["PROCESSLIST_USER"].replace("user", "host") == row["PROCESSLIST_HOST"], row
    for row in tables["accounts"]:
        assert (row["USER"] is None) == (row["HOST"] is None), row
        assert row["USER"] is None or row["USER"].replace("user", "host") == row["HOST"], row
    for table, rows in tables.items():
        for row in rows:
            if table.startswith("memory_summary") and row["EVENT_NAME"] == "memory/checked/block":
                assert row["SUM_NUMBER_OF_BYTES_ALLOC"] == BLOCK * row["COUNT_ALLOC"], (table, row)
                assert row["SUM_NUMBER_OF_BYTES_FREE"] == BLOCK * row["COUNT_FREE"], (table, row)
                assert row["CURRENT_NUMBER_OF_BYTES_USED"] == BLOCK * row["CURRENT_COUNT_USED"], (table, row)
                assert 0 <= row["CURRENT_COUNT_USED"] <= WORKERS, (table, row)
            if "COUNT_STAR" in row and "SUM_TIMER_WAIT" in row and row["COUNT_STAR"]:
                assert row["MIN_TIMER_WAIT"] <= row["AVG_TIMER_WAIT"] <= row["MAX_TIMER_WAIT"] <= row["SUM_TIMER_WAIT"], (
                    table,
                    row,
                )


def check_doing(tables: dict[str, list[Row]], gate_is_waited_for: bool) -> None:
    """What the threads were in, and what they held."""
    threads = {row["PROCESSLIST_USER"]: row["THREAD_ID"] for row in tables["threads"]}
    open_events: dict[int, dict[str, Row]] = defaultdict(dict)
    for kind in ("waits", "stages", "statements", "transactions"):
        for row in tables[f"events_{kind}_current"]:
            if row["END_EVENT_ID"] is None:
                open_events[row["THREAD_ID"]][kind] = row
    gates = [row for row in tables["mutex_instances"] if row["NAME"] == "wait/synch/mutex/checked/gate"]
    assert len(gates) == 1
    main = gates[0]["LOCKED_BY_THREAD_ID"]
    assert main in [row["THREAD_ID"] for row in tables["threads"] if row["PROCESSLIST_USER"] is None]
    held = Counter(
        row["LOCKED_BY_THREAD_ID"]
        for row in tables["mutex_instances"]
        if row["NAME"] == "wait/synch/mutex/checked/lock" and row["LOCKED_BY_THREAD_ID"]
    )
    assert max(held.values(), default=0) <= 1
    last = threads.get("user_3")
    for thread, events in open_events.items():
        if "waits" in events and events["waits"]["EVENT_NAME"] == "wait/synch/mutex/checked/gate" and thread != main:
            assert thread == last
            assert held[thread] == 1
            statement = events["statements"]
            assert statement["SQL_TEXT"] == text_of(300001)
            assert events["stages"]["WORK_ESTIMATED"] == 600002
            assert events["transactions"]["STATE"] == "ACTIVE"
            assert events["waits"]["OBJECT_INSTANCE_BEGIN"] == gates[0]["OBJECT_INSTANCE_BEGIN"]
            gate_is_waited_for = False
    assert not gate_is_waited_for, "the thread that waits for the gate is not shown so"
    for thread in held:
        assert "statements" in open_events[thread] or thread not in threads.values(), (thread, open_events[thread])


def start(build: Build, place: Path, work: Path, how: str, **more: str) -> subprocess.Popen[str]:
    work.mkdir(exist_ok=True)
    env = environment(place, PFS_OPTIONS=OPTIONS, **more)
    return subprocess.Popen([build("checked"), work, how], env=env, stdout=subprocess.PIPE, text=True)


def waits_for_the_gate(path: str) -> bool:
    return any(
        row["EVENT_NAME"] == "wait/synch/mutex/checked/gate" and row["END_EVENT_ID"] is None
        for row in rows_of(path, "events_waits_current", "EVENT_NAME", "END_EVENT_ID")
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "segments"
    path.mkdir(mode=0o700)
    return path


def test_killed_at_any_moment(build: Build, place: Path, tmp_path: Path) -> None:
    """Kill -9; each segment opens, every complete row is right, nothing torn is shown."""
    seed = random.randrange(1 << 30)
    dice = random.Random(seed)
    skipped: Counter[str] = Counter()
    rows = 0
    for kill in range(KILLS):
        delay = dice.random() ** 3 * 0.4
        with start(build, place, tmp_path / "work", "0") as process:
            path = Talker(process).until("segment")
            time.sleep(delay)
            late, deadline = delay > 0.2, time.monotonic() + 60
            while late and not waits_for_the_gate(path) and time.monotonic() < deadline:  # on a busy machine it comes later
                time.sleep(0.01)
            process.kill()
        try:
            tables = Tables(path)
            found = tables.all()
            check(found)
            check_doing(found, gate_is_waited_for=late)
        except BaseException:
            print(f"seed {seed}, kill {kill} after {delay:.6f} s")
            raise
        skipped += tables.skipped
        rows += sum(map(len, found.values()))
        os.unlink(path)
    # A row is left out only if the program died in the middle of storing it.
    print(f"\n{KILLS} kills: {rows} rows checked, left out: {dict(skipped)}")
    assert sum(skipped.values()) < rows / 100


@pytest.mark.parametrize(("how", "death"), [("abort", signal.SIGABRT), ("segv", signal.SIGSEGV)])
def test_a_crash_in_the_middle_of_an_event(build: Build, place: Path, tmp_path: Path, how: str, death: int) -> None:
    """The thread that crashed is in its statement, and holds its lock."""
    with start(build, place, tmp_path / "work", how) as process:
        path = Talker(process).until("segment")
    assert process.returncode == -death
    found = Tables(path).all()
    check(found)
    check_doing(found, gate_is_waited_for=False)
    (guilty,) = [row["THREAD_ID"] for row in found["threads"] if row["PROCESSLIST_USER"] == "user_1"]
    (statement,) = [row for row in found["events_statements_current"] if row["THREAD_ID"] == guilty]
    assert statement["END_EVENT_ID"] is None
    assert statement["SQL_TEXT"] == text_of(100101)
    assert guilty in [row["LOCKED_BY_THREAD_ID"] for row in found["mutex_instances"]]
    history: list[Any] = [row["SQL_TEXT"] for row in found["events_statements_history"] if row["THREAD_ID"] == guilty]
    assert history == [text_of(n) for n in range(100091, 100101)]  # its last ten


def test_a_segment_that_is_kept_after_a_clean_end(build: Build, place: Path, tmp_path: Path) -> None:
    """PFS_KEEP=1: the totals of the whole run, and no thread but the first."""
    with start(build, place, tmp_path / "work", "clean", PFS_KEEP="1") as process:
        path = Talker(process).until("segment")
    assert process.returncode == 0
    assert segments_in(place) == [Path(path).name]
    found = Tables(path).all()
    check(found)
    per_worker = 199

    def row_of(table: str, name: str) -> Row:
        (row,) = [row for row in found[table] if row["EVENT_NAME"] == name]
        return row

    statements = row_of("events_statements_summary_global_by_event_name", "statement/checked/select")
    assert statements["COUNT_STAR"] == WORKERS * per_worker
    assert statements["SUM_ROWS_SENT"] == 3 * statements["SUM_ROWS_EXAMINED"]
    files = row_of("file_summary_by_event_name", "wait/io/file/checked/data")
    assert files["COUNT_READ"] == files["COUNT_WRITE"] == WORKERS * (per_worker // 4)
    assert files["SUM_NUMBER_OF_BYTES_READ"] == files["SUM_NUMBER_OF_BYTES_WRITE"]
    blocks = row_of("memory_summary_global_by_event_name", "memory/checked/block")
    assert (blocks["COUNT_ALLOC"], blocks["CURRENT_COUNT_USED"]) == (WORKERS * per_worker, 0)
    waits = row_of("events_waits_summary_global_by_event_name", "wait/synch/mutex/checked/lock")
    assert waits["COUNT_STAR"] == WORKERS * per_worker
    assert not any(row["LOCKED_BY_THREAD_ID"] for row in found["mutex_instances"])
    assert not [row for row in found["threads"] if row["PROCESSLIST_USER"]]


def test_without_keep_a_clean_end_leaves_nothing(build: Build, place: Path, tmp_path: Path) -> None:
    with start(build, place, tmp_path / "work", "clean") as process:
        Talker(process).until("segment")
    assert process.returncode == 0
    assert segments_in(place) == []


def test_a_row_that_is_made_of_two_is_found(build: Build, place: Path, tmp_path: Path) -> None:
    """Negative control: one statement's text with another's number."""
    with start(build, place, tmp_path / "work", "clean", PFS_KEEP="1") as process:
        path = Talker(process).until("segment")
    found = Tables(path).all()
    one, two = found["events_statements_history_long"][:2]
    one["SQL_TEXT"] = two["SQL_TEXT"]
    with pytest.raises(AssertionError):
        check(found)
