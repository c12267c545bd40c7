"""Two tiers of tests, by rule: the record of how long each test took says which are quick. Nobody keeps a list.

The quick tier (--tier quick) runs the cheapest test of each file, and then whatever is cheapest of all, up to QUICK seconds for
a test and TOGETHER for the tier. A test without a record is new, or took less than SHORT: it is quick. What
tests/needs.py keeps out is not. The gate runs the quick tier first, and then the rest (--tier rest): no test twice, for both
are chosen by the record as it was (--by). The gate writes the record (--record); a gate's own test looks at the whole.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import needs

RECORD = Path(__file__).with_name("durations.json")
QUICK = 0.4  # seconds: a test of the quick tier takes no longer, if its file has one that short
TOGETHER = 290.0  # seconds of all of them, by the record
SHORT = 0.1  # seconds: the record has no line for a test that is shorter
OTHERS = "others"  # the line of a file for these together
SAME = 1.5  # a time within this ratio of the record leaves it alone: one machine differs so much from day to day

Times = dict[str, dict[str, float]]  # file -> test, or "fixture NAME" -> seconds


@dataclass(frozen=True)
class Case:
    file: str
    name: str
    fits: bool = True  # the quick tier has what it needs
    shared: tuple[tuple[str, str], ...] = ()  # file and name of the fixtures that it shares with other tests

    @classmethod
    def of(cls, item: pytest.Item) -> Case:
        file, _, name = item.nodeid.partition("::")
        found: dict[str, Any] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
        shared = [(each[-1].baseid, f"fixture {each[-1].argname}") for each in found.values() if each[-1].scope != "function"]
        return cls(file, name, needs.fits_quick(item), tuple(sorted(shared)))


def costs(cases: Iterable[Case], record: Times) -> dict[Case, float]:
    """Seconds of each test by the record, with its part of the fixtures that it shares. A test without a record costs nothing."""
    users = Counter(shared for case in cases for shared in case.shared)
    return {
        case: record.get(case.file, {}).get(case.name, 0.0)
        + sum(record.get(file, {}).get(name, 0.0) / users[file, name] for file, name in case.shared)
        for case in cases
    }


def quick(cases: list[Case], record: Times) -> set[Case]:
    cost = costs(cases, record)
    cheapest_first = sorted((case for case in cases if case.fits), key=lambda case: (cost[case], case.file, case.name))
    chosen = set({case.file: case for case in reversed(cheapest_first)}.values())  # the cheapest of each file
    left = TOGETHER - seconds(chosen, cases, record)
    for case in cheapest_first:
        if case not in chosen:
            left -= cost[case]
            if cost[case] > QUICK or left < 0:
                break
            chosen.add(case)
    return chosen


def seconds(chosen: set[Case], cases: list[Case], record: Times) -> float:
    """What the quick tier takes by the record, with the tests that have no line of their own."""
    cost = costs(cases, record)
    return sum(cost[case] for case in chosen) + sum(
        record.get(file, {}).get(OTHERS, 0.0) for file in {case.file for case in chosen}
    )


def read(path: Path | None = None) -> Times:
    path = path or RECORD
    times: Times = json.loads(path.read_text()) if path.exists() else {}
    return times


def merge(record: Times, measured: Times, tier: str | None, collected: set[tuple[str, str]]) -> Times:
    """The record with what a run measured, and without tests that are gone: those of its files that it did not collect."""
    result: Times = {}
    for file in sorted(record.keys() | measured.keys()):
        old, new = record.get(file, {}), measured.get(file, {})
        there = {name for of, name in collected if of == file}
        lines = {
            name: took
            for name, took in old.items()
            if not there or name in there or name.startswith("fixture ") or name == OTHERS
        }
        others = 0.0
        for name, took in new.items():
            if name not in lines and took < SHORT:
                others += took
            elif name not in lines or not lines[name] / SAME <= took <= lines[name] * SAME:
                lines[name] = float(f"{took:.2g}")
        if tier == "quick" and not lines.get(OTHERS, 0.0) / SAME <= others <= lines.get(OTHERS, 0.0) * SAME:
            lines[OTHERS] = float(f"{others:.2g}")
        if lines and (measured.get(file) or (RECORD.parent.parent / file).exists()):
            result[file] = dict(sorted(lines.items()))
    return result


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Recorder:
    """Adds up what each test took, in the process that hears of all workers' tests."""

    tier: str | None
    times: Times = field(default_factory=lambda: defaultdict(dict))
    collected: set[tuple[str, str]] = field(default_factory=set)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, name = report.nodeid.partition("::")
        if report.outcome == "skipped" or report.failed:
            self.times[file].pop(name, None)
        elif report.when == "setup" or name in self.times[file]:
            self.times[file][name] = self.times[file].get(name, 0.0) + report.duration
        if report.when == "teardown":
            shared: list[Any] = [value for key, value in report.user_properties if key == "shared"]
            for of, fixture, took in shared:
                self.times[of][fixture] = max(self.times[of].get(fixture, 0.0), took)
                if name in self.times[file]:
                    self.times[file][name] = max(self.times[file][name] - took, 0.0)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.collected.update(map(tuple, getattr(node, "workeroutput", {}).get("collected", [])))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.collected.update((case.file, case.name) for case in session.config.stash.get(CASES, []))
        if any("::" in argument for argument in session.config.args):
            self.collected.clear()  # it is not whole
        measured = {
            file: {name: took for name, took in of.items() if took >= SHORT or not name.startswith("fixture ")}
            for file, of in self.times.items()
        }
        record = merge(read(), measured, self.tier, self.collected)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")


CASES = pytest.StashKey[list[Case]]()  # all that were collected
_now: list[pytest.Item] = []  # the test that runs


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=("quick", "rest"), help="the quick tests of each file, or all others: tests/tiers.py")
    group.addoption("--by", type=Path, metavar="FILE", help="the record that chooses the tests of a tier")
    group.addoption("--record", action="store_true", help=f"write what each test took to tests/{RECORD.name}")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(config.getoption("--tier")), "tiers-recorder")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needs.skip_what_cannot_run(items)
    cases = {item: Case.of(item) for item in items}
    config.stash[CASES] = list(cases.values())
    if hasattr(config, "workerinput"):
        config.workeroutput["collected"] = [(case.file, case.name) for case in cases.values()]  # type: ignore[attr-defined]
    record = read(config.getoption("--by"))
    tier = config.getoption("--tier")
    if tier is not None:
        chosen = quick(config.stash[CASES], record)
        kept = [item for item in items if (cases[item] in chosen) == (tier == "quick")]
        config.hook.pytest_deselected(items=[item for item in items if (cases[item] in chosen) != (tier == "quick")])
        items[:] = kept
    if hasattr(config, "workerinput"):
        # Long files run first, so that no worker is left alone with one at the end.
        cost = costs([cases[item] for item in items], record)
        total: Counter[str] = Counter()
        for case, took in cost.items():
            total[case.file] += took  # type: ignore[assignment]
        items.sort(key=lambda item: -total[cases[item].file])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _now[:] = [item]
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """A fixture that tests share costs each of them a part, and not all of it the first one."""
    import time

    begun = time.perf_counter()
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function" and _now:
            shared = (fixturedef.baseid, f"fixture {fixturedef.argname}", time.perf_counter() - begun)
            _now[0].user_properties.append(("shared", shared))
