"""``pfs attach-run`` records statements of a Python program that runs already."""

from __future__ import annotations

import click

from pfs._process.run import launch
from pfs._process.run.attach import attach_run as attach
from pfs._ui.cli.options import Interval, some_of

__all__ = ["attach_run"]

# A kernel and a session of pytest have taken the functions that these parts wrap before anybody can attach.
_PARTS = tuple(part for part in launch.PYTHON_PARTS if part != "tests")


@click.command("attach-run")
@click.argument("pid", type=click.IntRange(min=1))
@click.option(
    "--python",
    metavar="A,B,...",
    default=",".join(_PARTS),
    callback=some_of(_PARTS, "part of Python"),
    help=f"Record these: {', '.join(_PARTS)}.  [default: all]",
)
@click.option("--timeout", type=Interval(0.1, 600), default="10s", show_default=True, help="How long to wait for it.")
def attach_run(pid: int, python: list[str], timeout: float) -> None:
    """Records statements of a Python program that runs already: requests, queries, tasks. It needs CPython 3.14.

    Locks, files, sockets and the GIL need pfs run or pfs join. The program is recorded until it ends.

    \b
    pfs attach-run 4711
    pfs top 4711
    """
    attach(pid, python, timeout)
    click.echo(f"process {pid} is recorded: pfs top {pid}", err=True)
