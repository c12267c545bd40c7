"""One event of a real program misses simulated caches no more often than the committed baseline allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import caches
from tests.bench.marks import CALLGRIND, of_baseline

IS_THERE = Path("/usr/include/sqlite3.h").exists() and caches.SHIM.exists()
pytestmark = [*CALLGRIND, pytest.mark.skipif(not IS_THERE, reason="apt-get install libsqlite3-dev; the sdist has no lab")]


@of_baseline
def test_an_event_misses_no_more_than_its_baseline(tmp_path: Path) -> None:
    programs = caches.build(tmp_path)
    missed = caches.regressions(caches.measure(programs))
    assert not missed, "\n".join([*missed, "If that is right: python -m tests.bench.caches --write"])
    # Negative control: a pool of records that no cache holds.
    missed = caches.regressions(caches.measure(programs, rows=10_000))
    assert [line.partition(" of an event")[0] for line in missed] == ["misses of 1 MiB"]


def test_the_gate_fails_for_each_figure() -> None:
    """Negative control: a third of a line more, and 20 instructions."""
    for what, known in caches.baseline().items():
        more = 20 if what == "instructions" else 0.3
        assert len(caches.regressions({what: known + more})) == 1
        assert not caches.regressions({what: known})
