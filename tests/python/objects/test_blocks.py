"""pfs.statement, pfs.stage and pfs.transaction: blocks, decorated functions, and tasks of asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pandas as pd
import pytest

import pfs
from tests.python._programs.fresh_process import fresh_process


def rows(kind: str, name: str) -> pd.DataFrame:
    """The events of an instrument in the order in which they began."""
    frame = pfs.table(f"events_{kind}_history_long")
    return frame[frame["EVENT_NAME"] == name].sort_values(["THREAD_ID", "EVENT_ID"])


def only(kind: str, name: str) -> pd.Series:
    found = rows(kind, name)
    assert len(found) == 1, found
    return found.iloc[0]


def here() -> str:
    """SOURCE of the line that calls this."""
    caller = inspect.currentframe()
    assert caller is not None
    assert caller.f_back is not None
    return f"test_blocks.py:{caller.f_back.f_lineno}"


# ---- Statements


def test_statement_has_its_text_schema_counters_and_the_callers_line() -> None:
    with pfs.statement("blocks/select", text="SELECT * FROM t WHERE a = 1", schema="shop") as s:
        line = here()
        s.rows_sent = 3
        s.rows_sent += 4
        s.add(rows_examined=20, select_scan=1, rows_sent=1)
        assert (s.rows_sent, s.rows_examined, s.text, s.schema) == (8, 20, "SELECT * FROM t WHERE a = 1", "shop")
        assert s.name == "statement/blocks/select"
    row = only("statements", "statement/blocks/select")
    assert (row["ROWS_SENT"], row["ROWS_EXAMINED"], row["SELECT_SCAN"], row["ERRORS"]) == (8, 20, 1, 0)
    assert (row["SQL_TEXT"], row["CURRENT_SCHEMA"]) == ("SELECT * FROM t WHERE a = 1", "shop")
    assert row["DIGEST_TEXT"] == "SELECT * FROM `t` WHERE `a` = ?"
    number = int(line.split(":")[1])
    assert row["SOURCE"] == f"test_blocks.py:{number - 1}"


def test_statement_is_refined_and_every_counter_is_its_column() -> None:
    names = [name for name in dir(pfs._core.RunningStatement) if name.upper() in pfs.table("events_statements_current").columns]
    counters = [name for name in names if name not in ("text", "schema", "traceparent", "statement_id")]
    assert len(counters) == 19
    with pfs.statement("abstract/blocks") as s:
        for value, name in enumerate(counters, 1):
            setattr(s, name, value)
        s.statement_id = 77
        s.text = b"caf\xc3\xa9"
        s.refine("blocks/refined")
    row = only("statements", "statement/blocks/refined")
    assert [int(row[name.upper()]) for name in counters] == list(range(1, 20))
    assert (row["STATEMENT_ID"], row["SQL_TEXT"]) == (77, "café")


class Refused(Exception):
    sqlstate = "22012"


@pytest.mark.parametrize(
    ("error", "number", "state", "message"),
    [
        (KeyError("x"), 1105, "HY000", "KeyError: 'x'"),
        (FileNotFoundError(2, "No such file"), 2, "HY000", "FileNotFoundError: [Errno 2] No such file"),
        (Refused("division"), 1105, "22012", "Refused: division"),
        (ValueError(), 1105, "HY000", "ValueError"),
    ],
)
def test_exception_is_an_error_of_the_statement_and_goes_on(error: Exception, number: int, state: str, message: str) -> None:
    name = f"blocks/{type(error).__name__}"
    with pytest.raises(type(error)) as raised, pfs.statement(name):
        raise error
    assert raised.value is error
    assert error.__context__ is None
    row = only("statements", f"statement/{name}")
    assert (row["ERRORS"], row["MYSQL_ERRNO"], row["RETURNED_SQLSTATE"]) == (1, number, state)
    assert row["MESSAGE_TEXT"] == message


def test_error_that_the_program_names_stays() -> None:
    @pfs.statement("blocks/around_named")
    def fail() -> None:
        with pfs.statement("blocks/named") as s:
            s.error(1064, "42000", "near 'x'")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert only("statements", "statement/blocks/around_named")["MYSQL_ERRNO"] == 1105
    row = only("statements", "statement/blocks/named")
    assert (row["MYSQL_ERRNO"], row["RETURNED_SQLSTATE"], row["MESSAGE_TEXT"]) == (1064, "42000", "near 'x'")
    with pytest.raises(pfs.InvalidValue, match="five characters"), pfs.statement("blocks/named") as s:
        s.error(1, "1")


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(pfs.InvalidValue, match="no component"):
        pfs.statement("select")
    with pytest.raises(pfs.InvalidValue, match="another family"):
        pfs.stage("statement/sql/select")
    with pytest.raises(TypeError):
        pfs.statement("blocks/x", text=3)  # type: ignore[arg-type]
    with pytest.raises(pfs.InvalidValue, match="READ COMMITTED"):
        pfs.transaction("SOMETIMES")
    with pfs.statement("blocks/bad") as s:
        with pytest.raises(OverflowError):
            s.rows_sent = -1
        with pytest.raises(TypeError, match="colours"):
            s.add(colours=3)  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            s.text = 5  # type: ignore[assignment]
    s.rows_sent = 5  # after its end: the object's only
    assert only("statements", "statement/blocks/bad")["ROWS_SENT"] == 0


def test_one_object_in_itself_and_in_many_threads() -> None:
    again = pfs.statement("blocks/again", text="SELECT 1")
    start = threading.Barrier(4)

    def work() -> None:
        for _ in range(50):
            start.wait()
            with again as outer, again as inner:
                inner.rows_sent, outer.rows_sent = 1, 2

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    summary = pfs.table("events_statements_summary_global_by_event_name").set_index("EVENT_NAME")
    assert summary["COUNT_STAR"]["statement/blocks/again"] == 400
    assert summary["SUM_ROWS_SENT"]["statement/blocks/again"] == 600
    found = rows("statements", "statement/blocks/again")
    assert (found.loc[found["NESTING_EVENT_LEVEL"] == 1, "ROWS_SENT"] == 1).all()


def test_begin_and_end_without_a_block_and_suspended() -> None:
    open_one = pfs.statement("blocks/cursor").begin("SELECT 2", "main")
    open_one.suspend()
    with pfs.statement("blocks/meanwhile"):
        pass
    open_one.rows_sent = 7
    with pfs.statement("blocks/inside"):
        pass
    open_one.end()
    row = only("statements", "statement/blocks/cursor")
    assert (row["ROWS_SENT"], row["CURRENT_SCHEMA"], row["DIGEST_TEXT"]) == (7, "main", "SELECT ?")
    assert pd.isna(only("statements", "statement/blocks/meanwhile")["NESTING_EVENT_ID"])
    assert only("statements", "statement/blocks/inside")["NESTING_EVENT_ID"] == row["EVENT_ID"]


# ---- Decorated functions


def test_decorated_functions_count_each_call_and_keep_their_face() -> None:
    @pfs.statement("blocks/double", text="double")
    @pfs.stage("blocks/doubling")
    @pfs.transaction()
    def double(x: int, *, times: int = 2) -> int:
        """Doc."""
        return x * times

    assert (double(4), double(4, times=3)) == (8, 12)
    assert (double.__name__, double.__doc__) == ("double", "Doc.")
    assert len(rows("statements", "statement/blocks/double")) == 2
    assert len(rows("stages", "stage/blocks/doubling")) == 2
    assert rows("statements", "statement/blocks/double")["SOURCE"].str.startswith("test_blocks.py:").all()


def test_decorated_coroutine_function_is_one_and_counts_its_run() -> None:
    @pfs.statement("blocks/later")
    async def later(x: int) -> int:
        await asyncio.sleep(0.01)
        return x + 1

    assert inspect.iscoroutinefunction(later)

    async def main() -> list[int]:
        return list(await asyncio.gather(later(1), later(2)))

    assert asyncio.run(main()) == [2, 3]
    found = rows("statements", "statement/blocks/later")
    assert (found["TIMER_WAIT"] >= 0.009e12).all()
    assert found["NESTING_EVENT_ID"].isna().all()


def test_generators_are_refused() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def more() -> AsyncIterator[int]:
        yield 1

    for function in (numbers, more):
        with pytest.raises(TypeError, match="yields"):
            pfs.statement("blocks/generator")(function)


# ---- Stages


def test_leaving_a_stage_returns_to_the_one_around_it() -> None:
    outer, inner = pfs.stage("blocks/outer", estimated=10), pfs.stage("blocks/inner")
    with pfs.statement("blocks/staged"):
        with outer:
            outer.completed = 4
            with inner, pfs.wait("blocks/in_inner"):
                outer.completed += 1
            with pfs.wait("blocks/in_outer"):
                pass
            assert (outer.completed, outer.estimated) == (5, 10)
        with pfs.wait("blocks/in_statement"):
            pass
    first, second = rows("stages", "stage/blocks/outer").to_dict("records")
    between = only("stages", "stage/blocks/inner")
    assert first["TIMER_END"] == between["TIMER_START"]
    assert between["TIMER_END"] == second["TIMER_START"]
    assert first["SOURCE"] == second["SOURCE"]
    assert (first["WORK_COMPLETED"], second["WORK_COMPLETED"], second["WORK_ESTIMATED"]) == (4, 5, 10)
    assert pd.isna(between["WORK_COMPLETED"])
    statement = only("statements", "statement/blocks/staged")["EVENT_ID"]
    waits = pfs.table("events_waits_history_long").set_index("EVENT_NAME")["NESTING_EVENT_ID"]
    assert waits["wait/app/blocks/in_inner"] == between["EVENT_ID"]
    assert waits["wait/app/blocks/in_outer"] == second["EVENT_ID"]
    assert waits["wait/app/blocks/in_statement"] == statement
    assert {first["NESTING_EVENT_ID"], second["NESTING_EVENT_ID"], between["NESTING_EVENT_ID"]} == {statement}


def test_progress_of_a_stage_that_has_none_or_does_not_run_is_refused() -> None:
    plain = pfs.stage("blocks/plain")
    with plain, pytest.raises(pfs.StateError, match="progress=True"):
        plain.completed = 1
    with pytest.raises(pfs.StateError, match="first used without"):
        pfs.stage("blocks/plain", estimated=3)
    with pytest.raises(pfs.StateError, match="does not run"):
        pfs.stage("blocks/not", progress=True).completed = 1


# ---- Transactions


def test_transactions_end_as_their_blocks_do() -> None:
    with pfs.transaction("REPEATABLE READ", read_only=True) as t:
        assert t.state == "ACTIVE"
        t.savepoint()
        t.savepoint()
        t.rollback_to_savepoint()
        t.release_savepoint()
        t.gtid, t.trx_id = "a:1", 9
        t.xid("global", "branch", 3, "PREPARED")
        with pfs.statement("blocks/in_transaction"):
            pass
    with pytest.raises(KeyError), pfs.transaction() as failed:
        raise KeyError
    with pfs.transaction(autocommit=True) as undone:
        undone.rollback()
    assert (t.state, failed.state, undone.state) == ("COMMITTED", "ROLLED BACK", "ROLLED BACK")
    frame = rows("transactions", "transaction")
    done = frame[frame["GTID"] == "a:1"].iloc[-1]
    assert (done["STATE"], done["ACCESS_MODE"], done["ISOLATION_LEVEL"]) == ("COMMITTED", "READ ONLY", "REPEATABLE READ")
    assert done[["NUMBER_OF_SAVEPOINTS", "NUMBER_OF_ROLLBACK_TO_SAVEPOINT", "NUMBER_OF_RELEASE_SAVEPOINT"]].tolist() == [2, 1, 1]
    assert (done["TRX_ID"], done["XID_GTRID"], done["XID_BQUAL"], done["XA_STATE"]) == (9, "global", "branch", "PREPARED")
    inside = only("statements", "statement/blocks/in_transaction")
    assert (inside["NESTING_EVENT_ID"], inside["NESTING_EVENT_TYPE"]) == (done["EVENT_ID"], "TRANSACTION")
    mine = frame[frame["THREAD_ID"] == done["THREAD_ID"]]  # other tests' transactions ended in other threads
    assert mine.iloc[-1]["STATE"] == "ROLLED BACK"
    assert mine.iloc[-1]["AUTOCOMMIT"] == "YES"


# ---- Tasks


@fresh_process(options="performance_schema_events_statements_history_long_size=20000")
def test_interleaved_tasks_keep_their_parents_and_lose_nothing() -> None:
    """Two hundred tasks: each wait's stage, each stage's statement, each statement's statement is of the same task."""
    import asyncio
    import random

    import pandas as pd

    import pfs

    dice = random.Random(5)
    tasks, rounds = 50, 8
    lock = [pfs.Lock(f"tasks/L{task}") for task in range(tasks)]

    async def work(task: int) -> None:
        for _ in range(rounds):
            async with pfs.statement(f"tasks/outer{task}", text=f"SELECT {task} FROM t{task}") as outer:
                await asyncio.sleep(dice.random() / 1000)
                with pfs.stage(f"tasks/stage{task}"):
                    with lock[task]:
                        pass
                    await asyncio.sleep(0)
                    with pfs.wait(f"tasks/W{task}"):
                        await asyncio.sleep(dice.random() / 1000)
                    async with pfs.statement(f"tasks/inner{task}") as inner:
                        await asyncio.sleep(0)
                        inner.rows_sent = task
                    with lock[task]:
                        await asyncio.sleep(0)
                outer.rows_sent = task + 1
            with lock[task]:
                pass

    async def main() -> None:
        await asyncio.gather(*(work(task) for task in range(tasks)))

    # Room for classes is limited: names of one task are those of a family of five.
    asyncio.run(main())
    statements = pfs.table("events_statements_history_long").set_index("EVENT_ID")
    stages = pfs.table("events_stages_history_long").set_index("EVENT_ID")
    waits = pfs.table("events_waits_history_long")
    waits = waits[waits["EVENT_NAME"].str.contains("/tasks/")]

    def number(name: str) -> str:
        return "".join(filter(str.isdigit, name.rsplit("/", 1)[1]))

    for event_id, row in statements.iterrows():
        assert row["END_EVENT_ID"] >= event_id
        if "inner" in row["EVENT_NAME"]:
            assert number(statements["EVENT_NAME"][row["NESTING_EVENT_ID"]]) == number(row["EVENT_NAME"])
            assert (row["NESTING_EVENT_LEVEL"], row["ROWS_SENT"]) == (1, int(number(row["EVENT_NAME"])))
        else:
            assert pd.isna(row["NESTING_EVENT_ID"])
            assert row["NESTING_EVENT_LEVEL"] == 0
            assert row["DIGEST_TEXT"] == f"SELECT ? FROM `t{number(row['EVENT_NAME'])}`"
    for _, row in stages.iterrows():
        parent = statements["EVENT_NAME"][row["NESTING_EVENT_ID"]]
        assert parent == f"statement/tasks/outer{number(row['EVENT_NAME'])}"
    free = 0
    for _, row in waits.iterrows():
        if pd.isna(row["NESTING_EVENT_ID"]):
            free += 1
        else:
            parent = {"STAGE": stages, "STATEMENT": statements}[row["NESTING_EVENT_TYPE"]]["EVENT_NAME"][row["NESTING_EVENT_ID"]]
            assert number(parent) == number(row["EVENT_NAME"])
    assert free == tasks * rounds
    assert len(statements) == 2 * tasks * rounds
    assert len(stages) == tasks * rounds
    assert len(waits) == 4 * tasks * rounds
    digests = pfs.table("events_statements_summary_by_digest")
    assert digests["COUNT_STAR"][digests["DIGEST_TEXT"].notna()].sum() == tasks * rounds
    status = pfs.status
    lost = {name: status[name] for name in status if name.endswith("_lost") and status[name] != 0}
    assert not lost


