"""``pfs join`` records a program that runs already, and ``pfs leave`` leaves it."""

from __future__ import annotations

import time
from collections.abc import Mapping

import click

from pfs._process import processes
from pfs._process.attach import attach
from pfs._process.run import join as joined
from pfs._process.run import launch
from pfs._ui.cli.options import Interval
from pfs._ui.cli.recording import contended_option, only_option, python_option

__all__ = ["join", "leave"]


@click.command()
@click.argument("process", metavar="PID|NAME")
@click.option("--dry-run", is_flag=True, help="Say whether it can be joined, and change nothing.")
@only_option(part for part in launch.PARTS if part != "memory")
@python_option
@contended_option
@click.option("--children", type=click.Choice(joined.CHILDREN), default="fork", show_default=True, help="Also record these.")
@click.option("--force", is_flag=True, help="Join a program with a filter of system calls, too, which may end it.")
@click.option("--for", "seconds", type=Interval(0.1, 86400), help="Leave it after this time.")
@click.option("--report", "wants_report", is_flag=True, help="Then print what it waited for, as pfs run does. Needs --for.")
def join(
    process: str,
    dry_run: bool,
    only: list[str],
    python: list[str],
    all_on: bool,
    children: str,
    force: bool,
    seconds: float | None,
    wants_report: bool,
) -> None:
    """Records a program that runs already, as pfs run does, until it ends or pfs leave is called.

    One thread of the program stands for less than a millisecond. A program that must not be touched is refused, with the reason.

    \b
    pfs join 4711
    pfs join redis-server --for 60s --report
    pfs join 4711 --dry-run
    """
    if wants_report and seconds is None:
        raise click.UsageError("--report needs --for, which says when.")
    pid = joined.pid_of(process)
    if dry_run:
        status = joined.judge(pid, force)
        click.echo(f"process {pid} can be joined: {status['Name'].strip()}, {status['Threads'].strip()} threads")
        return
    has_counts = joined.is_joined(pid)
    segment, is_recorded = joined.begin(pid, only, all_on, children, force, python or None)
    click.echo(f"process {pid} is recorded: pfs top {segment if segment.startswith('/proc/') else pid}", err=True)
    if is_recorded:
        click.echo("it was recorded before, with its own settings, and stays so", err=True)
    if seconds is None:
        return
    before, threads = launch.Took.of(pid), joined.threads_of(pid)
    try:
        time.sleep(seconds)
    finally:
        took = launch.Took.of(pid) - before
        if not is_recorded:
            joined.leave(pid)
    if not wants_report:
        return
    if has_counts or is_recorded:
        click.echo("the report counts from when it was first recorded on", err=True)
        click.echo(_text_of_all(segment))
    else:
        click.echo(_text_of_join(segment, pid, took, threads))


def _text_of_all(segment: str) -> str:
    from pfs._process.run.read import report_of
    from pfs._process.run.report_text import text_of

    return text_of(report_of(segment), 10, False)


def _text_of_join(segment: str, pid: int, took: launch.Took, threads: Mapping[int, joined.Thread]) -> str:
    """Returns the report of a process that was joined for the first time, has been left, and goes on."""
    from pfs._process.run import report as reports
    from pfs._process.run.report_text import text_of

    found = processes.look(segment)
    gathered = reports.gather([found] if found is not None else [])
    if found is not None:
        gathered.lives = processes.is_alive(found.state)
        with attach(segment) as schema:
            joined.add_silent(gathered, schema._source, pid, took.wall / 1e12, threads)
    gathered.finish(took)
    return text_of(gathered, 10, False)


@click.command()
@click.argument("process", metavar="PID|NAME")
def leave(process: str) -> None:
    """Stops the recording of a program that pfs join has joined, or that pfs run has started.

    The program goes on. What was recorded can be read until it ends. pfs join records it again.

    \b
    pfs leave 4711
    """
    pid = joined.pid_of(process)
    joined.leave(pid)
    click.echo(f"process {pid} is not recorded any more", err=True)
