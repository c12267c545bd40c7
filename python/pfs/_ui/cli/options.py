"""Arguments and options that several commands of ``pfs`` have."""

from __future__ import annotations

import functools
import os
import re
import stat
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import click

from pfs import _core
from pfs._base import paths
from pfs._process import by_name
from pfs._process.processes import is_alive, listed
from pfs._read.units import seconds
from pfs.errors import InvalidValue

__all__ = [
    "Age",
    "Interval",
    "Process",
    "Size",
    "TableName",
    "columns_option",
    "human_option",
    "limit_option",
    "output_options",
    "password_in",
    "process_argument",
    "some_of",
    "sort_option",
    "sql_text_option",
    "where_option",
]

F = TypeVar("F", bound=Callable[..., Any])

_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_AGES = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
FORMATS = ("table", "csv", "json", "parquet")


class Process(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Parses a process id, the path of a segment, or the name of a program that one process runs. Names become paths.

    With `saved`, a folder or file that holds a snapshot is legal, too.
    """

    name = "process"

    def __init__(self, saved: bool = False) -> None:
        self._saved = saved

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text.isascii() and text.isdigit():
            return int(text)
        is_path = "/" in text or text.endswith((".pfs", ".zip", ".json")) or (self._saved and os.path.isdir(text))
        is_completion = ctx is not None and ctx.resilient_parsing
        return text if is_path or is_completion else by_name.path_of(text)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        # A process of a container beside this one has no process id here, but a path.
        running = ((str(one.pid_here or one.path), one.command) for one in listed() if is_alive(one.state))
        found = [
            click.shell_completion.CompletionItem(text, help=command[:60])
            for own, command in running
            for text in (own, *sorted(by_name.names_of(command)))
            if text.startswith(incomplete) and (incomplete or text == own)
        ]
        return found or [click.shell_completion.CompletionItem(incomplete, type="file")]


class TableName(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Parses and completes the name of a table, or of something else that a command shows like a table."""

    name = "table"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        known = _core.tables()
        if incomplete.startswith("sys"):
            from pfs._sql.views.declared import VIEWS as SYS_VIEWS

            known = [f"sys.{view}" for view in SYS_VIEWS]
        names = [name for name in known if name.startswith(incomplete.lower())]
        return [click.shell_completion.CompletionItem(name) for name in names]


class Interval(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A time from `least` to `most` seconds: a number of seconds, or a text such as 500ms or 1min. Its value is seconds."""

    name = "TIME"

    def __init__(self, least: float = 0.0, most: float = 2.0**32) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            found = seconds(param.opts[0] if param is not None and param.opts else "a time", _number(value))
        except InvalidValue as error:
            self.fail(str(error), param, ctx)
        if not self._least <= found <= self._most:
            most = "" if self._most == 2.0**32 else f" to {self._most:g} s"
            self.fail(f"{value!r} is no time from {self._least:g} s{most}", param, ctx)
        return found


class Size(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Parses 500M or 2G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d{1,12})([KMGT]?)", str(value).upper())
        if found is None:
            self.fail(f"bad value '{value}' for a size: legal are bytes, or a number with K, M, G or T, such as 500M", param, ctx)
        return int(found[1]) * _SIZES[found[2]]


class Age(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Parses 90s, 10min, 12h or 7d. Its value is seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d{1,6})(s|m|min|h|d)", str(value))
        if found is None:
            self.fail(f"bad value '{value}' for a time: legal are a number with s, min, h or d, such as 10min", param, ctx)
        return int(found[1]) * _AGES[found[2]]


def _number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def some_of(legal: Iterable[str], noun: str) -> Callable[[click.Context, click.Parameter, str | None], list[str]]:
    """Returns a callback of an option that takes names with commas in between."""

    def chosen(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str]:
        names = [name.strip() for name in value.split(",")] if value else []
        for name in names:
            if name not in legal:
                raise click.BadParameter(f"there is no {noun} '{name}': legal are {', '.join(legal)}", context, parameter)
        return names

    return chosen


process_argument = click.argument("process", metavar="PID|NAME", type=Process())
# A command whose output is sent or shared writes no literals unless the user asks for them.
# docs/howto/texts.md lists these commands.
sql_text_option = click.option(
    "--sql-text", is_flag=True, help="Also texts that can hold literals and secrets: of statements, samples and errors."
)


def output_options(command: F) -> F:
    """Adds --format, its short forms and --output. The command gets `form` and `output`."""

    @functools.wraps(command)
    def with_form(*arguments: Any, form: str | None, as_json: bool, as_csv: bool, **options: Any) -> Any:
        forms = {"--format": form, "--json": "json" if as_json else None, "--csv": "csv" if as_csv else None}
        chosen = {option: text for option, text in forms.items() if text is not None}
        if len(chosen) > 1:
            raise click.UsageError(f"Give one of {' and '.join(chosen)}.")
        return command(*arguments, form=next(iter(chosen.values()), "table"), **options)

    for option in (
        click.option("-o", "--output", metavar="FILE", help="Write there instead of to the screen."),
        click.option("--csv", "as_csv", is_flag=True, help="Short for --format csv."),
        click.option("--json", "as_json", is_flag=True, help="Short for --format json."),
        click.option("-f", "--format", "form", type=click.Choice(FORMATS), help="How rows are written.  [default: table]"),
    ):
        option(with_form)
    return cast("F", with_form)


# pfs.table(where=, order=, limit=) has the same language.
where_option = click.option(
    "-w", "--where", metavar="CONDITION", help="Only these rows: \"SUM_TIMER_WAIT > 5ms and NAME like '%lock%'\"."
)
sort_option = click.option("-s", "--sort", metavar="COLUMNS", help="By these columns: 'SUM_TIMER_WAIT desc, EVENT_NAME'.")
limit_option = click.option("-n", "--limit", type=click.IntRange(0), help="At most this many rows.")
columns_option = click.option("-c", "--columns", metavar="A,B,...", help="Only these columns, in this order.")


def human_option(command: F) -> F:
    return click.option(
        "-H/-N", "--human/--no-human", default=None,
        help="Times and sizes with units, or plain numbers. The default is units on a terminal, numbers elsewhere.",
    )(command)  # fmt: skip


def password_in(path: str) -> str:
    """Returns the password that is the first line of a file.

    Raises:
        InvalidValue: others may read the file, or the line is empty.
    """
    with paths.reading(path, follow=True) as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise InvalidValue(f"{path} can be read by others: legal is a file of mode 0600")
        password = file.readline().decode().rstrip("\r\n")
    if not password:
        raise InvalidValue(f"{path} has no password in its first line")
    return password
