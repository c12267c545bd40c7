"""Declares the metrics of the program's own meters.

`setup_metrics` says what a metric is: its type, unit and description. Its value is the status variable METER.METRIC, which the
program keeps: a metric that has none is not exported, and neither are those of a meter that is disabled in `setup_meters`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from pfs._export.metrics.families import Key, Values
from pfs._export.metrics.metric import Kind, Metric

if TYPE_CHECKING:
    from pfs._read.source import Source

__all__ = ["Declared", "ProgramMeters", "variable_of"]

_KINDS: dict[str, Kind] = {"ASYNC COUNTER": "counter", "ASYNC UPDOWN COUNTER": "gauge", "ASYNC GAUGE COUNTER": "gauge"}
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds", "By": "bytes"}  # of UCUM
_OURS = ("pfs_", "mysql_")


class Declared(NamedTuple):
    """Is what `setup_metrics` says of a metric, as OpenMetrics has it."""

    kind: Kind
    doc: str
    unit: str


def variable_of(meter: str, metric: str) -> str:
    """Returns the name of the status variable that has the metric's value, in the case in which names are compared."""
    return f"{meter}.{metric}".casefold()


def numbers_of(source: Source) -> dict[str, int]:
    """Returns the rows of `global_status` that are whole numbers, by their names as `variable_of` has them."""
    rows = source.rows("global_status", ["VARIABLE_NAME", "VARIABLE_VALUE"])
    return {name.casefold(): int(value) for name, value in rows if value is not None and value.lstrip("-").isdecimal()}


def _word(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", text)


def _name_of(meter: str, metric: str, declared: Declared) -> str:
    name = _word(f"{meter}_{metric}")
    if name.startswith(_OURS) or name[0].isdigit():
        name = f"program_{name}"
    if declared.kind == "counter":
        name = name.removesuffix("_total")
    return name if not declared.unit or name.endswith(f"_{declared.unit}") else f"{name}_{declared.unit}"


def _unit_of(text: str | None) -> str:
    unit = _UNITS.get(text or "", text or "")
    return unit if re.fullmatch(r"[a-z][a-z_]*", unit) else ""


class ProgramMeters:
    """Reads the metrics of one kind. Objects that share `declared` agree on the type of a metric: the first process says it."""

    in_mysqld_exporter = False

    def __init__(self, kind: Kind, declared: dict[Key, Declared]) -> None:
        self.gauges = frozenset({0} if kind == "gauge" else ())
        self._kind = kind
        self._declared = declared

    def read(self, source: Source) -> dict[Key, Values]:
        metrics = source.rows("setup_metrics", ["METER", "NAME", "METRIC_TYPE", "UNIT", "DESCRIPTION"])
        if not metrics:
            return {}
        enabled = {name for name, is_on in source.rows("setup_meters", ["NAME", "ENABLED"]) if is_on == "YES"}
        values = numbers_of(source)
        found: dict[Key, Values] = {}
        for meter, name, kind, unit, doc in metrics:
            value = values.get(variable_of(meter, name))
            if value is not None and meter in enabled and _KINDS[kind] == self._kind:
                key = (meter, name)
                declared = self._declared.setdefault(key, Declared(self._kind, doc or "", _unit_of(unit)))
                if declared.kind == self._kind:
                    found[key] = [value]
        return found

    def metrics(self, rows: Mapping[Key, Values], top: int, prefix: str, compat: bool) -> list[Metric]:
        made: dict[str, Metric] = {}
        for (meter, name), values in sorted(rows.items()):
            declared = self._declared[meter, name]
            metric = Metric(_name_of(meter, name, declared), declared.kind, declared.doc, declared.unit)
            metric.add((), str(values[0]))
            made.setdefault(metric.name, metric)
        return list(made.values())
