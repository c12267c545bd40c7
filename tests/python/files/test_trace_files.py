"""Files of the trace (docs/reference/trace.md): read, merged, loaded into SQLite. The description makes the files."""

from __future__ import annotations

import os
import pty
import resource
import sqlite3
import subprocess
import sys
import tracemalloc
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pfs
from pfs import _core
from pfs._save.trace import files, timeline
from tests.python._programs.trace_files import (
    STAGES,
    STATEMENTS,
    TRANSACTIONS,
    WAITS,
    Thread,
    line,
    merged,
    pfs_trace,
    statements_of,
)

TEXTS = [
    b"",
    b"'",
    b"''",
    b"it's",
    b"NULL",
    b"CAST(X'41' AS TEXT)",
    b"a,b);",
    b"');",
    b'/* -- ; \\ " ` % ?',
    line(WAITS, {"EVENT_NAME": "wait/none"})[:-1],
    b"\n" + line(WAITS, {"EVENT_NAME": "wait/none"}),
    b"two\nlines",
    b"two\r\nlines",
    b"\0",
    b"a\0b",
    b"\x7f\x1b[31m",
    b"\xff\xfe",
    b"caf\xe9",
    b"\xed\xa0\x80",
    "µs \N{GRINNING FACE} \u2028".encode(),
    b"x" * 1_000_000,
    b"'" * 1_000_000,
    b"\n" * 1_000_000,
]


def only(frames: dict[str, pd.DataFrame], table: str) -> pd.DataFrame:
    assert [name for name, frame in frames.items() if len(frame)] == [table]
    return frames[table]


def database(*texts: bytes) -> sqlite3.Connection:
    """As docs/reference/trace.md loads it."""
    loaded = sqlite3.connect(":memory:")
    loaded.text_factory = bytes
    loaded.executescript(files.ddl())
    for text in texts:
        loaded.executescript(text.decode())
    return loaded


def drawn(folder: Path) -> None:
    timeline.export(files.sources(folder)[0], BytesIO(), "chrome")


# ---- Reading


def test_frames_are_those_of_pfs_table(tmp_path: Path) -> None:
    """read_trace gives a dict of frames with the same columns and dtypes, also without rows."""
    thread = Thread(5)
    thread.wait("wait/synch/mutex/app/m", 1, 2)
    thread.start(TRANSACTIONS, "transaction", 3, STATE="ACTIVE", AUTOCOMMIT="NO")
    thread.write(tmp_path)
    for frames in (pfs.read_trace(tmp_path), pfs.read_trace(tmp_path, raw=True)):
        assert set(frames) == {WAITS, STAGES, STATEMENTS, TRANSACTIONS}
        for table, frame in frames.items():
            expected = pfs.table(table)
            assert list(frame.dtypes.items()) == list(expected.dtypes.items())
            assert frame.index.equals(pd.RangeIndex(len(frame)))
    assert frames[TRANSACTIONS]["STATE"].tolist() == ["ACTIVE"]
    assert frames[TRANSACTIONS]["AUTOCOMMIT"].tolist() == ["NO"]


def test_one_statement_with_one_mutex(tmp_path: Path) -> None:
    """Four rows, start rows with NULL ends; one row for each event."""
    thread = Thread(5)
    statement = thread.start(STATEMENTS, "statement/sql/set", 10, SQL_TEXT="SET @a=5")
    thread.wait("wait/synch/mutex/app/m", 20, 30, statement, NESTING_EVENT_TYPE="STATEMENT")
    thread.end(statement, 40, ROWS_SENT=7)
    path = thread.write(tmp_path)
    raw = pfs.read_trace(path, raw=True)
    for table in (WAITS, STATEMENTS):
        assert raw[table]["END_EVENT_ID"].isna().tolist() == [True, False]
        assert raw[table]["TIMER_END"].isna().tolist() == [True, False]
    frames = pfs.read_trace(path)
    assert frames[STATEMENTS][["EVENT_ID", "TIMER_WAIT", "SQL_TEXT", "ROWS_SENT"]].to_numpy().tolist() == [[1, 30, "SET @a=5", 7]]
    assert frames[WAITS][["EVENT_ID", "TIMER_WAIT", "NESTING_EVENT_TYPE"]].to_numpy().tolist() == [[2, 10, "STATEMENT"]]


