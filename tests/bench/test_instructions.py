"""The hot paths execute no more instructions than the committed baseline plus 5 %, and never 15 more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import instructions
from tests.bench.marks import CALLGRIND, of_baseline

pytestmark = CALLGRIND


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    return instructions.measure(instructions.build(tmp_path_factory.mktemp("driver")))


@of_baseline
def test_no_case_is_above_its_baseline(measured: dict[str, float]) -> None:
    missed = instructions.regressions(measured)
    assert not missed, "\n".join([*missed, instructions.advice(missed)])
    assert not dearer_than_more(measured)


# By setting those that ask for less.
_LEAST = ("disabled", "counted")
LESS = {
    "counted": ("disabled",),
    "state": ("disabled",),
    "contended": ("disabled",),
    "sampled": _LEAST,
    "untimed": (*_LEAST, "state"),
    "timed": (*_LEAST, "contended"),
    "all": (*_LEAST, "state", "contended", "sampled", "untimed", "timed", "current"),
}
# Recorded but not timed: the way to it costs these families more than two readings of the timer.
MOST_OF_MORE = {"openclose/untimed": 1.1, "socketfile/untimed": 1.08, "row/untimed": 1.06}


def pairs(measured: dict[str, float]) -> list[tuple[str, str]]:
    """Cases of one operation: that of a setting which asks for less, and that of one which asks for more."""
    operations = sorted({name.partition("/")[0] for name in measured})
    both = [(f"{operation}/{less}", f"{operation}/{more}") for operation in operations for more in LESS for less in LESS[more]]
    return [pair for pair in both if measured.keys() >= set(pair)]


def dearer_than_more(measured: dict[str, float]) -> list[tuple[str, str]]:
    """Pairs whose first case costs more than 3 % above the second."""
    return [pair for pair in pairs(measured) if measured[pair[0]] > MOST_OF_MORE.get(pair[0], 1.03) * measured[pair[1]]]


def test_a_dearer_setting_is_found() -> None:
    """Negative control: each setting with the figure of one that asks for more, and a seventh."""
    known = instructions.baseline()
    assert not dearer_than_more(known)
    assert len(pairs(known)) > 60
    for less, more in pairs(known):
        assert (less, more) in dearer_than_more({**known, less: 1.15 * known[more]})


@of_baseline
def test_the_gate_fails_when_a_path_gets_20_instructions_longer(measured: dict[str, float], tmp_path: Path) -> None:
    """Negative control: each loop of driver.c with 20 instructions more than measured without, and each case 20 higher."""
    one_of_each = {case.operation: name for name, case in instructions.CASES.items()}
    padded = instructions.measure(instructions.build(tmp_path, padding=20), list(one_of_each.values()))
    missed = instructions.regressions(padded, measured)
    assert [line.partition(":")[0] for line in missed] == list(one_of_each.values())
    missed = instructions.regressions({name: known + 20 for name, known in instructions.baseline().items()})
    assert [line.partition(":")[0] for line in missed] == list(instructions.CASES)


def test_a_statement_counts_the_same_in_each_run(tmp_path: Path) -> None:
    """How long the machine takes for it does not matter. The rest is what the library's own thread does meanwhile."""
    program = instructions.build(tmp_path)
    for name in ("statement/all", "newtext/all"):
        counts = [instructions.count(program, instructions.CASES[name]) for _ in range(3)]
        assert max(counts) - min(counts) < 1, (name, counts)


def test_page_shows_the_baseline() -> None:
    page = instructions.PAGE.read_text()
    assert instructions.with_rows(page) == page, "python tests/bench/instructions.py --write CASE writes the page, too"
    another = page.replace("| lock/bare | ", "| lock/bare | 1")
    assert another != page == instructions.with_rows(another)


def test_every_case_has_a_baseline() -> None:
    assert instructions.baseline().keys() == instructions.CASES.keys()
