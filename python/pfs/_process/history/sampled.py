"""Samples one process from a thread of its own, and hands over its rows each second from another one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import time_ns
from typing import Any, TypeAlias

import numpy as np

from pfs import _core
from pfs._process.history.names import DECLARED, SAMPLES, TOTALS
from pfs._process.segment import SegmentSource
from pfs._read.places.readable import Readable
from pfs._read.source import OWN
from pfs.errors import Error

__all__ = ["Batch", "Sampled"]

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
        self._sums: dict[str, tuple[int, int]] | None = None
        # The thread that samples does little else: while it does, no sample is taken.
        self._taken: SimpleQueue[tuple[int, list[_core.Part]] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._take, name=f"pfs.sampling {self.pid}", daemon=True),
            threading.Thread(target=self._run, name=f"pfs.samples {self.pid}", daemon=True),
        ]
        self._is_stopping = False
        self.has_ended = False

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_stopping = True
        self._sampling.stop()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def about(self) -> dict[str, Any]:
        """Says how well it samples."""
        sampling = self._sampling
        return {
            "scheduling": sampling.scheduling,
            "samples": sampling.samples,
            "missed": sampling.missed,
            "processor_time": sampling.processor_time / 1e9,
        }

    def _take(self) -> None:
        goes_on = True
        try:
            while goes_on and not self._is_stopping:
                goes_on, rows, _, parts = self._sampling.run(_SECOND)
                self._taken.put((rows, parts))
        except Error:
            pass  # its file was cut: the process has gone
        finally:
            self._taken.put(None)

    def _run(self) -> None:
        try:
            self._read_sums()
            while (taken := self._taken.get()) is not None:
                rows, parts = taken
                if rows:
                    self._hand_over(SAMPLES, rows, parts)
                self._read_sums()
        except Error:
            pass  # the same
        finally:
            self.stop()
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

    def _read_sums(self) -> None:
        """Hands over how much longer than a second ago each wait has taken: what has ended, and the time so far of what runs."""
        now = {
            str(name): (int(count), int(time))
            for name, count, time in _core.rows(_SUMS, ("EVENT_NAME", "COUNT_STAR", "SUM_TIMER_WAIT"), self._segment)
            if count
        }
        for name, time in _core.rows(DECLARED, ("EVENT_NAME", "TIMER_WAIT"), self._segment):
            if time is not None:
                count, ended = now.get(name, (0, 0))
                now[name] = count, ended + time
        is_first, before_all, self._sums = self._sums is None, self._sums or {}, now
        changed = [
            (name, count - before[0], time - before[1])
            for name, (count, time) in now.items()
            # After a TRUNCATE the sums begin again.
            if (before := before_all.get(name, (0, 0))) != (count, time) and count >= before[0] and time >= before[1]
        ]
        if is_first or not changed:
            return
        names, counts, times = zip(*changed, strict=True)
        rows = len(changed)
        self._hand_over(
            TOTALS,
            rows,
            [
                ("SAMPLE_TIME", "timestamp", False, np.full(rows, time_ns() // 1000, np.int64), None, None),
                ("EVENT_NAME", "text", False, np.arange(rows, dtype=np.int32), None, np.array(names, object)),
                ("COUNT_STAR", "uint64", False, np.array(counts, np.uint64), None, None),
                ("SUM_TIMER_WAIT", "uint64", False, np.array(times, np.uint64), None, None),
            ],
        )
