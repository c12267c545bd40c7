"""Events of three timers nest, however long a program runs; and how far its clock is from the kernel's.

PFS_TEST_LONG=1800 pytest tests/python/objects/test_clock.py -s    runs for an hour.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import budgets
from tests.conftest import Run
from tests.python._programs.nodes import faketime

SCRIPT = """
    import sys, time
    import pfs
    from pfs import _core

    seconds = float(sys.argv[1])
    pfs.setup.setup_timers["statement"].timer_name = "MICROSECOND"
    pfs.setup.setup_timers["stage"].timer_name = "NANOSECOND"
    pfs.setup.setup_timers["wait"].timer_name = "CYCLE"
    lock = pfs.Lock("clock/LOCK")
    statement, stage = pfs.statement("clock/statement"), pfs.stage("clock/stage")
    unit = {"statement": 1_000_000, "stage": 1_000, "wait": 1}  # picoseconds

    def gap():
        "Nanoseconds of the program's timer minus CLOCK_MONOTONIC, from the closest of many pairs."
        pairs = []
        for _ in range(1000):
            before = time.monotonic_ns()
            now = _core.now(None)
            after = time.monotonic_ns()
            pairs.append((after - before, now / 1000 - (before + after) / 2))
        return min(pairs)[1]

    def rows(kind, *columns):
        return _core.rows(f"events_{kind}s_history_long", ("EVENT_ID", "NESTING_EVENT_ID", "TIMER_START", "TIMER_END"), None)

    first, begin, rounds = gap(), time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        with statement, stage, lock:
            pass
        rounds += 1
        time.sleep(seconds / 200)
    last = gap()
    times = {event: (kind, start, end, parent) for kind in unit for event, parent, start, end in rows(kind)}
    nested = {"stage": 0, "wait": 0}
    for kind, start, end, parent in times.values():
        if kind == "statement":
            continue
        outer, outer_start, outer_end, _ = times[parent]
        assert outer_start <= start, (kind, start, outer, outer_start)
        assert end < outer_end + unit[outer], (kind, end, outer, outer_end)
        nested[kind] += 1
    assert nested == {"stage": rounds, "wait": rounds}, (nested, rounds)
    drift = (last - first) / (time.monotonic() - begin)  # nanoseconds a second
    print(f"{rounds} statements in {seconds:.0f} s: all nest; {last - first:.0f} ns from CLOCK_MONOTONIC, {drift / 1000:.3f} ppm")
    assert abs(drift) < 100_000
"""


def test_events_of_three_timers_nest_to_their_unit(fresh: Run) -> None:
    """One counter serves all timers: a wait by CYCLE lies in its stage by NANOSECOND, and that in a statement by MICROSECOND."""
    kinds = [
        f"performance_schema_consumer_events_{kind}_{view}=ON"
        for kind in ("statements", "stages", "waits")
        for view in ("current", "history_long")
    ]
    options = ",".join(["performance_schema_instrument='%=ON'", *kinds])
    seconds = str(budgets.CLOCK_SECONDS)
    print(fresh(SCRIPT, seconds, options=options, timeout=60 + 2 * float(seconds)))


@pytest.mark.parametrize("clock", ["2001-01-01 00:00:00", "@2001-01-01 00:00:00 x0.001"])
def test_a_clock_that_stands_still_ends_no_reading(fresh: Run, tmp_path: Path, clock: str) -> None:
    """libfaketime with an absolute time stops every clock of the C library: what pfs measures itself is bounded all the same."""
    library = faketime()
    if library is None:
        pytest.skip("needs libfaketime: the Debian package faketime")
    script = """
        import sys
        import pfs

        timers = pfs.table("performance_timers").set_index("TIMER_NAME")
        print(timers.TIMER_FREQUENCY["CYCLE"])
        pfs.snapshot(sys.argv[1])
    """
    frequency = int(fresh(script, str(tmp_path / "faked"), timeout=30, LD_PRELOAD=library, FAKETIME=clock))
    plain = int(fresh(script, str(tmp_path / "plain"), timeout=30))
    assert abs(frequency / plain - 1) < 0.01, (frequency, plain)
    assert len(list((tmp_path / "faked").iterdir())) == len(list((tmp_path / "plain").iterdir()))
