"""Turns metrics, which `pfs._export.metrics` declares, into those of OTLP."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as Made
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from pfs._export.metrics.metric import Labels, Metric
from pfs._export.otel.attributes import key_values

__all__ = ["message_of"]

_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_UNITS = {"seconds": "s", "bytes": "By"}


def message_of(metrics: Iterable[Metric], resource: Resource, version: str, began: int, now: int) -> ResourceMetrics:
    """Returns the metrics that have samples. Times are nanoseconds since 1970: counts are since `began`."""
    made = [_made(metric, began, now) for metric in metrics if metric.samples]
    scope = InstrumentationScope(name="pfs", version=version)
    return ResourceMetrics(resource=resource, scope_metrics=[ScopeMetrics(scope=scope, metrics=made)])


def _made(metric: Metric, began: int, now: int) -> Made:
    made = Made(name=metric.name, description=metric.doc, unit=_UNITS.get(metric.unit, ""))
    if metric.kind == "histogram":
        made.histogram.CopyFrom(_histogram(metric, began, now))
        return made
    points = [_point(labels, value, began if metric.kind == "counter" else 0, now) for _, labels, value in metric.samples]
    if metric.kind == "counter":
        made.sum.CopyFrom(Sum(data_points=points, aggregation_temporality=_CUMULATIVE, is_monotonic=True))
    else:
        made.gauge.CopyFrom(Gauge(data_points=points))
    return made


def _point(labels: Labels, value: str, began: int, now: int) -> NumberDataPoint:
    point = NumberDataPoint(attributes=key_values(dict(labels)), start_time_unix_nano=began, time_unix_nano=now)
    if value.lstrip("-").isdecimal() and -(2**63) <= int(value) < 2**63:
        point.as_int = int(value)
    else:
        point.as_double = float(value)
    return point


def _histogram(metric: Metric, began: int, now: int) -> Histogram:
    """Returns the histogram of the samples of one metric: counts up to bounds, the last of which is infinite."""
    bounds = [float(dict(labels)["le"]) for _, labels, _ in metric.samples]
    sums = [int(value) for _, _, value in metric.samples]
    point = HistogramDataPoint(
        start_time_unix_nano=began,
        time_unix_nano=now,
        count=sums[-1],
        explicit_bounds=bounds[:-1],
        bucket_counts=[sums[0], *(high - low for low, high in itertools.pairwise(sums))],
    )
    return Histogram(data_points=[point], aggregation_temporality=_CUMULATIVE)
