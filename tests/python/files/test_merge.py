"""pfs.Snapshot.merge: sums of processes are exact; the order does not matter; what stays apart says where it comes from."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pfs
from pfs import _core
from pfs._save import merge as merges
from pfs._save.archive import empty as empty_columns
from pfs._save.frames import ORIGIN, Origin, Process, columns_of, is_summary
from pfs._save.held import Columns
from tests.python._programs.subject import subject

WORK = """
for number in range({n}):
    with pfs.Lock("app/LOCK"), pfs.open("file", "w", name="app/data") as file: file.write("x" * 10)
    with pfs.statement("app/query", "SELECT %d" % number): pass
"""
WAITS = "events_waits_summary_global_by_event_name"
DIGESTS = "events_statements_summary_by_digest"
SUMMARIES = [name for name in _core.tables() if is_summary(_core.table_info(name))]
MERGED = [name for name in SUMMARIES if not any(c["across"] == "local" for c in _core.table_info(name)["columns"])]


def _empty(name: str) -> pd.DataFrame:
    return empty_columns(name).frame()


def values_of(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    plain = frame.astype(object).where(frame.notna(), None)
    return [tuple(row) for row in plain.itertuples(index=False, name=None)]


def of_process(tables: dict[str, pd.DataFrame], pid: int) -> pfs.Snapshot:
    return pfs.Snapshot(tables, Process(pid, 1, pid * 10, "boot", 0, "x"), pd.Timestamp(2026, 1, 1), 0.1)


def test_sums_of_programs_are_exact(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four programs with known counts; one was killed, and its segment still counts."""
    monkeypatch.chdir(tmp_path)
    taken, counts = [], (3, 5, 7, 11)
    for number, count in enumerate(counts):
        with subject(folder) as running:
            running.do(WORK.format(n=count))
            if number == 3:
                os.kill(running.pid, signal.SIGKILL)
                running.process.wait()
            with pfs.attach(str(running.path)) as schema:
                taken.append(schema.snapshot())
    merged = pfs.Snapshot.merge(taken)
    row = merged[WAITS].set_index("EVENT_NAME").loc["wait/synch/mutex/app/LOCK"]
    assert row["COUNT_STAR"] == sum(counts)
    digest = merged[DIGESTS].set_index("DIGEST_TEXT").loc["SELECT ?"]
    assert digest["COUNT_STAR"] == sum(counts)
    for name in MERGED:
        for column in _core.table_info(name)["columns"]:
            if column["across"] in ("sum", "gauge"):
                wanted = sum(int(value) for each in taken for value in each[name][column["name"]].dropna().tolist())
                assert sum(int(v) for v in merged[name][column["name"]].dropna().tolist()) == wanted, (name, column["name"])
    assert list(merged["threads"].columns[:3]) == list(ORIGIN)
    assert set(merged["threads"]["PID"]) == {each.pid for each in taken}
    assert merged.sql("select count(distinct PID) from threads").rows() == [(4,)]
    assert len(merged.origins) == 4
    with pytest.raises(pfs.InvalidValue, match="count twice"):
        pfs.Snapshot.merge([merged, taken[0]])
    merged.to_file(tmp_path / "all.pfs.zip", summaries=True, sql_text=True)
    again = pfs.read_snapshot(tmp_path / "all.pfs.zip")
    assert isinstance(again, pfs.Merged)
    assert again.origins == merged.origins
    for name in SUMMARIES:
        assert values_of(again[name]) == values_of(merged[name]), name
    one = taken[0]
    one.to_file(tmp_path / "one.pfs.zip", summaries=True, sql_text=True)
    assert (tmp_path / "one.pfs.zip").stat().st_size < 200_000
    saved = pfs.read_snapshot(tmp_path / "one.pfs.zip")
    for name in SUMMARIES:
        pd.testing.assert_frame_equal(saved[name], one[name], obj=name)


