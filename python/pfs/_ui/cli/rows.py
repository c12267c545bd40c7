"""Rows of a table as the commands choose and write them: plain values.

pandas, whose import takes longer than the rest of a command, is for frames and Parquet only.
"""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pfs import _core
from pfs._base import paths
from pfs._read.places.readable import TABLES, Readable
from pfs._read.show import bytes_text, count_text, plain, some, storable, time_text, without_controls
from pfs._read.where import Condition, order_of, places
from pfs.errors import AttachError, InvalidValue, UnknownColumn

if TYPE_CHECKING:
    from pandas import DataFrame

    from pfs._read.source import Source

__all__ = ["Choice", "Rows", "draw_texts", "mode_of", "new_table", "of_frame", "of_table", "write", "write_frame", "write_lines"]

_EPOCH = datetime(1970, 1, 1)
_NO_TIME = -(2**63)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table. NULL is None."""

    names: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    right: Sequence[bool]  # the columns of numbers, which are aligned to the right

    def chosen(self, choice: Choice) -> Rows:
        """Returns some rows and columns.

        Raises:
            UnknownColumn: there is no such column.
        """
        rows = [self.rows[at] for at in choice.places(self.names, self.rows)]
        if choice.columns is None:
            return replace(self, rows=rows)
        at_name = {name.upper(): at for at, name in enumerate(self.names)}
        wanted = [name.strip().upper() for name in choice.columns.split(",") if name.strip()]
        for name in wanted:
            if name not in at_name:
                raise UnknownColumn(f"no column '{name}': legal are {', '.join(self.names)}")
        at = [at_name[name] for name in wanted]
        return Rows([self.names[i] for i in at], [tuple(row[i] for i in at) for row in rows], [self.right[i] for i in at])

    def without(self, name: str) -> Rows:
        """Returns all columns but one."""
        return self.chosen(Choice(columns=",".join(other for other in self.names if other != name)))

    def texts(self, unit_of: Mapping[str, str] | None = None) -> list[list[str]]:
        """Returns the texts of each column. Those with a unit are written for humans."""
        writers = {"picoseconds": time_text, "bytes": bytes_text, "count": _any_count}
        units = unit_of or {}
        write: list[Callable[[Any], str]] = [writers.get(units.get(name, ""), str) for name in self.names]
        return [["NULL" if row[at] is None else plain(text(row[at])) for row in self.rows] for at, text in enumerate(write)]


def _any_count(value: float) -> str:
    return count_text(value) if isinstance(value, int) else f"{value:,.1f}"  # a rate is no whole number


def of_table(source: Source, table: str, elapsed: bool = False) -> Rows:
    """Reads a table."""
    columns = _core.table_info(table)["columns"]
    rows = source.rows(table, None, elapsed)
    times = [at for at, column in enumerate(columns) if column["kind"] == "timestamp"]
    if times:
        rows = [tuple(_time(value) if at in times else value for at, value in enumerate(row)) for row in rows]
    if table.lower() in TABLES:
        words = Readable(source)
        made = [words.of_column(column["name"]) for column in columns]
        rows = [
            tuple(value if to is None or value is None else to(value) for to, value in zip(made, row, strict=True))
            for row in rows
        ]
    numbers = [column["kind"] not in ("text", "set", "enum", "timestamp") for column in columns]
    return Rows([column["name"] for column in columns], rows, numbers)


def _time(microseconds: int | None) -> datetime | None:
    return None if microseconds is None or microseconds == _NO_TIME else _EPOCH + timedelta(microseconds=microseconds)


def of_frame(frame: DataFrame) -> Rows:
    """Returns the rows of a frame."""
    from pandas.api.types import is_numeric_dtype

    columns = [
        [None if null else value for value, null in zip(frame[name].tolist(), frame[name].isna(), strict=True)]
        for name in frame.columns
    ]
    right = [bool(is_numeric_dtype(frame[name])) for name in frame.columns]
    return Rows([str(name) for name in frame.columns], list(zip(*columns, strict=True)), right)


# ---- Choosing


@dataclass(frozen=True, slots=True)
class Choice:
    """What --where, --sort, --limit and --columns choose. None is everything."""

    where: str | None = None
    sort: str | None = None
    limit: int | None = None
    columns: str | None = None

    def places(self, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Sequence[int]:
        """Returns the numbers of the rows that are chosen, in order."""
        try:
            where = None if self.where is None else Condition("the table", names, self.where)
            order = [] if self.sort is None else order_of("the table", names, self.sort)
            found = places({name: [row[at] for row in rows] for at, name in enumerate(names)}, len(rows), where, order)
        except (InvalidValue, UnknownColumn) as error:
            raise click.BadParameter(str(error), param_hint="--where or --sort") from None
        return found if self.limit is None else found[: self.limit]


# ---- Output


def new_table() -> Table:
    """Returns an empty table in the style of all commands."""
    return Table(header_style="bold", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))


def draw_texts(names: Sequence[str], texts: Sequence[Sequence[str]], right: Sequence[bool], is_vertical: bool = False) -> None:
    """Prints columns of texts. A terminal gets a table if it is wide enough, else one row below the other. Other outputs get
    lines.

    Args:
        right: the columns that are aligned to the right.
        is_vertical: one row below the other.
    """
    console = Console(highlight=False, emoji=False, markup=False)
    widths = [max(map(len, [name, *column])) for name, column in zip(names, texts, strict=True)]
    if is_vertical:
        _draw_rows(console, names, texts)
    elif not console.is_terminal:
        write_lines([names, *zip(*texts, strict=True)], widths, right)
    elif sum(widths) + 2 * len(widths) <= console.width:
        drawn = new_table()
        for name, is_right in zip(names, right, strict=True):
            drawn.add_column(name, justify="right" if is_right else "left", no_wrap=True)
        for row in zip(*texts, strict=True):
            drawn.add_row(*(Text(cell) for cell in row))
        console.print(drawn)
    else:
        _draw_rows(console, names, texts)
    if console.is_terminal:
        console.print(Text(some(len(texts[0]), "row"), style="dim"))


def _draw_rows(console: Console, names: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    widest = max(map(len, names))
    for number, row in enumerate(zip(*texts, strict=True), 1):
        console.print(Text(f"{number}. row", style="bold"), soft_wrap=True)
        for name, cell in zip(names, row, strict=True):
            console.print(Text(f"{name:>{widest}}: {cell}"), soft_wrap=True)


def write_lines(rows: list[Any], widths: Sequence[int], right: Sequence[bool], to_stderr: bool = False) -> None:
    for row in rows:
        aligned = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        click.echo("  ".join(aligned).rstrip(), err=to_stderr)


def _units(table: str | None) -> dict[str, str]:
    return {} if table is None else {column["name"]: column["unit"] for column in _core.table_info(table)["columns"]}


def mode_of(of: Iterable[int | str] | None) -> int:
    """Returns the mode of a file that is made from these processes, segments or snapshots; None: from none."""
    from pfs._process.processes import find

    if of is None:
        return 0o666
    try:
        return paths.mode_of([find(each).path if isinstance(each, int) else each for each in of])
    except AttachError:  # it has gone meanwhile
        return 0o600


def write(rows: Rows, form: str, output: str | None, of: Iterable[int | str] | None, human_table: str | None = None) -> None:
    """Writes rows as --format and --output say; "vertical" is for the screen.

    With `human_table` numbers have the units of that table.

    `of`: where they come from. A file is as readable as these.
    """
    if form == "parquet":
        import pandas as pd

        write_frame(pd.DataFrame(list(rows.rows), columns=list(rows.names)).convert_dtypes(), form, output, of)
        return
    if form in ("table", "vertical") and output is None:
        draw_texts(rows.names, rows.texts(_units(human_table)), rows.right, form == "vertical")
        return
    if form == "table":
        columns = [[name, *texts] for name, texts in zip(rows.names, rows.texts(), strict=True)]
        widths = [max(map(len, column)) for column in columns]
        text = "".join(
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() + "\n" for row in zip(*columns, strict=True)
        )
    elif form == "csv":
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(rows.names)
        writer.writerows([_csv_value(value) for value in row] for row in rows.rows)
        text = lines.getvalue()
    else:
        names = rows.names
        found = [dict(zip(names, map(_json_value, row), strict=True)) for row in rows.rows]
        text = json.dumps(found, separators=(",", ":"), default=str) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        with paths.replaced(output, mode_of(of)) as file:
            file.write(text.encode())


def _csv_value(value: Any) -> Any:
    # JSON has escapes of its own. In CSV, names that a program chose could send escape sequences to a terminal.
    return without_controls(storable(value)) if isinstance(value, str) else value


def _json_value(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return value if value is None or isinstance(value, (int, list, dict)) else getattr(value, "isoformat", value.__str__)()


def write_frame(
    frame: DataFrame,
    form: str,
    output: str | None,
    of: Iterable[int | str] | None,
    human_table: str | None = None,
    choice: Choice = Choice(),
) -> None:
    """Writes some rows and columns of a frame as --format and --output say. See ``write``."""
    rows = of_frame(frame)
    if form != "parquet":
        write(rows.chosen(choice), form, output, of, human_table)
        return
    from pfs._save.parquet import need_pyarrow, storable

    need_pyarrow()
    if output is None and sys.stdout.isatty():
        raise click.UsageError("Parquet is no text: give --output FILE, or send it through a pipe.")
    frame = frame.iloc[list(choice.places(rows.names, rows.rows))][rows.chosen(choice).names]
    frame = storable(frame)
    if output is None:
        frame.to_parquet(sys.stdout.buffer, engine="pyarrow", index=False)
        return
    with paths.replaced(output, mode_of(of)) as file:
        frame.to_parquet(file, engine="pyarrow", index=False)
