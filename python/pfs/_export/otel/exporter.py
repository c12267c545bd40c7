"""Reads processes again and again, and makes OTLP messages of what is new."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from pfs import _core
from pfs._export.metrics import DEFAULT_TOP
from pfs._export.metrics.exporter import Exporter as Sums
from pfs._export.metrics.metric import Metric
from pfs._export.otel import DEFAULT_MIN_WAIT
from pfs._export.otel.attributes import key_values, of_environment, of_process
from pfs._export.otel.metrics import message_of
from pfs._export.otel.spans import Spans
from pfs._process import processes
from pfs._process.follow import Find, Follower

__all__ = ["Counts", "Exporter"]


@dataclass(frozen=True, slots=True)
class Counts:
    """What an exporter has read since it began.

    Attributes:
        spans: events that became spans.
        missing: events that were in no table when they should have been read.
        untimed: events without a time.
        parents_missing: spans whose parent was in no table.
        processes: how many were in each state at the last reading.
    """

    spans: int
    missing: int
    untimed: int
    parents_missing: int
    processes: Counter[str]


Counts.__module__ = "pfs.otel"  # where users find it; dataclass() looks into the module of a class, which may not be loaded


class Exporter:
    """Makes the spans and the metrics of processes. It remembers which events it has read."""

    __module__ = "pfs.otel"  # where users find it

    def __init__(
        self, find: Find, process: processes.Found | None, min_wait: int = DEFAULT_MIN_WAIT, sql_text: bool = False,
        service: str | None = None,
    ) -> None:  # fmt: skip
        """Takes the only process, if there is one: metrics of all processes are their sums."""
        self._follower = Follower(find, lambda found: Spans(found, min_wait, sql_text, service))
        self._sums = Sums(find, DEFAULT_TOP)
        self._ended: list[ExportTraceServiceRequest] = []
        self._of_ended = [0, 0, 0]
        self._spans = 0
        self._states = Counter[str]()
        if process is None:
            self._began = time.time_ns()
            names = {"service.name": "pfs", "host.name": os.uname().nodename} | of_environment()
            self._resource = Resource(attributes=key_values(names | ({"service.name": service} if service else {})))
        else:
            self._began = process.identity.started * 1000
            self._resource = of_process(process, service)[0]

    def traces(self) -> list[ExportTraceServiceRequest]:
        """Reads all processes and returns the spans of events that are new."""
        self._ended = []
        self._states = self._follower.read(self._take)
        made = self._ended
        for process in self._follower.known.values():
            made += self._messages(process)
        return made

    def metrics(self) -> ExportMetricsServiceRequest:
        """Reads all processes and returns their metrics, and what `traces` has missed."""
        counts = self.counts
        missed = Metric("pfs_otel_events_missed", "gauge", "Events that could not become spans.")  # falls if one turns up later
        missed.add((("reason", "missing"),), str(counts.missing))
        missed.add((("reason", "untimed"),), str(counts.untimed))
        metrics = [*self._sums.metrics(), missed]
        version = _core.__version__
        return ExportMetricsServiceRequest(
            resource_metrics=[message_of(metrics, self._resource, version, self._began, time.time_ns())]
        )

    @property
    def counts(self) -> Counts:
        sums = list(self._of_ended)
        for process in self._follower.known.values():
            sums = [a + b for a, b in zip(sums, _missed(process), strict=True)]
        missing, untimed, parents_missing = sums
        return Counts(self._spans, missing, untimed, parents_missing, self._states)

    def close(self) -> None:
        for process in self._follower.known.values():
            self._count(process)
        self._follower.close()
        self._sums.close()

    def _take(self, ended: Spans) -> None:
        self._ended += self._messages(ended)
        self._count(ended)

    def _count(self, ended: Spans) -> None:
        self._of_ended = [a + b for a, b in zip(self._of_ended, _missed(ended), strict=True)]

    def _messages(self, process: Spans) -> list[ExportTraceServiceRequest]:
        self._spans += len(process.made)
        return [ExportTraceServiceRequest(resource_spans=[message]) for message in process.messages()]


def _missed(process: Spans) -> tuple[int, int, int]:
    return process.history.missing, process.history.untimed, process.parents_missing
