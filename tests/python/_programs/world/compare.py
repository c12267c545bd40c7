"""Rows of tables against what the model says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.python._programs import driver
from tests.python.facts.model import Event, numbers

Operations = tuple[str, ...]


def same(what: str, have: Iterable[Any], want: Iterable[Any]) -> None:
    """In any order."""
    have, want = list(have), list(want)
    extra, missing = [x for x in have if x not in want], [x for x in want if x not in have]
    assert sorted(map(str, have)) == sorted(map(str, want)), f"{what}: shown and wrong {extra}, not shown {missing}"


def values(row: driver.Row, *columns: str) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def check(row: driver.Row, cell: Iterable[Event], suffix: str = "WAIT", operations: Operations = ()) -> None:
    """COUNT, SUM, MIN, AVG and MAX of a column group."""
    want = numbers(cell, operations)
    counted = "COUNT_STAR" if suffix == "WAIT" else "COUNT_" + suffix
    have = values(row, counted, *(f"{kind}_TIMER_{suffix}" for kind in ("SUM", "MIN", "AVG", "MAX")))
    if want[-1] is None:
        have = (have[0], None)
    assert have == want, f"{suffix}: {have} is not {want} in {row}"


def check_groups(row: driver.Row, cell: list[Event], groups: Mapping[str, Operations]) -> None:
    """All of them, and the columns of each group of operations."""
    check(row, cell)
    for suffix, operations in groups.items():
        check(row, cell, suffix, operations)


def check_io(row: driver.Row, cell: list[Event], reads: Operations, writes: Operations, misc: Operations) -> None:
    """A summary of files or sockets: every operation is in one of three groups (H11)."""
    check_groups(row, cell, {"READ": reads, "WRITE": writes, "MISC": misc})
    assert {event.operation for event in cell} <= {*reads, *writes, *misc}
    for suffix, operations in (("READ", reads), ("WRITE", writes)):
        assert row["SUM_NUMBER_OF_BYTES_" + suffix] == sum(e.bytes or 0 for e in cell if e.operation in operations)


def event_row(row: driver.Row) -> tuple[object, ...]:
    """As Event.row() of the model."""
    assert row["TIMER_WAIT"] is None or row["TIMER_WAIT"] == row["TIMER_END"] - row["TIMER_START"]
    columns = ("THREAD_ID", "EVENT_ID", "END_EVENT_ID", "EVENT_NAME", "OPERATION", "OBJECT_INSTANCE_BEGIN")
    more = ("NESTING_EVENT_ID", "NESTING_EVENT_TYPE", "NUMBER_OF_BYTES")
    return (*values(row, *columns, *more), row["TIMER_START"] is not None, row["TIMER_WAIT"] is not None)


def check_names(row: driver.Row, event: Event) -> None:
    """A name that is gone with its object is NULL, never another's."""
    if row["OBJECT_TYPE"] not in ("FILE", "SOCKET"):
        for shown, name in zip(values(row, "OBJECT_SCHEMA", "OBJECT_NAME", "INDEX_NAME"), event.about, strict=True):
            assert shown in (name, None), (row, event.about)
