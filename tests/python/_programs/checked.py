"""Rows of checked.c and of checked_program.py that prove themselves, and what the program's log says of their counts."""

from __future__ import annotations

import mmap
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pfs import _core
from tests.python.programs.test_programs import Row

BLOCK, WORKERS = 1000, 4
# Without a limit of memory: how many files and statements a program makes until it is killed depends on the machine.
OPTIONS = ",".join(
    [
        "performance_schema_instrument='%=ON'",
        "performance_schema_max_segment_megabytes=0",
        "performance_schema_max_file_system_part=0",
    ]
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

    def segment_status(self, name: str) -> str:
        return next(str(row["VARIABLE_VALUE"]) for row in self["global_status"] if row["VARIABLE_NAME"] == name)

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
            if "MIN_TIMER_WAIT" in row and row["COUNT_STAR"]:
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


# ---- The log -----------------------------------------------------------------------------------------------------------------

_ENTRY = struct.Struct("<QQ48x")


class Statements(NamedTuple):
    """Of a worker: how many statements it has begun, and how many it has ended."""

    begun: int
    ended: int


class Log:
    """What the workers of a program say themselves, while it runs and after its end."""

    def __init__(self, words: mmap.mmap) -> None:
        self._words = words

    def read(self) -> list[Statements]:
        return [Statements(*_ENTRY.unpack_from(self._words, i * _ENTRY.size)) for i in range(WORKERS)]


@contextmanager
def log_in(path: Path) -> Iterator[Log]:
    """REQUIRES: the program works."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), WORKERS * _ENTRY.size, prot=mmap.PROT_READ) as words:
        yield Log(words)


_WAITS, _STATEMENTS = "events_waits_summary_{}_by_event_name", "events_statements_summary_{}_by_event_name"
_STAGES, _TRANSACTIONS = "events_stages_summary_{}_by_event_name", "events_transactions_summary_{}_by_event_name"
_MEMORY = "memory_summary_{}_by_event_name"
# Table, instrument, column, how many for `n` statements of a worker. Worker i begins at n = i * 100000 + 1, and uses a file if n
# is a multiple of 4: an open, a write, reads and so on of so many events.
FILE_EVENTS = {"C": 5, "Python": 6}
COUNTED: tuple[tuple[str, str, str, Callable[[int, int, int], int]], ...] = (
    (_STATEMENTS, "statement/checked/select", "COUNT_STAR", lambda worker, n, _: n),
    (_TRANSACTIONS, "transaction", "COUNT_STAR", lambda worker, n, _: n),
    (_STAGES, "stage/checked/counting", "COUNT_STAR", lambda worker, n, _: n),
    (_WAITS, "wait/synch/mutex/checked/lock", "COUNT_STAR", lambda worker, n, _: n),
    (_WAITS, "wait/synch/rwlock/checked/tree", "COUNT_STAR", lambda worker, n, _: n if worker % 2 == 0 else 0),
    (_WAITS, "wait/io/file/checked/data", "COUNT_STAR", lambda worker, n, of_file: n // 4 * of_file),
    (_MEMORY, "memory/checked/block", "COUNT_ALLOC", lambda worker, n, _: n),
    (_MEMORY, "memory/checked/block", "COUNT_FREE", lambda worker, n, _: n),
)


def account_of(worker: int) -> str:
    return f"user_{worker}"


def shown_by_thread(tables: Mapping[str, list[Row]], table: str, name: str, column: str) -> dict[int, int]:
    """What a table says of each worker."""
    threads = {row["THREAD_ID"]: row["PROCESSLIST_USER"] for row in tables["threads"]}
    of_user = {
        threads.get(row["THREAD_ID"]): row[column] for row in tables[table.format("by_thread")] if row["EVENT_NAME"] == name
    }
    return {worker: of_user.get(account_of(worker), 0) for worker in range(WORKERS)}


def sum_of(rows: list[Row], name: str, column: str) -> int:
    return sum(row[column] for row in rows if row["EVENT_NAME"] == name)


def check_counts(
    tables: Mapping[str, list[Row]], before: list[Statements], after: list[Statements], file_events: int = FILE_EVENTS["C"]
) -> int:
    """Each worker's counts are those of its own log, but for the event in flight; every level above has their sum.

    An event counts for its thread and for its object, one after the other: the total, which comes from the objects, may differ by
    one event of each worker.

    Args:
        before, after: the log before and after the tables were read; the same of a program that does not run.

    Returns:
        How many counts were compared.
    """
    compared = 0
    in_flight = sum(worker.begun != worker.ended for worker in before)
    for table, name, column, count in COUNTED:
        shown = shown_by_thread(tables, table, name, column)
        for worker, n in shown.items():
            low, high = count(worker, before[worker].ended, file_events), count(worker, after[worker].begun, file_events)
            assert low <= n <= high, f"{table} {name} {column}: worker {worker} has {n}, its log says {low} to {high}"
        compared += len(shown)
        if before is not after:
            continue
        for level in ("by_account", "by_user", "by_host", "global"):
            total = sum_of(tables[table.format(level)], name, column)
            assert abs(total - sum(shown.values())) <= (in_flight if level == "global" else 0), (
                f"{table} {name} {column}: {total} {level}, {shown} by thread"
            )
            compared += 1
    return compared
