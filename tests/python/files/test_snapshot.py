"""Snapshots: all tables at one time, to Parquet and back; pfs.Snapshot.diff: exactly what happened in between."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import pfs
from pfs import _core
from pfs._save import diff as diffs
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.subject import Subject, subject

GLOBAL = "events_waits_summary_global_by_event_name"
BY_INSTANCE = "events_waits_summary_by_instance"
MUTEX = "wait/synch/mutex/app/LOCK"


@pytest.fixture
def program(folder: Path) -> Iterator[Subject]:
    with subject(folder) as running:
        running.do("lock = pfs.Lock('app/LOCK')")
        yield running


def take(program: Subject) -> pfs.Snapshot:
    with pfs.attach(program.pid) as schema:
        return schema.snapshot()


def row(frame: pd.DataFrame, **key: object) -> dict[str, object]:
    for column, value in key.items():
        frame = frame[frame[column] == value]
    (found,) = frame.to_dict("records")
    return {str(name): value for name, value in found.items()}


def busy_world() -> None:
    """Numbers in many summaries."""
    pfs.set_account("joe", "here")
    for _ in range(3):
        with pfs.Lock("app/LOCK"), pfs.open("file", "w", name="app/data") as file:
            file.write("x" * 100)
    with pfs.open("file", name="app/data") as file:
        file.read()
    for _ in range(5):
        with pfs.transaction(), pfs.statement("app/query", "SELECT 1"), pfs.stage("app/step"):
            pass
    a, b = pfs.socketpair("app/pair")
    a.send(b"hello")
    b.recv(10)
    pfs.server.host_seen("192.0.2.1", "example")


# ---- Snapshots


def test_snapshot_is_a_mapping_of_all_tables(program: Subject) -> None:
    before = pd.Timestamp.now("UTC").tz_localize(None)
    taken = take(program)
    assert list(taken) == pfs.tables()
    assert len(taken) == len(pfs.tables())
    assert taken.pid == program.pid
    assert before <= taken.time <= before + pd.Timedelta(minutes=1)
    assert 0 < taken.duration < 60
    assert taken.command.startswith(sys.executable)
    assert taken["setup_instruments"].equals(taken["SETUP_INSTRUMENTS"])
    assert "threads" in taken
    assert "thread" not in taken
    assert taken.get("thread") is None
    with pytest.raises(pfs.UnknownTable, match="the nearest is 'threads'"):
        taken["thread"]
    assert f"Snapshot of process {program.pid}" in repr(taken)
    assert "setup_instruments" in taken._repr_html_()


def test_snapshot_stays_as_it_was(program: Subject) -> None:
    taken = take(program)
    program.do("with lock: pass")
    program.kill()
    assert row(taken[GLOBAL], EVENT_NAME=MUTEX)["COUNT_STAR"] == 0


@fresh_process()
def test_own_snapshot() -> None:
    busy_world()
    own = pfs.snapshot()
    with pfs.attach(os.getpid()) as schema:
        outside = schema.snapshot()
    assert own.process == outside.process
    assert own[GLOBAL].equals(outside[GLOBAL])
    pfs.Snapshot.diff(own, outside)


@fresh_process("performance_schema=OFF")
def test_own_snapshot_while_pfs_is_off() -> None:
    taken = pfs.snapshot()
    assert taken.pid == os.getpid()
    assert len(taken["global_variables"]) > 10


@fresh_process()
def test_folder_has_the_same_frames() -> None:
    busy_world()
    taken = pfs.snapshot("out")
    again = pfs.read_snapshot("out")
    assert list(again) == list(taken)
    for name in taken:
        pd.testing.assert_frame_equal(taken[name], again[name], obj=name)
    assert again.process == taken.process
    assert again.time == taken.time
    assert again.duration == taken.duration
    taken.to_folder("out")  # once more over the old one
    assert pfs.Snapshot.diff(again, pfs.read_snapshot("out"))[GLOBAL].empty


@fresh_process()
def test_names_that_are_no_text_can_be_written() -> None:
    name = os.fsdecode(b"\xff\xfe.txt")
    with pfs.open(name, "w", name="app/data") as file:
        file.write("x")
    taken = pfs.snapshot("out")
    assert taken["file_instances"]["FILE_NAME"].str.endswith(name).any()
    with pfs.open(name, name="app/data") as file:
        file.read()
    changed = pfs.Snapshot.diff(taken, pfs.snapshot())["file_summary_by_instance"]
    assert changed["FILE_NAME"].str.endswith(name).tolist() == [True]
    written = pfs.read_snapshot("out")["file_instances"]["FILE_NAME"]
    assert written.str.endswith(r"\xff\xfe.txt").any()


@fresh_process()
def test_frames_are_made_when_somebody_asks() -> None:
    """Taking, writing, reading, questions in SQL and Arrow need no frame. A frame that was given away is what counts."""
    from pfs._save.held import Columns

    busy_world()
    made: list[int] = []
    original = Columns.frame

    def noted(columns: Columns, cells: dict[str, str] | None = None) -> pd.DataFrame:
        made.append(columns.rows)
        return original(columns, cells)

    setattr(Columns, "frame", noted)  # noqa: B010
    taken = pfs.snapshot()
    taken.to_file("out.zip")
    again = pfs.read_snapshot("out.zip")
    assert taken.sql(f"select sum(COUNT_STAR) from {GLOBAL}").rows() == again.sql(f"select sum(COUNT_STAR) from {GLOBAL}").rows()
    assert repr(taken) == repr(again)
    assert len(taken.arrow("threads")) == len(again.arrow("threads")) > 0
    assert pfs.Snapshot.merge([taken]).origins == again.origins
    assert not made
    for name in taken:
        pd.testing.assert_frame_equal(taken[name], again[name], obj=name)
        assert taken[name] is taken[name]
        assert taken[name].attrs == again[name].attrs or not len(taken[name])
    assert len(made) == 2 * len(taken)
    copy = pickle.loads(pickle.dumps(pfs.read_snapshot("out.zip")))
    pd.testing.assert_frame_equal(copy[GLOBAL], taken[GLOBAL])
    taken[GLOBAL]["COUNT_STAR"] = 7
    taken.to_file("out.zip")
    for changed in (taken, pfs.read_snapshot("out.zip")):
        assert changed.sql(f"select distinct COUNT_STAR from {GLOBAL}").rows() == [(7,)]
        assert set(pfs.Snapshot.merge([changed])[GLOBAL]["COUNT_STAR"]) == {7}


@fresh_process()
def test_files_with_names_that_are_no_text_answer_in_sql() -> None:
    with pfs.open(os.fsdecode(b"\xff\xfe.txt"), "w", name="app/data") as file:
        file.write("x")
    taken = pfs.snapshot()
    taken.to_file("out.zip")
    question = "select FILE_NAME from file_instances where FILE_NAME like '%txt'"
    for source in (taken, pfs.read_snapshot("out.zip"), "out.zip"):
        ((name,),) = pfs.sql(question, source).rows()
        assert name.endswith(r"\xff\xfe.txt")


def test_folders_that_are_no_snapshot(program: Subject, tmp_path: Path) -> None:
    taken = take(program)
    full = tmp_path / "full"
    full.mkdir()
    (full / "precious").touch()
    with pytest.raises(pfs.InvalidValue, match="not empty"):
        taken.to_folder(full)
    assert [file.name for file in full.iterdir()] == ["precious"]
    for folder in (full, tmp_path / "missing"):
        with pytest.raises(pfs.InvalidValue, match="holds no snapshot"):
            pfs.read_snapshot(folder)
    taken.to_folder(tmp_path / "good")
    facts = tmp_path / "good" / "snapshot.json"
    text = facts.read_text()
    for bad in ("", "{}", "[]", text[: len(text) // 2], text.replace('"format": 1', '"format": 9')):
        facts.write_text(bad)
        with pytest.raises(pfs.InvalidValue, match="snapshot"):
            pfs.read_snapshot(tmp_path / "good")
    facts.write_text(text)
    (tmp_path / "good" / "threads.parquet").write_bytes(b"junk")
    with pytest.raises(pfs.InvalidValue, match=r"threads\.parquet cannot be read"):
        pfs.read_snapshot(tmp_path / "good")


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ImportError")
    script = """
