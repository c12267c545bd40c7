"""Defines the commands of ``pfs`` that read or change processes: ps, show, set, truncate, gc, snapshot, diff."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console

from pfs import _core, setup
from pfs._process.attach import attach
from pfs._process.segment import SegmentSource
from pfs._read.show import plain, some
from pfs._read.where import Condition
from pfs._ui.cli.options import (
    TableName,
    columns_option,
    human_option,
    limit_option,
    output_options,
    process_argument,
    sort_option,
    sql_text_option,
    where_option,
)
from pfs._ui.cli.rows import Choice, Rows, draw_texts, of_table, write, write_frame
from pfs.errors import AttachError, Error, InvalidValue, UnknownColumn

if TYPE_CHECKING:
    from pandas import DataFrame

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["diff", "gc", "ps", "set_", "show", "snapshot", "truncate"]

_WAITS = "events_waits_summary_global_by_event_name"  # whose units --tree has
_DEAD_SHOWN = 3  # by ps, unless it is asked for others


class Share(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A percentage such as 1%. Its value is the text of the number of millionths."""

    name = "PERCENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            percent = float(str(value).removesuffix("%"))
        except ValueError:
            percent = -1
        if not 0 <= percent <= 100:
            self.fail(f"{value!r} is no percentage from 0 to 100, such as 1%", param, ctx)
        return str(round(percent * 10_000))


def is_for_people(human: bool | None) -> bool:
    return sys.stdout.isatty() if human is None else human


# ---- Commands


@click.command()
@click.option("--dir", "directory", metavar="DIR", help="Where the segments are, instead of PFS_DIR or /dev/shm/pfs-<uid>.")
@click.option(
    "-a", "--all-users", is_flag=True, help="Also processes of other users and of containers, if their folders are readable."
)
@where_option
@sort_option
@limit_option
@click.option("--tree", "is_tree", is_flag=True, help="The processes of each pfs run below their parents, with their waits.")
@click.option("--all", "is_all", is_flag=True, help=f"Also the dead ones beyond the {_DEAD_SHOWN} newest.")
@output_options
def ps(
    directory: str | None,
    all_users: bool,
    where: str | None,
    sort: str | None,
    limit: int | None,
    is_tree: bool,
    is_all: bool,
    form: str,
    output: str | None,
) -> None:
    """Lists the processes that can be read, running or dead.

    Without --sort those that run come first, and the newest before the older ones. Of the dead, the table has the newest
    three. With --all, --where, --sort or --limit it has all; so have the other formats.
    SIZE is in bytes, STARTED in UTC: '2026-12-31 23:59'.

    \b
    pfs ps
    pfs ps --all-users --json
    pfs ps --where "COMMAND like '%shop.py%' and STATE = 'alive'"
    pfs ps --sort 'SIZE desc' --limit 5
    pfs ps --tree
    """
    choice = Choice(where, sort, limit)
    if is_tree:
        if all_users:
            raise click.UsageError("--tree is for one folder: leave --all-users away.")
        from pfs._ui.cli.tree import rows_of_trees

        of_trees = rows_of_trees(directory).chosen(choice)
        if form == "table" and output is None:
            write(of_trees.without("PATH"), form, output, (), _WAITS)
        else:
            write(of_trees, form, output, [row[-1] for row in of_trees.rows])
        return
    if form == "parquet":
        from pfs._process.processes import processes

        frame = processes(directory, all_users)
        write_frame(frame, form, output, frame["PATH"].tolist(), choice=choice)
        return
    from pfs._process.processes import closed, columns_of, folders_of, listed
    from pfs._read.show import bytes_text

    there = listed(directory, all_users)
    columns = columns_of(there)
    rows = list(zip(*columns.values(), strict=True))
    numbers = choice.places(list(columns), rows)
    if form != "table" or output is not None:
        write(
            Rows(list(columns), [rows[at] for at in numbers], [name in ("PID", "PID_HERE") for name in columns]),
            form,
            output,
            columns["PATH"],
        )
        return
    folded = 0
    if not (is_all or where or sort or limit is not None):
        hidden = {*[number for number in numbers if there[number].state == "dead"][_DEAD_SHOWN:]}
        folded = len(hidden)
        numbers = [number for number in numbers if number not in hidden]
    if all(found.pid_here in (0, found.identity.pid) for found in there):  # there is no container
        del columns["PID_HERE"], columns["CONTAINER"]
    as_text = {"STARTED": lambda time: f"{time:%Y-%m-%d %H:%M:%S}", "SIZE": bytes_text}

    def text(name: str, value: object) -> str:
        return "NULL" if value is None else plain(str(as_text.get(name, str)(value)))

    shown = {name: [text(name, column[number]) for number in numbers] for name, column in columns.items()}
    console = Console(highlight=False)
    if console.is_terminal:  # the long column goes last and is shortened
        order = ("PID", "STATE", "PID_HERE", "CONTAINER", "USER", "STARTED", "SIZE", "COMMAND")
        shown = {name: shown[name] for name in order if name in shown}
        taken = sum(max(map(len, [name, *column])) + 2 for name, column in shown.items() if name != "COMMAND")
        width = max(20, console.width - taken - 2)
        shown["COMMAND"] = [text if len(text) <= width else text[: width - 3] + "..." for text in shown["COMMAND"]]
    draw_texts(list(shown), list(shown.values()), [name in ("PID", "PID_HERE") for name in shown])
    for found in (there[number] for number in numbers):
        if reason := why_not_whole(found.path):
            click.echo(f"process {found.identity.pid}: {plain(reason)}")
    if shut := closed(folders_of(directory, all_users)):
        click.echo(shut, err=True)
    dead = [found for found in there if found.state == "dead"]  # also those that are not shown: pfs gc removes them, too
    if dead:
        more = f", {folded:,} of them not shown (--all)" if folded else ""
        click.echo(f"{len(dead):,} dead, {bytes_text(sum(found.size for found in dead))}{more}: pfs gc removes them", err=True)


