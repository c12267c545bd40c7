"""One operation touches no more lines and pages than the committed baseline, and two."""

from __future__ import annotations

from pathlib import Path

from tests.bench import lines
from tests.bench.marks import CALLGRIND, of_baseline

pytestmark = CALLGRIND


@of_baseline
def test_no_case_touches_more_than_its_baseline(tmp_path: Path) -> None:
    missed = lines.regressions(lines.measure(lines.build(tmp_path)))
    assert not missed, "\n".join([*missed, "If that is right: python -m tests.bench.lines --write"])


@of_baseline
def test_the_gate_fails_when_an_operation_touches_more(tmp_path: Path) -> None:
    """Negative control: eight lines more, for where the operation lies decides about some."""
    measured = lines.measure(lines.build(tmp_path, lines=8), ["lock/all", "row/all"])
    assert {missed.partition(":")[0] for missed in lines.regressions(measured)} == {"lock/all", "row/all"}


def test_every_case_has_a_baseline() -> None:
    assert lines.baseline().keys() == lines.CASES.keys()
