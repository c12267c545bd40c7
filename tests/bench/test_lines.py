"""One operation touches no more lines and pages than the committed baseline, and two."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from tests.bench import instructions, lines

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs valgrind and gcc"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the baseline is that of x86-64"),
]


of_baseline = pytest.mark.skipif(bool(instructions.other_compiler()), reason=instructions.other_compiler() or "the same compiler")


@of_baseline
def test_no_case_touches_more_than_its_baseline(tmp_path: Path) -> None:
    missed = lines.regressions(lines.measure(lines.build(tmp_path)))
    assert not missed, "\n".join([*missed, "If that is right: python -m tests.bench.lines --write"])


@of_baseline
def test_the_gate_fails_when_an_operation_touches_more(tmp_path: Path) -> None:
    """Negative control: eight lines more, for where the operation lies decides about some."""
    measured = lines.measure(lines.build(tmp_path, lines=8), ["lock/all", "row/all"])
    assert [missed.partition(":")[0] for missed in lines.regressions(measured)] == ["lock/all", "row/all"]


def test_every_case_has_a_baseline() -> None:
    assert lines.baseline().keys() == lines.CASES.keys()
