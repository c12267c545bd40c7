"""Prepares frames for Parquet, which needs pyarrow and UTF-8, and restores the types of columns that were read."""

from __future__ import annotations

from typing import Any

import pandas as pd

from pfs import _core
from pfs._tables.frame import TEXT, category
from pfs.errors import Error

__all__ = ["as_read", "need_pyarrow", "storable"]


def need_pyarrow() -> None:
    """Raises Error if pyarrow is missing."""
    try:
        import pyarrow  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError:
        raise Error("Parquet files need pyarrow: pip install 'perfschema[parquet]'") from None


def storable(table: pd.DataFrame) -> pd.DataFrame:
    """Returns a frame whose texts can be written as UTF-8."""
    changed = {}
    for name in table.columns:
        if not isinstance(table[name].dtype, pd.StringDtype):
            continue
        texts = table[name].dropna().unique()
        try:
            "\0".join(texts).encode()
        except UnicodeEncodeError:
            clean = {text: text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for text in texts}
            changed[name] = table[name].map(clean.__getitem__, na_action="ignore").astype(TEXT)
    return table.assign(**changed) if changed else table


def as_read(name: str, stored: pd.DataFrame) -> pd.DataFrame:
    """Restores the types of the columns that this version knows. Parquet keeps only some of them."""
    types: dict[str, Any] = {}
    if name in _core.tables():
        for column in _core.table_info(name)["columns"]:
            if column["name"] not in stored:
                continue
            if column["kind"] == "enum":
                types[column["name"]] = category(column["values"])
            elif column["kind"] in ("text", "set"):
                types[column["name"]] = TEXT
    return stored.astype(types)