import pfs
assert len(pfs.snapshot())
try:
    pfs.snapshot("out")
except pfs.Error as error:
    print(error)
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PFS_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "pip install 'perfschema[parquet]'" in done.stdout
    assert not (tmp_path / "out").exists()


# ---- Differences


def test_sums_are_what_happened_in_between(program: Subject) -> None:
    program.do("for _ in range(5):\n    with lock: pass")
    before = take(program)
    program.do("for _ in range(3):\n    with lock: pass")
    after = take(program)
    first, second = (row(taken[GLOBAL], EVENT_NAME=MUTEX) for taken in (before, after))
    found = row(pfs.Snapshot.diff(before, after)[GLOBAL], EVENT_NAME=MUTEX)
    time = int(second["SUM_TIMER_WAIT"]) - int(first["SUM_TIMER_WAIT"])  # type: ignore[call-overload]
    assert found == {
        "CHANGE": "changed",
        "EVENT_NAME": MUTEX,
        "COUNT_STAR": 3,
        "SUM_TIMER_WAIT": time,
        "AVG_TIMER_WAIT": time // 3,
        "COUNT_NOT_SAMPLED": 0,
    }


def test_nothing_happened(program: Subject) -> None:
    program.do("with lock: pass")
    program.process.send_signal(19)
    before, after = take(program), take(program)
    difference = pfs.Snapshot.diff(before, after)
    assert list(difference) == pfs.tables()
    # Time passes all the same.
    assert [name for name, frame in difference.items() if len(frame)] == ["active_sessions", "thread_time"]
    assert difference.truncated == []


