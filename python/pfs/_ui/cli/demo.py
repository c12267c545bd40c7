"""``pfs demo`` shows what a C++ program of its own waited for."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from pfs._ui.cli.rows import new_table

if TYPE_CHECKING:
    from pandas import DataFrame

    from pfs.demo import Demo

__all__ = ["demo"]


@click.command()
@click.option("--root", metavar="DIR", help="Index the .py files below this folder instead of the standard library.")
@click.option("--threads", type=click.IntRange(1, 256), default=4, show_default=True, help="Worker threads of the program.")
@click.option("--keep-dir", metavar="DIR", help="Put the segment and the index there, and leave them.")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Rows of each table.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON instead.")
@click.option("--svg", metavar="FILE", help="Also save the output as a picture.")
def demo(root: str | None, threads: int, keep_dir: str | None, limit: int, as_json: bool, svg: str | None) -> None:
    """Instruments a program that indexes this Python's standard library, and shows what it waited for."""
    from pfs import demo as program

    if root is not None and not os.path.exists(root):
        raise click.BadParameter(f"there is no '{root}'", param_hint="--root")
    console = Console(highlight=False, emoji=False, record=svg is not None)
    if as_json:
        done = program.run(root, threads, keep_dir)
        click.echo(json.dumps(_demo_results(done, limit), indent=1))
        return
    with Progress(
        TextColumn("reading"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task("reading", total=None)
        done = program.run(root, threads, keep_dir, lambda n, total: bar.update(task, completed=n, total=total))
    _show_demo(console, done, limit, threads)
    if svg is not None:
        console.save_svg(svg, title="pfs demo")
    if keep_dir is not None:
        console.print(f"Segment: {done.segment}", soft_wrap=True)


def _draw(console: Console, title: str, columns: str, rows: list[list[str]], cut: int | None = None) -> None:
    """Prints a table. Columns that begin with '>' are aligned to the right; column `cut` is shortened on a narrow screen."""
    names = columns.split("|")
    if not console.encoding.lower().startswith("utf"):
        rows = [[cell.replace("µ", "u") for cell in row] for row in rows]
    if cut is not None:
        others = [max([len(names[i].lstrip(">")), *(len(row[i]) for row in rows)]) for i in range(len(names)) if i != cut]
        width = max(12, console.width - sum(others) - 2 * len(names))
        rows = [[_tail(cell, width) if i == cut else cell for i, cell in enumerate(row)] for row in rows]
    drawn = new_table()
    for name in names:
        drawn.add_column(name.lstrip(">"), justify="right" if name.startswith(">") else "left", no_wrap=True)
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(title, style="bold", soft_wrap=True)
    console.print(drawn)
    console.print()


def _tail(text: str, width: int) -> str:
    """Returns the end of a long path."""
    return text if len(text) <= width else "..." + text[3 - width :]


def _show_demo(console: Console, done: Demo, limit: int, threads: int) -> None:
    import pandas as pd

    from pfs import demo as program

    count, size, time = program.count_text, program.bytes_text, program.time_text
    console.print(
        f"{threads} threads of a C++ program read {count(done.files)} files ({size(done.bytes)}), "
        f"counted {count(done.words)} words and wrote an index of {count(done.distinct)}.\n"
    )
    rows = [
        [
            row["FILE_NAME"],
            time(row["SUM_TIMER_WAIT"]),
            count(row["COUNT_READ"]),
            size(row["SUM_NUMBER_OF_BYTES_READ"]),
            count(row["COUNT_WRITE"]),
            size(row["SUM_NUMBER_OF_BYTES_WRITE"]),
        ]
        for row in done.busiest_files(limit).to_dict("records")
    ]
    _draw(console, "Busiest files (file_summary_by_instance)", "file|>time|>reads|>read|>writes|>written", rows, cut=0)

    rows = [
        [
            row["EVENT_NAME"].removeprefix("wait/synch/mutex/"),
            count(row["COUNT_STAR"]),
            time(row["SUM_TIMER_WAIT"]),
            time(row["AVG_TIMER_WAIT"]),
            time(row["MAX_TIMER_WAIT"]),
        ]
        for row in done.mutex_instruments(limit).to_dict("records")
    ]
    _draw(
        console,
        "Most waited-for mutexes (events_waits_summary_global_by_event_name)",
        "mutex|>locked|>time waited|>mean|>longest",
        rows,
    )

    threads_ = done.table("threads", ["THREAD_ID", "NAME"])
    names: dict[int, str] = dict(zip(threads_["THREAD_ID"], threads_["NAME"], strict=True))
    rows = [
        [
            names.get(row["THREAD_ID"], f"thread {row['THREAD_ID']}").removeprefix("thread/"),
            row["EVENT_NAME"].removeprefix("wait/"),
            row["OPERATION"],
            "" if pd.isna(row["NUMBER_OF_BYTES"]) else size(row["NUMBER_OF_BYTES"]),
            time(row["TIMER_WAIT"]),
            row["SOURCE"],
        ]
        for row in done.last_events(limit).to_dict("records")
    ]
    _draw(console, "Last events (events_waits_history_long)", "thread|event|operation|>bytes|>time|source", rows)

    console.print("The same as pandas frames:", style="bold")
    console.print("    import pfs.demo; demo = pfs.demo.run()", markup=False)
    console.print('    demo.table("file_summary_by_instance").nlargest(10, "SUM_TIMER_WAIT")', markup=False)
    console.print('In a program of your own: pfs.table("file_summary_by_instance"). All of them: pfs describe', soft_wrap=True)


def _demo_results(done: Demo, limit: int) -> dict[str, object]:
    def records(frame: DataFrame) -> object:
        return json.loads(frame.to_json(orient="records"))

    return {
        "segment": done.segment,
        "files": done.files,
        "bytes": done.bytes,
        "words": done.words,
        "distinct": done.distinct,
        "busiest_files": records(done.busiest_files(limit)),
        "mutexes": records(done.mutex_instruments(limit)),
        "last_events": records(done.last_events(limit)),
    }
