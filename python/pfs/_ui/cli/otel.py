"""Defines the command ``pfs otel``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pfs._read.units import UNITS
from pfs._ui.cli.options import Interval, Process, sql_text_option
from pfs._ui.cli.rows import mode_of
from pfs._ui.cli.stopping import Stop
from pfs.errors import Error

if TYPE_CHECKING:
    from pfs._export.otel.exporter import Exporter
    from pfs._export.otel.output import Outbox, Request

__all__ = ["otel"]


@click.command()
@click.argument("process", metavar="[PID|NAME]", type=Process(), required=False)
@click.option("--all", "everything", is_flag=True, help="All processes. Their metrics are added up.")
@click.option(
    "--endpoint",
    metavar="URL",
    envvar="OTEL_EXPORTER_OTLP_ENDPOINT",
    help="Send to this receiver of OTLP over HTTP, such as http://127.0.0.1:4318.  [env: OTEL_EXPORTER_OTLP_ENDPOINT]",
)
@click.option("-o", "--output", metavar="FILE", help="Add lines of JSON to this file instead of sending; - is the screen.")
@click.option("--once", is_flag=True, help="Read once and end. It is the default.")
@click.option("-i", "--interval", type=Interval(0.1), help="Read again and again until stopped.")
@click.option("--only", type=click.Choice(("spans", "metrics")), help="Send only these.")
@click.option(
    "--min-wait",
    type=Interval(),
    default="1ms",
    show_default=True,
    help="Shorter waits are no spans.",
)
@sql_text_option
@click.option(
    "--service",
    metavar="NAME",
    envvar="OTEL_SERVICE_NAME",
    help="The service.name, instead of the name of the program.  [env: OTEL_SERVICE_NAME]",
)
@click.option("--dir", "directory", metavar="DIR", help="Where the segments are, instead of PFS_DIR or /dev/shm/pfs-<uid>.")
@click.option(
    "-a", "--all-users", is_flag=True, help="Also processes of other users and of containers, if their folders are readable."
)
def otel(
    process: int | str | None,
    everything: bool,
    endpoint: str | None,
    output: str | None,
    once: bool,
    interval: float | None,
    only: str | None,
    min_wait: float,
    sql_text: bool,
    service: str | None,
    directory: str | None,
    all_users: bool,
) -> None:
    """Sends statements, stages, transactions and long waits as spans to OpenTelemetry, and counts as metrics.

    With --interval each event is sent once. Spans wait while the receiver is down.

    \b
    pfs otel 4711 --endpoint http://127.0.0.1:4318 --interval 5s
    pfs otel --all --endpoint http://127.0.0.1:4318 --interval 15s --only metrics
    pfs otel 4711 --output spans.jsonl --min-wait 10ms
    """
    if (process is None) != (everything or directory is not None or all_users):
        raise click.UsageError("Give a process, or --all with or without --dir and --all-users.")
    if once and interval is not None:
        raise click.UsageError("Give one of --once and --interval.")
    if output is None and endpoint is None:
        raise click.UsageError("Give one of --endpoint and --output.")
    from pfs._export.otel.api import exporter as new_exporter  # the first: it says which packages are missing

    # isort: split
    from pfs._export.otel.output import Endpoint, Lines, Outbox

    if output is not None:
        outbox = Outbox(Lines(output, lambda: mode_of(_segments(process, directory, all_users))))
    else:
        assert endpoint is not None
        outbox = Outbox(Endpoint(endpoint))
    picoseconds = round(min_wait * UNITS["s"])
    exporter = new_exporter(
        process, min_wait=picoseconds, sql_text=sql_text, service=service, path=directory, all_users=all_users
    )
    stop = Stop()
    try:
        outbox.put(*_read(exporter, only))
        if interval is None:
            outbox.send()
            click.echo(_report(exporter, outbox), err=True)
            return
        _repeat(exporter, outbox, interval, only, stop)
    except KeyboardInterrupt:
        click.echo(_report(exporter, outbox), err=True)
    finally:
        exporter.close()


def _segments(process: int | str | None, directory: str | None, all_users: bool) -> list[int | str]:
    from pfs._process.processes import listed

    return [process] if process is not None else [found.path for found in listed(directory, all_users)]


def _read(exporter: Exporter, only: str | None) -> list[Request]:
    made: list[Request] = []
    if only != "metrics":
        made += exporter.traces()
    if only != "spans":
        made.append(exporter.metrics())
    return made


def _repeat(exporter: Exporter, outbox: Outbox, interval: float, only: str | None, stop: Stop) -> None:
    said = 0
    while True:
        try:
            outbox.send()
        except (Error, OSError) as error:
            click.echo(f"pfs: {error}; {outbox.waiting} spans wait", err=True)
        missed = exporter.counts.missing + outbox.dropped
        if missed != said:
            said = missed
            click.echo(_report(exporter, outbox), err=True)
        stop.sleep(interval)
        outbox.put(*_read(exporter, only))


def _report(exporter: Exporter, outbox: Outbox) -> str:
    """Returns what was read, and what is missing."""
    counts = exporter.counts
    text = f"{counts.spans} spans"
    for number, what in (
        (counts.missing, "events are no longer in the tables"),
        (counts.parents_missing, "spans have a parent that is no longer there"),
        (counts.untimed, "events have no time"),
        (outbox.waiting, "spans are not sent"),
        (outbox.dropped, "spans were refused or dropped"),
        (counts.processes["unreadable"], "processes cannot be read"),
    ):
        text += f"; {number} {what}" if number else ""
    return text
