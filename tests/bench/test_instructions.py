"""The hot paths execute no more instructions than the committed baseline plus 5 %, and never 15 more."""

from __future__ import annotations

from pathlib import Path

from tests.bench import instructions, report
from tests.bench.marks import CALLGRIND, of_baseline

pytestmark = CALLGRIND


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