def test_a_process_that_is_killed_between_two_cuts_loses_nothing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did after the first cut is in its segment, so that the second one has it."""
    monkeypatch.chdir(tmp_path)

    def cut(paths: list[Path]) -> pfs.Merged:
        taken = []
        for path in paths:
            with pfs.attach(str(path)) as schema:
                taken.append(schema.snapshot())
        return pfs.Snapshot.merge(taken)

    with ExitStack() as programs:
        running = [programs.enter_context(subject(folder)) for _ in range(3)]
        for each in running:
            each.do(WORK.format(n=4))
        first = cut([each.path for each in running])
        running[1].do(WORK.format(n=5))
        os.kill(running[1].pid, signal.SIGKILL)
        running[1].process.wait()
        running[2].do(WORK.format(n=7))
        second = cut([each.path for each in running])
    for merged, count in ((first, 3 * 4), (second, 3 * 4 + 5 + 7)):
        locks, digests = merged[WAITS].set_index("EVENT_NAME"), merged[DIGESTS].set_index("DIGEST_TEXT")
        assert locks.loc["wait/synch/mutex/app/LOCK", "COUNT_STAR"] == count
        assert digests.loc["SELECT ?", "COUNT_STAR"] == count


def quantile(durations: list[int], per_mille: int) -> int:
    return sorted(durations)[(len(durations) * per_mille + 999) // 1000 - 1]


def test_merged_quantile_is_within_a_bucket(tmp_path: Path) -> None:
    """The histograms of processes give the quantile of all durations, up to one bucket (a factor of 1.0472)."""
    generator = np.random.default_rng(1)
    lows = [0, *(round(10_000_000 * 10 ** (number / 50)) for number in range(449))]  # of the specification
    bounds = np.array([lows, [*lows[1:], 2**64 - 1]], dtype=np.uint64).T
    everything: list[int] = []
    taken = []
    for pid in range(1, 6):
        durations = [int(value) for value in np.exp(generator.normal(20 + pid / 2, 2, 400)) + 10_000_000]
        everything += durations
        places = np.searchsorted(bounds[:, 0], np.array(durations, dtype=np.uint64), side="right") - 1
        counts = np.bincount(places, minlength=450).astype(np.uint64)
        empty = _empty("events_statements_histogram_by_digest")
        columns = {
            "SCHEMA_NAME": ["s"] * 450, "DIGEST": ["d"] * 450, "BUCKET_NUMBER": np.arange(450), "BUCKET_TIMER_LOW": bounds[:, 0],
            "BUCKET_TIMER_HIGH": bounds[:, 1], "COUNT_BUCKET": counts, "COUNT_BUCKET_AND_LOWER": np.cumsum(counts),
            "BUCKET_QUANTILE": np.zeros(450),
        }  # fmt: skip
        histogram = pd.DataFrame(columns).astype(empty.dtypes.to_dict())
        digests = random_table(DIGESTS, 1, np.random.default_rng(pid)).assign(SCHEMA_NAME="s", DIGEST="d")
        taken.append(of_process({DIGESTS: digests, "events_statements_histogram_by_digest": histogram}, pid))
    (row,) = pfs.Snapshot.merge(taken)[DIGESTS].to_dict("records")
    for name, per_mille in (("QUANTILE_95", 950), ("QUANTILE_99", 990), ("QUANTILE_999", 999)):
        exact = quantile(everything, per_mille)
        assert exact <= row[name] <= exact * 1.0472, name


def random_table(name: str, rows: int, generator: np.random.Generator) -> pd.DataFrame:
    """Returns rows as a process could have them: each key once, and the same key has the same name everywhere."""
    info = _core.table_info(name)
    types = _empty(name).dtypes
    made: dict[str, Any] = {}
    picks = generator.choice(8, size=rows, replace=False)
    for position, column in enumerate(info["columns"]):
        kind, rule = column["kind"], column["across"]
        fixed = column["name"] in info["key"] or rule == "same"
        if kind in ("text", "set", "enum"):
            texts = [str(column["values"][p % len(column["values"])]) if column["values"] else f"t{p}" for p in picks]
            free = [None if column["nullable"] and generator.random() < 0.2 else texts[generator.integers(rows)] for _ in picks]
            values: Any = texts if fixed else free
        elif kind == "timestamp":
            values = pd.to_datetime(generator.integers(1, 2**50, rows), unit="us")
            values = values.where(generator.random(rows) > 0.2) if column["nullable"] else values
        elif fixed:
            values = picks + position
        else:
            values = generator.choice([0, 1, 5, 2**31 - 1 if kind.endswith("32") else 2**40], rows)
        made[column["name"]] = pd.Series(values).astype(types[column["name"]])
    keys = list(info["key"])
    result = pd.DataFrame(made)
    return result.drop_duplicates(keys).reset_index(drop=True) if keys else result


@pytest.mark.parametrize("name", SUMMARIES)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), rows=st.tuples(*[st.integers(0, 8)] * 3))
def test_order_does_not_matter(name: str, seed: int, rows: tuple[int, int, int]) -> None:
    generator = np.random.default_rng(seed)
    a, b, c = (of_process({name: random_table(name, n, generator)}, pid) for pid, n in enumerate(rows, 1))
    whole = pfs.Snapshot.merge([a, b, c])
    for other in (
        pfs.Snapshot.merge([c, a, b]),
        pfs.Snapshot.merge([pfs.Snapshot.merge([a, b]), c]),
        pfs.Snapshot.merge([a, pfs.Snapshot.merge([c, b])]),
    ):
        assert values_of(other[name]) == values_of(whole[name])
        assert other.origins == whole.origins
    for column in _core.table_info(name)["columns"]:
        if column["across"] in ("sum", "gauge", "bound"):
            wanted = sum(int(v) for each in (a, b, c) for v in each[name][column["name"]].dropna().tolist())
            assert sum(int(v) for v in whole[name][column["name"]].dropna().tolist()) == wanted


RULES = {
    **dict.fromkeys(("sum", "gauge", "bound"), "coalesce(sum({0}), 0)"), "least": "coalesce(min(nullif({0}, 0)), 0)",
    "most": "coalesce(max({0}), 0)", "derived": "coalesce(max({0}), 0)",
    "first": "min({0})", "same": "min({0})", "last": "max({0})",
}  # fmt: skip


def merged_by_sql(name: str, frames: list[pd.DataFrame]) -> list[tuple[Any, ...]]:
    """Returns the rows that SQL, made of the declarations, finds: another implementation of the same rules."""
    info = _core.table_info(name)
    connection = duckdb.connect(":memory:")
    for number, frame in enumerate(frames):
        connection.register(f"t{number}", of_process({name: frame}, 1).arrow(name))
    texts = [f"{c['name']}::varchar as {c['name']}" for c in info["columns"] if c["kind"] in ("text", "set", "enum")]
    times = [f"make_timestamp(epoch_us({c['name']})) as {c['name']}" for c in info["columns"] if c["kind"] == "timestamp"]
    plain = f" replace ({', '.join(texts + times)})" if texts or times else ""
    rows = " union all ".join(f"select *{plain} from t{number}" for number in range(len(frames)))
    samples = sorted((c for c in info["columns"] if c["across"] == "sampled"), key=lambda c: c["unit"] != "picoseconds")
    order = ", ".join(f"{c['name']} desc nulls last" for c in [samples[0], *samples[:0:-1]]) if samples else ""
    names = {column["name"] for column in info["columns"]}
    made, count = [], ""
    for column in info["columns"]:
        column_name, rule = column["name"], column["across"]
        if column_name in info["key"]:
            made.append(f"{column_name} as {column_name}")
        elif rule == "mean":
            total = "SUM_" + column_name.removeprefix("AVG_")
            timed = f"coalesce(sum({count}), 0)"
            if "COUNT_NOT_SAMPLED" in names:  # of other counts than COUNT_STAR the same share
                left_out = "least(sum(COUNT_NOT_SAMPLED), sum(COUNT_STAR))"
                share = f" * {timed} // greatest(sum(COUNT_STAR), 1)" if count != "COUNT_STAR" else ""
                timed = f"{timed} - {left_out}{share}"
            made.append(f"coalesce(sum({total}), 0) // greatest({timed}, 1) as {column_name}")
        elif rule == "sampled":
            made.append(f"(array_agg({column_name} order by {order}))[1] as {column_name}")
        else:
            made.append(f"{RULES[rule].format(column_name)} as {column_name}")
            count = column_name if column_name.startswith("COUNT_") else count
    group = f" group by {', '.join(info['key'])}" if info["key"] else " having count(*) > 0"
    # A quantile is the share of its histogram: the rows of one key without the number of the bucket.
    histogram = ", ".join(key for key in info["key"] if key != "BUCKET_NUMBER")
    whole = f"nullif(max(COUNT_BUCKET_AND_LOWER) over ({f'partition by {histogram}' if histogram else ''}), 0)"
    share = f"coalesce(COUNT_BUCKET_AND_LOWER::double / {whole}::double, 0) as BUCKET_QUANTILE"
    replaced = f" replace ({share})" if any(c["name"] == "BUCKET_QUANTILE" for c in info["columns"]) else ""
    grouped = f"select {', '.join(made)} from ({rows}){group}"
    return connection.execute(f"select *{replaced} from ({grouped})").fetchall()


@pytest.mark.parametrize("name", MERGED)
def test_sql_of_the_declarations_finds_the_same(name: str) -> None:
    generator = np.random.default_rng(7)
    frames = [random_table(name, rows, generator) for rows in (8, 5, 1, 0, 7)]
    merged = pfs.Snapshot.merge([of_process({name: frame}, pid) for pid, frame in enumerate(frames, 1)])[name]
    found, wanted = values_of(merged), merged_by_sql(name, frames)
    assert sorted(str([*map(str, row)]) for row in found) == sorted(str([*map(str, row)]) for row in wanted)
    assert found


def test_a_column_that_a_reading_lacks_counts_nothing() -> None:
    """A snapshot of another version has other columns."""
    frames = [random_table(WAITS, 4, np.random.default_rng(seed)) for seed in (1, 2)]
    merged = pfs.Snapshot.merge([of_process({WAITS: frames[0]}, 1), of_process({WAITS: frames[1].drop(columns="COUNT_STAR")}, 2)])
    assert merged[WAITS]["COUNT_STAR"].sum() == frames[0]["COUNT_STAR"].sum()
    threads = random_table("threads", 3, np.random.default_rng(3))
    both = pfs.Snapshot.merge(
        [of_process({"threads": threads}, 1), of_process({"threads": threads.drop(columns="PROCESSLIST_USER")}, 2)]
    )
    assert both["threads"]["PROCESSLIST_USER"].iloc[3:].isna().all()


def test_a_sum_that_does_not_fit_stays_at_the_largest() -> None:
    frame = random_table(WAITS, 1, np.random.default_rng(0)).assign(COUNT_STAR=np.array([2**63], np.uint64))
    parts = [of_process({WAITS: frame}, pid) for pid in (1, 2, 3)]
    assert pfs.Snapshot.merge(parts)[WAITS]["COUNT_STAR"][0] == 2**64 - 1
    assert pfs.Snapshot.merge([pfs.Snapshot.merge(parts[:2]), parts[2]])[WAITS]["COUNT_STAR"][0] == 2**64 - 1


def test_numbers_beside_those_of_2_63_and_more_stay_exact() -> None:
    """`pfs.table` gives int64 where all values fit and uint64 elsewhere. pandas would make floating point of the two."""
    small, large = 2**53 + 1, 2**63 + 1
    frames = [
        random_table("threads", 1, np.random.default_rng(0)).assign(THREAD_ID=np.array([small], np.int64)),
        random_table("threads", 1, np.random.default_rng(0)).assign(THREAD_ID=np.array([large], np.uint64)),
    ]
    merged = pfs.Snapshot.merge([of_process({"threads": frame}, pid) for pid, frame in enumerate(frames, 1)])
    assert merged["threads"]["THREAD_ID"].tolist() == [small, large]
    assert merged["threads"]["PID"].tolist() == [1, 2]


def test_a_hundred_snapshots_take_the_steps_of_a_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step costs pandas a millisecond a frame: a hundred snapshots of a hundred tables took a minute. No frame is made."""
    steps: list[str] = []
    original = merges._rows

    def noted(info: _core.TableInfo, readings: Sequence[Columns], origin: bool = False) -> dict[str, Any]:
        steps.append(info["name"])
        return original(info, readings, origin)

    def fails(*_: object, **__: object) -> pd.DataFrame:
        raise AssertionError("a frame was made")

    whole = pfs.snapshot()
    given = [pfs.Snapshot(whole._held, Process(pid, 1, 1, "b", 0, "x"), whole.time, 0.1) for pid in range(1, 101)]
    with monkeypatch.context() as patched:
        patched.setattr(merges, "_rows", noted)
        patched.setattr(Columns, "frame", fails)
        patched.setattr(pd.DataFrame, "__init__", fails)
        merged = pfs.Snapshot.merge(given)
    assert len(merged["threads"]) == 100 * len(whole["threads"])
    assert sorted(steps) == sorted(whole)


