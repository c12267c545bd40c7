"""Defines the command ``pfs collect``."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pfs._ui.cli.options import Interval, Size, sql_text_option
from pfs._ui.cli.stopping import Stop
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    from pfs._many.fleet.collector import Collector
    from pfs._process.history.samples import Recording

__all__ = ["collect"]


@click.command()
@click.option("--to", "folder", metavar="FOLDER", required=True, help="Where the files are written: FOLDER/NODE/.")
@click.option("-i", "--interval", type=Interval(0.1), default="1min", show_default=True, help="Between two cuts.")
@click.option("--once", is_flag=True, help="One cut, and end: for cron.")
@click.option("--node", metavar="NAME", help="The name of this host in the files, instead of its hostname.")
@click.option(
    "--keep",
    metavar="N",
    type=click.IntRange(2),
    default=1440,
    show_default=True,
    help="At most this many cuts of this node stay.",
)
@click.option("--keep-size", metavar="SIZE", type=Size(), help="At most this many bytes of this node stay, such as 2G.")
@click.option("--also", metavar="TABLE", multiple=True, help="A table that does not add up, too; % stands for any text.")
@click.option("--sample", is_flag=True, help="Samples what threads do, too, as pfs record: FOLDER/NODE/samples.ash.")
@click.option("--hz", type=click.FloatRange(0.1, 1000), default=20, show_default=True, help="Samples a second.")
@sql_text_option
@click.option("--dir", "directory", metavar="DIR", help="Where the segments are, instead of PFS_DIR or /dev/shm/pfs-<uid>.")
@click.option(
    "-a", "--all-users", is_flag=True, help="Also processes of other users and of containers, if their folders are readable."
)
def collect(
    folder: str,
    interval: float,
    once: bool,
    node: str | None,
    keep: int,
    keep_size: int | None,
    also: tuple[str, ...],
    sample: bool,
    hz: float,
    sql_text: bool,
    directory: str | None,
    all_users: bool,
) -> None:
    """Writes what all processes of this host have counted to a folder, again and again: one file for each cut.

    The folder may be that of many hosts: pfs.fleet.read and pfs top --fleet read all of them. A process that ends stays in the
    sums of its host. A cut that fails is said, and the next one goes on. Samples stay as long as cuts.

    \b
    pfs collect --to /shared/pfs
    pfs collect --to /shared/pfs --interval 10s --keep 360 --keep-size 2G
    pfs collect --to /shared/pfs --once --node web1 --also threads --also 'events_%_current'
    pfs collect --to /shared/pfs --sample
    pfs top --fleet /shared/pfs
    """
    if sample and once:
        raise click.UsageError("--sample is not for --once: samples take time.")
    from pfs._many.fleet.collector import Collector, Retention, tables_of
    from pfs._process.follow import all_processes
    from pfs._process.history.samples import recording_of
    from pfs._process.processes import listed

    name = node or socket.gethostname()

    def record() -> Recording:
        place = os.path.join(collector.folder, "samples.ash")
        return recording_of(all_processes(directory, all_users), place, hz, keep * interval, keep_size, name)

    collector = Collector(
        folder,
        name,
        lambda: listed(directory, all_users),
        tables_of(also),
        Retention(keep, keep_size),
        sql_text,
    )
    try:
        if once:
            _cut(collector)
        else:
            _collect(collector, interval, Stop(), _Samples(record) if sample else None)
    except KeyboardInterrupt:
        pass  # it is how one ends it
    finally:
        collector.close()


def _cut(collector: Collector) -> None:
    for problem in collector.cut().problems:
        click.echo(f"pfs: {problem}", err=True)


def _where(error: Exception, folder: str) -> str:
    """Returns the problem without the name of the cut, which is another one each time."""
    if not isinstance(error, OSError):
        return str(error)
    path = os.fspath(error.filename or folder)
    return f"{error.strerror}: {folder if os.path.dirname(path) == folder else path}"


class _Samples:
    """Samples beside the cuts. Those that cannot be written any more are said, and begin again at the next cut."""

    def __init__(self, record: Callable[[], Recording]) -> None:
        self._record = record
        self._now: Recording | None = None

    def go_on(self) -> list[str]:
        """Begins if nothing is written. Returns why it cannot, and what is wrong with the files."""
        try:
            if self._now is None or self._now.has_failed:
                self.stop()
                self._now = self._record().start()
        except (OSError, InvalidValue) as error:
            return [f"no samples are written: {error}"]
        return self._now.problems

    def stop(self) -> None:
        recording, self._now = self._now, None
        if recording is not None:
            recording.stop()


def _collect(collector: Collector, interval: float, stop: Stop, samples: _Samples | None) -> None:
    said: frozenset[str] = frozenset()
    due = time.monotonic()
    try:
        while True:
            try:
                problems = frozenset(collector.cut().problems)
            except (OSError, InvalidValue) as error:  # a full disk, a folder that cannot be written
                problems = frozenset([f"no cut was written: {_where(error, collector.folder)}"])
            else:
                problems |= frozenset(samples.go_on() if samples else [])  # the cut has made the folder
            for problem in sorted(problems - said):  # each once, until it is over
                click.echo(f"pfs: {problem}", err=True)
            said = problems
            due = max(due + interval, time.monotonic())
            stop.sleep(due - time.monotonic())
    finally:
        if samples:
            samples.stop()