def why_not_whole(path: str) -> str:
    """Returns why pfs is not fully on in a process, such as refused options. "" if it is, or if it cannot be read."""
    try:
        with attach(path) as schema:
            return str(schema.status["performance_schema_status_reason"])
    except Error:
        return ""


@click.command()
@process_argument
@click.argument("table", metavar="TABLE", type=TableName())
@where_option
@columns_option
@sort_option
@limit_option
@click.option("--elapsed", is_flag=True, help="The time so far of events that still run, instead of NULL.")
@click.option("--tree", "is_tree", is_flag=True, help="Also the processes that it has started; it was started by pfs run.")
@human_option
@output_options
def show(
    process: int | str,
    table: str,
    where: str | None,
    columns: str | None,
    sort: str | None,
    limit: int | None,
    elapsed: bool,
    is_tree: bool,
    human: bool | None,
    form: str,
    output: str | None,
) -> None:
    """Prints a table of a process, or a view such as sys.processlist.

    Instead of PID, every command takes the name of a program that one process runs, or of its Python script or module; or the
    path of a segment: of a dead process, or of a container.

    `running` has the events that run now, `blocked` says which threads wait for locks and who holds them (--human makes it a
    table), `lock_reasons` why.

    \b
    pfs show 4711 threads
    pfs show nginx threads --json
    pfs show 4711 blocked --human
    pfs show 4711 file_summary_by_instance --sort 'SUM_TIMER_WAIT desc' --limit 10 \\
        --columns FILE_NAME,COUNT_READ,SUM_TIMER_READ --human
    pfs show 4711 sys.statement_analysis --limit 10
    pfs show 4711 events_waits_current --where "EVENT_NAME like 'wait/io/%' and TIMER_END is null"
    pfs show 4711 file_summary_by_instance --tree --where 'COUNT_WRITE > 0'
    pfs show /shared/12-4026532.pfs events_waits_history_long --format parquet --output last.parquet
    """
    is_view = table.lower().startswith("sys.")
    human = False if is_view else human  # a view formats its times itself

    if table == "blocked" and human is None and form == "table" and not any((output, where, sort, limit, columns, is_tree)):
        _say_blocked(process)
        return
    human_table = table if is_for_people(human) else None
    choice = Choice(where, sort, limit, columns)
    if is_view or form == "parquet":

        def frame(process: int | str) -> DataFrame:
            if is_view:
                from pfs._process.questions import view

                return view(table, process)
            with attach(process) as schema:
                return schema.table(table, running="elapsed" if elapsed else None)

        if is_tree:
            from pfs._ui.cli.tree import frame_of_tables

            write_frame(frame_of_tables(process, frame), form, output, [process], human_table, choice)
        else:
            write_frame(frame(process), form, output, [process], human_table, choice)
        return

    def read(process: int | str) -> Rows:
        with attach(process) as schema:
            return of_table(schema._source, table, elapsed)

    if is_tree:
        from pfs._ui.cli.tree import rows_of_tables

        found = rows_of_tables(process, read)
    else:
        found = read(process)
    write(found.chosen(choice), form, output, [process], human_table)