def test_extremes_and_means() -> None:
    """MIN ignores processes that timed nothing; AVG is the sum divided by the count; LOW and HIGH add up."""
    base = random_table(WAITS, 1, np.random.default_rng(0)).assign(EVENT_NAME="wait/x")
    parts = []
    for pid, (count, total, least, most) in enumerate([(2, 10, 3, 7), (3, 0, 0, 0), (1, 5, 5, 5)], 1):
        columns = {"COUNT_STAR": count, "SUM_TIMER_WAIT": total, "MIN_TIMER_WAIT": least, "MAX_TIMER_WAIT": most}
        parts.append(of_process({WAITS: base.assign(**{n: np.array([v], np.uint64) for n, v in columns.items()})}, pid))
    (row,) = pfs.Snapshot.merge(parts)[WAITS].to_dict("records")
    assert [row[n] for n in ("COUNT_STAR", "SUM_TIMER_WAIT", "MIN_TIMER_WAIT", "AVG_TIMER_WAIT", "MAX_TIMER_WAIT")] == [
        6,
        15,
        3,
        2,
        7,
    ]


def test_the_longest_hold_of_all_processes_keeps_its_line_and_thread() -> None:
    """The line and the thread are those of the process whose hold was the longest, whatever the order."""
    table = "lock_holds_summary_global_by_event_name"
    base = random_table(table, 1, np.random.default_rng(0)).assign(EVENT_NAME="wait/synch/mutex/a/m")
    longest = [(20, "b.c:2", 22), (30, "a.c:1", 21), (10, "c.c:3", 23)]
    parts = []
    for pid, (time, source, thread) in enumerate(longest, 1):
        numbers = {"COUNT_HOLD": 2, "SUM_TIMER_HOLD": time + 1, "MIN_TIMER_HOLD": 1, "MAX_TIMER_HOLD": time}
        frame = base.assign(**numbers, LONGEST_SOURCE=source, LONGEST_THREAD_ID=thread)
        parts.append(of_process({table: frame}, pid))
    for merged in (pfs.Snapshot.merge(parts), pfs.Snapshot.merge([pfs.Snapshot.merge(parts[:0:-1]), parts[0]])):
        (row,) = merged[table].to_dict("records")
        assert (row["COUNT_HOLD"], row["SUM_TIMER_HOLD"], row["MIN_TIMER_HOLD"], row["AVG_TIMER_HOLD"]) == (6, 63, 1, 10)
        assert (row["MAX_TIMER_HOLD"], row["LONGEST_SOURCE"], row["LONGEST_THREAD_ID"]) == (30, "a.c:1", 21)