def test_new_and_gone_rows(program: Subject) -> None:
    program.do("with lock: pass")
    before = take(program)
    program.do("del lock; other = pfs.Lock('app/OTHER')\nfor _ in range(2):\n    with other: pass")
    after = take(program)
    found = pfs.Snapshot.diff(before, after)[BY_INSTANCE].set_index("EVENT_NAME")
    if before[BY_INSTANCE]["OBJECT_INSTANCE_BEGIN"].tolist() != after[BY_INSTANCE]["OBJECT_INSTANCE_BEGIN"].tolist():
        assert found.loc["wait/synch/mutex/app/OTHER", "CHANGE"] == "new"
        assert found.loc["wait/synch/mutex/app/OTHER", "COUNT_STAR"] == 2
        assert found.loc[MUTEX, "CHANGE"] == "gone"
        assert found.loc[MUTEX, ["COUNT_STAR", "SUM_TIMER_WAIT", "AVG_TIMER_WAIT"]].isna().all()
    totals = pfs.Snapshot.diff(before, after)[GLOBAL]
    assert row(totals, EVENT_NAME="wait/synch/mutex/app/OTHER")["COUNT_STAR"] == 2
    instances = pfs.Snapshot.diff(before, after)["mutex_instances"]
    assert set(instances["CHANGE"]) <= {"new", "gone", "changed"}
    assert len(instances) >= 1


def test_truncate_in_between_is_marked(program: Subject) -> None:
    program.do("for _ in range(5):\n    with lock: pass")
    before = take(program)
    program.do(f"pfs.truncate({GLOBAL!r})\nfor _ in range(2):\n    with lock: pass")
    difference = pfs.Snapshot.diff(before, take(program))
    found = row(difference[GLOBAL], EVENT_NAME=MUTEX)
    assert found["CHANGE"] == "reset"
    assert found["COUNT_STAR"] == 2
    assert GLOBAL in difference.truncated
    assert f"TRUNCATE in between: {GLOBAL}" in repr(difference) or GLOBAL in repr(difference).splitlines()[0]


def test_truncate_is_seen_by_the_longest_wait_too(program: Subject) -> None:
    """More events than before: only the maximum, which never shrinks by itself, tells."""
    program.do("import time\nwith lock: pass")
    before = take(program)
    waits = before[GLOBAL].copy()
    waits["MAX_TIMER_WAIT"] = waits["MAX_TIMER_WAIT"] + 10**12
    tampered = type(before)({**before, GLOBAL: waits}, before.process, before.time, before.duration)
    program.do("for _ in range(9):\n    with lock: pass")
    found = row(pfs.Snapshot.diff(tampered, take(program))[GLOBAL], EVENT_NAME=MUTEX)
    assert found["CHANGE"] == "reset"
    assert found["COUNT_STAR"] == 10