def _say_blocked(process: int | str) -> None:
    """Prints two sentences for each thread that waits for a lock, or that none does; and what the system knows of other threads.

    These are the threads without an event since pfs joined the process, or all threads of a process that pfs does not record.
    """
    from pfs._process.run.join import silent
    from pfs._read.places.readable import Readable
    from pfs._read.present import blocked
    from pfs._ui.cli.blocked import blocked_lines, system_lines

    try:
        schema = attach(process)
    except AttachError:
        if isinstance(process, int) and (lines := system_lines(process)):
            click.echo("\n".join(["The system says which calls the threads wait in:", *lines]))
        raise
    with schema:
        assert isinstance(schema._source, SegmentSource)
        names = Readable(schema._source)
        rows = [row.in_words(names) for row in blocked(schema._source, schema.now())]
        pid, unheard = silent(schema._source)
    click.echo("\n".join(blocked_lines(rows)) or "No thread waits for a lock.")
    if unheard:
        lines = system_lines(pid, unheard)
        is_known = ", but the system knows it:" if lines else "."
        silent_threads = f"{some(len(unheard), 'thread')} had no event since pfs joined this process"
        click.echo("\n".join([f"{silent_threads}: a wait that began before is not seen{is_known}", *lines]))


def _settings() -> dict[str, list[tuple[str, _core.ColumnInfo]]]:
    """Returns the columns that can be set, with the tables that have them."""
    found: dict[str, list[tuple[str, _core.ColumnInfo]]] = {}
    for table in setup.TABLES:
        for column in _core.table_info(table)["columns"]:
            if column["writable"]:
                found.setdefault(column["name"], []).append((table, column))
    return found


def setting_options(command: F) -> F:
    """Adds an option for each column of a setup table that can be set."""
    for name, places in reversed(_settings().items()):
        values = list(dict.fromkeys(value.lower() for _, column in places for value in column["values"]))
        kind: Any = Share() if name.endswith("_PPM") else click.Choice(values, case_sensitive=False) if values else str
        tables = ", ".join(table for table, _ in places)
        option = click.option(f"--{name.lower().replace('_', '-')}", name.lower(), type=kind, help=f"{name} of {tables}.")
        command = option(command)
    return command


@click.command(name="set")
@process_argument
@click.argument("pattern")
@where_option
@click.option("--table", type=TableName(), default="setup_instruments", show_default=True, help="Another setup table.")
@setting_options
def set_(process: int | str, pattern: str, where: str | None, table: str, **flags: str | None) -> None:
    """Changes the instruments of a running process whose names are like PATTERN; with --table, rows of another setup table.

    With --where only those of them that meet the condition now change, and no rule is left for instruments that register later.

    \b
    pfs set 4711 'wait/io/%' --enabled no
    pfs set 4711 'wait/synch/mutex/%' --enabled yes --timed contended
    pfs set 4711 'wait/%' --where "TIMED = 'SAMPLED'" --timed yes
    pfs set 4711 events_waits_history_long --table setup_consumers --enabled yes
    pfs set 4711 process --table setup_overhead --limit-ppm 1%
    """
    values = {name: value.upper() for name, value in flags.items() if value is not None}
    if not values:
        raise click.UsageError(f"Say what to change: {', '.join('--' + name.replace('_', '-') for name in flags)}.")
    if table in setup.TABLES:
        legal = [column["name"].lower() for column in _core.table_info(table)["columns"] if column["writable"]]
        for name in values:
            if name not in legal:
                options = ", ".join("--" + one.replace("_", "-") for one in legal)
                raise click.UsageError(f"{table} has no column {name.upper()}: legal are {options}")
    with attach(process, write=True) as schema:
        rows = getattr(schema, table, None)
        if not isinstance(rows, setup.SetupTable):
            legal = list(setup.TABLES)
            raise click.BadParameter(f"{table} has no rows to change: legal are {', '.join(legal)}", param_hint="--table")
        count = len(rows[pattern])  # raises if there is none, and names the nearest one
        if where is not None:
            try:
                Condition(table, rows._columns(), where, "--where")
            except (InvalidValue, UnknownColumn) as error:
                raise click.BadParameter(str(error), param_hint="--where") from None
        changed = rows.update(pattern, where=where, **values)
    count = count if where is None else changed
    is_rule = where is None and table == "setup_instruments" and "%" in pattern
    later = ", and a rule for instruments that register later" if is_rule else ""
    click.echo(f"{some(count, 'row')} of {table} set{later}")


