"""pfs.table with rows, order, limit and units; frames for people; attributes of frames; names of tables."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pfs
from pfs import _core
from pfs._read.columns import ArrayColumn
from pfs._read.where import Condition, PlainColumn
from tests.conftest import Run

WAITS = "events_waits_summary_global_by_event_name"


@pytest.fixture(scope="module", autouse=True)
def locks() -> list[pfs.Lock]:
    made = [pfs.Lock(f"choice/LOCK_{name}") for name in "abc"]
    for turns, lock in enumerate(made):
        for _ in range(10 * turns):
            with lock:
                pass
    return made


def names(**arguments: Any) -> list[str]:
    found = pfs.table(WAITS, ["EVENT_NAME"], **arguments)["EVENT_NAME"]
    return [name.rpartition("/")[2] for name in found if "/choice/" in name]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("EVENT_NAME like '%/choice/%'", "abc"),
        ("event_name LIKE '%/CHOICE/lock_b'", "b"),
        ("EVENT_NAME = 'wait/synch/mutex/choice/LOCK_b'", "b"),
        ("EVENT_NAME = 'wait/synch/mutex/choice/lock_b'", ""),
        ("COUNT_STAR > 0 and EVENT_NAME like '%choice%'", "bc"),
        ("COUNT_STAR = 20 or COUNT_STAR = 0", "ac"),
        ("not COUNT_STAR = 0", "bc"),
        ("COUNT_STAR in (10, 20)", "bc"),
        ("COUNT_STAR not in (10, 20)", "a"),
        ("COUNT_STAR between 10 and 19", "b"),
        ("COUNT_STAR <= 10", "ab"),
        ("COUNT_STAR < 10", "a"),
        ("COUNT_STAR >= 10", "bc"),
        ("COUNT_STAR > 10", "c"),
        ("COUNT_STAR not between 10 and 19", "ac"),
        ("EVENT_NAME not like '%/choice/LOCK_a'", "bc"),
        ("(COUNT_STAR >= 10 and COUNT_STAR <> 20) or COUNT_STAR < 1", "ab"),
        ("SUM_TIMER_WAIT > 0ns and MAX_TIMER_WAIT <= 1min", "bc"),
        ("EVENT_NAME is null", ""),
        ("EVENT_NAME is not null and COUNT_STAR == 20", "c"),
        ("COUNT_STAR = 1e1", "b"),
        ({"EVENT_NAME": "%/choice/%", "COUNT_STAR": 10}, "b"),
    ],
)
def test_where(where: Any, expected: str) -> None:
    assert sorted(names(where=where)) == [f"LOCK_{letter}" for letter in expected]


@pytest.mark.parametrize("kind", ["array", "plain"])
def test_conditions_on_null_are_neither_true_nor_false(kind: str) -> None:
    part = ("X", "uint64", True, np.array([1, 2, 3], dtype=np.uint64), np.array([False, True, False]), None)

    def rows(where: str) -> list[int]:
        condition = Condition("t", ["X"], where)
        if kind == "plain":
            return sorted(condition.rows({"X": PlainColumn([1, None, 3])}))
        return np.flatnonzero(condition.rows({"X": ArrayColumn(part, 3)})).tolist()

    assert rows("X = 1") == [0]
    assert rows("not X = 1") == [2]
    assert rows("X <> 1 or X is null") == [1, 2]
    assert rows("not (X = 1 and X = 1)") == [2]
    assert rows("X > 0") == [0, 2]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"where": "COUNT_STARR > 0"}, pfs.UnknownColumn, ("COUNT_STARR", "COUNT_STAR")),
        ({"where": "COUNT_STAR >"}, pfs.InvalidValue, ("ends too early",)),
        ({"where": "COUNT_STAR > 3 parsecs"}, pfs.InvalidValue, ("parsecs",)),
        ({"where": "COUNT_STAR > 3parsecs"}, pfs.InvalidValue, ("parsecs", "ms")),
        ({"where": "SUM_TIMER_WAIT > 5MINUTES"}, pfs.InvalidValue, ("MINUTES", "min")),
        ({"where": "COUNT_STAR like 'a'"}, pfs.InvalidValue, ("number",)),
        ({"where": "EVENT_NAME = 3"}, pfs.InvalidValue, ("single quotes",)),
        ({"where": 'EVENT_NAME = "a"'}, pfs.InvalidValue, ('"a"',)),
        ({"where": "(COUNT_STAR = 1"}, pfs.InvalidValue, (")",)),
        ({"where": "COUNT_STAR = 1; drop"}, pfs.InvalidValue, ("; drop",)),
        ({"order": "COUNT_STARR"}, pfs.UnknownColumn, ("COUNT_STAR",)),
        ({"order": "COUNT_STAR down"}, pfs.InvalidValue, ("asc", "desc")),
        ({"limit": -1}, pfs.InvalidValue, ("-1",)),
        ({"unit": "seconds"}, pfs.InvalidValue, ("seconds", "timedelta")),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as caught:
        pfs.table(WAITS, **arguments)
    assert all(word in str(caught.value) for word in words), caught.value


def test_order_and_limit() -> None:
    here = {"EVENT_NAME": "%/choice/%"}
    assert names(where=here, order="COUNT_STAR desc") == ["LOCK_c", "LOCK_b", "LOCK_a"]
    assert names(where=here, order="EVENT_NAME") == ["LOCK_a", "LOCK_b", "LOCK_c"]
    assert names(where=here, order=["count_star DESC"], limit=2) == ["LOCK_c", "LOCK_b"]
    assert names(limit=0) == []
    everything = pfs.table("setup_instruments", order="TIMED desc, NAME")
    by_hand = pfs.table("setup_instruments")
    key = by_hand["TIMED"].astype("string").fillna("").tolist()
    expected = sorted(range(len(key)), key=lambda i: by_hand["NAME"][i])
    expected.sort(key=lambda i: key[i], reverse=True)  # NULL last
    assert everything["NAME"].tolist() == [by_hand["NAME"][i] for i in expected]
    nullable = pfs.table("events_waits_history_long", ["NESTING_EVENT_ID"], order="NESTING_EVENT_ID")["NESTING_EVENT_ID"]
    assert nullable.isna().tolist() == sorted(nullable.isna(), reverse=True)


MOVING = ("active_sessions", "performance_timers", "global_status", "processlist", "threads", "thread_time")


def test_every_table_gives_the_rows_that_pandas_would_choose() -> None:
    for name in pfs.tables():
        whole = pfs.table(name)
        if name in MOVING:
            continue
        column = whole.columns[0]
        chosen = pfs.table(name, where=f"{column} is not null", limit=5)
        kept = whole[whole[column].notna()].head(5).reset_index(drop=True)
        if not name.startswith("memory_") and "status" not in name:
            pd.testing.assert_frame_equal(chosen, kept, check_dtype=False, obj=name)


def test_units() -> None:
    where = {"EVENT_NAME": "%/choice/LOCK_c"}
    raw = pfs.table(WAITS, where=where)
    assert int(raw["SUM_TIMER_WAIT"][0]) > 0
    for unit, size in (("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)):
        frame = pfs.table(WAITS, where=where, unit=unit)  # type: ignore[arg-type]
        assert frame["SUM_TIMER_WAIT"].dtype == "float64"
        assert frame["SUM_TIMER_WAIT"][0] == pytest.approx(raw["SUM_TIMER_WAIT"][0] / size)
        assert frame["COUNT_STAR"][0] == 20
    delta = pfs.table(WAITS, where=where, unit="timedelta")["SUM_TIMER_WAIT"]
    assert str(delta.dtype) == "timedelta64[ns]"
    assert delta[0] == pd.Timedelta(int(raw["SUM_TIMER_WAIT"][0]) // 1000, "ns")
    events = pfs.table("events_waits_current", unit="s")
    assert events["TIMER_WAIT"].dtype == "float64"


def test_arithmetic_is_signed() -> None:
    frame = pfs.table(WAITS)
    assert (frame["COUNT_STAR"] - 10**9 < 0).all()
    assert frame.sort_values("COUNT_STAR", ascending=False)["COUNT_STAR"].diff().dropna().le(0).all()
    buckets = pfs.table("events_statements_histogram_global")["BUCKET_TIMER_HIGH"]
    assert buckets.dtype == ("uint64" if int(buckets.max()) >= 2**63 else "int64")


def test_a_value_that_does_not_fit_stays_unsigned() -> None:
    from pfs._read.frame import made

    def part(value: int) -> list[Any]:
        return [("X", "uint64", False, np.array([1, value], dtype=np.uint64), None, None)]

    assert made(2, 0, part(2**63), is_signed=True)["X"].tolist() == [1, 2**63]
    assert made(2, 0, part(2**63 - 1), is_signed=True)["X"].dtype == "int64"
    assert made(2, 0, part(5))["X"].dtype == "uint64"  # snapshots keep the declared type


def test_attributes_say_whose_rows_they_are() -> None:
    before = datetime.now(UTC)
    frame = pfs.table("threads", unit="s")
    assert frame.attrs["table"] == "threads"
    assert frame.attrs["unit"] == "s"
    assert frame.attrs["pid"] == os.getpid()
    assert before <= datetime.fromisoformat(frame.attrs["read_at"]) <= datetime.now(UTC)
    assert frame.nlargest(1, "THREAD_ID").attrs == frame.attrs
    json.dumps(frame.attrs)
    with pfs.attach(os.getpid()) as schema:
        assert schema.table("THREADS").attrs["pid"] == os.getpid()


def test_attributes_have_what_was_lost(fresh: Run) -> None:
    out = fresh(
        """
        import pfs
        locks = [pfs.Lock("choice/LOCK_x") for _ in range(5)]
        print(pfs.table("threads").attrs["lost"])
        """,
        PFS_OPTIONS="performance_schema_max_mutex_instances=2",
    )
    assert out == "{'Performance_schema_mutex_instances_lost': 3}\n"


def test_readable_frames() -> None:
    frame = pfs.table(WAITS, where={"EVENT_NAME": "%/choice/LOCK_c"})
    texts = frame.pfs.readable()
    assert texts["COUNT_STAR"].tolist() == ["20"]
    assert texts["SUM_TIMER_WAIT"][0].split()[1] in ("s", "ms", "µs", "ns")
    long = pd.DataFrame({"FILE_NAME": ["/usr/lib/python3.11/" + "x" * 80 + "/encodings/ascii.py"], "SUM_TIMER_WAIT": [1500000]})
    shown = long.pfs.readable().iloc[0].tolist()
    assert shown[0].startswith("/usr/lib/python")
    assert shown[0].endswith("/encodings/ascii.py")
    assert len(shown[0]) <= 60
    assert shown[1] == "1.5 µs"
    events = pfs.table("events_waits_current", limit=3)
    assert all(isinstance(value, str) for value in events.pfs.readable(2).to_numpy().ravel())


def test_names_are_completed() -> None:
    assert "wait/synch/mutex/choice/LOCK_a" in pfs.setup_instruments._ipython_key_completions_()
    assert "Performance_schema_locker_lost" in pfs.status._ipython_key_completions_()


def test_describe_lists_all_tables() -> None:
    listed = pfs.describe()
    assert listed["TABLE_NAME"].tolist() == pfs.tables()
    assert (listed["DESCRIPTION"].str.len() > 10).all()
    assert listed["OPERATIONS"].str.contains("SELECT").all()
    assert _core.table_info("threads")["doc"] in listed["DESCRIPTION"].tolist()