def test_events_of_in_between(program: Subject) -> None:
    program.do("with lock: pass")
    before = take(program)
    program.do("for _ in range(3):\n    with lock: pass")
    after = take(program)
    for name in ("events_waits_history", "events_waits_history_long"):
        events = pfs.Snapshot.diff(before, after)[name]
        assert len(events) == 3
        old = set(zip(before[name]["THREAD_ID"], before[name]["EVENT_ID"], strict=True))
        assert not old & set(zip(events["THREAD_ID"], events["EVENT_ID"], strict=True))
        assert events.columns.tolist() == after[name].columns.tolist()


def test_settings_that_changed_show_what_they_were(program: Subject) -> None:
    before = take(program)
    program.do("pfs.setup_instruments['wait/synch/mutex/app/%'].timed = False; pfs.setup_actors.insert(user='ann')")
    after = take(program)
    difference = pfs.Snapshot.diff(before, after)
    assert row(difference["setup_instruments"])["NAME"] == MUTEX
    assert row(difference["setup_instruments"])["TIMED"] == "NO"
    assert row(difference["setup_instruments"])["TIMED_BEFORE"] == "YES"
    assert "ENABLED_BEFORE" not in difference["setup_instruments"]
    assert row(difference["setup_actors"])["CHANGE"] == "new"
    back = type(after)(before, after.process, after.time + pd.Timedelta(seconds=1), 0.1)
    assert row(pfs.Snapshot.diff(after, back)["setup_actors"])["CHANGE"] == "gone"


def test_rates_are_per_second(program: Subject) -> None:
    before = take(program)
    program.do("for _ in range(30):\n    with lock: pass")
    after = take(program)
    after.time = before.time + pd.Timedelta(seconds=10)
    difference = pfs.Snapshot.diff(before, after)
    assert difference.seconds == 10
    rate = row(difference.rates()[GLOBAL], EVENT_NAME=MUTEX)
    plain = row(difference[GLOBAL], EVENT_NAME=MUTEX)
    assert rate["COUNT_STAR"] == 3.0
    assert rate["AVG_TIMER_WAIT"] == plain["AVG_TIMER_WAIT"]
    after.time = before.time
    with pytest.raises(pfs.InvalidValue, match="no rate"):
        pfs.Snapshot.diff(before, after).rates()


def test_a_sum_of_times_that_has_stopped_is_not_known(program: Subject) -> None:
    """Sums of times stop at 2^64 - 1 picoseconds: what was added since is NULL, as its mean and its rate; counts go on."""
    before, after = take(program), take(program)
    for snapshot, count, total in ((before, 10, 2**64 - 1000), (after, 30, 2**64 - 1)):
        frame = snapshot[GLOBAL]
        there = frame["EVENT_NAME"] == MUTEX
        frame["SUM_TIMER_WAIT"] = frame["SUM_TIMER_WAIT"].astype("uint64")  # as pfs.table does with such a value
        frame.loc[there, "COUNT_STAR"] = count
        frame.loc[there, "SUM_TIMER_WAIT"] = total
    after.time = before.time + pd.Timedelta(seconds=10)
    difference = pfs.Snapshot.diff(before, after)
    found = row(difference[GLOBAL], EVENT_NAME=MUTEX)
    assert (found["CHANGE"], found["COUNT_STAR"]) == ("changed", 20)
    assert pd.isna(found["SUM_TIMER_WAIT"])  # type: ignore[call-overload]
    assert pd.isna(found["AVG_TIMER_WAIT"])  # type: ignore[call-overload]
    rate = row(difference.rates()[GLOBAL], EVENT_NAME=MUTEX)
    assert rate["COUNT_STAR"] == 2.0
    assert pd.isna(rate["SUM_TIMER_WAIT"])  # type: ignore[call-overload]


