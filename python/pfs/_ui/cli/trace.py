"""Defines the commands of ``pfs`` that work on files of the trace: trace merge, ddl, export."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from pfs._base import paths
from pfs._read.show import count_text, some
from pfs._save.trace import files, timeline
from pfs._ui.cli.options import sql_text_option
from pfs.errors import InvalidValue

__all__ = ["trace"]

folder_argument = click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))
output_option = click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="- is stdout.",
)
process_option = click.option("--process", metavar="PID", type=int, help="Only files of this process, if the folder has others.")


@click.group()
def trace() -> None:
    """Works on files of the trace, which have every event of a program.

    \b
    pfs trace merge DIR -o all.sql                   one file, ordered by time
    (pfs trace ddl; echo 'BEGIN;'; cat all.sql; echo 'COMMIT;') | sqlite3 trace.db
    pfs trace export DIR -o trace.pftrace            open it with https://ui.perfetto.dev
    """


@contextmanager
def _progress(what: str, found: list[files.Source], times: int) -> Iterator[files.Progress]:
    """Shows a bar of the bytes that were read, on a terminal."""
    console = Console(stderr=True, highlight=False)
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=times * sum(source.size for source in found))
        yield lambda size: bar.advance(task, size)


@contextmanager
def _written(output: Path, found: list[files.Source]) -> Iterator[IO[bytes]]:
    if str(output) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if output.exists() and any(output.samefile(source.path) for source in found):
        raise InvalidValue(f"{output} is a file of the trace itself: give another name")
    with paths.replaced(output, paths.mode_of(source.path for source in found)) as file:
        yield file


def _say_partial(partial: dict[str, int]) -> None:
    for path, size in partial.items():
        click.echo(f"pfs: {path}: its last line is not whole: {size} bytes left out", err=True)


@trace.command()
@folder_argument
@output_option
@process_option
def merge(folder: Path, output: Path, process: int | None) -> None:
    """Merges the files of all threads into one, ordered by time.

    Start rows are ordered by TIMER_START, end rows by TIMER_END. Events that are not timed keep their place in their thread.
    """
    found, partial = files.sources(folder, process)
    with _written(output, found) as file, _progress("merging", found, 1) as progress:
        done = files.merge(found, file, partial, progress)
    _say_partial(done.partial)
    click.echo(f"{some(done.lines, 'row')} of {some(done.threads, 'thread')} from {some(done.files, 'file')}", err=True)


@trace.command()
def ddl() -> None:
    """Prints the CREATE TABLE statements, for SQLite, of the tables that a trace has rows of."""
    click.echo(files.ddl(), nl=False)


@trace.command()
@folder_argument
@output_option
@process_option
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(timeline.FORMATS),
    default="perfetto",
    show_default=True,
    help="Kind of file.",
)
@sql_text_option
def export(folder: Path, output: Path, process: int | None, form: str, sql_text: bool) -> None:
    """Writes a timeline for https://ui.perfetto.dev: a track for each thread, a slice for each event, columns as arguments."""
    found, partial = files.sources(folder, process)
    with _written(output, found) as file, _progress("exporting", found, 2) as progress:
        done = timeline.export(found, file, form, progress, sql_text)
    _say_partial(partial)
    text = f"{some(done.events, 'event')} of {some(done.threads, 'thread')}"
    if done.running:
        text += f"; {count_text(done.running)} had not ended"
    if done.lost_ends:
        text += f"; {count_text(done.lost_ends)} have lost their end and are points"
    click.echo(text, err=True)
