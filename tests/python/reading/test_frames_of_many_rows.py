"""Frames are made column by column, many rows at a time; rows cell by cell. Both show the same, whatever is in the tables."""

from __future__ import annotations

import random

import pytest

import pfs
from pfs import _core
from tests.python._programs.driver import Mutex, Worker
from tests.python._programs.fresh_process import fresh_process


def _same(table: str) -> int:
    frame, rows = pfs.table(table), _core.rows(table, None, None)
    assert len(frame) == len(rows)
    for i, column in enumerate(_core.table_info(table)["columns"]):
        values = frame[column["name"]]
        if column["kind"] == "timestamp":
            values = values.astype("int64").where(values.notna())
        shown = [None if missing else value for missing, value in zip(values.isna(), values, strict=True)]
        assert shown == [row[i] for row in rows], column["name"]
    return len(rows)


@pytest.mark.parametrize("seed", range(4))
@fresh_process("performance_schema_events_waits_history_long_size=3000,performance_schema_max_file_instances=4000")
def test_frames_and_rows_agree_on_random_content(seed: int) -> None:
    """More rows than a batch has, of every kind at random: NULLs, long names, names that many rows share or none."""
    chance = random.Random(seed)
    locks = [Mutex(f"many/LOCK_{i}") for i in range(5)]
    workers = [Worker() for _ in range(3)]
    written = 0
    for i in range(chance.randrange(600, 1200)):
        if chance.random() < 0.5:
            name = f"file {chance.randrange(400)} " + "é" * chance.randrange(80)
            with pfs.open(name, "wb", name=f"many/data_{i % 7}") as file:
                for _ in range(chance.randrange(3)):
                    written += file.write(b"x" * chance.randrange(1, 50))
        else:
            chance.choice(workers).do(chance.choice(locks).use, chance.randrange(1, 4))
    for table in ("events_waits_history_long", "events_waits_history", "file_summary_by_instance", "file_instances"):
        assert _same(table) > (100 if table != "events_waits_history" else 10)
    for table in ("events_waits_summary_by_instance", "mutex_instances", "events_waits_summary_by_thread_by_event_name"):
        _same(table)
    # What is known without pfs.
    assert pfs.table("file_summary_by_instance")["SUM_NUMBER_OF_BYTES_WRITE"].sum() == written
    events = pfs.table("events_waits_history_long")
    assert events["TIMER_END"].is_monotonic_increasing
    assert not events.duplicated(["THREAD_ID", "EVENT_ID"]).any()


def _resident(name: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))


@fresh_process("performance_schema_events_waits_history_long_size=1000000")
def test_room_is_made_for_the_rows_that_there_are() -> None:
    """A history for a million events that has one: no column takes a huge page for it."""
    with pfs.Lock("many/LOCK_few"):
        pass
    assert len(pfs.table("events_waits_history_long")) == 1
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark begins anew
    before = _resident("VmRSS")
    assert len(pfs.table("events_waits_history_long")) == 1
    assert _resident("VmHWM") - before < 4096
