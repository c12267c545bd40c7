"""Runs the command ``pfs``.

Most commands need click and rich, which ``pip install 'perfschema[cli]'`` installs. ``pfs config`` and ``pfs --version`` work
without them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pfs._ui.cli.config import CONFIG_FLAGS, config_text, print_version

__all__ = ["CONFIG_FLAGS", "config_text", "main"]


def _plain(arguments: Sequence[str]) -> int:
    """Runs the commands that work without click. Returns the exit code."""
    if list(arguments) == ["--version"]:
        print_version()
        return 0
    if arguments and arguments[0] == "config" and len(arguments) > 1 and all(f in CONFIG_FLAGS for f in arguments[1:]):
        print(config_text([flag for flag in CONFIG_FLAGS if flag in arguments]))
        return 0
    print(
        "pfs: this needs click and rich: pip install 'perfschema[cli]'. "
        f"Without them: pfs --version, pfs config [{' | '.join(CONFIG_FLAGS)}].",
        file=sys.stderr,
    )
    return 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError:
        return _plain(arguments)
    from pfs._ui.cli import commands

    return commands.run(arguments)