def test_snapshots_that_cannot_be_compared(program: Subject) -> None:
    before = take(program)
    after = take(program)
    with pytest.raises(pfs.InvalidValue, match="the earlier one"):
        pfs.Snapshot.diff(after, before)
    with subject(program.path.parent) as other, pytest.raises(pfs.InvalidValue, match=f"{program.pid} and {other.pid}"):
        pfs.Snapshot.diff(before, take(other))
    from dataclasses import replace

    after.process = replace(after.process, process_start_ticks=after.process.process_start_ticks + 1)
    with pytest.raises(pfs.InvalidValue, match="a later run with the same process id"):
        pfs.Snapshot.diff(before, after)


@fresh_process()
def test_from_nothing_the_difference_is_all_there_is() -> None:
    """For every summary: sums are those of the table, means are those that the table itself computes, the rest is left out."""
    busy_world()
    after = pfs.snapshot()
    before = type(after)({name: frame.iloc[:0] for name, frame in after.items()}, after.process, after.time, 0.0)
    difference = pfs.Snapshot.diff(before, after)
    means = summaries = 0
    for name in pfs.tables():
        how = {column["name"]: column["combine"] for column in _core.table_info(name)["columns"]}
        sums = [column for column in how if how[column] == "sum"]
        if not sums or {"EVENT_ID", "END_EVENT_ID"} <= set(how):
            continue
        shown = difference[name]
        full = after[name][(after[name][sums] != 0).any(axis=1)].reset_index(drop=True)
        assert len(shown) == len(full), name
        summaries += len(full) > 0
        assert shown.columns.tolist() == ["CHANGE", *(c for c in how if how[c] in ("", "sum", "mean"))], name
        assert (shown["CHANGE"] == "new").all()
        for column in shown.columns[1:]:
            assert shown[column].astype("object").tolist() == full[column].astype("object").tolist() or (
                shown[column].isna().equals(full[column].isna()) and (shown[column] == full[column]).fillna(True).all()
            ), (name, column)
            means += how[column] == "mean" and bool((full[column] > 0).any())
    assert summaries > 20
    assert means > 20


def test_every_summary_that_truncate_empties_has_sums() -> None:
    """A declaration that says of no column how it adds up would be compared as if it were a list of settings."""
    for name in pfs.tables():
        facts = _core.table_info(name)
        columns = {column["name"]: column["combine"] for column in facts["columns"]}
        is_events = "EVENT_ID" in columns
        has_rows_of_users = "INSERT" in facts["operations"]
        is_text = "VARIABLE_VALUE" in columns
        if "TRUNCATE" in facts["operations"] and not (is_events or has_rows_of_users or is_text):
            assert "sum" in columns.values(), name
        for column in facts["columns"]:
            assert column["combine"] in ("", "sum", "least", "most", "mean", "derived")
            if column["combine"] == "sum":
                assert column["unit"] in ("count", "picoseconds", "bytes"), (name, column["name"])
                assert column["kind"] in ("uint64", "int64", "uint32", "int32"), (name, column["name"])
                assert column["name"] not in facts["key"]


def test_a_difference_makes_only_the_frames_that_are_asked_for(program: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame of each of a hundred tables takes two seconds, which `%%pfs` and scripts need not wait for."""
    made: list[str] = []
    original = diffs.table_diff

    def noted(table: _core.TableInfo, before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
        made.append(table["name"])
        return original(table, before, after)

    monkeypatch.setattr(diffs, "table_diff", noted)
    before = take(program)
    program.do("with lock: pass")
    difference = pfs.Snapshot.diff(before, take(program))
    assert made == []
    assert difference[GLOBAL]["COUNT_STAR"].tolist() == [1]
    assert difference[GLOBAL] is difference[GLOBAL]
    assert made == [GLOBAL]
    assert GLOBAL in repr(difference)  # which counts rows, of the tables that differ
    assert len(made) < len(_core.tables()) / 2
    copy = pickle.loads(pickle.dumps(difference.rates()))
    assert copy[GLOBAL]["COUNT_STAR"].tolist() == [1 / difference.seconds]
    assert len(dict(difference)) == len(_core.tables()) == len(set(made))
    assert [name for name in _core.tables() if before[name].attrs["table"] != name] == []  # the snapshots are as they were
