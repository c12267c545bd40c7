"""A thousand tasks that are cancelled, fail, or end, on the loop of asyncio and on uvloop: all end, each event is its task's."""

from __future__ import annotations

import pytest

from tests.conftest import Run

SCRIPT = """
    import asyncio, random, sys
    import pfs
    if sys.argv[1] == "uvloop":
        import uvloop
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    else:
        runner = asyncio.Runner()
    dice, ends, lock = random.Random(1), {"ends": 0, "fails": 0, "cancelled": 0, "steps": 0}, None

    async def step(n):
        async with pfs.stage("loops/step"):
            await asyncio.sleep(dice.random() / 50)
            ends["steps"] += 1

    async def task(n):
        async with pfs.statement("loops/task", text=f"task {n}") as statement:
            statement.statement_id = n + 1
            async with pfs.transaction():
                with pfs.Lock("loops/LOCK"):
                    pass
                await step(n)
                if n % 7 == 0:
                    raise ValueError(n)
                await asyncio.gather(step(n), step(n))
                with pfs.open("/dev/null", name="loops/file"):
                    pass

    async def main():
        tasks = [asyncio.ensure_future(task(n)) for n in range(1000)]
        await asyncio.sleep(0.01)
        for n in range(0, 1000, 5):
            tasks[n].cancel()
        for n, end in enumerate(await asyncio.gather(*tasks, return_exceptions=True)):
            kind = "cancelled" if isinstance(end, asyncio.CancelledError) else "fails" if isinstance(end, ValueError) else "ends"
            ends[kind] += 1
            assert kind == "ends" or n % (5 if kind == "cancelled" else 7) == 0, (n, end)

    async def server():
        answers = []
        async def answer(reader, writer):
            async with pfs.statement("loops/request") as request:
                writer.write(await reader.readline())
                await writer.drain()
                writer.close()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async def ask(n):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"%d\\n" % n)
            answers.append(int(await reader.readline()))
            writer.close()
        await asyncio.gather(*[ask(n) for n in range(50)])
        server.close()
        assert sorted(answers) == list(range(50))

    with runner:
        runner.run(main())
        runner.run(server())

    def rows(table, *columns):
        return pfs._core.rows(table, columns, None)

    def counts(table):
        return dict(rows(table, "EVENT_NAME", "COUNT_STAR"))

    assert counts("events_statements_summary_global_by_event_name")["statement/loops/task"] == 1000
    assert counts("events_statements_summary_global_by_event_name")["statement/loops/request"] == 50
    assert counts("events_transactions_summary_global_by_event_name")["transaction"] == 1000
    assert ends["steps"] <= counts("events_stages_summary_global_by_event_name")["stage/loops/step"] <= 3000
    assert counts("events_waits_summary_global_by_event_name")["wait/synch/mutex/loops/LOCK"] == 1000
    for kind in ("waits", "stages", "statements", "transactions"):
        assert not [row for row in rows(f"events_{kind}_current", "EVENT_NAME", "END_EVENT_ID") if row[1] is None], kind
    # Each transaction nests in the statement of its own task, and each stage of it, too.
    statements = {row[0]: row[1:] for row in rows("events_statements_history_long", "EVENT_ID", "STATEMENT_ID", "EVENT_NAME")}
    transactions = rows("events_transactions_history_long", "EVENT_ID", "NESTING_EVENT_ID")
    assert len(transactions) == 1000
    parents = [statements[parent] for _, parent in transactions]
    assert len({number for number, name in parents}) == 1000
    assert {name for _, name in parents} == {"statement/loops/task"}
    assert not {name: n for name, n in pfs.status.items() if name.endswith("_lost") and n}
    print(ends)
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_tasks_that_are_cancelled_and_fail_leave_nothing_open(fresh: Run, loop: str) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    sizes = ",".join(
        f"performance_schema_events_{kind}_history_long_size=5000" for kind in ("statements", "transactions", "stages")
    )
    kinds = [f"performance_schema_consumer_events_{kind}_{view}=ON" for kind in ("statements", "transactions", "stages", "waits")
             for view in ("current", "history_long")]  # fmt: skip
    options = ",".join([sizes, "performance_schema_instrument='%=ON'", *kinds])
    print(fresh(SCRIPT, loop, options=options))
