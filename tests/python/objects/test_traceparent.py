"""TRACEPARENT: the caller's span is in the row of its statement, as W3C writes it, and changes nothing else."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pfs
from tests.python._programs.nested import Statement
from tests.python._programs.subject import subject

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
CURRENT = "events_statements_current"
FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)


def shown(name: str, table: str = CURRENT) -> list[str | None]:
    frame = pfs.table(table, ["EVENT_NAME", "TRACEPARENT"], where=f"EVENT_NAME = 'statement/{name}'")
    return [None if pd.isna(value) else str(value) for value in frame["TRACEPARENT"]]


def model(text: str) -> str | None:
    """What W3C's Trace Context says a receiver makes of a header."""
    found = FORM.fullmatch(text)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    return None if not found[2].strip("0") or not found[3].strip("0") else f"00-{found[2]}-{found[3]}-{found[4]}"


PARTS = st.tuples(
    st.sampled_from(["00", "01", "cc", "ff", "0", "0G"]),
    st.sampled_from([TRACE, "0" * 32, TRACE.upper(), TRACE[:-1], TRACE + "0"]),
    st.sampled_from([SPAN, "0" * 16, "0" * 15 + "1", SPAN[1:]]),
    st.sampled_from(["00", "01", "ff", "1", "0x"]),
).map("-".join)
TEXTS = st.one_of(PARTS, st.tuples(PARTS, st.sampled_from(["-", "-what", " ", "x"])).map("".join), st.text(max_size=70))


@example("")
@example(PARENT)
@given(TEXTS)
def test_a_text_is_what_w3c_says(text: str) -> None:
    """The core agrees with a regular expression; a refused text changes nothing, in C and in Python."""
    wanted = model(text)
    statement = Statement("trace/model")
    assert statement.traceparent(PARENT) == 0
    assert statement.traceparent(text) == (0 if wanted or not text else -1)
    assert shown("trace/model") == [wanted or (PARENT if text else None)]
    statement.end()
    with pfs.statement("trace/python", traceparent=text) as running:
        assert shown("trace/python") == [wanted]
        assert running.traceparent == (text if wanted else None)


def test_the_event_is_as_before_without_it() -> None:
    rows = []
    for parent in (None, PARENT):
        with pfs.statement("trace/same", "select 1 from t", schema="trace_same", traceparent=parent):
            (row,) = pfs.table(CURRENT).astype(object).to_dict("records")
        assert row["SQL_TEXT"] == "select 1 from t"
        rows.append({name: row[name] for name in ("SQL_TEXT", "DIGEST", "DIGEST_TEXT", "CURRENT_SCHEMA")})
    assert rows[0] == rows[1]
    digests = pfs.table("events_statements_summary_by_digest", where="SCHEMA_NAME = 'trace_same'")
    assert list(digests["COUNT_STAR"]) == [2]


def test_it_is_set_changed_and_removed_while_the_statement_runs() -> None:
    other = PARENT.replace("01", "00", 1)
    with pfs.statement("trace/changes") as running:
        assert running.traceparent is None
        for value in (PARENT, other, PARENT.encode()):
            running.traceparent = value
            assert running.traceparent == value
        assert shown("trace/changes") == [PARENT]
        running.traceparent = None
        assert shown("trace/changes") == [None]
        running.traceparent = PARENT
        with pytest.raises(TypeError, match="traceparent"):
            running.traceparent = 7  # type: ignore[assignment]
    running.traceparent = None  # it has ended
    assert shown("trace/changes", "events_statements_history") == [PARENT]
    assert shown("trace/changes", "events_statements_history_long") == [PARENT]
    with pytest.raises(TypeError, match="traceparent"):
        pfs.statement("trace/changes", traceparent=7)  # type: ignore[arg-type]


def test_a_record_that_is_used_again_has_none() -> None:
    """Each of many statements has its own, also beside others without."""
    for number in range(3000):
        parent = f"00-{number + 1:032x}-{number + 1:016x}-00" if number % 3 else None
        with pfs.statement("trace/again", traceparent=parent):
            if number % 100 < 3:
                assert shown("trace/again") == [parent]
    found = shown("trace/again", "events_statements_history_long")
    assert len(found) > 100
    wanted = [f"00-{number + 1:032x}-{number + 1:016x}-00" if number % 3 else None for number in range(3000 - len(found), 3000)]
    assert found == wanted


def test_tasks_and_threads_have_their_own() -> None:
    parents = [PARENT.replace(SPAN, f"{number + 1:016x}") for number in range(5)]

    async def request(parent: str) -> str | bytes | None:
        async with pfs.statement("trace/task", traceparent=parent) as running:
            for _ in range(3):
                await asyncio.sleep(0)
            return running.traceparent

    async def all_of_them() -> list[str | bytes | None]:
        return await asyncio.gather(*map(request, parents))

    assert asyncio.run(all_of_them()) == parents
    assert sorted(map(str, shown("trace/task", "events_statements_history"))) == parents


def test_readers_of_a_dead_process_and_of_a_snapshot_have_it(folder: Path, tmp_path: Path) -> None:
    with subject(folder) as program:
        program.do(f"running = pfs.statement('trace/dies', traceparent={PARENT!r}).begin()")
        program.kill()
        with pfs.attach(str(program.path)) as schema:
            assert list(schema.table(CURRENT)["TRACEPARENT"]) == [PARENT]
            schema.snapshot(tmp_path / "saved")
    found = pfs.read_snapshot(tmp_path / "saved").sql(f"select TRACEPARENT, split_part(TRACEPARENT, '-', 2) from {CURRENT}")
    assert found.rows() == [(PARENT, TRACE)]


LOOP = """
import itertools
for n in itertools.count(1):
    with pfs.statement("trace/loop", f"select {n}", traceparent=f"00-{n:032x}-{n:016x}-{n % 256:02x}" if n % 5 else None): pass
"""


def test_no_row_is_torn_while_records_are_used_again(folder: Path) -> None:
    """Each row that a reader sees beside a busy writer has the text and the trace of one statement."""
    seen: set[int] = set()
    with subject(folder, PFS_OPTIONS="performance_schema_events_statements_history_long_size=300") as program:
        program.send(LOOP)
        with pfs.attach(str(program.path)) as schema:
            deadline = time.monotonic() + 60
            while len(seen) < 20_000:
                assert time.monotonic() < deadline
                for view in ("current", "history", "history_long"):
                    columns = ["SQL_TEXT", "TRACEPARENT", "END_EVENT_ID"]
                    for text, parent, end in schema._source.rows(f"events_statements_{view}", columns):
                        if text is None or (parent is None and end is None):
                            continue  # it has only begun
                        n = int(text.removeprefix("select "))
                        assert parent == (f"00-{n:032x}-{n:016x}-{n % 256:02x}" if n % 5 else None)
                        seen.add(n)
    assert any(n % 5 == 0 for n in seen)
