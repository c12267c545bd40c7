"""Defines the command ``pfs metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pfs._export.metrics import DEFAULT_TOP
from pfs._ui.cli.options import Interval, Process, password_in
from pfs._ui.cli.stopping import Stop

if TYPE_CHECKING:
    from pfs._export.metrics.exporter import Exporter

__all__ = ["metrics"]


@click.command()
@click.argument("process", metavar="[PID|NAME]", type=Process(), required=False)
@click.option("--listen", metavar="HOST:PORT", help="Answer scrapes over HTTP until stopped, such as 127.0.0.1:9404.")
@click.option("--tls-cert", metavar="FILE", help="The certificate of --listen, which then speaks HTTPS; with --tls-key.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate.")
@click.option(
    "--password-file",
    metavar="FILE",
    help="Its first line is the password of the user pfs. Only its owner may read it. /-/healthy asks nobody.",
)
@click.option("--textfile", metavar="FILE", help="Write this file, as node_exporter reads it: a name that ends in .prom.")
@click.option("-i", "--interval", type=Interval(0.1), help="Write --textfile again and again until stopped.")
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(0),
    default=DEFAULT_TOP,
    show_default=True,
    help="At most this many digests, tables and indexes.",
)
@click.option("--findings", is_flag=True, help="Also what each fault has taken in the last minute, as pfs findings knows it.")
@click.option("--compat", is_flag=True, help="The names and labels of Prometheus' mysqld_exporter.")
@click.option("--dir", "directory", metavar="DIR", help="Where the segments are, instead of PFS_DIR or /dev/shm/pfs-<uid>.")
@click.option(
    "-a", "--all-users", is_flag=True, help="Also processes of other users and of containers, if their folders are readable."
)
def metrics(
    process: int | str | None,
    listen: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    password_file: str | None,
    textfile: str | None,
    interval: float | None,
    top: int,
    findings: bool,
    compat: bool,
    directory: str | None,
    all_users: bool,
) -> None:
    """Writes the counts of a process as metrics for Prometheus, or without PID the sums of all processes.

    With --listen and --interval no counter goes down when a process ends: its last counts stay in the sums.

    \b
    pfs metrics --listen 127.0.0.1:9404
    pfs metrics 4711 | grep events_waits
    pfs metrics --textfile /var/lib/node_exporter/pfs.prom --interval 15s
    pfs metrics --all-users --compat --top 50
    """
    if listen is not None and textfile is not None:
        raise click.UsageError("Give one of --listen and --textfile.")
    if listen is None and (tls_cert is not None or tls_key is not None or password_file is not None):
        raise click.UsageError("--tls-cert, --tls-key and --password-file need --listen.")
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("Give both of --tls-cert and --tls-key.")
    if interval is not None and textfile is None:
        raise click.UsageError("--interval needs --textfile.")
    if process is not None and (directory is not None or all_users):
        raise click.UsageError("--dir and --all-users are for all processes: leave PID away.")
    from pfs._export.metrics.api import exporter as new_exporter

    exporter = new_exporter(process, top=top, compat=compat, path=directory, all_users=all_users, findings=findings)
    stop = Stop() if listen is not None or interval is not None else None
    try:
        if listen is not None and stop is not None:
            _listen(exporter, listen, stop, (tls_cert, tls_key) if tls_cert and tls_key else None, password_file)
        elif textfile is not None:
            _write(exporter, textfile)
            if interval is not None and stop is not None:
                _repeat(exporter, textfile, interval, stop)
        else:
            from pfs._export.metrics.text import text_of

            click.echo(text_of(exporter.metrics()), nl=False)
    except KeyboardInterrupt:
        pass  # it is how one ends it
    finally:
        exporter.close()


def _listen(exporter: Exporter, listen: str, stop: Stop, tls: tuple[str, str] | None, password_file: str | None) -> None:
    from pfs._export.metrics.http import Server, address_of, credentials_of, tls_of

    host, port = address_of(listen)
    secure = tls_of(*tls) if tls is not None else None
    credentials = credentials_of(password_in(password_file)) if password_file is not None else b""
    with Server(host, port, exporter, secure, credentials) as server:
        server.service_actions = stop.check  # type: ignore[method-assign]
        name = f"[{host}]" if ":" in host else host
        click.echo(f"metrics at http{'s' if tls else ''}://{name}:{server.server_address[1]}/metrics", err=True)
        server.serve_forever()


def _write(exporter: Exporter, path: str) -> None:
    from pfs._base import paths
    from pfs._export.metrics.text import text_of

    text = text_of(exporter.metrics(), openmetrics=False)
    with paths.replaced(path, 0o666) as file:  # node_exporter, which is another user, reads names that end in .prom
        file.write(text.encode())


def _repeat(exporter: Exporter, path: str, interval: float, stop: Stop) -> None:
    while True:
        stop.sleep(interval)
        try:
            _write(exporter, path)
        except OSError as error:  # a full disk must not forget the counts
            click.echo(f"pfs: {error.strerror}: {path}", err=True)
