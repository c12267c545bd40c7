"""Defines the command ``pfs serve``."""

from __future__ import annotations

import os
from contextlib import suppress

import click

from pfs._ui.cli.options import Process, password_in
from pfs.errors import Error

__all__ = ["serve"]


@click.command()
@click.argument("source", metavar="[PID|NAME|SEGMENT|FOLDER|FILE]", type=Process(saved=True), required=False)
@click.option("--all", "everything", is_flag=True, help="The sums of all processes, and rows with NODE, PID and START.")
@click.option("--socket", "path", metavar="PATH", help="The unix socket. The default is PID.sock in the folder of the segments.")
@click.option("--port", type=click.IntRange(0, 65535), help="Listen at TCP instead. It needs --password-file.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="The address of --port.")
@click.option("--password-file", metavar="FILE", help="Its first line is the password. Only its owner may read it.")
@click.option(
    "--timeout", "seconds", type=click.FloatRange(0.1), default=60, show_default=True, help="Seconds that a statement may take."
)
@click.option("--write", is_flag=True, help="Allow UPDATE of setup tables, and TRUNCATE.")
@click.option("--dir", "directory", metavar="DIR", help="Where the segments are, instead of PFS_DIR or /dev/shm/pfs-<uid>.")
def serve(
    source: int | str | None,
    everything: bool,
    path: str | None,
    port: int | None,
    host: str,
    password_file: str | None,
    seconds: float,
    write: bool,
    directory: str | None,
) -> None:
    """Serves the tables of a process, a snapshot or samples to clients of MySQL, until it is stopped.

    Only this user can open the socket. Clients read performance_schema, sys and information_schema.

    \b
    pfs serve 4711
    mariadb --socket /dev/shm/pfs-1000/4711.sock performance_schema
    pfs serve before/ --socket /tmp/before.sock
    pfs serve web.ash --socket /tmp/web.sock
    pfs serve --all --port 3307 --password-file secret
    """
    if (source is None) != everything:
        raise click.UsageError("Give a process, a snapshot or samples, or --all.")
    if port is not None and path is not None:
        raise click.UsageError("Give one of --socket and --port.")
    if port is not None and password_file is None:
        raise click.UsageError("--port needs --password-file: every user of this machine can connect to it.")
    if write and everything:
        raise click.UsageError("--write needs one process.")
    try:
        import asyncio

        from pfs._export.serve import server, sources
        from pfs._export.serve.session import Context
    except ImportError as error:
        raise Error(f"pfs serve needs {error.name}: pip install 'perfschema[mysql]'") from None
    from pfs._process.processes import default_directory

    served: sources.Source = sources.All(directory) if source is None else sources.source_of(source, write)
    if write and served.writer is None:
        raise click.UsageError("--write needs a process: nothing else can be changed.")
    password = None if password_file is None else password_in(password_file)
    if port is not None:
        listening = server.open_tcp(host, port)
        name = "{}:{}".format(*listening.getsockname()[:2])
    else:
        number = served.pid if isinstance(served, sources.One) else "all" if source is None else "snapshot"
        name = path or os.path.join(directory or default_directory(), f"{number}.sock")
        listening = server.open_unix(name)
    try:
        context = Context(served, listening, seconds)
        asyncio.run(server.serve(listening, context, password, lambda: click.echo(f"serving at {name}", err=True)))
    finally:
        listening.close()
        if port is None:
            with suppress(OSError):
                os.unlink(name)