def test_events_without_an_end_or_without_a_start(tmp_path: Path) -> None:
    """A chunk that was recycled takes rows with it; docs/reference/trace.md: an event may have no end row."""
    thread = Thread(5)
    first = thread.start(WAITS, "wait/a", 10)
    second = thread.start(WAITS, "wait/b", 20, first)
    thread.data.pop()  # dropped
    third = thread.start(WAITS, "wait/c", 30, second)
    thread.end(third, 40)
    thread.end(second, 50)
    thread.write(tmp_path)
    frame = only(pfs.read_trace(tmp_path), WAITS)
    assert frame["EVENT_NAME"].tolist() == ["wait/a", "wait/c", "wait/b"]
    assert frame["TIMER_END"].astype(object).tolist() == [pd.NA, 40, 50]
    assert frame["TIMER_START"].tolist() == [10, 30, 20]


def test_threads_have_the_same_event_ids(tmp_path: Path) -> None:
    for number in (5, 6):
        thread = Thread(number)
        thread.wait("wait/a", number, number + 1)
        thread.start(WAITS, "wait/b", 100)
        thread.write(tmp_path)
    frame = only(pfs.read_trace(tmp_path), WAITS)
    assert frame[["THREAD_ID", "EVENT_ID"]].to_numpy().tolist() == [[5, 1], [5, 2], [6, 1], [6, 2]]
    assert frame["TIMER_END"].astype(object).tolist() == [6, pd.NA, 7, pd.NA]


def test_parts_are_one_thread(tmp_path: Path) -> None:
    """docs/reference/trace.md: rows of a thread are in order from part to part, as numbers; a part may have another actor."""
    thread = Thread(5)
    for part in range(8, 12):
        thread.start(WAITS, f"wait/{part}", part)
        if part > 8:
            thread.end(thread.last - 1, part)
        thread.actor = "sally" if part == 9 else "harry@localhost"
        thread.write(tmp_path, part)
    frame = only(pfs.read_trace(tmp_path), WAITS)
    assert frame["EVENT_NAME"].tolist() == ["wait/8", "wait/9", "wait/10", "wait/11"]
    assert frame["TIMER_END"].astype(object).tolist() == [9, 10, 11, pd.NA]
    times = [int(part.split(b",")[5]) for part in statements_of(merged(tmp_path))]
    assert times == [8, 9, 8, 10, 9, 11, 10]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:12]) + str(len(text)))
def test_texts_come_back_byte_for_byte(text: bytes, tmp_path: Path) -> None:
    """Texts come back in frames and in SQLite."""
    thread = Thread(5)
    thread.wait("wait/io/file/x", 1, 2, OBJECT_NAME=text, OPERATION=b"read")
    thread.end(thread.start(STATEMENTS, "statement/x", 3, SQL_TEXT=text, DIGEST_TEXT=None, CURRENT_SCHEMA=text), 4)
    thread.write(tmp_path)
    frames = pfs.read_trace(tmp_path)
    expected = text.decode("utf-8", "surrogateescape")
    assert frames[WAITS]["OBJECT_NAME"].tolist() == [expected]
    assert frames[STATEMENTS][["SQL_TEXT", "CURRENT_SCHEMA"]].to_numpy().tolist() == [[expected, expected]]
    assert frames[STATEMENTS]["DIGEST_TEXT"].isna().tolist() == [True]
    loaded = database(merged(tmp_path))
    assert loaded.execute(f"SELECT OBJECT_NAME, OPERATION FROM {WAITS}").fetchall() == [(text, b"read")] * 2
    assert (
        loaded.execute(f"SELECT SQL_TEXT, CURRENT_SCHEMA, DIGEST_TEXT FROM {STATEMENTS}").fetchall() == [(text, text, None)] * 2
    )


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.binary(), st.none() | st.text()), max_size=20), st.integers(1, 300))
def test_any_texts_at_any_borders_of_blocks(tmp_path_factory: pytest.TempPathFactory, texts: list[Any], block: int) -> None:
    folder = tmp_path_factory.mktemp("texts")
    thread = Thread(5)
    for odd, plain in texts:
        unpaired = None if plain is None else plain.encode("utf-8", "replace").decode()
        thread.start(WAITS, "wait/x", 1, OBJECT_NAME=odd, INDEX_NAME=unpaired)
    path = thread.write(folder)
    assert b"".join(files.Lines(path, block)) == path.read_bytes()
    frame = pfs.read_trace(path)[WAITS]
    assert frame["OBJECT_NAME"].tolist() == [odd.decode("utf-8", "surrogateescape") for odd, _ in texts]
    is_null = frame["INDEX_NAME"].isna()
    assert is_null.tolist() == [plain is None for _, plain in texts]
    assert frame["INDEX_NAME"][~is_null].tolist() == [
        plain.encode("utf-8", "replace").decode() for _, plain in texts if plain is not None
    ]


