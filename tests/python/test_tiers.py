"""The quick tier stays whole and within its time: what was collected with this file, by tests/durations.json."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests import needs, tiers
from tests.each import for_each
from tests.tiers import Case

pytest_plugins = ["pytester"]

MOST = 300.0  # seconds of all tests of the quick tier together, by the record
LEAST = 0.75  # of all tests


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> list[Case]:
    return request.config.stash[tiers.CASES]


def left_out(cases: list[Case], chosen: set[Case]) -> set[str]:
    """Files without a test in the quick tier, though they have one that it can run."""
    return {case.file for case in cases if case.fits} - {case.file for case in chosen}


def test_every_file_has_a_test_in_the_quick_tier(cases: list[Case]) -> None:
    assert left_out(cases, tiers.quick(cases, tiers.read())) == set()


def test_what_the_quick_tier_cannot_run_is_little(cases: list[Case]) -> None:
    """Files of which every test needs what tests/run.sh installs only with --all, or an idle machine."""
    files = {case.file for case in cases}
    assert len(files - {case.file for case in cases if case.fits}) <= max(1, len(files) // 10)


def test_the_quick_tier_is_most_tests_and_stays_within_its_time(cases: list[Case]) -> None:
    record = tiers.read()
    chosen = tiers.quick(cases, record)
    took, share = tiers.seconds(chosen, cases, record), len(chosen) / len(cases)
    print(f"{len(chosen)} of {len(cases)} tests, {took:.0f} s")
    assert took <= MOST
    assert share >= LEAST or len({case.file for case in cases}) < 100  # a few files may be the long ones


def test_the_record_is_of_tests_that_are_there(root: Path, cases: list[Case]) -> None:
    collected = defaultdict(set)
    for case in cases:
        collected[case.file].add(case.name)
    for file, lines in tiers.read().items():
        assert (root / file).exists(), file
        tests = {name for name in lines if name != tiers.OTHERS and not name.startswith("fixture ")}
        assert file not in collected or not lines or tests & collected[file] or not tests, f"{file}: all its tests are gone"


def test_the_rule() -> None:
    """Short ones, new ones; of a file without a short one the cheapest; a shared fixture costs each its part."""
    shared = (("a.py", "fixture slow"),)
    a = [Case("a.py", "one", shared=shared), Case("a.py", "two", shared=shared), Case("a.py", "three")]
    b = [Case("b.py", "long"), Case("b.py", "longer"), Case("b.py", "short", fits=False)]
    c = [Case("c.py", "alone", fits=False)]
    record = {
        "a.py": {"fixture slow": 0.5, "three": tiers.QUICK, "others": 1.5},
        "b.py": {"long": 2.0, "longer": 3.0, "gone": 9.0, "others": 7.0},
    }
    chosen = tiers.quick([*a, *b, *c], record)
    assert chosen == {*a, b[0]}
    assert tiers.seconds(chosen, [*a, *b, *c], record) == pytest.approx(0.5 + tiers.QUICK + 1.5 + 2.0 + 7.0)
    record["a.py"]["fixture slow"] = 2.0
    assert tiers.quick(a, record) == {a[2]}


def test_the_cheapest_are_chosen_until_their_time_is_over() -> None:
    times = {**{f"t{n}": 0.2 for n in range(300)}, **{f"l{n}": 0.25 for n in range(1500)}, "long": 9.0}
    cases = [Case("a.py", "new"), *(Case("a.py", name) for name in times), Case("b.py", "slow")]
    record = {"a.py": {"others": 10.0, **times}, "b.py": {"slow": 5.0}}
    chosen = tiers.quick(cases, record)
    short = {case for case in cases if case.name.startswith(("t", "new"))}
    assert short | {cases[-1]} < chosen
    assert tiers.TOGETHER - 0.25 < tiers.seconds(chosen, cases, record) <= tiers.TOGETHER
    assert tiers.quick(cases[::-1], record) == chosen
    record["a.py"]["others"] = tiers.TOGETHER
    assert tiers.quick(cases, record) == {cases[0], cases[-1]}


def test_the_check_sees_a_file_without_a_test() -> None:
    cases = [Case("a.py", "one"), Case("b.py", "one"), Case("c.py", "one", fits=False)]
    assert left_out(cases, {cases[0]}) == {"b.py"}


def test_the_record_keeps_what_is_about_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "RECORD", tmp_path / "tests/durations.json")
    (tmp_path / "a.py").touch()
    old = {"a.py": {"same": 1.0, "faster": 1.0, "not run": 1.0, "gone": 1.0, "fixture f": 1.0}, "gone.py": {"x": 1.0}}
    measured = {"a.py": {"same": 1.4, "faster": 0.2, "new": 0.3456, "short": 0.04, "shorter": 0.02}}
    collected = {("a.py", name) for name in ("same", "faster", "not run", "new", "short", "shorter")}
    want = {"a.py": {"faster": 0.2, "fixture f": 1.0, "new": 0.35, "not run": 1.0, "others": 0.06, "same": 1.0}}
    assert tiers.merge(old, measured, "quick", collected) == want
    assert tiers.merge(want, {"a.py": {"short": 0.09}}, "rest", collected) == want  # others are those of the quick tier
    json.dumps(want)


PASSES = """
import time, pytest
@pytest.fixture(scope="module")
def slow(): time.sleep(0.2)
def test_a(slow): time.sleep(0.15)
def test_b(slow): pass
def test_c(): assert False
"""


def test_a_run_is_recorded_without_its_shared_fixture(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "RECORD", pytester.path / "tests/durations.json")
    (pytester.path / "tests").mkdir()
    pytester.makepyfile(test_it=PASSES)
    pytester.inline_run("--record", "-p", "tests.tiers", "-p", "no:cacheprovider", "-n", "0")
    (lines,) = tiers.read().values()
    assert set(lines) == {"fixture slow", "test_a"}
    assert 0.15 <= lines["test_a"] < 0.3
    assert lines["fixture slow"] >= 0.2


def test_a_run_over_folders_is_recorded(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest leaves the conftest of a folder out for tests of another one: it compares plugins for that."""
    monkeypatch.setattr(tiers, "RECORD", pytester.path / "durations.json")
    for folder in ("one", "two"):
        (pytester.path / folder).mkdir()
        (pytester.path / folder / "conftest.py").write_text("def pytest_runtest_logreport(report): pass\n")
        (pytester.path / folder / f"test_{folder}.py").write_text("import time\ndef test_a(): time.sleep(0.15)\n")
    done = pytester.inline_run("--record", "-p", "tests.tiers", "-p", "no:cacheprovider", "-n", "0")
    done.assertoutcome(passed=2)
    assert [set(lines) for lines in tiers.read().values()] == [{"test_a"}, {"test_a"}]


@for_each("name", needs.NEEDS)
def test_each_need_says_what_to_do(name: str) -> None:
    assert needs.NEEDS[name].mend
    assert isinstance(needs.is_there(name), bool)


OWN_BUDGET = re.compile(r"(int|float)\(os\.environ\.get\(")


def test_budgets_of_time_are_in_one_place(root: Path) -> None:
    """A test that works as long as a variable says takes the number from tests/budgets.py."""
    assert OWN_BUDGET.search((root / "tests/budgets.py").read_text())  # what the check looks for
    files = {*(root / "tests").rglob("*.py")} - {root / "tests/budgets.py"}
    assert [file for file in files if OWN_BUDGET.search(file.read_text())] == []