def test_nodes_and_bad_input() -> None:
    frame = random_table("threads", 2, np.random.default_rng(0))
    parts = [of_process({"threads": frame}, 1), of_process({"threads": frame}, 2)]
    assert set(pfs.Snapshot.merge(parts, nodes=["a", "b"])["threads"]["NODE"]) == {"a", "b"}
    with pytest.raises(pfs.InvalidValue, match="1 node for 2 snapshots"):
        pfs.Snapshot.merge(parts, nodes=["a"])
    with pytest.raises(pfs.InvalidValue, match="nothing to merge"):
        pfs.Snapshot.merge([])
    with pytest.raises(TypeError, match="not str"):
        pfs.Snapshot.merge(["x"])  # type: ignore[list-item]
    same = pfs.Snapshot({"threads": frame}, replace(parts[0].process, command="y"), parts[0].time, 0)
    with pytest.raises(pfs.InvalidValue, match="count twice"):
        pfs.Snapshot.merge([parts[0], same])


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"PK nothing")
    with pytest.raises(pfs.InvalidValue, match=r"bad\.zip holds no snapshot"):
        pfs.read_snapshot(tmp_path / "bad.zip")
    with pytest.raises(pfs.InvalidValue, match="there is no such file"):
        pfs.read_snapshot(tmp_path / "none.zip")
    with pytest.raises(pfs.InvalidValue, match=r"ends in \.zip"):
        pfs.snapshot().to_file(tmp_path / "x.arrow")


def test_rows_of_each_process_are_those_in_which_something_was_counted() -> None:
    frame = random_table(WAITS, 3, np.random.default_rng(5)).iloc[:2].reset_index(drop=True)
    sums = [column["name"] for column in _core.table_info(WAITS)["columns"] if column["combine"] == "sum"]
    frame.loc[0, sums] = 0
    frame.loc[1, "COUNT_STAR"] = 7
    readings = []
    for pid in (1, 2):
        columns = columns_of(of_process({WAITS: frame}, pid), WAITS)
        assert columns is not None
        readings.append((Origin("boot/0", pid, pid * 10), columns))
    found = merges.apart(WAITS, readings).frame()
    assert found["EVENT_NAME"].tolist() == [frame["EVENT_NAME"][1]] * 2
    assert found["COUNT_STAR"].tolist() == [7, 7]
    assert found["PID"].tolist() == [1, 2]
