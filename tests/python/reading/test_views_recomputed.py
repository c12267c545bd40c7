"""Every view of the schema sys has the rows, values and order that tests/python/_recomputed computes from the base tables."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pytest

import pfs
from pfs._sql.views.declared import VIEWS
from tests.each import for_each
from tests.python._programs.viewed import snapshot
from tests.python._recomputed import ORDER, RECOMPUTED


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> pfs.Snapshot:
    return snapshot(tmp_path_factory.mktemp("views"))


def test_every_view_is_recomputed() -> None:
    """Another test compares a view with its twin."""
    assert set(RECOMPUTED) == {name for name in VIEWS if not name.startswith("x$")}


def plain(value: Any) -> Any:
    """What a value is, whatever its type: 1 and 1.0 are one number, a Timestamp and a datetime one moment.

    Percentages have four decimals at most; what is below depends on the order of the arithmetic.
    """
    if isinstance(value, float):
        value = round(value, 6)
        return int(value) if value.is_integer() else value
    return value if value is None or isinstance(value, int) else str(value)


def text(row: Iterable[Any]) -> str:
    return repr([plain(value) for value in row])


@for_each("name", RECOMPUTED)
def test_rows_follow_from_the_base_tables(taken: pfs.Snapshot, name: str) -> None:
    """Rows that are equal in the documented order may come in any order."""
    columns = VIEWS[name].columns
    twin = f"x${name}" if f"x${name}" in VIEWS else name
    found = [text(row) for row in taken.sql(f'select * from sys."{twin}"').rows()]
    wanted = sorted(RECOMPUTED[name](taken), key=lambda row: row[ORDER])
    assert len(found) == len(wanted) > 0
    for _, rows in groupby(wanted, key=lambda row: row[ORDER]):
        block = sorted(text(row[column] for column in columns) for row in rows)
        assert sorted(found[: len(block)]) == block
        del found[: len(block)]
