"""Every table, from six sources, through four readers of Arrow: the values, the NULLs and the types are those of pfs.table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pytest

import pfs
from pfs._read.places.readable import TABLES as TABLES_OF_NOW
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.subject import Subject
from tests.python._programs.viewed import waiting

# What each reader makes of a declared type: pyarrow, polars, DuckDB, pandas.
TYPES = {
    "bigint unsigned": ("uint64", "UInt64", "UBIGINT", "uint64"),
    "bigint": ("int64", "Int64", "BIGINT", "int64"),
    "int unsigned": ("uint32", "UInt32", "UINTEGER", "uint32"),
    "int": ("int32", "Int32", "INTEGER", "int32"),
    "double": ("double", "Float64", "DOUBLE", "float64"),
    "mediumint unsigned": ("uint32", "UInt32", "UINTEGER", "uint32"),
    "timestamp": ("timestamp[us, tz=UTC]", "Datetime(time_unit='us', time_zone='UTC')", "TIMESTAMP WITH TIME ZONE", "time"),
    "text": ("dictionary<values=large_string, indices=int32, ordered=0>", "Categorical", "VARCHAR", "text"),
}


def declared(table: str) -> list[str]:
    """The types of the columns as their SQL declares them: one of TYPES each. A DATE is a time in pfs."""
    plain = [re.sub(r"\(.*\)", "", kind).replace("date", "timestamp") for kind in pfs.describe(table)["COLUMN_TYPE"].tolist()]
    return [kind if kind in TYPES else "text" for kind in plain]


def values_of(frame: pd.DataFrame) -> list[list[Any]]:
    """The values of each column as Python's own, None for NULL."""
    columns = []
    for _, column in frame.items():
        if isinstance(column.dtype, pd.DatetimeTZDtype):
            column = column.dt.tz_localize(None)
        null = column.isna().tolist()
        columns.append([None if is_null else value for value, is_null in zip(column.tolist(), null, strict=True)])
    return columns


def without_zone(column: list[Any]) -> list[Any]:
    return [value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value for value in column]


def by_pyarrow(held: Any) -> tuple[list[str], list[list[Any]]]:
    table = pa.table(held)
    return [str(field.type) for field in table.schema], [without_zone(column.to_pylist()) for column in table.columns]


def by_polars(held: Any) -> tuple[list[str], list[list[Any]]]:
    frame = polars.DataFrame(held)
    kinds = ["Categorical" if kind == polars.Categorical else str(kind) for kind in frame.dtypes]
    return kinds, [without_zone(column.to_list()) for column in frame.get_columns()]


def by_duckdb(held: Any) -> tuple[list[str], list[list[Any]]]:
    relation = DUCKDB.from_arrow(held)
    rows = relation.fetchall()
    return [str(kind) for kind in relation.types], [without_zone([row[i] for row in rows]) for i in range(len(relation.columns))]


def by_pandas(held: Any) -> tuple[list[str], list[list[Any]]]:
    frame: pd.DataFrame = getattr(pd.DataFrame, "from_arrow")(held)  # noqa: B009  (pandas 3 has it, its stubs have not)
    kinds = []
    for kind in frame.dtypes:
        name = str(kind)
        is_text = name in ("category", "object", "string", "str")
        kinds.append("text" if is_text else "time" if name.startswith("datetime64[us") else name)
    return kinds, values_of(frame)


DUCKDB = duckdb.connect(":memory:")
READERS = (by_pyarrow, by_polars, by_duckdb, *([by_pandas] if hasattr(pd.DataFrame, "from_arrow") else []))


def check(table: str, frame: pd.DataFrame, held: Any) -> None:
    wanted = values_of(frame)
    assert held.columns == list(frame.columns), table
    for place, reader in enumerate(READERS):
        kinds, values = reader(held)
        for name, kind, legal, one, two in zip(frame.columns, kinds, declared(table), values, wanted, strict=True):
            expected = TYPES[legal][place]
            if reader is by_pandas and "int" in legal and None in two:  # pandas has no integers with NULLs of its own
                expected, two = "float64", [None if value is None else float(value) for value in two]
            assert (kind, one) == (expected, two), (reader.__name__, table, name)


def check_all(frame_of: Callable[[str], pd.DataFrame], arrow: Callable[[str], Any]) -> int:
    """Compares all tables of a source that may change meanwhile, and returns how many have rows.

    Times so far of what runs change at each reading: those tables are compared where time stands still.
    """
    filled = 0
    for table in pfs.tables():
        for _ in range(20):
            before, held = frame_of(table), arrow(table)
            if values_of(before) == values_of(frame_of(table)):
                break
        else:
            assert table in TABLES_OF_NOW | {"thread_time"}, f"{table} changes at each reading"
            continue
        check(table, before, held)
        filled += len(before) > 0
    return filled


def check_sql(source: Any) -> None:
    """A statement sees the declared types, whatever it reads."""
    for table in pfs.tables():
        found = [kind for _, kind, *_ in pfs.sql(f"describe {table}", source).rows()]
        assert found == [TYPES[kind][2].removesuffix(" WITH TIME ZONE") for kind in declared(table)], table


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Subject, pfs.Schema]]:
    with waiting(tmp_path_factory.mktemp("sources")) as running:
        yield running


def test_an_attached_process(program: tuple[Subject, pfs.Schema]) -> None:
    _, schema = program
    assert check_all(schema.table, schema.arrow) > 60
    check_sql(schema)


def test_a_snapshot(program: tuple[Subject, pfs.Schema]) -> None:
    """It gives the same columns before and after somebody has asked for its frames."""
    taken = program[1].snapshot()
    first = {table: taken.arrow(table) for table in pfs.tables()}
    check_sql(taken)
    assert check_all(taken.__getitem__, first.__getitem__) > 60
    assert check_all(taken.__getitem__, taken.arrow) > 60
    check_sql(taken)


@pytest.mark.parametrize("asked", [False, True], ids=["of columns", "of frames"])
@pytest.mark.parametrize("name", ["folder", "x.pfs.zip"])
def test_a_saved_snapshot(program: tuple[Subject, pfs.Schema], tmp_path: Path, name: str, asked: bool) -> None:
    """A file holds the same, whether the snapshot that was saved held columns or frames."""
    taken = program[1].snapshot()
    if asked:
        assert sum(len(frame) for frame in taken.values()) > 1000
    (taken.to_file if name.endswith(".zip") else taken.to_folder)(tmp_path / name)
    saved = pfs.read_snapshot(tmp_path / name)
    assert check_all(taken.__getitem__, saved.arrow) > 60
    for table in pfs.tables():
        pd.testing.assert_frame_equal(saved[table], taken[table], obj=table)
    check_sql(tmp_path / name)


def test_a_dead_process(program: tuple[Subject, pfs.Schema]) -> None:
    running, schema = program
    running.kill()
    assert check_all(schema.table, schema.arrow) > 60
    check_sql(schema)


@fresh_process()
def test_this_process() -> None:
    from tests.python.reading import test_sources_agree as agree

    pfs.setup_consumers.update(enabled=True)
    pfs.set_account("joe", "here")
    lock = pfs.Lock("app/LOCK")
    for number in range(10):
        with lock, pfs.open("file", "w", name="app/data") as file, pfs.statement("app/query", f"SELECT {number}"):
            file.write("x")
    assert agree.check_all(pfs.table, pfs.arrow) > 40
    agree.check_sql(None)
