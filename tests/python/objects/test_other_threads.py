"""Events that end in another thread than they began in: a pool of threads advances a generator whose block it is."""

from __future__ import annotations

import contextvars
import gc
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pytest

import pfs
from tests.python._programs.fresh_process import fresh_process

Advance = Callable[[ThreadPoolExecutor, Callable[..., Any]], Any]


def plainly(pool: ThreadPoolExecutor, function: Callable[..., Any]) -> Any:
    return pool.submit(function).result()


def in_a_copied_context(pool: ThreadPoolExecutor, function: Callable[..., Any]) -> Any:
    """As anyio and asyncio.to_thread do."""
    return pool.submit(contextvars.copy_context().run, function).result()


WAYS = [plainly, in_a_copied_context]


@pytest.fixture
def pools() -> Iterator[list[ThreadPoolExecutor]]:
    made = [ThreadPoolExecutor(1) for _ in range(3)]
    yield made
    for pool in made:
        pool.shutdown()


def lost() -> dict[str, int]:
    return {name: int(value) for name, value in pfs.status.items() if name.endswith("_lost") and int(value)}


def rows(kind: str, name: str) -> pd.DataFrame:
    table = pfs.table(f"events_{kind}_history_long")
    return table[table["EVENT_NAME"] == name].reset_index(drop=True)


def count(kind: str, name: str) -> int:
    table = pfs.table(f"events_{kind}_summary_global_by_event_name").set_index("EVENT_NAME")
    return int(table["COUNT_STAR"][name])


@pytest.mark.parametrize("advance", WAYS)
def test_a_block_around_a_yield_is_recorded(advance: Advance, pools: list[ThreadPoolExecutor]) -> None:
    """The row is that of the thread in which the block began, with what both threads have set, and what is nested in it."""
    name = advance.__name__
    before, threads = lost(), []

    def pages() -> Iterator[int]:
        threads.append(threading.get_native_id())
        with pfs.statement(f"elsewhere/{name}", text=f"select 4711 from {name}") as running, pfs.stage(f"elsewhere/{name}"):
            running.rows_sent += 1
            yield 1
            running.rows_sent += 1
            raise ValueError("of the other thread")

    first, second, _ = pools
    generator = pages()
    advance(first, lambda: next(generator))
    time.sleep(0.02)
    with pytest.raises(ValueError, match="other"):
        advance(second, lambda: next(generator))
    [statement] = rows("statements", f"statement/elsewhere/{name}").to_dict("records")
    [stage] = rows("stages", f"stage/elsewhere/{name}").to_dict("records")
    owners = pfs.table("threads").set_index("THREAD_OS_ID")["THREAD_ID"]
    assert statement["THREAD_ID"] == stage["THREAD_ID"] == owners[threads[0]]
    assert stage["NESTING_EVENT_ID"] == statement["EVENT_ID"]
    assert statement["END_EVENT_ID"] >= stage["EVENT_ID"]
    assert (statement["ROWS_SENT"], statement["ERRORS"], statement["MYSQL_ERRNO"]) == (2, 1, 1105)
    assert statement["MESSAGE_TEXT"] == "ValueError: of the other thread"
    assert min(statement["TIMER_WAIT"], stage["TIMER_WAIT"]) >= 20 * 10**9
    assert (count("statements", f"statement/elsewhere/{name}"), count("stages", f"stage/elsewhere/{name}")) == (1, 1)
    digests = pfs.table("events_statements_summary_by_digest").set_index("DIGEST_TEXT")
    digest = digests.loc[f"SELECT ? FROM `{name}`"]
    assert (digest["COUNT_STAR"], digest["SUM_ROWS_SENT"], digest["SUM_ERRORS"]) == (1, 2, 1)
    assert digest["QUERY_SAMPLE_TEXT"] == f"select 4711 from {name}"
    assert len(pfs.table("running")) == 0
    assert lost() == before


@pytest.mark.parametrize("advance", WAYS)
def test_the_first_thread_goes_on_as_if_it_had_ended_there(advance: Advance, pools: list[ThreadPoolExecutor]) -> None:
    name = f"next_{advance.__name__}"

    def body() -> Generator[None, None, None]:
        with pfs.transaction(), pfs.statement(f"elsewhere/{name}"), pfs.stage(f"elsewhere/{name}"):
            yield

    def work() -> None:
        with pfs.wait(f"elsewhere/{name}"):
            pass
        with pfs.statement(f"elsewhere/{name}_alone"), pfs.stage(f"elsewhere/{name}_alone"):
            pass
        with pfs.transaction():
            pass

    for _ in range(20):
        generator = body()
        advance(pools[0], lambda generator=generator: next(generator))
        advance(pools[1], generator.close)
        advance(pools[0], work)
    waits = pfs.table("events_waits_history_long")
    assert waits[waits["EVENT_NAME"].str.endswith(name)]["NESTING_EVENT_ID"].isna().all()
    alone = rows("statements", f"statement/elsewhere/{name}_alone")
    assert len(alone) == 20
    assert alone["NESTING_EVENT_ID"].isna().all()
    assert (alone["NESTING_EVENT_LEVEL"] == 0).all()
    assert count("statements", f"statement/elsewhere/{name}") == 20
    assert count("stages", f"stage/elsewhere/{name}") == 20
    assert len(pfs.table("running")) == 0


