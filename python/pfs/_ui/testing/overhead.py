"""Measures how much longer a function takes with pfs than without, for the fixture ``pfs_overhead``."""

from __future__ import annotations

import gc
import random
import statistics
import time
from dataclasses import dataclass

from pfs import setup
from pfs.errors import InvalidValue, StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Overhead", "measure"]

_MOST_CALLS = 10_000_000
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Overhead:
    """Compares the time with instruments on to the time with instruments off.

    Attributes:
        ratio: median over pairs of blocks, 1.0 is no overhead.
        low, high: 95 % interval of `ratio`, from a bootstrap over the pairs.
        on, off: median seconds of a call.
        calls: number of calls in a block.
        blocks: number of pairs of blocks.
    """

    ratio: float
    low: float
    high: float
    on: float
    off: float
    calls: int
    blocks: int

    def __str__(self) -> str:
        return f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.blocks} pairs of blocks of {self.calls} calls)"


def _block(function: Callable[[], object], calls: int) -> int:
    """Returns the nanoseconds of `calls` calls."""
    again = range(calls)
    begin = time.perf_counter_ns()
    for _ in again:
        function()
    return time.perf_counter_ns() - begin


def interval(ratios: Sequence[float], source: random.Random) -> tuple[float, float]:
    """Returns the range of 95 % of the medians of samples drawn with replacement."""
    drawn = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(_DRAWS))
    return drawn[int(0.025 * _DRAWS)], drawn[int(0.975 * _DRAWS) - 1]


def measure(function: Callable[[], object], blocks: int, block_seconds: float) -> Overhead:
    """Measures a function: see ``pfs_overhead``."""
    if not callable(function):
        raise InvalidValue(f"bad value {function!r}: pfs_overhead measures a function without arguments")
    if blocks < 5:
        raise InvalidValue(f"bad value {blocks} for blocks: at least 5 are needed for an interval")
    if not 0 < block_seconds <= 60:
        raise InvalidValue(f"bad value {block_seconds} for block_seconds: legal are more than 0 and at most 60 seconds")
    switch = setup.setup_consumers["global_instrumentation"]
    if setup.variables["performance_schema"] != "ON" or not switch.enabled:
        raise StateError("pfs is off, or its consumer global_instrumentation is: there are no instruments to be measured")
    source = random.Random(1)  # the order must be mixed, but not differ between runs
    calls, wanted = 1, int(block_seconds * 1e9)
    while (taken := _block(function, calls)) < wanted and calls < _MOST_CALLS:
        calls = min(
            _MOST_CALLS, max(calls * 2, int(calls * wanted / max(taken, 1))) if taken < wanted // 2 else calls + calls // 2 + 1
        )
    times: dict[bool, list[int]] = {True: [], False: []}
    collects = gc.isenabled()
    gc.disable()  # a collection would hit only one of the two
    try:
        for _ in range(blocks):
            order = [True, False]
            source.shuffle(order)
            for is_on in order:
                switch.enabled = is_on
                times[is_on].append(_block(function, calls))
    finally:
        switch.enabled = True
        if collects:
            gc.enable()
    ratios = [on / max(off, 1) for on, off in zip(times[True], times[False], strict=True)]
    low, high = interval(ratios, source)
    on, off = (statistics.median(times[is_on]) / calls / 1e9 for is_on in (True, False))
    return Overhead(statistics.median(ratios), low, high, on, off, calls, blocks)