def test_tasks_started_in_a_statement_are_nested_in_it_and_not_in_what_comes_later() -> None:
    async def child(name: str) -> None:
        await asyncio.sleep(0.001)
        async with pfs.statement(f"blocks/{name}"):
            await asyncio.sleep(0.001)

    async def main() -> None:
        async with pfs.statement("blocks/parent"):
            started = asyncio.create_task(child("child"))
            async with pfs.statement("blocks/other"):
                await asyncio.sleep(0.005)
            late = asyncio.create_task(child("late"))
        await asyncio.gather(started, late, asyncio.create_task(child("free")))

    with pfs.statement("blocks/around"):
        asyncio.run(main())
    around, parent = only("statements", "statement/blocks/around"), only("statements", "statement/blocks/parent")
    assert parent["NESTING_EVENT_ID"] == around["EVENT_ID"]
    for name, expected, level in (("child", parent, 2), ("late", parent, 2), ("free", around, 1), ("other", parent, 2)):
        row = only("statements", f"statement/blocks/{name}")
        assert (row["NESTING_EVENT_ID"], row["NESTING_EVENT_LEVEL"]) == (expected["EVENT_ID"], level), name


def test_suspended_block_is_not_the_parent_of_what_other_tasks_do() -> None:
    async def suspended(until: asyncio.Event) -> None:
        with pfs.transaction():
            async with pfs.statement("blocks/suspended"), pfs.stage("blocks/suspended"):
                await until.wait()

    async def main() -> None:
        until = asyncio.Event()
        task = asyncio.create_task(suspended(until))
        await asyncio.sleep(0)
        with pfs.Lock("blocks/meanwhile"), pfs.statement("blocks/other_task"):
            pass
        current = pfs.table("events_statements_current")
        assert "statement/blocks/suspended" in set(current["EVENT_NAME"])  # it has not ended
        until.set()
        await task

    asyncio.run(main())
    assert pd.isna(only("statements", "statement/blocks/other_task")["NESTING_EVENT_ID"])
    waits = pfs.table("events_waits_history_long").set_index("EVENT_NAME")
    assert pd.isna(waits["NESTING_EVENT_ID"]["wait/synch/mutex/blocks/meanwhile"])
    assert only("statements", "statement/blocks/suspended")["END_EVENT_ID"] > 0
    assert len(rows("stages", "stage/blocks/suspended")) == 1


