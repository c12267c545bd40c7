"""Measures how much longer a function takes with pfs than without, for the fixture ``pfs_overhead``."""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from pfs import setup
from pfs._ui.testing import counted
from pfs.errors import InvalidValue, StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest

__all__ = ["COUNTS", "Overhead", "count_instructions", "measure"]

COUNTS = ("time", "instructions")
_MOST_CALLS = 10_000_000
_DRAWS = 2000
_CALLS_COUNTED, _BLOCKS_COUNTED = 200, 5  # the least of the blocks counts
_LONG_CALL = 0.02  # seconds: then a tenth of the calls


@dataclass(frozen=True, slots=True)
class Overhead:
    """Compares the time, or the instructions, with instruments on to those with instruments off.

    Attributes:
        ratio: median over pairs of blocks, 1.0 is no overhead.
        low, high: 95 % interval of `ratio`, from a bootstrap over the pairs. Of instructions both are `ratio`.
        on, off: median seconds of a call, or its instructions.
        calls: number of calls in a block.
        blocks: number of pairs of blocks.
        counted_by: "clock", "perf_event_open" or "valgrind".
    """

    ratio: float
    low: float
    high: float
    on: float
    off: float
    calls: int
    blocks: int
    counted_by: str = "clock"

    def __str__(self) -> str:
        if self.counted_by != "clock":
            return f"{self.ratio:.4f} ({self.on:,.1f} instructions a call, {self.off:,.1f} without, counted by {self.counted_by})"
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


@contextmanager
def _switching() -> Iterator[Callable[[bool], None]]:
    """Yields a function that switches all instruments, which are on before and after."""
    switch = setup.setup_consumers["global_instrumentation"]
    if setup.variables["performance_schema"] != "ON" or not switch.enabled:
        raise StateError("pfs is off, or its consumer global_instrumentation is: there are no instruments to be measured")

    def turn(is_on: bool) -> None:
        switch.enabled = is_on

    collects = gc.isenabled()
    gc.disable()  # a collection would hit only one of the two
    try:
        yield turn
    finally:
        switch.enabled = True
        if collects:
            gc.enable()


def count_instructions(function: Callable[[], object], item: pytest.Item, earlier: Sequence[Overhead]) -> Overhead:
    """Counts the instructions of a function: see ``pfs_overhead``. `earlier` are those that the test has measured before."""
    folder = counted.in_valgrind(item.nodeid)
    if folder is not None and len(earlier) < len(known := counted.earlier_of(folder)):
        return Overhead(**known[len(earlier)])

    def run(block: tuple[bool, int]) -> Callable[[], object]:
        turn(block[0])
        return lambda: _block(function, block[1])

    with _switching() as turn:
        fastest = math.inf
        for is_on in (True, False, True, False):  # what happens once, and how long a call takes if nothing stands in its way
            turn(is_on)
            fastest = min(fastest, _block(function, 20))
        calls = _CALLS_COUNTED // 10 if fastest > 20e9 * _LONG_CALL else _CALLS_COUNTED
        if folder is not None:
            calls = counted.calls_of(folder)  # all is slower there
        order = [(True, calls), (False, calls), (True, 0)] * _BLOCKS_COUNTED  # the third kind has what is no call
        if folder is not None:
            counted.leave_valgrind(folder, order, run)
        try:
            processor = counted.Processor()
        except OSError:
            counted_by = "valgrind"
        else:
            counted_by = "perf_event_open"
            counts = [processor.count(run(block)) for block in order]
            processor.close()
    if counted_by == "valgrind":
        counts = counted.result_of_valgrind(item.config, item.nodeid, calls, len(order), [asdict(one) for one in earlier])
    all_on, all_off, nothing = (min(counts[kind::3]) for kind in range(3))
    on, off = (all_on - nothing) / calls, (all_off - nothing) / calls
    ratio = on / max(off, 1)
    return Overhead(ratio, ratio, ratio, on, off, calls, _BLOCKS_COUNTED, counted_by)


def measure(function: Callable[[], object], blocks: int, block_seconds: float) -> Overhead:
    """Measures a function: see ``pfs_overhead``."""
    if blocks < 5:
        raise InvalidValue(f"bad value {blocks} for blocks: at least 5 are needed for an interval")
    if not 0 < block_seconds <= 60:
        raise InvalidValue(f"bad value {block_seconds} for block_seconds: legal are more than 0 and at most 60 seconds")
    source = random.Random(1)  # the order must be mixed, but not differ between runs
    calls, wanted = 1, int(block_seconds * 1e9)
    while (taken := _block(function, calls)) < wanted and calls < _MOST_CALLS:
        calls = min(
            _MOST_CALLS, max(calls * 2, int(calls * wanted / max(taken, 1))) if taken < wanted // 2 else calls + calls // 2 + 1
        )
    times: dict[bool, list[int]] = {True: [], False: []}
    with _switching() as turn:
        for _ in range(blocks):
            order = [True, False]
            source.shuffle(order)
            for is_on in order:
                turn(is_on)
                times[is_on].append(_block(function, calls))
    ratios = [on / max(off, 1) for on, off in zip(times[True], times[False], strict=True)]
    low, high = interval(ratios, source)
    on, off = (statistics.median(times[is_on]) / calls / 1e9 for is_on in (True, False))
    return Overhead(statistics.median(ratios), low, high, on, off, calls, blocks)
