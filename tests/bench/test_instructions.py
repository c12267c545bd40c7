"""The hot paths execute no more instructions than the committed baseline plus 5 %, and never 15 more."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from tests.bench import instructions, report

pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(shutil.which("valgrind") is None or shutil.which("gcc") is None, reason="needs valgrind and gcc"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the baseline is that of x86-64"),
]


of_baseline = pytest.mark.skipif(bool(instructions.other_compiler()), reason=instructions.other_compiler() or "the same compiler")


@of_baseline
def test_no_case_is_above_its_baseline(tmp_path: Path) -> None:
    measured = instructions.measure(instructions.build(tmp_path))
    missed = instructions.regressions(measured)
    assert not missed, "\n".join([*missed, instructions.advice()])


@of_baseline
def test_the_gate_fails_when_a_path_gets_20_instructions_longer(tmp_path: Path) -> None:
    padded = instructions.build(tmp_path, padding=20)
    missed = instructions.regressions(instructions.measure(padded))
    assert [line.partition(":")[0] for line in missed] == list(instructions.CASES)


def test_page_shows_the_baseline() -> None:
    rows = "\n".join(report.instruction_rows(instructions.baseline()))
    page = (Path(report.__file__).parents[2] / "docs/performance.md").read_text()
    assert rows in page, f"replace the table of Instructions in docs/performance.md by this one:\n{rows}"


def test_every_case_has_a_baseline() -> None:
    assert instructions.baseline().keys() == instructions.CASES.keys()