def test_contexts_without_asyncio_and_in_other_threads() -> None:
    def inside(name: str) -> Callable[[], None]:
        def run() -> None:
            with pfs.statement(f"blocks/{name}"):
                pass

        return run

    with pfs.statement("blocks/context_owner"):
        copied = contextvars.copy_context()
        copied.run(inside("context_here"))
        thread = threading.Thread(target=copied.run, args=(inside("context_thread"),))
        thread.start()
        thread.join()
    owner = only("statements", "statement/blocks/context_owner")
    assert only("statements", "statement/blocks/context_here")["NESTING_EVENT_ID"] == owner["EVENT_ID"]
    there = only("statements", "statement/blocks/context_thread")
    assert pd.isna(there["NESTING_EVENT_ID"])
    assert there["THREAD_ID"] != owner["THREAD_ID"]


def test_block_that_is_left_in_another_task_ends() -> None:
    async def pages() -> AsyncIterator[int]:
        async with pfs.statement("blocks/pages") as s:
            for page in range(3):
                s.rows_sent += 1
                yield page

    async def main() -> None:
        iterator = pages()
        assert await asyncio.create_task(anext_of(iterator)) == 0
        assert await asyncio.create_task(anext_of(iterator)) == 1
        with pfs.statement("blocks/between_pages"):
            pass
        await asyncio.create_task(close(iterator))

    async def anext_of(iterator: AsyncIterator[int]) -> int:
        return await anext(iterator)

    async def close(iterator: Any) -> None:
        await iterator.aclose()

    asyncio.run(main())
    row = only("statements", "statement/blocks/pages")
    assert row["ROWS_SENT"] == 2
    assert row["MESSAGE_TEXT"].startswith("GeneratorExit")
    assert pd.isna(only("statements", "statement/blocks/between_pages")["NESTING_EVENT_ID"])


