"""Declares metrics that are no columns: the histogram of statements, lost events, status variables of the program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pfs._export.metrics.families import Key, Values, label_of
from pfs._export.metrics.meters import variable_of
from pfs._export.metrics.metric import Metric, seconds
from pfs._read.source import OF_PFS, losses

if TYPE_CHECKING:
    from pfs._read.source import Source

__all__ = ["Histogram", "Lost", "ProgramStatus", "Quantiles"]


class Histogram:
    """Reads the histogram of all statements. Its one row has counts up to some bounds and the count of all."""

    table = "events_statements_histogram_global"
    gauges: frozenset[int] = frozenset()
    in_mysqld_exporter = False
    _numbers = (*range(0, 351, 25), 449)  # two bounds for each power of ten, from 10 microseconds to 100 seconds

    def __init__(self) -> None:
        self._bounds: list[str] = []

    def read(self, source: Source) -> dict[Key, Values]:
        rows = source.rows(self.table, ["BUCKET_TIMER_HIGH", "COUNT_BUCKET_AND_LOWER"])
        if not rows:
            return {}
        self._bounds = [*(seconds(rows[number][0]) for number in self._numbers[:-1]), "+Inf"]
        return {(): [int(rows[number][1]) for number in self._numbers]}

    def metrics(self, rows: Mapping[Key, Values], top: int, prefix: str, compat: bool) -> list[Metric]:
        metric = Metric(f"{prefix}statements_duration_seconds", "histogram", "How long statements took.", "seconds")
        for bound, count in zip(self._bounds, rows.get((), ()), strict=bool(rows)):
            metric.add((("le", bound),), str(count), "_bucket")
        return [metric]


class Quantiles:
    """Reads how long most statements of a digest took. Quantiles do not add up: of several processes the longest is shown."""

    table = "events_statements_summary_by_digest"
    gauges = frozenset({0, 1, 2})
    in_mysqld_exporter = False
    _labels = ("schema", "digest", "digest_text")
    _quantiles = ("0.95", "0.99")

    def read(self, source: Source) -> dict[Key, Values]:
        columns = ["SCHEMA_NAME", "DIGEST", "DIGEST_TEXT", "QUANTILE_95", "QUANTILE_99", "SUM_TIMER_WAIT"]
        found: dict[Key, Values] = {}
        for *texts, p95, p99, total in source.rows(self.table, columns):
            labels = (label_of(name, text) for name, text in zip(self._labels, texts, strict=True))
            found[(*labels, str(id(source)))] = [int(p95 or 0), int(p99 or 0), int(total)]
        return found

    def metrics(self, rows: Mapping[Key, Values], top: int, prefix: str, compat: bool) -> list[Metric]:
        most: dict[Key, Values] = {}
        for (*labels, _), (p95, p99, total) in rows.items():
            before = most.get(tuple(labels), [0, 0, 0])
            most[tuple(labels)] = [max(before[0], p95), max(before[1], p99), before[2] + total]
        chosen = sorted(most.items(), key=lambda row: (-row[1][2], row[0]))[:top]
        metric = Metric(
            f"{prefix}events_statements_quantile_seconds", "gauge", "Most statements of a digest took at most this.", "seconds"
        )
        for key, values in sorted(chosen):
            for quantile, value in zip(self._quantiles, values, strict=False):
                if value:  # else all processes that had it have ended
                    metric.add((*zip(self._labels, key, strict=True), ("quantile", quantile)), seconds(value))
        return [metric]


class Lost:
    """Reads how many objects and events could not be recorded."""

    table = "global_status"
    gauges: frozenset[int] = frozenset()
    in_mysqld_exporter = True

    def read(self, source: Source) -> dict[Key, Values]:
        return {(name.removeprefix(OF_PFS).lower(),): [count] for name, count in losses(source).items()}

    def metrics(self, rows: Mapping[Key, Values], top: int, prefix: str, compat: bool) -> list[Metric]:
        name = "mysql_global_status_performance_schema_lost" if compat else f"{prefix}lost"
        metric = Metric(name, "counter", "Objects and events that could not be recorded.")
        for key, values in sorted(rows.items()):
            metric.add((("instrumentation", key[0]),), str(values[0]))
        return [metric]


class ProgramStatus:
    """Reads the status variables that the program registered, but for the values of its metrics, which `ProgramMeters` has.

    Nobody knows whether they are counters.
    """

    table = "global_status"
    gauges = frozenset({0})
    in_mysqld_exporter = False

    def read(self, source: Source) -> dict[Key, Values]:
        found: dict[Key, Values] = {}
        of_meters = {variable_of(meter, name) for meter, name in source.rows("setup_metrics", ["METER", "NAME"])}
        for name, value in source.rows(self.table, ["VARIABLE_NAME", "VARIABLE_VALUE"]):
            if name.startswith((OF_PFS, "Error_log_")) or name.casefold() in of_meters:
                continue
            if value is not None and value.lstrip("-").isdecimal():
                found[(name,)] = [int(value)]
        return found

    def metrics(self, rows: Mapping[Key, Values], top: int, prefix: str, compat: bool) -> list[Metric]:
        metric = Metric(f"{prefix}program_status", "unknown", "Status variables of the program.")
        for key, values in sorted(rows.items()):
            metric.add((("variable", key[0]),), str(values[0]))
        return [metric]
