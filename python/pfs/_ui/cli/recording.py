"""Options of commands that have a program recorded: ``pfs run`` and ``pfs join``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from pfs._process.run import launch
from pfs._ui.cli.options import F, some_of

__all__ = ["contended_option", "only_option", "python_option"]

_OF_PYTHON = (*launch.PYTHON_PARTS, *launch.PYTHON_MORE)


def only_option(parts: Iterable[str]) -> Callable[[F], F]:
    """Returns the option --only of a command that can record these parts."""
    legal = list(parts)
    return click.option(
        "--only", metavar="A,B,...", callback=some_of(legal, "part"), help=f"Record only these parts: {', '.join(legal)}."
    )


python_option = click.option(
    "--python",
    metavar="A,B,...",
    callback=some_of((*_OF_PYTHON, "none"), "part of Python"),
    help=f"Of Python programs also record these, or none: {', '.join(_OF_PYTHON)}.  "
    "[default: all but queues; without lines if the preset is production]",
)
contended_option = click.option(
    "--all-on/--contended", help="Time each lock, or only locks that must be waited for.  [default: contended]"
)
