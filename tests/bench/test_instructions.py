"""The hot paths execute no more instructions than the committed baseline plus 5 %, and never 15 more."""

from __future__ import annotations

from pathlib import Path

from tests.bench import instructions
from tests.bench.marks import CALLGRIND, of_baseline

pytestmark = CALLGRIND


@of_baseline
def test_no_case_is_above_its_baseline(tmp_path: Path) -> None:
    measured = instructions.measure(instructions.build(tmp_path))
    missed = instructions.regressions(measured)
    assert not missed, "\n".join([*missed, instructions.advice(missed)])
    for operation in ("lock", "ownlock", "pread", "socket"):  # who asks for less pays no more
        assert measured[f"{operation}/untimed"] < 1.03 * measured[f"{operation}/all"]


@of_baseline
def test_the_gate_fails_when_a_path_gets_20_instructions_longer(tmp_path: Path) -> None:
    """Negative control: each loop of driver.c with 20 instructions more, and each case with a figure that is higher by 20."""
    one_of_each = {case.operation: name for name, case in instructions.CASES.items()}
    padded = instructions.measure(instructions.build(tmp_path, padding=20), list(one_of_each.values()))
    missed = instructions.regressions(padded)
    assert [line.partition(":")[0] for line in missed] == list(one_of_each.values())
    missed = instructions.regressions({name: known + 20 for name, known in instructions.baseline().items()})
    assert [line.partition(":")[0] for line in missed] == list(instructions.CASES)


def test_page_shows_the_baseline() -> None:
    page = instructions.PAGE.read_text()
    assert instructions.with_rows(page) == page, "python tests/bench/instructions.py --write CASE writes the page, too"
    another = page.replace("| lock/bare | ", "| lock/bare | 1")
    assert another != page == instructions.with_rows(another)


def test_every_case_has_a_baseline() -> None:
    assert instructions.baseline().keys() == instructions.CASES.keys()
