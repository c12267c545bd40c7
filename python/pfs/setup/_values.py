"""Variables and status as mappings, and the options of ``pfs.configure``."""

from __future__ import annotations

from _collections_abc import Mapping  # collections.abc imports collections, which takes longer than this whole package

from pfs._read.nearest import hint
from pfs._read.source import OWN
from pfs.errors import InvalidValue, UnknownName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, ValuesView
    from typing import Any

    import pandas as pd

    from pfs._read.source import Source

__all__ = ["UnknownKey", "Values", "option_text"]


class Values(Mapping[str, "int | str"]):
    """Maps VARIABLE_NAME to the current VARIABLE_VALUE of a table. The mapping is read-only.

    Case does not matter, and ``performance_schema_`` in front may be left out. Whole numbers are int.
    """

    __module__ = "pfs.setup"  # where users find it

    def __init__(self, table: str, source: Source = OWN) -> None:
        self._table = table
        self._source = source

    def _rows(self) -> list[tuple[Any, ...]]:
        return self._source.rows(self._table, ("VARIABLE_NAME", "VARIABLE_VALUE"))

    def _read(self) -> dict[str, int | str]:
        return {name: _number(value) for name, value in self._rows()}

    def __getitem__(self, name: str) -> int | str:
        rows = self._rows()
        wanted = str(name).lower()
        for known, value in rows:
            if known.lower() in (wanted, "performance_schema_" + wanted):
                return _number(value)
        raise UnknownKey(f"{self._table} has no '{name}'{hint(str(name), [known for known, _ in rows])}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def items(self) -> ItemsView[str, int | str]:
        """Returns all names with their values, of one moment."""
        return self._read().items()  # the inherited view would read the table again for each

    def values(self) -> ValuesView[int | str]:
        """Returns all values, of one moment."""
        return self._read().values()

    def frame(self) -> pd.DataFrame:
        """Returns the table as a DataFrame."""
        from pfs._read import frame

        return frame.frame(self._table, None, self._source)

    def __repr__(self) -> str:
        from pfs._read import show

        return show.as_text(self._table, ("VARIABLE_NAME", "VARIABLE_VALUE"), list(self._read().items()), limit=1000)

    def _repr_html_(self) -> str:
        from pfs._read import show

        return show.as_html(self._table, ("VARIABLE_NAME", "VARIABLE_VALUE"), list(self._read().items()), limit=1000)


class UnknownKey(UnknownName, KeyError):
    """There is no variable of this name. It is a KeyError too, because mappings raise one."""

    __module__ = "pfs.setup"  # where users find it

    __str__ = Exception.__str__  # KeyError would show the quoted representation


def _number(value: str | None) -> int | str:
    if value is None:
        return ""
    return int(value) if value.isascii() and value.removeprefix("-").isdigit() else value


def option_text(options: Mapping[str, bool | int | str]) -> str:
    """Returns the options of ``pfs.configure`` in the form of PFS_OPTIONS.

    Raises:
        InvalidValue: a value that cannot be written there.
    """
    entries = []
    for name, value in options.items():
        full = name if name.lower().startswith("performance_schema") else "performance_schema_" + name
        if isinstance(value, bool):
            text = "ON" if value else "OFF"
        elif isinstance(value, int | str):
            text = str(value)
        else:
            raise InvalidValue(f"bad value {value!r} for option '{name}': legal are True, False, numbers and text")
        if any(c in text for c in "'\"\r\n"):
            raise InvalidValue(f"bad value {text!r} for option '{name}': quotes and line ends are not allowed")
        entries.append(f"{full}='{text}'")
    return ",".join(entries)
