"""pfs.wait: blocks and functions as waits of one's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pandas as pd
import pytest

import pfs


def events(name: str) -> pd.DataFrame:
    frame = pfs.table("events_waits_history_long")
    return frame[frame["EVENT_NAME"] == f"wait/app/{name}"].sort_values("TIMER_START")


def test_block_is_one_event_from_begin_to_end() -> None:
    with pfs.wait("test/WAIT_block") as wait:
        time.sleep(0.02)
    assert wait.name == "wait/app/test/WAIT_block"
    rows = events("test/WAIT_block")
    assert len(rows) == 1
    assert 0.02e12 <= rows["TIMER_WAIT"].iloc[0] < 0.5e12
    assert rows["SOURCE"].iloc[0].startswith("test_wait.py:")


def test_a_wait_has_a_class_of_its_own_and_is_no_lock() -> None:
    name = "test/WAIT_or_lock"
    lock, wait = pfs.Lock(name), pfs.wait(name)
    with lock, wait:
        owners = pfs.table("mutex_instances").set_index("NAME")["LOCKED_BY_THREAD_ID"]
    assert pd.notna(owners[lock.name])
    assert wait.name not in owners.index
    assert events(name)["OPERATION"].tolist() == ["wait"]
    names = pfs.table("setup_instruments")["NAME"]
    assert names[names.str.endswith(name)].tolist() == [lock.name, wait.name]
    for table in ("events_waits_summary_global_by_event_name", "events_waits_summary_by_instance"):
        counts = pfs.table(table).set_index("EVENT_NAME")["COUNT_STAR"]
        assert (counts[lock.name], counts[wait.name]) == (1, 1), table


def test_settings_of_waits_are_their_own() -> None:
    wait = pfs.wait("test/WAIT_settings")
    pfs.setup_instruments["wait/synch/%"].enabled = False
    try:
        with wait:
            pass
    finally:
        pfs.setup_instruments["wait/synch/%"].enabled = True
    pfs.setup_instruments["wait/app/test/WAIT\\_set%"].enabled = False
    with wait:
        pass
    assert len(events("test/WAIT_settings")) == 1


def test_names_are_short_or_full() -> None:
    for name in ("test/WAIT_named", "wait/app/test/WAIT_named"):
        assert pfs.wait(name).name == "wait/app/test/WAIT_named"
    for family in ("mutex", "cond"):
        with pytest.raises(pfs.InvalidValue, match="another family than wait/app/"):
            pfs.wait(f"wait/synch/{family}/test/WAIT_named")


def test_decorated_function_keeps_its_face_and_counts_each_call() -> None:
    @pfs.wait("test/WAIT_function")
    def double(x: int, *, times: int = 2) -> int:
        """Doc."""
        return x * times

    assert double(4) == 8
    assert double(4, times=3) == 12
    assert (double.__name__, double.__doc__) == ("double", "Doc.")
    rows = events("test/WAIT_function")
    assert len(rows) == 2
    assert (rows["SOURCE"].str.startswith("test_wait.py:")).all()


def test_exception_ends_the_wait_and_goes_on() -> None:
    @pfs.wait("test/WAIT_raises")
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    with pytest.raises(KeyError), pfs.wait("test/WAIT_raises"):
        raise KeyError
    rows = events("test/WAIT_raises")
    assert len(rows) == 2
    assert rows["TIMER_END"].notna().all()


def test_nested_waits_name_their_parent() -> None:
    outer = pfs.wait("test/WAIT_outer")
    with outer, pfs.wait("test/WAIT_inner"), outer:
        pass
    outers, inner = events("test/WAIT_outer"), events("test/WAIT_inner")
    assert len(outers) == 2
    assert inner["NESTING_EVENT_ID"].iloc[0] == outers["EVENT_ID"].iloc[0]
    assert outers["NESTING_EVENT_ID"].iloc[1] == inner["EVENT_ID"].iloc[0]
    assert pd.isna(outers["NESTING_EVENT_ID"].iloc[0])
    assert inner["NESTING_EVENT_TYPE"].iloc[0] == "WAIT"


def test_deeper_than_recorded_and_deeper_than_kept_still_balances() -> None:
    wait = pfs.wait("test/WAIT_deep")

    def down(depth: int) -> None:
        if depth:
            with wait:
                down(depth - 1)

    before = pfs.status["Performance_schema_locker_lost"]
    down(100)
    after = pfs.status["Performance_schema_locker_lost"]
    assert isinstance(before, int)
    assert isinstance(after, int)
    assert after > before  # more than 5 nested waits are not recorded
    with wait:
        pass
    rows = events("test/WAIT_deep")
    assert rows["TIMER_END"].notna().all()
    assert pd.isna(rows["NESTING_EVENT_ID"].iloc[-1])


def test_five_nested_waits_are_recorded_and_the_sixth_is_lost() -> None:
    waits = [pfs.wait(f"test/WAIT_level_{i}") for i in range(6)]
    before = pfs.status["Performance_schema_locker_lost"]
    with waits[0], waits[1], waits[2], waits[3], waits[4], waits[5]:
        pass
    assert isinstance(before, int)
    assert pfs.status["Performance_schema_locker_lost"] == before + 1
    assert [len(events(f"test/WAIT_level_{i}")) for i in range(6)] == [1, 1, 1, 1, 1, 0]


def test_many_threads_at_once_lose_no_count() -> None:
    wait = pfs.wait("test/WAIT_shared")
    rounds, workers = 3000, 6
    barrier = threading.Barrier(workers)

    def work() -> None:
        barrier.wait()
        for _ in range(rounds):
            with wait:
                pass

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for table in ("events_waits_summary_global_by_event_name", "events_waits_summary_by_instance"):
        frame = pfs.table(table)
        assert frame.loc[frame["EVENT_NAME"] == wait.name, "COUNT_STAR"].tolist() == [rounds * workers], table


def test_generator_and_coroutine_functions_are_refused() -> None:
    def generate() -> Iterator[int]:
        yield 1

    async def answer() -> int:
        return 1

    for function in (generate, answer):
        with pytest.raises(TypeError, match="use 'with'"):
            pfs.wait("test/WAIT_later")(function)


def test_bad_name_raises() -> None:
    with pytest.raises(pfs.InvalidValue, match="component"):
        pfs.wait("nothing")
