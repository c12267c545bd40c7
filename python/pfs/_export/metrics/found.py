"""Declares the metric of findings: what each fault has taken in the last minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pfs._export.metrics.families import Key, Values
from pfs._export.metrics.metric import Metric, seconds
from pfs._process.findings.ask import LastMinute
from pfs._process.findings.rules import RULES
from pfs._process.segment import SegmentSource

if TYPE_CHECKING:
    from pfs._read.source import Source

__all__ = ["Findings"]


class Findings:
    """Reads the history of a process, which takes a tenth of a second, so only users who ask for findings get them."""

    gauges = frozenset((0,))
    in_mysqld_exporter = False

    def __init__(self) -> None:
        self._last_minutes: WeakKeyDictionary[SegmentSource, LastMinute] = WeakKeyDictionary()

    def read(self, source: Source) -> dict[Key, Values]:
        assert isinstance(source, SegmentSource)
        last_minute = self._last_minutes.setdefault(source, LastMinute())
        found = {one.name: one.time for one in last_minute.findings([source])}
        return {(rule.name,): [found.get(rule.name, 0)] for rule in RULES}

    def metrics(self, rows: Mapping[Key, Values], top: int, prefix: str, compat: bool) -> list[Metric]:
        metric = Metric(f"{prefix}finding_seconds", "gauge", "What a fault has taken in the last minute.", "seconds")
        for key, values in rows.items():
            metric.add((("rule", key[0]),), seconds(values[0]))
        return [metric]
