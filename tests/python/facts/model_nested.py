"""The model of stages, statements and transactions, and of what waits are nested in. Beside model.py and model_tables.py."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.python.facts.model import EMPTIED, LEVELS, THREAD, Event
from tests.python.facts.model_tables import TablesModel

STAGES, STATEMENTS, TRANSACTIONS = KINDS = ("stages", "statements", "transactions")
TYPES = {STAGES: "STAGE", STATEMENTS: "STATEMENT", TRANSACTIONS: "TRANSACTION"}
VIEWS_OF = {kind: tuple(f"events_{kind}_{view}" for view in ("current", "history", "history_long")) for kind in KINDS}
DIGESTS = "events_statements_summary_by_digest"
HISTOGRAM, HISTOGRAMS = "events_statements_histogram_global", "events_statements_histogram_by_digest"
GLOBAL = "global"
# What TRUNCATE of a level empties (F4-F7).
ALL_EMPTIED = {level: {*levels} for level, levels in EMPTIED.items()} | {GLOBAL: {*LEVELS, GLOBAL}}


def summary(kind: str, level: str) -> str:
    return f"events_{kind}_summary_{GLOBAL if level == GLOBAL else 'by_' + level}_by_event_name"


@dataclass(eq=False)
class Nested(Event):
    kind: str = ""
    level: int = 0
    digests: bool = False  # statements_digest was on when it began
    schema: str | None = None
    text: str | None = None
    sent: int = 0
    dropped: bool = False  # refined to a class that is off: nothing of it counts
    state: str = "ACTIVE"
    sums: set[str] = field(default_factory=set)  # the digest, the histograms that it still counts in

    def shown(self) -> tuple[object, ...]:
        common = (self.thread, self.id, self.end_id, self.instrument, self.nesting, self.nesting_type, self.timed)
        times = (*common, self.timed and self.end_id is not None)
        if self.kind == STATEMENTS:
            return (*times, self.level, self.schema, self.text, self.sent)
        return (*times, self.state, self.operation) if self.kind == TRANSACTIONS else times


class NestedModel(TablesModel):
    def __init__(self, history_size: int, history_long_size: int) -> None:
        super().__init__(history_size, history_long_size)
        self.consumers["events_statements_cpu"] = False
        self.ended: dict[str, list[Nested]] = {kind: [] for kind in KINDS}  # recorded ones, in the order of their ends
        self.sums_of: dict[str, list[Nested]] = {kind: [] for kind in KINDS}  # counted ones
        self.stages: dict[int, Nested] = {}
        self.statements: dict[int, list[Nested]] = defaultdict(list)
        self.transactions: dict[int, Nested] = {}
        self.states: dict[int, str | None] = {}  # the last stage set, on or off

    # ---- Parents

    def statement_of(self, thread: int) -> Nested | None:
        """The innermost one that is recorded."""
        return next((event for event in reversed(self.statements[thread]) if event.id and not event.dropped), None)

    def parent_of_wait(self, thread: int) -> tuple[int | None, str | None]:
        """D1."""
        stage, statement = self.stages.get(thread), self.statement_of(thread)
        if stage is not None and stage.id:
            return stage.id, "STAGE"
        return (statement.id, "STATEMENT") if statement is not None else (None, None)

    def parent_of_statement(self, thread: int) -> tuple[int | None, str | None]:
        """D3."""
        statement, transaction = self.statement_of(thread), self.transactions.get(thread)
        if transaction is not None and transaction.id > (statement.id if statement is not None else 0):
            return transaction.id, "TRANSACTION"
        return (statement.id, "STATEMENT") if statement is not None else (None, None)

    # ---- Begin and end

    def begin_nested(self, kind: str, thread: int, instrument: str, operation: str = "") -> Nested | None:
        """None: nobody looks at it."""
        own, by_thread = self.threads[thread], self.acts("thread_instrumentation")
        if not self.is_on(instrument) or (by_thread and not own.enabled):
            return None
        current, *histories = VIEWS_OF[kind]
        recorded = self.acts(current)
        timed = self.instruments[instrument].timed
        event = Nested(thread, instrument, operation, timed, by_thread, recorded, kind=kind)
        if kind == STATEMENTS:
            event.digests, event.level = self.acts("statements_digest"), len(self.statements[thread])
        if recorded:
            statement = self.statement_of(thread)
            parent = (statement.id, "STATEMENT") if statement is not None else (None, None)
            event.nesting, event.nesting_type = self.parent_of_statement(thread) if kind == STATEMENTS else parent
            event.id = self.last_id[thread] = self.last_id[thread] + 1
            event.views = {current} | {view for view in histories if self.acts(view) and own.timed}
        return event

    def finish(self, event: Nested, is_shown: bool) -> None:
        if is_shown and event.recorded:
            event.end_id = self.last_id[event.thread]
            self.ended[event.kind].append(event)
        event.account = self.threads[event.thread].account
        event.levels = {*LEVELS, GLOBAL} if event.by_thread else {GLOBAL}
        self.sums_of[event.kind].append(event)

    def change_stage(self, thread: int, instrument: str | None) -> Nested | None:
        """D2: the end of one is the start of the next. Gives the one that has ended."""
        old = self.stages.pop(thread, None)
        if old is not None:
            self.finish(old, True)
        self.states[thread] = instrument
        new = self.begin_nested(STAGES, thread, instrument) if instrument is not None else None
        if new is not None:
            self.stages[thread] = new
        return old

    def begin_statement(self, thread: int, instrument: str) -> Nested | None:
        event = self.begin_nested(STATEMENTS, thread, instrument)
        if event is not None:
            self.statements[thread].append(event)
        return event

    def end_statement(self, event: Nested | None) -> None:
        """What began inside it goes on."""
        if event is None:
            return
        stack = self.statements[event.thread]
        is_open = event in stack
        if is_open:
            stack.remove(event)
        if not event.dropped:
            self.finish(event, is_open)
            event.sums = {DIGESTS} if event.digests and event.text else set()
            if event.timed:
                event.sums |= {HISTOGRAM} | ({HISTOGRAMS} if event.sums else set())

    def set_text(self, event: Nested | None, text: str) -> None:
        """After its end it is too late."""
        if event is not None and event in self.statements[event.thread]:
            event.text = text

    def refine(self, event: Nested | None, instrument: str) -> None:
        """A12, A13."""
        if event is None or event.dropped:
            return
        silent = self.acts("thread_instrumentation") and not self.threads[event.thread].enabled
        event.dropped = not self.is_on(instrument) or silent
        event.instrument = instrument
        event.timed &= self.instruments[instrument].timed

    def begin_transaction(self, thread: int, read_only: bool) -> Nested | None:
        event = self.begin_nested(TRANSACTIONS, thread, "transaction", "READ ONLY" if read_only else "READ WRITE")
        if event is not None:
            self.transactions[thread] = event
        return event

    def end_transaction(self, event: Nested | None, committed: bool) -> None:
        if event is None:
            return
        is_open = self.transactions.get(event.thread) is event
        if is_open:
            del self.transactions[event.thread]
            event.state = "COMMITTED" if committed else "ROLLED BACK"
        self.finish(event, is_open)

    # ---- Threads and TRUNCATE

    def leave(self, thread: int) -> None:
        super().leave(thread)
        for kind in KINDS:
            for event in self.sums_of[kind]:
                if event.thread == thread:
                    event.levels.discard(THREAD)

    def end_thread(self, thread: int) -> None:
        super().end_thread(thread)
        for open_ in (self.stages, self.statements, self.transactions, self.states):
            open_.pop(thread, None)

    def open_in(self, kind: str, thread: int) -> list[Nested]:
        if kind == STATEMENTS:
            return [event for event in self.statements[thread] if not event.dropped]
        found = (self.stages if kind == STAGES else self.transactions).get(thread)
        return [found] if found is not None else []

    def truncate(self, table: str) -> None:
        for kind in KINDS:
            if table in VIEWS_OF[kind]:
                for event in self.ended[kind] + [event for thread in self.threads for event in self.open_in(kind, thread)]:
                    event.views.discard(table)
                return
            for level in (*LEVELS, GLOBAL):
                if table == summary(kind, level):
                    self.empty_sums(kind, level)
                    if (kind, level) == (STATEMENTS, GLOBAL):
                        self.truncate(HISTOGRAM)
                    return
        if table in (DIGESTS, HISTOGRAM, HISTOGRAMS):
            for event in self.sums_of[STATEMENTS]:
                event.sums -= {table} | ({HISTOGRAMS} if table == DIGESTS else set())
            return
        super().truncate(table)
        if table in ("accounts", "users", "hosts"):
            for kind in KINDS:
                self.empty_sums(kind, table[:-1])

    def empty_sums(self, kind: str, level: str) -> None:
        for event in self.sums_of[kind]:
            event.levels -= ALL_EMPTIED[level]

    # ---- What the tables show

    def sums_by(self, kind: str, level: str) -> dict[tuple[Any, ...], list[Nested]]:
        cells: dict[tuple[Any, ...], list[Nested]] = defaultdict(list)
        for event in self.sums_of[kind]:
            if level in event.levels:
                member = () if level == GLOBAL else (event.thread,) if level == THREAD else self.party(level, event)
                cells[*member, event.instrument].append(event)
        return cells

    def by_digest(self) -> dict[tuple[str | None, str | None], list[Nested]]:
        cells: dict[tuple[str | None, str | None], list[Nested]] = defaultdict(list)
        for event in self.sums_of[STATEMENTS]:
            if DIGESTS in event.sums:
                cells[event.schema, event.text].append(event)
        return cells

    def in_sums(self, table: str) -> list[Nested]:
        return [event for event in self.sums_of[STATEMENTS] if table in event.sums]

    def shown(self, kind: str, view: str) -> list[Nested]:
        _current, history, long = VIEWS_OF[kind]
        if view == long:
            return [event for event in self.ended[kind] if view in event.views][-self.history_long_size :]
        shown: list[Nested] = []
        for thread in self.threads:
            ended = [event for event in self.ended[kind] if event.thread == thread and view in event.views]
            if view == history:
                ended.sort(key=lambda event: (event.end_id, -event.id))
                shown += ended[-self.history_size :]
                continue
            running = [event for event in self.open_in(kind, thread) if view in event.views]
            shown += running or sorted((event for event in ended if event.level == 0), key=lambda event: event.id)[-1:]
        return shown