def test_numbers_at_their_limits(tmp_path: Path) -> None:
    """The values that stand in for NULL while numbers are read are values too."""
    largest, least = 2**64 - 1, -(2**63)
    thread = Thread(5)
    for time, size in ((largest, least), (None, None), (0, 2**63 - 1), (largest - 1, -1)):
        thread.start(WAITS, "wait/x", time, NUMBER_OF_BYTES=size, FLAGS=None if size is None else 2**32 - 1)
    thread.write(tmp_path)
    frame = only(pfs.read_trace(tmp_path), WAITS)
    assert frame["TIMER_START"].astype(object).tolist() == [largest, pd.NA, 0, largest - 1]
    assert frame["NUMBER_OF_BYTES"].astype(object).tolist() == [least, pd.NA, 2**63 - 1, -1]
    assert frame["FLAGS"].astype(object).tolist() == [2**32 - 1, pd.NA, 2**32 - 1, 2**32 - 1]


@pytest.mark.parametrize("cut", [1, 2, 60, 100])
def test_a_partial_last_line_is_left_out_and_told(cut: int, tmp_path: Path) -> None:
    """After kill -9 what was written is readable up to the last whole line."""
    whole = line(WAITS, {"THREAD_ID": 5, "EVENT_ID": 9, "EVENT_NAME": "wait/x"})
    thread = Thread(5)
    thread.wait("wait/a", 1, 2)
    path = thread.write(tmp_path, tail=whole[:-cut])
    torn = Thread(6).write(tmp_path)
    torn.write_bytes(torn.read_bytes()[:-1])  # not even its first line
    frames = pfs.read_trace(tmp_path)
    assert len(only(frames, WAITS)) == 1
    for frame in frames.values():
        assert frame.attrs == {"files": 1, "partial_lines": {str(path): len(whole) - cut, str(torn): torn.stat().st_size}}
    assert len(statements_of(merged(tmp_path))) == 2
    done = pfs_trace("merge", tmp_path, "-o", tmp_path / "all.sql")
    assert done.returncode == 0
    assert f"{path}: its last line is not whole: {len(whole) - cut} bytes left out" in done.stderr


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (b"DROP TABLE events_waits_current;\n", "legal is a table of events_transactions_current"),
        (b"INSERT INTO events_waits_current VALUES (1);\n", "legal is all 19 columns of events_waits_current"),
        (b"\n", "no line of a trace"),
        (b"INSERT INTO threads VALUES (1);\n", "no line of a trace"),
        (line(WAITS, {}).replace(b"(0,0", b"(-1,0"), "no line of a trace"),
        (line(WAITS, {}).replace(b"(0,0", b"(NULL,0"), "no line of a trace"),
        (line(WAITS, {}).replace(b"(0,0", b"(random(),0"), "no line of a trace"),
        (line(WAITS, {"OBJECT_NAME": "x"}).replace(b"'x'", b"readfile('x')"), "no line of a trace"),
        (line(WAITS, {"OBJECT_NAME": "\n"}).replace(b"0A", b"0"), "no line of a trace"),
        (line(WAITS, {}).replace(b");", b"); DELETE FROM events_waits_current;"), "no line of a trace"),
    ],
)
def test_other_lines_are_refused(bad: bytes, told: str, tmp_path: Path) -> None:
    thread = Thread(5)
    thread.wait("wait/a", 1, 2)
    path = thread.write(tmp_path, tail=bad + line(WAITS, {}))
    for read in (pfs.read_trace, merged, drawn):
        if read is merged and bad.startswith(b"INSERT INTO events_waits") and b"(1)" not in bad and b"(-1" not in bad:
            continue  # a merge looks at the times only
        with pytest.raises(pfs.Error, match=told) as caught:
            read(tmp_path)
        assert str(path) in str(caught.value)


