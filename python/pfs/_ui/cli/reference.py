"""Defines the commands of ``pfs`` that explain it and read no process: config, describe, ddl."""

from __future__ import annotations

import click
from rich.console import Console
from rich.text import Text

from pfs._process import reading
from pfs._ui.cli.config import CONFIG_FLAGS, config_text
from pfs._ui.cli.options import TableName, output_options
from pfs._ui.cli.rows import new_table, write_frame

__all__ = ["config", "ddl", "describe"]


@click.command()
@click.option("--cflags", is_flag=True, help="Compiler flags.")
@click.option("--libs", is_flag=True, help="Linker flags.")
@click.option("--includedir", is_flag=True, help="Folder of perfschema/pfs.h.")
@click.option("--libdir", is_flag=True, help="Folder of libperfschema.so.")
@click.option("--cmakedir", is_flag=True, help="Folder for -DPerfSchema_DIR=.")
@click.option("--pkgconfigdir", is_flag=True, help="Folder for PKG_CONFIG_PATH.")
@click.option("--gdb", is_flag=True, help="File for gdb -x, which then shows locks with their names and holders.")
def config(**flags: bool) -> None:
    """Prints where the C and C++ parts are, as text for a command line."""
    chosen = [flag for flag in CONFIG_FLAGS if flags[flag.removeprefix("--")]]
    if not chosen:
        raise click.UsageError(f"Say what to print: {' '.join(CONFIG_FLAGS)}")
    click.echo(config_text(chosen))


@click.command()
@click.argument("table", metavar="[TABLE]", type=TableName(), required=False)
@output_options
def describe(table: str | None, form: str, output: str | None) -> None:
    """Explains the columns of a table, or lists all tables.

    \b
    pfs describe threads
    pfs describe | grep lock
    """
    if form == "table" and output is None:
        console = Console(highlight=False)
        described = reading.describe(table)[["COLUMN_NAME", "UNIT", "DESCRIPTION"] if table else ["TABLE_NAME", "DESCRIPTION"]]
        drawn = new_table()
        for name in described.columns:
            drawn.add_column(name, no_wrap=name != "DESCRIPTION", overflow="fold")
        for row in described.itertuples(index=False, name=None):
            drawn.add_row(*map(Text, row))
        console.print(drawn)
        return
    write_frame(reading.describe(table), form, output, None)


@click.command()
@click.argument("table", metavar="TABLE")
def ddl(table: str) -> None:
    """Prints the CREATE TABLE text of a table."""
    click.echo(reading.ddl(table).rstrip())