def test_statement_after_an_async_generator_that_was_left_early_is_recorded() -> None:
    """asyncio closes the generator later, while the next statement runs: that one goes on, and what is nested in it stays so."""

    async def stream() -> AsyncIterator[int]:
        async with pfs.statement("blocks/stream"):
            for i in range(3):
                yield i

    async def main() -> None:
        async for i in stream():
            if i == 1:
                break
        async with pfs.statement("blocks/request", text="select request"):
            await asyncio.sleep(0.01)
            with pfs.stage("blocks/of_request"):
                await asyncio.sleep(0)

    asyncio.run(main())
    request = only("statements", "statement/blocks/request")
    assert request["SQL_TEXT"] == "select request"
    assert only("stages", "stage/blocks/of_request")["NESTING_EVENT_ID"] == request["EVENT_ID"]
    only("statements", "statement/blocks/stream")


def test_statements_that_overlap_are_both_recorded() -> None:
    one, other = pfs.statement("blocks/overlapped"), pfs.statement("blocks/overlapping")
    first = one.begin(text="select 1")
    second = other.begin(text="select 2")
    first.end()
    current = pfs.table("events_statements_current")
    running = current[current["END_EVENT_ID"].isna()]
    assert "statement/blocks/overlapping" in set(running["EVENT_NAME"])
    with pfs.stage("blocks/in_other"):
        pass
    second.end()
    assert only("statements", "statement/blocks/overlapped")["SQL_TEXT"] == "select 1"
    row = only("statements", "statement/blocks/overlapping")
    assert row["SQL_TEXT"] == "select 2"
    assert only("stages", "stage/blocks/in_other")["NESTING_EVENT_ID"] == row["EVENT_ID"]


def test_cancelled_task_ends_its_blocks() -> None:
    async def wait_for_ever() -> None:
        async with pfs.statement("blocks/cancelled"):
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(wait_for_ever())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert only("statements", "statement/blocks/cancelled")["MESSAGE_TEXT"] == "CancelledError"
