"""Is what pfs.metrics offers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pfs._export.metrics import DEFAULT_TOP
from pfs._export.metrics.exporter import Exporter
from pfs._export.metrics.metric import open_kind
from pfs._export.metrics.text import text_of
from pfs._process.attach import attach
from pfs._process.follow import all_processes, one_process

if TYPE_CHECKING:
    from prometheus_client import Metric

__all__ = ["Collector", "exporter", "text"]


def exporter(
    source: int | str | os.PathLike[str] | None = None,
    *,
    top: int = DEFAULT_TOP,
    compat: bool = False,
    path: str | os.PathLike[str] | None = None,
    all_users: bool = False,
    findings: bool = False,
) -> Exporter:
    """Returns an object that reads processes again and again. See ``text`` for the arguments."""
    if source is None:
        return Exporter(all_processes(path, all_users), top, compat, findings)
    with attach(source) as schema:  # it says what is wrong with a source
        return Exporter(one_process(schema.path, schema._source.identity), top, compat, findings)


def text(source: int | str | os.PathLike[str] | None = None, *, top: int = DEFAULT_TOP, compat: bool = False) -> str:
    """Returns the metrics of one process, or the sums of all processes of this user, as OpenMetrics text.

    Args:
        source: a process id or the path of a segment; None adds all up.
        top: the most digests, tables and indexes: those with the most time.
        compat: the names and labels of Prometheus' mysqld_exporter: only metrics that it has.

    Raises:
        AttachError: there is no such segment.
    """
    made = exporter(source, top=top, compat=compat)
    try:
        return text_of(made.metrics())
    finally:
        made.close()


class Collector:
    """Gives a registry of prometheus_client the metrics of other processes, or of this one, at each scrape.

    It needs ``pip install prometheus_client``.
    """

    __module__ = "pfs.metrics"  # where users find it

    def __init__(
        self, source: int | str | os.PathLike[str] | None = None, *, top: int = DEFAULT_TOP, compat: bool = False
    ) -> None:
        """Takes the arguments of ``text``."""
        self._exporter = exporter(source, top=top, compat=compat)

    def collect(self) -> Iterable[Metric]:
        """Reads the processes. The registry calls it."""
        from prometheus_client import Metric

        for metric in self._exporter.metrics():
            made = Metric(metric.name, metric.doc, open_kind(metric), metric.unit)
            for suffix, labels, value in metric.samples:
                made.add_sample(metric.name + suffix, dict(labels), float(value))
            if made.samples:
                yield made

    def describe(self) -> Iterable[Metric]:
        """Returns nothing: the names depend on the processes."""
        return ()
