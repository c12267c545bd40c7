"""table, view, sql and arrow: the same arguments and the same answers wherever the rows are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pfs
from tests.python._programs.subject import Subject, subject

GLOBAL = "events_waits_summary_global_by_event_name"
LOCKS: dict[str, Any] = {
    "columns": ["EVENT_NAME", "COUNT_STAR"],
    "where": "EVENT_NAME like '%/app/LOCK_%' and COUNT_STAR > 0 and MAX_TIMER_WAIT < 1min",
    "order": "COUNT_STAR desc",
    "limit": 2,
}


@pytest.fixture
def program(folder: Path) -> Iterator[Subject]:
    with subject(folder) as running:
        running.do("locks = [pfs.Lock(f'app/LOCK_{turns}') for turns in range(4)]")
        running.do("[lock.acquire() and lock.release() for turns, lock in enumerate(locks) for _ in range(turns)]")
        yield running


def rows(frame: Any) -> list[tuple[str, int]]:
    return [(name.rpartition("/")[2], int(count)) for name, count in zip(frame["EVENT_NAME"], frame["COUNT_STAR"], strict=True)]


def test_the_answers_are_the_same_wherever_the_rows_are(program: Subject, tmp_path: Path) -> None:
    expected = [("LOCK_3", 3), ("LOCK_2", 2)]
    statement = f"select EVENT_NAME, COUNT_STAR from {GLOBAL} where {LOCKS['where']} order by 2 desc"
    with pfs.attach(program.path) as schema:
        taken = schema.snapshot(tmp_path / "saved")
        for place in (schema, taken):
            assert rows(place.table(GLOBAL, **LOCKS)) == expected
            assert place.sql(statement).rows()[0][1] == 3
            assert len(place.view("version")) == 1
            assert set(duckdb.from_arrow(place.arrow(GLOBAL, "EVENT_NAME")).columns) == {"EVENT_NAME"}
        for source in (schema, taken, program.pid, program.path, tmp_path / "saved"):
            assert rows(pfs.table(GLOBAL, source=source, **LOCKS)) == expected
            assert pfs.sql(statement, source).rows()[0][1] == 3
            assert len(pfs.view("version", source)) == 1
            assert set(duckdb.from_arrow(pfs.arrow(GLOBAL, "EVENT_NAME", source)).columns) == {"EVENT_NAME"}
        seconds = taken.table(GLOBAL, ["SUM_TIMER_WAIT"], where="EVENT_NAME like '%LOCK_3'", unit="s")["SUM_TIMER_WAIT"][0]
        assert seconds == pytest.approx(taken.table(GLOBAL, where="EVENT_NAME like '%LOCK_3'")["SUM_TIMER_WAIT"][0] / 1e12)
        for place in (schema, taken):
            with pytest.raises(pfs.UnknownColumn, match="has no column 'EVENT_NAM': the nearest is 'EVENT_NAME'; legal are "):
                place.table(GLOBAL, ["EVENT_NAM"])
            with pytest.raises(pfs.UnknownColumn, match="the nearest is 'COUNT_STAR'"):
                place.table(GLOBAL, where="COUNT_STARR > 1")
            with pytest.raises(pfs.InvalidValue, match="legal is a number of rows"):
                place.table(GLOBAL, limit=-1)
            with pytest.raises(pfs.UnknownTable, match="unknown view 'versio': the nearest is 'version'"):
                place.view("versio")


@pytest.mark.parametrize("verb", ["table", "view", "sql", "arrow"])
def test_the_arguments_are_the_same(verb: str) -> None:
    """Beside where to look: `source` of pfs, `client` of Dask. Only a process has events that run."""

    def arguments(place: Any) -> dict[str, tuple[Any, Any]]:
        found = inspect.signature(getattr(place, verb)).parameters
        left_out = ("self", "source", "client", "running")
        return {name: (one.kind, one.default) for name, one in found.items() if name not in left_out}

    expected = arguments(pfs)
    assert expected
    for place in (pfs.Schema, pfs.Snapshot, pfs.fleet.Fleet):
        assert arguments(place) == expected, place
    pytest.importorskip("dask")
    there = arguments(pfs.dask)
    assert there == {name: one for name, one in expected.items() if name in there}
    assert set(expected) - set(there) <= {"order", "limit"}  # of lazy partitions