@click.command()
@process_argument
@click.argument("table", metavar="TABLE", type=TableName())
def truncate(process: int | str, table: str) -> None:
    """Empties a table of a running process: its events are forgotten, or its counts begin at zero.

    \b
    pfs truncate 4711 events_waits_summary_global_by_event_name
    """
    with attach(process, write=True) as schema:
        schema.truncate(table)


@click.command()
@click.option("--dir", "directory", metavar="DIR", help="Where the segments are, instead of PFS_DIR or /dev/shm/pfs-<uid>.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def gc(directory: str | None, dry_run: bool) -> None:
    """Removes the segments of dead processes, also with PFS_KEEP=1. It leaves segments of other containers alone.

    \b
    pfs gc --dry-run
    """
    from pfs._process.processes import removed

    for found in removed(directory, dry_run):
        click.echo(f"{'would remove' if dry_run else 'removed'} {plain(found.path)} ({plain(found.command)})")


@click.command()
@process_argument
@click.argument("folder", metavar="FOLDER|FILE.zip", type=click.Path())
@click.option("--summaries", is_flag=True, help="Only tables that add up; needs FILE.zip.")
@sql_text_option
@click.option("--force", is_flag=True, help="Replace the snapshot of another process, or a file that is no snapshot.")
def snapshot(process: int | str, folder: str, summaries: bool, sql_text: bool, force: bool) -> None:
    """Writes all tables of a process to a folder, as Parquet files; or to one file whose name ends in .zip.

    It replaces an earlier snapshot of the same process. All texts are in it, and only its user can read it; --summaries leaves
    texts with literals out.

    \b
    pfs snapshot 4711 now.pfs.zip --summaries
    pfs snapshot 4711 before; sleep 10; pfs snapshot 4711 after; pfs diff before after
    """
    is_file = folder.endswith(".zip")
    if summaries and not is_file:
        raise click.UsageError("--summaries needs a name that ends in .zip")
    if sql_text and not summaries:
        raise click.UsageError("--sql-text needs --summaries: a snapshot of all tables has all texts")
    with attach(process) as schema:
        from pfs._save.snapshot import other_process

        if not force and (other := other_process(folder, schema._source.identity)):
            raise InvalidValue(f"{folder} {other}: give another name, or --force to replace it")
        taken = schema.snapshot(None if is_file else folder)
    if is_file:
        taken.to_file(folder, summaries, sql_text)
    rows = sum(map(len, taken.values()))
    where = folder if is_file else os.path.join(folder, "")
    click.echo(f"{some(len(taken), 'table')} with {some(rows, 'row')} of process {taken.pid} in {where}")


@click.command()
@click.argument("before", type=click.Path(exists=True))
@click.argument("after", type=click.Path(exists=True))
@click.argument("table", metavar="[TABLE]", type=TableName(), required=False)
@click.option("--rates", is_flag=True, help="Sums per second.")
@where_option
@columns_option
@sort_option
@limit_option
@human_option
@output_options
def diff(
    before: str,
    after: str,
    table: str | None,
    rates: bool,
    where: str | None,
    columns: str | None,
    sort: str | None,
    limit: int | None,
    human: bool | None,
    form: str,
    output: str | None,
) -> None:
    """Shows what happened between two snapshots: the rows of TABLE, or without TABLE the tables in which something happened.

    \b
    pfs diff before after
    pfs diff before after events_waits_summary_global_by_event_name --sort 'SUM_TIMER_WAIT desc' --limit 20
    pfs diff before after file_summary_by_instance --rates --columns FILE_NAME,SUM_NUMBER_OF_BYTES_READ
    """
    import pandas as pd

    from pfs._save.snapshot import read_snapshot

    difference = read_snapshot(before).diff(read_snapshot(after))
    for name in difference.truncated:
        click.echo(f"pfs: {name}: TRUNCATE or a new object in between; rows marked reset count from then on", err=True)
    if rates:
        difference = difference.rates()
    if table is None:
        rows = difference._rows()
        frame = pd.DataFrame({"TABLE": [row[0] for row in rows], "ROWS": [row[1] for row in rows]})
    else:
        frame = difference[table]
    human_table = table if is_for_people(human) else None
    write_frame(frame, form, output, [before, after], human_table, Choice(where, sort, limit, columns))
