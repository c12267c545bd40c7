"""Samples one process from a thread of its own, and hands over its rows each second."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from pfs import _core
from pfs._process.segment import SegmentSource
from pfs._read.places.readable import Readable
from pfs._read.source import OWN
from pfs.errors import Error

__all__ = ["SAMPLES", "TOTALS", "Batch", "Sampled"]

SAMPLES, TOTALS = "active_session_history", "active_session_totals"
_SUMS = "events_waits_summary_global_by_event_name"
_SECOND = 1.0

Batch: TypeAlias = "tuple[str, int, list[_core.Part]]"  # the table, rows, columns


class Sampled:
    """Samples one process until it ends or `stop` is called.

    Besides, it reads once a second how long each wait has taken in all: the sums, with the time so far of what runs. They are
    exact, and correct the weights of samples when these are read.
    """

    def __init__(self, segment: _core.Segment | None, node: str, hz: float, put: Callable[[Batch], None]) -> None:
        self.pid = os.getpid() if segment is None else segment.pid
        self._segment = segment
        self._node = node
        self._put = put
        self._sampling = _core.Sampling(segment, hz)
        self._words = Readable(OWN if segment is None else SegmentSource(segment, write=False))
        self._sums: dict[str, tuple[int, int]] = {}
        self._thread = threading.Thread(target=self._run, name=f"pfs.sampling {self.pid}", daemon=True)
        self.has_ended = False

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._sampling.stop()

    def join(self) -> None:
        self._thread.join()

    def about(self) -> dict[str, Any]:
        """Says how well it samples."""
        sampling = self._sampling
        return {
            "scheduling": sampling.scheduling,
            "samples": sampling.samples,
            "missed": sampling.missed,
            "processor_time": sampling.processor_time / 1e9,
        }

    def _run(self) -> None:
        try:
            self._read_sums([])
            goes_on = True
            while goes_on and not self.has_ended:
                before = self._sampling.samples
                goes_on, rows, _, parts = self._sampling.run(_SECOND)
                if self._sampling.samples == before and goes_on:
                    break  # it was stopped
                if rows:
                    self._hand_over(SAMPLES, rows, parts)
                self._read_sums(parts if rows else [])
        except Error:
            pass  # its file was cut: the process has gone
        finally:
            self.has_ended = True

    def _hand_over(self, table: str, rows: int, parts: list[_core.Part]) -> None:
        origin: list[_core.Part] = [
            ("NODE", "text", False, np.zeros(rows, np.int32), None, np.array([self._node], object)),
            ("PID", "uint64", False, np.full(rows, self.pid, np.uint64), None, None),
        ]
        self._put((table, rows, [*origin, *(self._in_words(part) for part in parts)]))

    def _in_words(self, part: _core.Part) -> _core.Part:
        name, kind, nullable, values, mask, texts = part
        words = self._words.name if name == "THREAD_NAME" else self._words.of_column(name)
        if words is None or texts is None:
            return part
        return name, kind, nullable, values, mask, np.array([words(text) for text in texts], object)

    def _read_sums(self, parts: list[_core.Part]) -> None:
        """Hands over how much longer than a second ago each wait has taken. `parts`: the rows of the last second."""
        now = {
            str(name): (int(count), int(time))
            for name, count, time in _core.rows(_SUMS, ("EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT"), self._segment)
            if count
        }
        columns = {part[0]: part for part in parts}
        if parts:
            numbers = columns["SAMPLE_ID"][3]
            codes, texts = columns["EVENT_NAME"][3], columns["EVENT_NAME"][5]
            waits, is_null = columns["TIMER_WAIT"][3], columns["TIMER_WAIT"][4]
            for row in np.flatnonzero((numbers == numbers[-1]) & (codes >= 0) & ~is_null):
                count, time = now.get(name := str(texts[codes[row]]), (0, 0))
                now[name] = count, time + int(waits[row])
        elif self._sums:
            return  # without a sample the time so far of what runs is not known
        changed = [
            (name, count - before[0], time - before[1])
            for name, (count, time) in now.items()
            if (before := self._sums.get(name, (0, 0))) != (count, time) and count >= before[0]
        ]
        is_first, self._sums = not self._sums, now
        if is_first or not changed or not parts:
            return
        names, counts, times = zip(*changed, strict=True)
        rows = len(changed)
        moment = np.full(rows, columns["SAMPLE_TIME"][3][-1], np.int64)
        self._hand_over(
            TOTALS,
            rows,
            [
                ("SAMPLE_TIME", "timestamp", False, moment, None, None),
                ("EVENT_NAME", "text", False, np.arange(rows, dtype=np.int32), None, np.array(names, object)),
                ("COUNT_STAR", "uint64", False, np.array(counts, np.uint64), None, None),
                ("SUM_TIMER_WAIT", "uint64", False, np.array([max(time, 0) for time in times], np.uint64), None, None),
            ],
        )
