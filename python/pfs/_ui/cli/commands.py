"""Runs a command line of ``pfs``: the command that it names does the work, in a module of its own."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

from pfs._ui.cli.config import print_version
from pfs.errors import Error

__all__ = ["main", "pfs_command"]

# The commands, each with the module beside this one that defines it and its name there. A module is imported when its command is
# called: `pfs run` does not wait for what the others need.
COMMANDS = {
    "collect": "collect:collect",
    "config": "reference:config",
    "ddl": "reference:ddl",
    "demo": "demo:demo",
    "describe": "reference:describe",
    "diff": "processes:diff",
    "findings": "findings:findings",
    "gc": "processes:gc",
    "join": "join:join",
    "leave": "join:leave",
    "metrics": "metrics:metrics",
    "otel": "otel:otel",
    "ps": "processes:ps",
    "record": "record:record",
    "report": "report:report",
    "run": "run:run",
    "serve": "serve:serve",
    "set": "processes:set_",
    "show": "processes:show",
    "snapshot": "processes:snapshot",
    "sql": "sql:sql",
    "top": "top:top",
    "trace": "trace:trace",
    "truncate": "processes:truncate",
}


FIRST = ("run", "top", "ps", "show", "sql")  # in --help


class Commands(click.Group):
    """Imports a command when it is asked for it. All of them are imported for --help."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rest = [name for name in COMMANDS if name not in FIRST]
        for title, names in (("First commands", FIRST), ("More commands", rest)):
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                # Whole sentences: the formatter wraps them.
                formatter.write_dl([(name, one.get_short_help_str(1000)) for name, one in commands if one is not None])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"pfs._ui.cli.{module}"), function)
        return command


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        print_version()
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit.")
def pfs_command() -> None:
    """A Performance Schema for any program.

    \b
    pfs demo                                          show an example
    pfs run -- xz -k file                             run any program, unchanged, and show what it waited for
    pfs ps                                            processes that can be read
    pfs show 4711 threads                             a table of a process, also of one that hangs or has crashed
    pfs describe                                      the tables, with a sentence for each
    cc app.c $(pfs config --cflags --libs) -o app     build a C program with it
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line, else that of this process.

    Returns its exit code: 0 good, 1 an error of pfs, 2 a wrong command line; that of the program after ``pfs run``.
    """
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 shows "?" instead of "µ"
    try:
        code = pfs_command.main(None if arguments is None else list(arguments), prog_name="pfs", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("Aborted!", err=True)
        return 130
    except Error as error:
        click.echo(f"pfs: {error}", err=True)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter must not complain at exit either
        return 141
    except OSError as error:  # a file or folder that the user has named
        click.echo(f"pfs: {error.strerror}: {error.filename}" if error.filename else f"pfs: {error}", err=True)
        return 1
    return code if isinstance(code, int) else 0
