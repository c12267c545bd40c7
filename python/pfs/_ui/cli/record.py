"""Defines the command ``pfs record``."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import click

from pfs._ui.cli.options import Age, Process, Size
from pfs._ui.cli.stopping import Stop

__all__ = ["record"]

_PROGRAM = "pfs.record.program"  # in the context: what stands behind --


class _WithProgram(click.Command):
    """Takes the command line of a program behind ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_PROGRAM] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command(cls=_WithProgram)
@click.argument("process", metavar="[PID|NAME|-- PROGRAM [ARGUMENT]...]", type=Process(), required=False)
@click.option("--all", "everything", is_flag=True, help="All processes of this user, also those that start later.")
@click.option("--hz", type=click.FloatRange(0.1, 1000), default=20, show_default=True, help="Samples a second.")
@click.option("--for", "longest", metavar="TIME", type=Age(), help="End after this time, such as 10min. Else Ctrl-C ends it.")
@click.option("-o", "--output", metavar="FOLDER", help="Where the samples are kept.  [default: NAME.ash]")
@click.option("--keep", metavar="TIME", type=Age(), help="Remove samples that are older, such as 7d.")
@click.option("--keep-size", metavar="SIZE", type=Size(), help="Remove the oldest if all take more bytes, such as 2G.")
@click.pass_context
def record(
    context: click.Context,
    process: int | str | None,
    everything: bool,
    hz: float,
    longest: int | None,
    output: str | None,
    keep: int | None,
    keep_size: int | None,
) -> None:
    """Samples what each thread of a process does, for pfs report, SQL and pandas. It costs the process nothing.

    With a program behind -- it is `pfs run` with the samples beside.

    \b
    pfs record 4711 --for 10min -o web.ash
    pfs record --all --keep 7d --keep-size 2G -o /var/lib/pfs/host.ash
    pfs record -- python orders.py
    pfs sql web.ash "select * from sys.ash_load"
    """
    program: list[str] = context.meta.get(_PROGRAM, [])
    if (process is not None) + everything + bool(program) != 1:
        raise click.UsageError("Give a process, --all, or a program behind --.")
    if program:
        if longest is not None or keep is not None or keep_size is not None:
            raise click.UsageError("--for, --keep and --keep-size are not for a program behind --: it ends by itself.")
        _run(context, program, hz, output)
        return
    from pfs._process.follow import all_processes
    from pfs._process.history.samples import finder, recording_of

    name = "all" if everything else re.sub(r"\.pfs$", "", os.path.basename(str(process)))
    folder = output or f"{name}.ash"
    find = all_processes() if everything else finder(process)
    stop = Stop()
    end = None if longest is None else time.monotonic() + longest
    recording = recording_of(find, folder, hz, keep, keep_size)
    recording.start()
    try:
        while not (recording.is_over and not everything) and (end is None or time.monotonic() < end):
            stop.sleep(0.1 if end is None else max(0.0, min(0.1, end - time.monotonic())))
    except KeyboardInterrupt:
        pass  # it is how one ends it
    finally:
        recording.stop()
    _tell(folder, recording.told())
    for problem in recording.problems:
        click.echo(f"pfs: {problem}", err=True)


def _run(context: click.Context, program: list[str], hz: float, output: str | None) -> None:
    """Runs a program with samples beside."""
    from pfs._ui.cli.run import run

    folder = output or f"{os.path.basename(program[0])}.ash"
    with run.make_context("run", ["--record", folder, "--hz", str(hz), "--", *program], parent=context) as inner:
        run.invoke(inner)


def _tell(folder: str, about: dict[str, Any]) -> None:
    """Says where the samples are, and what is wrong with them."""
    programs = about["processes"].values()
    samplers = [one["sampler"] for one in programs]
    click.echo(f"pfs record: {sum(one['samples'] for one in samplers)} samples in {folder}", err=True)
    if missed := sum(one["missed"] for one in samplers):
        click.echo(f"pfs: {missed} periods have no sample: the sampler got no processor", err=True)
    if any(one["scheduling"] == "normal" for one in samplers):
        click.echo("pfs: threads that compute are seen too rarely: run it as root, or on Linux 6.12 or later", err=True)
