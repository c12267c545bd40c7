"""Steps with stages, statements and transactions, which stay open while anything else happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pfs
from tests.python._programs.driver import Row, Worker, every
from tests.python._programs.nested import Statement, Transaction, end_stage, key_of, stage
from tests.python._programs.world.base import LEVELS, Base
from tests.python._programs.world.compare import check, same, values
from tests.python.facts.model_nested import (
    DIGESTS,
    GLOBAL,
    HISTOGRAM,
    HISTOGRAMS,
    KINDS,
    STAGES,
    STATEMENTS,
    TRANSACTIONS,
    VIEWS_OF,
    Nested,
    summary,
)

STAGE_NAMES = ("m/reading", "m/writing", "m/sorting")
STATEMENT_NAMES = ("m/select", "m/insert", "m/query")
# Three digests: the first two are one.
TEXTS = (None, "select 1", "select 'a' /* b */", "select a from t", "call p()", "")
SCHEMAS = (None, "shop", "bank")
MOST_NESTED = 5  # statements and transactions that are open in a thread
COMMON = ("THREAD_ID", "EVENT_ID", "END_EVENT_ID", "EVENT_NAME", "NESTING_EVENT_ID", "NESTING_EVENT_TYPE")
MORE = {
    STAGES: (),
    STATEMENTS: ("NESTING_EVENT_LEVEL", "CURRENT_SCHEMA", "SQL_TEXT", "ROWS_SENT"),
    TRANSACTIONS: ("STATE", "ACCESS_MODE"),
}


def nested_row(kind: str, row: Row) -> tuple[Any, ...]:
    """As Nested.shown() of the model."""
    assert row["TIMER_WAIT"] is None or row["TIMER_WAIT"] == row["TIMER_END"] - row["TIMER_START"]
    times = row["TIMER_START"] is not None, row["TIMER_WAIT"] is not None
    return (*values(row, *COMMON), *times, *values(row, *MORE[kind]))


class NestedSteps(Base):
    def __init__(self) -> None:
        super().__init__()
        self.stage_keys = [self.registered(key_of("stage", name)) for name in STAGE_NAMES]
        self.statement_keys = [self.registered(key_of("statement", name)) for name in STATEMENT_NAMES]
        # Open ones of each thread, and how to end each.
        self.running: dict[Worker, list[tuple[Statement | Transaction, Nested | None, Callable[[int], None]]]] = {}

    def running_in(self, worker: Worker) -> list[tuple[Statement | Transaction, Nested | None, Callable[[int], None]]]:
        return self.running.setdefault(worker, [])

    def secret(self, kind: str) -> None:
        """Behind the model's back, in the thread of the caller."""
        if kind == STAGES:
            stage(self.stage_keys[0])
            end_stage()
        elif kind == STATEMENTS:
            Statement(self.statement_keys[0]).end()
        else:
            Transaction().end()

    def stage(self, t: int, n: int) -> None:
        worker, n = self.worker(t), n % (len(STAGE_NAMES) + 1)
        ends = n == len(STAGE_NAMES)
        worker.do(*((end_stage,) if ends else (stage, self.stage_keys[n])))
        self.model.change_stage(worker.id, None if ends else "stage/" + STAGE_NAMES[n])

    def statement(self, t: int, n: int, text: int, schema: int) -> None:
        worker = self.worker(t)
        if len(self.running_in(worker)) >= MOST_NESTED:
            return
        n, words, place = n % len(STATEMENT_NAMES), TEXTS[text % len(TEXTS)], SCHEMAS[schema % len(SCHEMAS)]
        event = self.model.begin_statement(worker.id, "statement/" + STATEMENT_NAMES[n])
        begun = worker.do(Statement, self.statement_keys[n], words, place)
        assert begun.begun == (event is not None)
        if event is not None:
            event.schema = place
            if words is not None:
                self.model.set_text(event, words)

        def end(_: int) -> None:
            worker.do(begun.end)
            self.model.end_statement(event)

        self.running_in(worker).append((begun, event, end))

    def transaction(self, t: int, n: int) -> None:
        worker = self.worker(t)
        if len(self.running_in(worker)) >= MOST_NESTED:
            return
        event = self.model.begin_transaction(worker.id, n % 2 == 1)
        begun = worker.do(Transaction, n % 5, n % 2 == 1)
        assert begun.begun == (event is not None)

        def end(rc: int) -> None:
            worker.do(begun.end, rc % 2 == 0)
            self.model.end_transaction(event, rc % 2 == 0)

        self.running_in(worker).append((begun, event, end))

    def end_nested(self, t: int, which: int, rc: int) -> None:
        """Ends a statement or transaction that is open, mostly the innermost."""
        running = self.running_in(self.worker(t))
        if running:
            running.pop(which % len(running) if which % 4 == 3 else -1)[2](rc)

    def change_statement(self, t: int, which: int, how: int, n: int) -> None:
        """Refines it, or gives it another text, another schema, rows."""
        worker = self.worker(t)
        found = [(begun, event) for begun, event, _ in self.running_in(worker) if isinstance(begun, Statement)]
        if not found:
            return
        begun, event = found[which % len(found)]
        if how % 4 == 0:
            name = n % len(STATEMENT_NAMES)
            worker.do(begun.refine, self.statement_keys[name])
            self.model.refine(event, "statement/" + STATEMENT_NAMES[name])
            return
        text, schema = TEXTS[n % len(TEXTS)] or "select 2", SCHEMAS[1 + n % 2]
        assert schema is not None
        if how % 4 == 1:
            worker.do(begun.set_text, text)
            self.model.set_text(event, text)
        elif how % 4 == 2:
            worker.do(begun.set_schema, schema)
        else:
            worker.do(begun.add, "ROWS_SENT", n)
        if event is not None:
            event.schema = schema if how % 4 == 2 else event.schema
            event.sent += n if how % 4 == 3 else 0

    def end_thread(self, t: int) -> None:
        """It may end inside statements, stages, transactions: nobody sees or counts them."""
        worker = self.worker(t)
        super().end_thread(t)  # type: ignore[misc]
        if worker not in self.workers:
            self.running.pop(worker, None)

    # ---- Comparison

    def learn(self) -> None:
        super().learn()
        for kind in KINDS:
            ended = self.model.ended[kind][-8:]
            new = {(event.thread, event.id): event for event in ended if event.timed and event.wait is None}
            for row in (row for view in VIEWS_OF[kind] for row in every(view)) if new else ():
                if event := new.get(values(row, "THREAD_ID", "EVENT_ID")):
                    event.wait = row["TIMER_WAIT"]

    def compare(self) -> None:
        super().compare()
        for kind in KINDS:
            for view in VIEWS_OF[kind]:
                shown = [nested_row(kind, row) for row in every(view)]
                same(view, shown, [event.shown() for event in self.model.shown(kind, view)])
            for level, key in [(GLOBAL, ()), *((level, key) for level, _, key in LEVELS)]:
                self.compare_sums(kind, level, key)
        self.compare_digests()
        states = {row["THREAD_ID"]: row["PROCESSLIST_STATE"] for row in every("threads")}
        for thread in self.model.threads:
            name = self.model.states.get(thread)
            assert states[thread] == (name.split("/", 2)[2] if name else None)

    def compare_sums(self, kind: str, level: str, key: tuple[str, ...]) -> None:
        cells: dict[tuple[Any, ...], list[Nested]] = self.model.sums_by(kind, level)
        for row in every(summary(kind, level)):
            cell = cells.pop(values(row, *key, "EVENT_NAME"), [])
            check(row, cell)
            if kind == TRANSACTIONS:
                check(row, cell, "READ_WRITE", ("READ WRITE",))
                check(row, cell, "READ_ONLY", ("READ ONLY",))
            elif kind == STATEMENTS:
                assert row["SUM_ROWS_SENT"] == sum(event.sent for event in cell), row
        assert not cells, f"{summary(kind, level)}: not shown {list(cells)}"

    def compare_digests(self) -> None:
        cells: dict[tuple[str | None, str | None], list[Nested]] = {}
        for (schema, text), cell in self.model.by_digest().items():
            digest, _ = pfs.digest(text or "")
            if digest is not None:
                cells.setdefault((schema, digest), []).extend(cell)
        rows = {values(row, "SCHEMA_NAME", "DIGEST"): row for row in every(DIGESTS)}
        same("digests", rows, cells)
        for key, cell in cells.items():
            check(rows[key], cell)
            assert rows[key]["SUM_ROWS_SENT"] == sum(event.sent for event in cell)
        assert sum(row["COUNT_BUCKET"] for row in every(HISTOGRAM)) == len(self.model.in_sums(HISTOGRAM))
        found: dict[tuple[Any, ...], int] = {}
        for row in every(HISTOGRAMS):
            key = values(row, "SCHEMA_NAME", "DIGEST")
            found[key] = found.get(key, 0) + row["COUNT_BUCKET"]
        wanted = {key: sum(HISTOGRAMS in event.sums for event in cell) for key, cell in cells.items()}
        assert found == wanted