def test_unknown_value_of_an_enum(tmp_path: Path) -> None:
    thread = Thread(5)
    thread.start(WAITS, "wait/a", 1, NESTING_EVENT_TYPE="PARTY")
    thread.write(tmp_path)
    with pytest.raises(pfs.Error, match="bad value 'PARTY' in a trace: legal is one of TRANSACTION, STATEMENT, STAGE, WAIT"):
        pfs.read_trace(tmp_path)


def test_what_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(pfs.Error, match="has no trace files: their names are trace"):
        pfs.read_trace(tmp_path)
    with pytest.raises(FileNotFoundError):
        pfs.read_trace(tmp_path / "none")
    other = tmp_path / "other.sql"
    other.write_bytes(b"SELECT 1;\n")
    with pytest.raises(pfs.Error, match="is no trace file: its first line"):
        pfs.read_trace(other)
    other.write_bytes(Thread(5).header(form=2))
    with pytest.raises(pfs.Error, match="has format 2: this version of pfs reads format 1"):
        pfs.read_trace(other)
    Thread(5).write(tmp_path)  # beside a file that is none
    assert pfs.read_trace(tmp_path)[WAITS].attrs["files"] == 1


def test_processes_are_not_mixed(tmp_path: Path) -> None:
    """Times of two processes have two zeros, and a forked child has threads of the same numbers."""
    for process in (71, 72):
        thread = Thread(1, process)
        thread.wait(f"wait/{process}", 1, 2)
        thread.write(tmp_path)
    for read in (pfs.read_trace, merged):
        with pytest.raises(pfs.InvalidValue, match=r"several processes, choose one .*: 71, 72"):
            read(tmp_path)
        with pytest.raises(pfs.InvalidValue, match="no files of process 73: legal are 71, 72"):
            read(tmp_path, process=73)
    assert only(pfs.read_trace(tmp_path, process=72), WAITS)["EVENT_NAME"].tolist() == ["wait/72"]
    assert all(b"wait/71" in part for part in statements_of(merged(tmp_path, process=71)))


# ---- Merging


def many_threads(folder: Path, threads: int, events: int) -> list[Thread]:
    """Threads whose events interleave."""
    made = []
    for number in range(1, threads + 1):
        thread = Thread(number)
        for i in range(events):
            begin = 1000 * i + number
            thread.wait(f"wait/{i % 3}", begin, begin + 500, NUMBER_OF_BYTES=i)
        thread.write(folder)
        made.append(thread)
    return made


def time_of(statement: bytes) -> int:
    words = statement.split(b",")
    return int(words[5] if words[2] == b"NULL" else words[6])


def test_merge_is_in_the_order_of_time(tmp_path: Path) -> None:
    """By TIMER_START, of end rows by TIMER_END; a merged file reads and merges as its parts do."""
    many_threads(tmp_path, 7, 50)
    text = merged(tmp_path)
    times = [time_of(part) for part in statements_of(text)]
    assert len(times) == 7 * 50 * 2
    assert times == sorted(times)
    (tmp_path / "all.sql").write_bytes(text)
    again = pfs.read_trace(tmp_path / "all.sql")[WAITS]
    assert again["TIMER_START"].tolist() == sorted(again["TIMER_START"].tolist())
    apart = pfs.read_trace(tmp_path)[WAITS]
    apart.attrs, again.attrs = {}, {}
    pd.testing.assert_frame_equal(again.sort_values(["THREAD_ID", "EVENT_ID"], ignore_index=True), apart)
    assert statements_of(merged(tmp_path / "all.sql")) == statements_of(text)


