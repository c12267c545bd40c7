"""pfs.table: the columns and dtypes that the declarations promise, for every table; speed; errors."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pfs
from pfs import _core
from tests.conftest import Run
from tests.each import for_each

DTYPES: dict[tuple[str, bool], str] = {
    ("uint64", False): "uint64",
    ("uint64", True): "UInt64",
    ("int64", False): "int64",
    ("int64", True): "Int64",
    ("uint32", False): "uint32",
    ("uint32", True): "UInt32",
    ("int32", False): "int32",
    ("int32", True): "Int32",
    ("text", False): "string",
    ("text", True): "string",
    ("set", False): "string",
    ("set", True): "string",
    ("enum", False): "category",
    ("enum", True): "category",
    ("timestamp", False): "datetime64[us]",
    ("timestamp", True): "datetime64[us]",
    ("double", False): "float64",
    ("double", True): "float64",
}


def expected_dtype(kind: str, nullable: bool, values: pd.Series[Any]) -> str:
    """Returns the dtype of a column of pfs.table. Whole numbers are signed if all of them fit."""
    fits = kind == "uint64" and int(values.max() if values.notna().any() else 0) < 2**63
    return DTYPES["int64" if fits else kind, nullable]


@pytest.fixture(scope="module", autouse=True)
def some_events(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("frames") / "data"
    with pfs.Lock("test/LOCK_frames"), pfs.open(path, "w", name="test/frames") as f:
        f.write("text")


@for_each("name", pfs.tables())
def test_table_has_declared_columns_and_dtypes(name: str) -> None:
    facts = _core.table_info(name)
    frame = pfs.table(name)
    assert list(frame.columns) == [column["name"] for column in facts["columns"]]
    for column in facts["columns"]:
        values = frame[column["name"]]
        assert str(values.dtype) == expected_dtype(column["kind"], column["nullable"], values), column["name"]
        assert values.dtype != object
        if not column["nullable"]:
            assert values.notna().all(), column["name"]
        if column["kind"] == "enum":
            assert tuple(values.cat.categories) == column["values"]
        if column["kind"] == "text":
            assert values.dtype == pd.StringDtype(storage="python")


@for_each("name", pfs.tables())
def test_table_with_columns_chosen_gives_them_in_that_order(name: str) -> None:
    columns = list(pfs.table(name).columns)
    for chosen in (columns[::-1], columns[:1], [columns[0].lower()], []):
        frame = pfs.table(name, chosen)
        assert list(frame.columns) == [column.upper() for column in chosen]
    assert len(pfs.table("setup_consumers", [])) == len(pfs.table("setup_consumers"))


RESTING = ["file_instances", "global_variables", "mutex_instances", "setup_consumers", "setup_instruments", "setup_timers"]


@pytest.mark.parametrize("name", RESTING)  # the others may change between two readings
def test_rows_and_frames_agree(name: str) -> None:
    frame = pfs.table(name)
    rows = _core.rows(name, None, None)
    assert len(rows) == len(frame)
    for row, (_, cells) in zip(rows, frame.iterrows(), strict=True):
        for value, cell in zip(row, cells, strict=True):
            assert (value is None and pd.isna(cell)) or value == cell


@for_each("name", pfs.tables())
def test_declaration_explains_itself(name: str) -> None:
    facts = _core.table_info(name)
    assert facts["doc"].endswith(".")
    columns = [column["name"] for column in facts["columns"]]
    assert len(set(columns)) == len(columns)
    assert set(facts["key"]) <= set(columns)
    assert all(column["doc"].endswith(".") for column in facts["columns"])
    assert all(
        column["unit"] == "picoseconds"
        for column in facts["columns"]
        if "TIMER_" in column["name"] and column["kind"] == "uint64"
    )
    described = pfs.describe(name)
    assert described["COLUMN_NAME"].tolist() == columns
    ddl = pfs.ddl(name)
    assert ddl.startswith("CREATE TABLE")
    assert all(f"`{column}`" in ddl or f" {column} " in ddl for column in columns)


@for_each("name", pfs.tables())
def test_key_is_unique(name: str) -> None:
    key = list(_core.table_info(name)["key"])
    if key:
        assert not pfs.table(name, key).duplicated().any()


@for_each("name", pfs.tables())
def test_truncate_works_or_is_refused_with_what_is_legal(name: str) -> None:
    if "TRUNCATE" in _core.table_info(name)["operations"]:
        with pfs.setup_actors, pfs.setup_objects:  # which have their rows again at the end
            pfs.truncate(name)
    else:
        before = pfs.table(name)
        with pytest.raises(pfs.OperationNotAllowed, match="SELECT"):
            pfs.truncate(name)
        assert list(pfs.table(name).columns) == list(before.columns)


def test_tables_are_sorted_and_names_ignore_case() -> None:
    assert pfs.tables() == sorted(pfs.tables())
    assert list(pfs.table("THREADS").columns) == list(pfs.table("threads").columns)


def test_unknown_names_raise_and_name_the_nearest() -> None:
    with pytest.raises(pfs.UnknownTable, match="events_waits_current"):
        pfs.table("events_wait_current")
    for call in (pfs.ddl, pfs.truncate, pfs.describe):
        with pytest.raises(pfs.UnknownTable):
            call("nothing")
    with pytest.raises(pfs.UnknownColumn, match="THREAD_ID"):
        pfs.table("threads", ["THREAD"])
    with pytest.raises(pfs.InvalidValue, match="twice"):
        pfs.table("threads", ["NAME", "name"])
    assert issubclass(pfs.UnknownTable, LookupError)
    assert str(pfs.UnknownTable("a 'b'")) == "a 'b'"  # not KeyError's quotes


def test_frames_are_the_callers_own() -> None:
    frame = pfs.table("setup_consumers")
    frame.loc[0, "NAME"] = "changed"
    frame["ENABLED"] = "NO"
    assert "changed" not in pfs.table("setup_consumers")["NAME"].tolist()
    numbers = pfs.table("events_waits_history_long", ["THREAD_ID", "TIMER_WAIT"])
    numbers["THREAD_ID"] += 1  # writable


def test_null_where_untimed_and_value_where_timed(fresh: Run) -> None:
    out = fresh("""
        import pfs
        lock = pfs.Lock("test/LOCK_null")
        with lock: pass
        pfs.setup_instruments["wait/synch/mutex/test/LOCK_null"].timed = False
        with lock: pass
        rows = pfs.table("events_waits_history_long").query("EVENT_NAME == 'wait/synch/mutex/test/LOCK_null'")
        print(rows["TIMER_WAIT"].isna().tolist(), rows["TIMER_START"].isna().tolist(), str(rows["TIMER_WAIT"].dtype))
        print((rows["TIMER_END"] - rows["TIMER_START"] == rows["TIMER_WAIT"]).tolist()[0])
    """)
    assert out == "[False, True] [False, True] Int64\nTrue\n"


def test_everything_off_leaves_every_table_readable(fresh: Run) -> None:
    out = fresh(
        """
        import pfs
        lock = pfs.Lock("test/LOCK_off")
        with lock, pfs.wait("test/WAIT_off"), pfs.open("x", "w", name="test/off") as f: f.write("text")
        print(open("x").read())
        for name in pfs.tables():
            frame = pfs.table(name)
            assert not (frame.dtypes == object).any()
        print(pfs.variables["performance_schema"], len(pfs.table("events_waits_history_long")))
        """,
        options="performance_schema=OFF",
    )
    assert out == "text\nOFF 0\n"


@pytest.mark.alone
def test_10000_rows_of_history_long_take_at_most_10_ms(fresh: Run) -> None:
    out = fresh(
        """
        import time
        import pfs
        lock = pfs.Lock("test/LOCK_many")
        for _ in range(12000):
            with lock: pass
        pfs.table("events_waits_history_long")
        times = []
        for _ in range(10):
            start = time.perf_counter()
            frame = pfs.table("events_waits_history_long")
            times.append(time.perf_counter() - start)
        assert len(frame) == 10000, len(frame)
        print(min(times))
        """,
        options="performance_schema_events_waits_history_long_size=10000",
    )
    assert float(out) <= 0.010


def test_frame_of_a_million_rows_needs_no_loop_in_python() -> None:
    """The last step alone, on columns as the core gives them, beside a loop over as many values."""
    from pfs._read.dtypes import column_of

    rows = 1_000_000
    mask = np.zeros(rows, dtype=bool)
    start = time.process_time()
    parts: list[Any] = [
        column_of("uint64", False, np.arange(rows, dtype=np.uint64), None, None),
        column_of("uint64", True, np.arange(rows, dtype=np.uint64), mask, None),
        column_of("text", True, np.zeros(rows, dtype=np.intp), mask, ["wait/synch/mutex/a/b"]),
        column_of("enum", True, np.zeros(rows, dtype=np.int8), mask, ["YES", "NO"]),
        column_of("timestamp", False, np.zeros(rows, dtype=np.int64), None, None),
    ]
    took = time.process_time() - start
    start = time.process_time()
    assert all([value for value in mask] == [False] * rows for _ in parts)  # noqa: C416
    assert took < 0.5 * (time.process_time() - start)
    assert all(len(part) == rows for part in parts)


# ---- To a database -----------------------------------------------------------------------------------------------------------

HISTOGRAM, HIGH = "events_statements_histogram_global", "BUCKET_TIMER_HIGH"  # its last bucket ends at 2**64 - 1


def test_pandas_writes_a_number_of_64_bits_to_a_database_or_refuses_it() -> None:
    """pandas has no type of databases for 2**64 - 1. Its error stores no row; without the column, or as a text, all is right."""
    sqlalchemy = pytest.importorskip("sqlalchemy", reason="needs sqlalchemy: pip install '.[test]'")
    frame = pfs.table(HISTOGRAM)
    assert (frame[HIGH].dtype, frame[HIGH].max()) == (np.dtype("uint64"), 2**64 - 1)
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as database:
        for refused in (frame, frame.astype({HIGH: "UInt64"})):
            with pytest.raises(ValueError, match="Unsigned 64 bit integer datatype is not supported"):
                refused.to_sql("refused", database, index=False)
        assert not sqlalchemy.inspect(engine).has_table("refused")
        for written in (frame.drop(columns=HIGH), frame.astype({HIGH: str})):
            written.to_sql("written", database, index=False, if_exists="replace")
            read = pd.read_sql("select * from written", database)
            assert read.astype(object).to_numpy().tolist() == written.astype(object).to_numpy().tolist()
        assert int(read[HIGH].iloc[-1]) == 2**64 - 1
    with closing(sqlite3.connect(":memory:")) as plain:
        with pytest.raises(OverflowError, match="too large to convert to SQLite INTEGER"):
            frame.to_sql("refused", plain, index=False)
        assert plain.execute("select count(*) from refused").fetchall() == [(0,)]
