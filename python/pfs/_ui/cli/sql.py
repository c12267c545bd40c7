"""Defines the command ``pfs sql``."""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from pfs import _core
from pfs._base import paths
from pfs._read.nearest import hint
from pfs._sql import memory
from pfs._sql.views.declared import VIEWS
from pfs._ui.cli.options import Process, output_options
from pfs._ui.cli.rows import write_frame
from pfs.errors import Error

__all__ = ["sql"]


@click.command()
@click.argument("source", metavar="PID|NAME|SEGMENT|FOLDER|FILE", type=Process(saved=True))
@click.argument("statement", required=False)
@click.option(
    "--dialect", type=click.Choice(["duckdb", "mysql"]), default="duckdb", show_default=True, help="The dialect of SQL."
)
@output_options
def sql(source: int | str, statement: str | None, dialect: str, form: str, output: str | None) -> None:
    """Answers a question in SQL about a process or a saved snapshot. Without a statement it asks for statements.

    \b
    pfs sql 4711 "select NAME, PROCESSLIST_STATE from threads"
    pfs sql 4711 "select * from sys.statement_analysis" --csv
    pfs sql 4711 --dialect mysql "select substring_index(name, '/', -1) from `threads` limit 0, 5"
    pfs sql before/ "select sum(COUNT_STAR) from events_waits_summary_global_by_event_name"
    pfs sql 4711
    """
    if statement is not None:
        _answer(source, statement, dialect, form, output)
        return
    if sys.stdin.isatty():
        click.echo(f"pfs {_core.__version__}: SQL about {source}. A statement ends with ; help shows more, quit ends.")
    ask = _reader()
    while (text := ask()) is not None:
        words = text.strip().rstrip("; ").split()
        if words and words[0].lower() in QUIT:
            return
        try:
            if is_command(text):
                statement = command_of(words)
                if statement:
                    _answer(source, statement, dialect, form, output)
            elif words:
                text = text.rstrip()
                is_vertical = text.endswith("\\G") and form == "table" and output is None
                text = text.removesuffix("\\G").removesuffix("\\g")
                _answer(source, text, dialect, "vertical" if is_vertical else form, output)
        except Error as error:
            click.echo(f"pfs: {error}", err=True)
        except KeyboardInterrupt:
            click.echo("pfs: interrupted", err=True)


QUIT = ("quit", "exit", "\\q", ".quit", ".exit")
_HELP = ("help", "?", "\\?", "\\h", ".help")
_TABLES = (".tables", "\\dt")
_SCHEMA = (".schema", "\\d")


def is_command(text: str) -> bool:
    """Returns whether a line is one for the prompt, which needs no ; at its end: quit, help, .tables, .schema TABLE."""
    words = text.strip().rstrip("; ").lower().split()
    most = {**dict.fromkeys((*QUIT, *_HELP), 1), **dict.fromkeys((*_TABLES, *_SCHEMA), 2)}
    return bool(words) and len(words) <= most.get(words[0], 0)


def command_of(words: list[str]) -> str:
    """Does what a line for the prompt asks for, or returns the statement that does."""
    command, about = words[0].lower(), "".join(words[1:])
    if command in _SCHEMA and about:
        return f"describe {about}"
    if command in _TABLES + _SCHEMA:
        names = [*_core.tables(), *(f"sys.{view}" for view in VIEWS)]
        found = [name for name in names if about.strip("%").lower() in name.lower()]
        if not found:
            raise Error(f"no table is like '{about}'{hint(about, names)}")
        width = max(map(len, found)) + 2
        lines = -(-len(found) // max(1, shutil.get_terminal_size().columns // width))
        for line in range(lines):
            click.echo("".join(name.ljust(width) for name in found[line::lines]).rstrip())
        return ""
    click.echo(
        """\
Statements end with ; and are one SELECT in SQL of DuckDB, or of MySQL with --dialect mysql. Tab completes names.
  .tables [PART]   tables and views, those with PART in their name
  .schema TABLE    columns of a table or view; describe TABLE; does the same
  help, quit       \\G in the place of ; writes each row as lines; Ctrl-C ends a statement
Examples:
  select * from blocked;                             who waits for which lock, and who holds it
  select * from sys.statement_analysis limit 10;     statements that took longest
  select * from sys.io_global_by_file_by_latency;    files that were waited for"""
    )
    return ""


@contextmanager
def _bounded_memory() -> Iterator[None]:
    before = memory.bound()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _answer(source: int | str, statement: str, dialect: Any, form: str, output: str | None) -> None:
    from pfs._process.questions import sql as answer

    with _bounded_memory():
        write_frame(answer(statement, source, dialect).df(), form, output, [source])


def _completions() -> Callable[[str], list[str]]:
    """Returns a function that completes tables, views and columns. What stands before a dot decides which of them are legal."""
    tables = _core.tables()
    columns = sorted({column["name"] for table in tables for column in _core.table_info(table)["columns"]})
    words = [".tables", ".schema", "describe", "help", "quit"]
    behind = {"": [*words, *tables, "performance_schema", *(f"sys.{view}" for view in VIEWS), *columns], "sys": list(VIEWS)}
    behind["performance_schema"] = tables

    def complete(text: str) -> list[str]:
        front, dot, word = text.rpartition(".")
        names = behind.get(front.lower(), columns)
        return [front + dot + name for name in names if name.lower().startswith(word.lower())]

    return complete


def history_file() -> str | None:
    """Returns where the history of the prompt is, or None if another user could have put something else there.

    Under sudo, HOME may be that of another user: root would write where a link in it leads.
    """
    home = os.path.expanduser("~")
    try:
        return os.path.join(home, ".pfs_sql_history") if paths.keeps_entries(os.path.realpath(home)) else None
    except OSError:
        return None


def _reader() -> Any:
    """Returns a function that reads a statement, with history and completion on a terminal. It returns None at the end."""
    if sys.stdin.isatty():
        import readline

        completions = _completions()

        def complete(text: str, state: int) -> str | None:
            found = completions(text)
            return found[state] if state < len(found) else None

        history = history_file()
        with suppress(OSError):
            if history is not None:
                readline.read_history_file(history)
        readline.set_completer(complete)
        readline.set_completer_delims(" \t\n,()=<>;")
        readline.parse_and_bind("tab: complete")

        import atexit

        def save() -> None:
            with suppress(OSError):
                if history is not None:
                    readline.write_history_file(history)

        atexit.register(save)
    prompt = "pfs> " if sys.stdin.isatty() else ""

    def ask() -> str | None:
        lines: list[str] = []
        while True:
            try:
                lines.append(input(prompt if not lines else prompt and "...> "))
            except EOFError:
                return "\n".join(lines) if any(line.strip() for line in lines) else None
            except KeyboardInterrupt:
                click.echo()
                return ""
            if lines[-1].rstrip().endswith((";", "\\g", "\\G")) or (len(lines) == 1 and is_command(lines[0])):
                return "\n".join(lines)

    return ask
