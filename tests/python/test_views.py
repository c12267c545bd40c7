"""The schema sys: documented columns, formats and twins. test_views_recomputed.py holds values and order."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

import pfs
from pfs._sql import result as pfs_result
from pfs._sql.database import connected
from pfs._sql.functions import MACROS
from pfs._views.declared import VIEWS
from tests.python._programs.viewed import snapshot

GOLDEN = json.loads((Path(__file__).resolve().parents[1] / "golden/sys_views.json").read_text())
OWN = {"file_slowest", "hold_times", "hung_threads", "lock_holders", "mutex_by_contention"}  # MySQL has them not


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> pfs.Snapshot:
    return snapshot(tmp_path_factory.mktemp("views"))


def formatting() -> duckdb.DuckDBPyConnection:
    connection = connected()
    for macro in MACROS.values():
        connection.execute(macro)
    return connection


def test_columns_are_the_documented_ones_in_order() -> None:
    assert {name for name in VIEWS if not name.startswith("x$")} == set(GOLDEN) | OWN
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


def test_lock_holders_names_both_threads(taken: pfs.Snapshot) -> None:
    rows = taken.sql("select * from sys.x$lock_holders").df().to_dict("records")
    assert sorted(row["lock_name"] for row in rows) == ["wait/synch/mutex/app/HELD", "wait/synch/rwlock/app/SHARED"]
    hung = taken.sql("select thread_id, event_name from sys.hung_threads").rows()
    for row in rows:
        assert row["holder_thread_id"] != row["waiting_thread_id"]
        assert (row["waiting_thread_id"], row["lock_name"]) in hung


def test_session_shows_its_program(taken: pfs.Snapshot) -> None:
    rows = taken.sql("select user, program_name, pid from sys.session").rows()
    assert ("joe@here", "tester", "7") in rows


def test_view_is_a_frame() -> None:
    assert list(pfs.view("sys.version").columns) == ["sys_version", "mysql_version"]
    assert pfs.view("x$waits_global_by_latency")["total_latency"].dtype.kind in "u"
    with pytest.raises(pfs.UnknownTable, match="the nearest is 'statement_analysis'"):
        pfs.view("statement_analisis")
