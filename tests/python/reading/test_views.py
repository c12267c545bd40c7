"""The schema sys: documented columns, formats and twins. test_views_recomputed.py holds values and order."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import pytest

import pfs
from pfs._sql import result as pfs_result
from pfs._sql.database import connected
from pfs._sql.functions import MACROS, macros_named
from pfs._sql.views.declared import VIEWS
from tests.python._programs.viewed import snapshot
from tests.python._recomputed.base import account, base

GOLDEN = json.loads((Path(__file__).resolve().parents[2] / "golden/sys_views.json").read_text())


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> pfs.Snapshot:
    return snapshot(tmp_path_factory.mktemp("views"))


def formatting() -> duckdb.DuckDBPyConnection:
    connection = connected()
    for macro in macros_named(["format_bytes", "format_pico_time", "format_time"]):
        connection.execute(MACROS[macro])
    return connection


def test_columns_are_the_documented_ones_in_order() -> None:
    assert {name for name in VIEWS if not name.startswith("x$")} == set(GOLDEN)
    for name, columns in GOLDEN.items():
        assert list(VIEWS[name].columns) == columns, name
        if f"x${name}" in VIEWS:
            assert list(VIEWS[f"x${name}"].columns) == columns


@pytest.fixture(scope="module")
def answers(taken: pfs.Snapshot) -> dict[str, pfs_result.Result]:
    return {name: taken.sql(f'select * from sys."{name}"') for name in VIEWS}


def test_every_view_answers(answers: dict[str, pfs_result.Result]) -> None:
    for name, view in VIEWS.items():
        assert answers[name].columns == list(view.columns), name
        assert view.doc.endswith("."), name
        assert len(answers[name]) > 0, name


def test_a_twin_has_the_same_rows(answers: dict[str, pfs_result.Result]) -> None:
    """A formatted value is the format of the twin's value."""
    formats = formatting()
    for name in VIEWS:
        if f"x${name}" not in VIEWS:
            continue
        shown, raw = answers[name].rows(), answers[f"x${name}"].rows()
        assert len(shown) == len(raw), name
        for one, two in zip(shown, raw, strict=True):
            for text, value in zip(one, two, strict=True):
                if text == value or value is None or isinstance(value, str):
                    continue
                legal = formats.execute(
                    "select format_pico_time(?::hugeint), format_bytes(?::hugeint)", [value, value]
                ).fetchall()[0]
                assert text in legal, (name, text, value)


@pytest.mark.parametrize(
    ("picoseconds", "text"),
    [
        (0, "  0 ps"), (999, "999 ps"), (1000, "1.00 ns"), (3501, "3.50 ns"), (188732396662000, "3.15 min"),
        (10**12, "1.00 s"), (3600 * 10**12, "1.00 h"), (86400 * 10**12 * 3, "3.00 d"), (None, None),
    ],
)  # fmt: skip
def test_times_are_written_as_documented(picoseconds: int | None, text: str | None) -> None:
    assert formatting().execute("select format_pico_time(?::ubigint)", [picoseconds]).fetchall() == [(text,)]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "   0 bytes"), (512, " 512 bytes"), (1024, "1.00 KiB"), (5 << 20, "5.00 MiB"), (2**64 - 1, "16.00 EiB"), (None, None)],
)
def test_sizes_are_written_as_documented(size: int | None, text: str | None) -> None:
    assert formatting().execute("select format_bytes(?::ubigint)", [size]).fetchall() == [(text,)]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("sys.format_time(3501)", "3.50 ns"), ("sys.format_time(188732396662000)", "3.15 m"), ("sys.format_time(0)", "0 ps"),
        (f"sys.format_time({14 * 86400 * 10**12})", "2.00 w"), ("sys.format_bytes(512)", "512 bytes"),
        ("sys.format_bytes(18446644073709551615)", "16383.91 PiB"), ("sys.quote_identifier('trick`ier')", "`trick``ier`"),
        ("sys.extract_schema_from_file_name('/usr/local/mysql/data/world/City.ibd')", "world"),
        ("sys.extract_table_from_file_name('/usr/local/mysql/data/world/City.ibd')", "City"),
        ("sys.extract_schema_from_file_name('City.ibd')", None), ("sys.extract_table_from_file_name('a.b/City')", "City"),
        ("sys.format_statement('SELECT variable, value, set_time, set_by FROM sys_config')",
         "SELECT variable, value, set_time, set_by FROM sys_config"),
        (f"sys.format_statement('{'a' * 60}{'b' * 60}')", f"{'a' * 30} ... {'b' * 30}"), ("sys.format_path('/a')", "/a"),
        ("sys.version_major()", 8), ("sys.version_minor()", 4), ("sys.version_patch()", 0),
    ],
)  # fmt: skip
def test_functions_give_what_is_documented(call: str, value: object) -> None:
    for dialect in ("duckdb", "mysql"):
        assert pfs.sql(f"select {call}", None, dialect).rows() == [(value,)]