def test_a_transaction_and_what_it_was_told() -> None:
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        before = int(pfs.table("events_transactions_summary_global_by_event_name")["COUNT_STAR"].sum())
        one = pfs.transaction("SERIALIZABLE")
        run = plainly(first, one.begin)
        other = plainly(first, pfs.transaction().begin)
        plainly(second, run.rollback)
        plainly(second, other.commit)
        table = pfs.table("events_transactions_history_long")
        assert int(pfs.table("events_transactions_summary_global_by_event_name")["COUNT_STAR"].sum()) == before + 2
        newest = table.sort_values("TIMER_START").tail(1).to_dict("records")[0]
        assert newest["STATE"] == "COMMITTED"
        assert (run.state, other.state) == ("ROLLED BACK", "COMMITTED")


def test_the_first_thread_has_ended() -> None:
    """Its rows of events that ran are gone; the event counts all the same."""
    before = lost()

    def body() -> Generator[None, None, None]:
        with pfs.statement("elsewhere/orphan", text="select orphan"), pfs.stage("elsewhere/orphan"), pfs.transaction():
            yield

    for advance in WAYS:
        generator = body()
        with ThreadPoolExecutor(1) as first:
            advance(first, lambda generator=generator: next(generator))
        with ThreadPoolExecutor(1) as second:
            advance(second, generator.close)
    assert count("statements", "statement/elsewhere/orphan") == 2
    deadline = time.monotonic() + 10  # a thread that has been joined may still be at its end
    while len(pfs.table("running")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(pfs.table("running")) == 0
    new = {name: value - before.get(name, 0) for name, value in lost().items() if value != before.get(name, 0)}
    assert set(new) <= {"Performance_schema_locker_lost"}  # the stage of a thread that has gone
    assert sum(new.values()) <= 2


@pytest.mark.parametrize("advance", WAYS)
def test_a_wait_around_a_yield_is_recorded(advance: Advance, pools: list[ThreadPoolExecutor]) -> None:
    """The row is that of the thread in which the wait began. What that thread does next is not nested in it."""
    name = f"wait_{advance.__name__}"
    before, threads = lost(), []
    table = pfs.Table(f"elsewhere.{name}")

    def pages() -> Generator[int, None, None]:
        threads.append(threading.get_native_id())
        with pfs.wait(f"elsewhere/{name}"), table.fetch() as io, pfs.idle():
            io.rows = 1
            yield 1

    def after() -> None:
        with pfs.wait(f"elsewhere/{name}_after"):
            pass

    for _ in range(20):
        generator = pages()
        advance(pools[0], lambda generator=generator: next(generator))
        time.sleep(0.002)
        advance(pools[1], generator.close)
        advance(pools[0], after)
    owners = pfs.table("threads").set_index("THREAD_OS_ID")["THREAD_ID"]
    assert lost() == before
    assert len(pfs.table("running")) == 0
    summary = pfs.table("events_waits_summary_by_thread_by_event_name").set_index(["THREAD_ID", "EVENT_NAME"])
    for event in (f"wait/app/elsewhere/{name}", "wait/io/table/sql/handler", "idle"):
        found = rows("waits", event)
        found = found[found["THREAD_ID"] == owners[threads[0]]]
        assert len(found) == 20, event
        assert (found["TIMER_WAIT"] >= 2 * 10**9).all()
        assert not summary["COUNT_STAR"].get((owners[threads[0]], event), 0)
        assert count("waits", event) >= 20
    assert int(pfs.table("table_io_waits_summary_by_table").set_index("OBJECT_NAME")["COUNT_STAR"][name]) == 20
    alone = rows("waits", f"wait/app/elsewhere/{name}_after")
    assert len(alone) == 20
    assert alone["NESTING_EVENT_ID"].isna().all()


def test_each_wait_ends_its_own_row() -> None:
    """Two blocks of one name are open, and end in a third thread: each object ends the wait that it began."""
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second, ThreadPoolExecutor(1) as third:

        def body() -> Generator[int, None, None]:
            with pfs.wait("elsewhere/own"):
                yield threading.get_native_id()

        long, short = body(), body()
        of_long = plainly(first, lambda: next(long))
        time.sleep(0.05)
        of_short = plainly(second, lambda: next(short))
        plainly(third, long.close)
        time.sleep(0.1)
        plainly(third, short.close)
        owners = pfs.table("threads").set_index("THREAD_OS_ID")["THREAD_ID"]
        found = rows("waits", "wait/app/elsewhere/own").set_index("THREAD_ID")["TIMER_WAIT"]
    assert 50 * 10**9 <= found[owners[of_long]] < 100 * 10**9 <= found[owners[of_short]]
    assert count("waits", "wait/app/elsewhere/own") == 2


def test_a_generator_that_is_collected_in_another_thread(pools: list[ThreadPoolExecutor]) -> None:
    def body() -> Iterator[None]:
        with pfs.statement("elsewhere/collected"):
            yield

    for _ in range(10):
        cell = [body()]
        plainly(pools[0], lambda cell=cell: next(cell[0]))
        plainly(pools[1], lambda cell=cell: (cell.clear(), gc.collect()))
    assert count("statements", "statement/elsewhere/collected") == 10
    assert len(pfs.table("running")) == 0


@fresh_process(options="performance_schema_events_statements_history_long_size=20000")
def test_any_order_of_threads_loses_nothing() -> None:
    """Generators with nested blocks, advanced by any of five threads at a time, with and without contexts of their own."""
    from tests.python.objects.test_other_threads import count, in_a_copied_context, lost, plainly, rows

    chance = random.Random(seed := random.randrange(10**9))
    print(f"seed {seed}")
    shared = pfs.stage("elsewhere/shared")

    def body(depth: int) -> Iterator[None]:
        with pfs.statement("elsewhere/any", text=f"select {depth}") as run:
            yield
            with pfs.transaction(), shared:
                yield
                if depth:
                    yield from body(depth - 1)
                run.rows_sent = 1
            yield

    pools = [ThreadPoolExecutor(1) for _ in range(5)]
    expected = 0
    live: list[Iterator[None]] = []

    def step(generator: Iterator[None]) -> bool:
        return next(generator, "ended") is not None

    # A thread keeps ten open statements (max_statement_stack): five generators of two at a time.
    for number in range(3000):
        if len(live) < 5 and number < 2900:
            depth = chance.randrange(2)
            expected += depth + 1
            live.append(body(depth))
        elif live:
            generator = chance.choice(live)
            advance = chance.choice([plainly, in_a_copied_context])
            if advance(chance.choice(pools), lambda generator=generator: step(generator)):
                live.remove(generator)
    assert live == []
    for pool in pools:
        pool.submit(lambda: pfs.statement("elsewhere/last").begin().end()).result()
        pool.shutdown()
    assert count("statements", "statement/elsewhere/any") == expected
    assert count("stages", "stage/elsewhere/shared") >= expected  # a stage in a stage ends the outer one, which may begin again
    assert int(pfs.table("events_transactions_summary_global_by_event_name")["COUNT_STAR"].sum()) == expected
    found = rows("statements", "statement/elsewhere/any")
    assert int(found["ROWS_SENT"].sum()) == len(found)
    assert not found.duplicated(["THREAD_ID", "EVENT_ID"]).any()
    assert len(pfs.table("running")) == 0
    assert {name: value for name, value in lost().items() if "locker" in name} == {}


def test_fastapi_loses_no_request() -> None:
    """Dependencies with yield and streamed responses: Starlette advances both in its pool of threads."""
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fastapi import Depends, FastAPI
        from fastapi.responses import StreamingResponse
        from starlette.testclient import TestClient

        application = FastAPI()
        before, moved = lost(), []

        def dependency() -> Iterator[int]:
            began = threading.get_ident()
            with pfs.statement("elsewhere/dependency", text="select dependency"):
                yield 1
            moved.append(began != threading.get_ident())

        @application.get("/async")
        async def asynchronous(value: int = Depends(dependency)) -> int:
            return value

        @application.get("/sync")
        def synchronous(value: int = Depends(dependency)) -> int:
            time.sleep(0.005)
            return value

        @application.get("/stream")
        async def stream() -> StreamingResponse:
            def body() -> Iterator[bytes]:
                with pfs.statement("elsewhere/stream", text="select stream"), pfs.stage("elsewhere/stream"):
                    for _ in range(5):
                        time.sleep(0.001)
                        yield b"x"

            return StreamingResponse(body())

        with TestClient(application) as client, ThreadPoolExecutor(6) as askers:
            answers = list(askers.map(lambda i: client.get(["/async", "/sync", "/stream"][i % 3]), range(60)))
    assert {answer.status_code for answer in answers} == {200}
    assert any(moved)
    assert count("statements", "statement/elsewhere/dependency") == 40
    assert count("statements", "statement/elsewhere/stream") == 20
    assert count("stages", "stage/elsewhere/stream") == 20
    assert len(pfs.table("running")) == 0
    assert lost() == before
