"""Defines the command ``pfs findings``, and --fail-on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from pfs._process.findings.limits import MOST
from pfs._process.findings.rules import RULES
from pfs._ui.cli.options import Process, some_of

if TYPE_CHECKING:
    from pfs._process.findings.find import Finding

__all__ = ["fail_on_option", "failing", "findings"]

_FOUND = 3  # the exit code
_ANY = "any"

fail_on_option = click.option(
    "--fail-on",
    metavar="RULE,...",
    callback=some_of((_ANY, *(rule.name for rule in RULES)), "rule"),
    help=f"Exit with code {_FOUND} if one of these rules finds something, or '{_ANY}'.",
)


def failing(found: Iterable[Finding], rules: Sequence[str]) -> int:
    """Returns the exit code for --fail-on."""
    return _FOUND if any(_ANY in rules or one.name in rules for one in found) else 0


@click.command()
@click.argument("process", metavar="PID|NAME|SEGMENT|FOLDER|FILE", type=Process(saved=True))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@fail_on_option
@click.pass_context
def findings(context: click.Context, process: int | str, as_json: bool, fail_on: list[str]) -> None:
    """Says what to mend first, at which line, and what it takes.

    It reads a process, a snapshot, or all processes of a run whose folder is given. The report of pfs run begins with the same
    lines. Of a folder of pfs collect, it shows the worst of all processes, with their nodes.

    \b
    pfs findings 4711
    pfs findings /dev/shm/pfs-1000/run-x1y2z3
    pfs findings app.py --fail-on io_under_lock,n_plus_one
    """
    from pfs._many.fleet.files import is_fleet
    from pfs._process.findings.ask import found_in
    from pfs._process.findings.find import text_of

    if isinstance(process, str) and is_fleet(process):
        from pfs._many.fleet.fleet import read

        at = read(process)._found()[:MOST]
        found, rows = [one.named() for one in at], [one.as_json() for one in at]
    else:
        found = found_in(process)
        rows = [one.as_json() for one in found]
    if as_json:
        import json

        click.echo(json.dumps(rows, indent=1))
    else:
        click.echo(text_of(found) or "Nothing stands out.")
    context.exit(failing(found, fail_on))