def test_functions_that_look_into_tables(taken: pfs.Snapshot) -> None:
    """Arguments may be constants or columns, also one of the same name as the table's own."""
    threads = {row["THREAD_ID"]: row for row in base(taken, "threads")}
    sessions = {row["PROCESSLIST_ID"]: row for row in threads.values() if row["PROCESSLIST_ID"] is not None}
    assert sessions
    found = taken.sql("select THREAD_ID, sys.ps_thread_account(THREAD_ID) from threads").rows()
    accounts = {number: row["PROCESSLIST_USER"] and account(row) for number, row in threads.items()}
    assert dict(found) == accounts
    assert "joe@here" in accounts.values()
    for function in ("ps_thread_id", "sys.ps_thread_id"):
        found = taken.sql(f"select PROCESSLIST_ID, {function}(t.PROCESSLIST_ID) from threads as t").rows()
        assert {each for each in found if each[0] is not None} == {(key, row["THREAD_ID"]) for key, row in sessions.items()}
        assert taken.sql(f"select {function}(99999), {function}(null)").rows() == [(None, None)]
    instrumented = "select PROCESSLIST_ID, sys.ps_is_thread_instrumented(PROCESSLIST_ID) from threads where PROCESSLIST_ID > 0"
    assert dict(taken.sql(instrumented).rows()) == {key: row["INSTRUMENTED"] for key, row in sessions.items()}
    assert taken.sql("select sys.ps_is_thread_instrumented(99999), sys.ps_is_thread_instrumented(null)").rows() == [
        ("UNKNOWN", None)
    ]
    asked = "select {0}('wait/synch/mutex/app/LOCK'), {0}('memory/app/buffer'), {0}('memory/app/unseen'), {0}('none')"
    assert taken.sql(asked.format("sys.ps_is_instrument_default_enabled")).rows() == [("YES", "YES", "YES", "NO")]
    assert taken.sql(asked.format("sys.ps_is_instrument_default_timed")).rows() == [("YES", "NO", "NO", "NO")]
    with pytest.raises(pfs.InvalidValue, match="unknown consumer 'nothing'"):
        taken.sql("select sys.ps_is_consumer_enabled('nothing')")


def test_a_consumer_needs_those_above_it(taken: pfs.Snapshot, root: Path) -> None:
    """The hierarchy is that of cpp/src/base/consumers.h."""
    found = re.findall(r"X\((\w+), (\w+), (?:true|false)\)", (root / "cpp/src/base/consumers.h").read_text())
    parents = {name: parent for name, parent in found if name != "name"}
    assert len(parents) == 17
    frame = taken["setup_consumers"]
    for off in [None, *parents]:
        states = frame.assign(ENABLED=["NO" if name == off else "YES" for name in frame["NAME"]])
        given = pfs.Snapshot({"setup_consumers": states}, taken.process, taken.time, 0)
        rows = dict(given.sql("select NAME, sys.ps_is_consumer_enabled(upper(NAME)) from setup_consumers").rows())
        for name in parents:
            needed, above = set(), name
            while above in parents:
                needed.add(above)
                above = parents[above]
            assert rows[name] == ("NO" if off in needed else "YES"), (name, off)


def test_session_shows_its_program(taken: pfs.Snapshot) -> None:
    rows = taken.sql("select user, program_name, pid from sys.session").rows()
    assert ("joe@here", "tester", "7") in rows


def test_view_is_a_frame() -> None:
    assert list(pfs.view("sys.version").columns) == ["sys_version", "mysql_version"]
    assert pfs.view("x$waits_global_by_latency")["total_latency"].dtype == "int64"
    with pytest.raises(pfs.UnknownTable, match="the nearest is 'statement_analysis'"):
        pfs.view("statement_analisis")