def test_what_is_not_timed_keeps_its_place(tmp_path: Path) -> None:
    first, second = Thread(1), Thread(2)
    for thread, begin in ((first, 10), (second, 15)):
        thread.wait("wait/untimed", None, None)
        outer = thread.start(TRANSACTIONS, "transaction", begin, STATE="ACTIVE")
        thread.wait("wait/timed", begin + 10, begin + 11, outer)
        thread.wait("wait/untimed", None, None, outer)
        thread.end(outer, begin + 20)
    lines = {thread.number: list(thread.data) for thread in (first, second)}
    first.write(tmp_path)
    second.write(tmp_path)
    together = statements_of(merged(tmp_path))
    for number, own in lines.items():
        kept = [part + b"\n" for part in together if part.startswith(own[0][: own[0].find(b"(")]) or b"transactions" in part]
        assert [part for part in kept if int(part.split(b"(")[1].split(b",")[0]) == number] == own


def test_merge_of_more_files_than_may_be_open(tmp_path: Path) -> None:
    """Any size: also in files."""
    many_threads(tmp_path, 60, 2)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits[0], 40), limits[1]))
    try:
        assert len(statements_of(merged(tmp_path))) == 240
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_merge_needs_no_more_memory_for_more_rows(tmp_path: Path) -> None:
    """Any size: bounded by blocks, not by files."""
    line_of = line(WAITS, {"THREAD_ID": 5, "EVENT_ID": 1, "EVENT_NAME": "wait/x", "TIMER_START": 1, "OBJECT_NAME": "x" * 400})
    size = 0
    for number in (5, 6):
        thread = Thread(number)
        thread.data = [line_of] * 15_000
        size += thread.write(tmp_path).stat().st_size
    found, partial = files.sources(tmp_path)
    with open(os.devnull, "wb") as nothing:
        tracemalloc.start()
        files.merge(found, nothing, partial)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert size > 15_000_000
    assert peak < 4_000_000


def test_sqlite_groups_as_the_summaries_do(tmp_path: Path) -> None:
    """The merged file with the printed tables; counts and sums by EVENT_NAME."""
    many_threads(tmp_path, 4, 30)
    path = tmp_path / "all.sql"
    done = pfs_trace("merge", tmp_path, "-o", path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "240 rows of 4 threads from 4 files" in done.stderr
    tables = pfs_trace("ddl")
    assert tables.returncode == 0
    loaded = sqlite3.connect(":memory:")
    loaded.executescript(tables.stdout)
    with open(path, encoding="utf-8", newline="\n") as lines:
        for statement in lines:  # as the documentation says, line by line
            loaded.execute(statement)
    query = f"SELECT EVENT_NAME, COUNT(*), SUM(TIMER_WAIT) FROM {WAITS} WHERE END_EVENT_ID IS NOT NULL GROUP BY EVENT_NAME"
    assert loaded.execute(query).fetchall() == [(f"wait/{i}", 40, 40 * 500) for i in range(3)]
    events = pfs.read_trace(path)[WAITS].groupby("EVENT_NAME")["TIMER_WAIT"].agg(["count", "sum"])
    assert events.to_numpy().tolist() == [[40, 40 * 500]] * 3
    keys = {table: [row[1] for row in loaded.execute(f"PRAGMA table_info({table})")] for table in files.TABLES}
    assert keys == {table: [column["name"] for column in _core.table_info(table)["columns"]] for table in files.TABLES}


def test_merge_does_not_overwrite_its_own_files(tmp_path: Path) -> None:
    thread = Thread(5)
    thread.wait("wait/a", 1, 2)
    path = thread.write(tmp_path)
    before = path.read_bytes()
    done = pfs_trace("merge", tmp_path, "-o", path)
    assert done.returncode == 1
    assert "is a file of the trace itself: give another name" in done.stderr
    assert path.read_bytes() == before


def test_merge_to_standard_output_and_a_bar_on_a_terminal(tmp_path: Path) -> None:
    many_threads(tmp_path, 2, 2)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pfs", "trace", "merge", str(tmp_path), "-o", "-"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, timeout=120, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert done.stdout == merged(tmp_path)
    assert b"merging" in shown
    assert b"8 rows of 2 threads" in shown
