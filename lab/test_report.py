"""The report says what failed, and the matrix has a name for everything that it measures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from lab import matrix, peers, processors, ratios, report

BENCH = report.ROOT / "lab" / "cpp"


@pytest.fixture
def empty(tmp_path: Path) -> report.Report:
    return report.Report(tmp_path, tmp_path, 1, True, Console(quiet=True))


def _breaks(_: report.Report) -> list[str]:
    raise SystemExit("it cannot be built")


def _has_no_peer(_: report.Report) -> list[str]:
    raise peers.NoPeerError("LTTng is not installed")


def test_a_part_that_fails_says_so_on_the_page(empty: report.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(report.PARTS, "scale", _breaks)
    sections = {"scale": report.do(empty, "scale")}
    text = report.page(empty, sections, ["matrix"], "0.0")
    assert "**Parts that failed: scale**" in text
    assert "SystemExit: it cannot be built" in text
    assert "Left out of this run: matrix" in text


def test_a_peer_that_is_not_there_is_no_failure(empty: report.Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(report.PARTS, "peers", _has_no_peer)
    sections = {"peers": report.do(empty, "peers")}
    assert empty.troubles == {}
    assert "Left out: LTTng is not installed." in report.page(empty, sections, [], "0.0")


def test_figures_are_fastest_blocks_but_medians_of_two_threads() -> None:
    blocks = {
        "lock/bare/1T": [5.0, 6.0, 9.0], "lock/floor/1T": [10.0, 11.0, 12.0], "lock/all/1T": [12.0, 15.0, 14.0],
        "lock/bare/same": [5.0, 6.0, 9.0], "lock/floor/same": [10.0, 20.0, 21.0], "lock/all/same": [12.0, 30.0, 33.0],
    }  # fmt: skip
    found = matrix.cells(ratios.Round(blocks, {}))
    alone, both = found["lock", "all", "1T"], found["lock", "all", "same"]
    assert alone.x_floor is not None
    assert both.x_floor is not None
    assert (alone.nanoseconds, alone.over_bare.value, alone.x_floor.value) == (12.0, 7.0, 1.2)
    assert (both.nanoseconds, both.over_bare.value, both.x_floor.value) == (30.0, 24.0, 1.5)
    assert alone.x_floor.low <= alone.x_floor.value <= alone.x_floor.high


def test_every_family_and_mode_of_the_program_has_a_name_on_the_page() -> None:
    families = re.findall(r'\{"(\w+)", Kind::', (BENCH / "matrix_families.cpp").read_text())
    modes = re.findall(r'\{"(\w+)", +Level::', (BENCH / "matrix.cpp").read_text())
    assert len(families) == 16
    assert sorted(families) == sorted(matrix.FAMILIES)
    assert ["out", *modes] == list(matrix.MODES)


INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n\nprocessor\t: 1\n"


def test_figures_of_two_processors_stand_side_by_side(tmp_path: Path) -> None:
    intel, amd = processors.this(INTEL), processors.Processor("AMD", 25, 17)
    assert (str(intel), intel.slug) == ("Intel, family 6 model 207", "intel-6-207")
    old = processors.Measured(
        intel,
        "2026-11-22",
        "commit a",
        "by hand",
        {"lock": processors.Figure(1.2, "x floor", limit=1.1), "old": processors.Figure(1, "ns")},
    )
    new = processors.Measured(
        amd,
        "2026-11-25",
        "commit b",
        "a run",
        {"lock": processors.Figure(1.05, "x floor", 1.04, 1.06, 1.08), "new": processors.Figure(2, "ns")},
    )
    for one in (old, new):
        one.write(tmp_path / "performance")
    assert processors.read(tmp_path / "performance") == [new, old]
    assert processors.page([new, old]) == [
        "| | unit | AMD, family 25 model 17 | Intel, family 6 model 207 |",
        "| --- | --- | --: | --: |",
        "| lock | x floor | 1.05 (1.04 to 1.06), ≤ 1.08 | 1.20, ≤ 1.1 **missed** |",
        "| new | ns | 2.00 |  |",
        "| old | ns |  | 1.00 |",
        "",
        "- AMD, family 25 model 17: 2026-11-25, commit b; a run",
        "- Intel, family 6 model 207: 2026-11-22, commit a; by hand",
    ]


def test_every_kept_figure_has_the_name_of_a_line_that_is_measured() -> None:
    """A line that is named anew does not lose the column of a processor that was measured before."""
    cases = re.findall(r'"(\w+/\w+(?:/[12]T)?)"', (report.ROOT / "lab/ratios.py").read_text())
    cases += [f"{family}/{variant}" for family in ratios.BETWEEN for variant in (*ratios.EVENTS, "bare")]
    run = ratios.Round(
        {key: [1.0, 2.0] for key in [*cases, *(f"pread_same/{v}/{t}" for v in ("all", "bare") for t in ("1T", "2T"))]},
        {"cycles_per_ns": "2.6"},
    )
    result = ratios.Result(run, [run], 1)
    for own in ratios.OF_PROCESSOR.values():
        assert own.keys() <= {line.text for line in ratios._limits(result)}
    for one in processors.read(report.ROOT / "lab/pages/performance"):
        names = {line.text for line in ratios.limits(result, one.processor)} | set(ratios.in_a_program(result))
        assert one.figures.keys() <= names


@pytest.mark.parametrize(
    ("floors", "is_quiet", "chosen"),
    [
        ([(20.0, 1.1), (20.1, 1.01), (20.2, 1.05)], True, None),  # the clock is steady
        ([(26.0, 1.1), (24.0, 1.01), (22.0, 1.05), (20.0, 1.2)], True, 20.0),  # and from here on, for one round
        ([(60.0, 1.2), (58.0, 1.04), (56.0, 1.1), (20.0, 1.3), (57.0, 1.2), (59.0, 1.1)], False, 58.0),
    ],
)
def test_a_clock_that_changes_leaves_a_round(
    monkeypatch: pytest.MonkeyPatch, floors: list[tuple[float, float]], is_quiet: bool, chosen: float | None
) -> None:
    """Where no round is quiet, the figures are those of the least disturbed, and the page says so."""
    rest = iter([*floors, *[(70.0, 2.0)] * 18])

    def run_once(*_: object) -> ratios.Round:
        floor, spread = next(rounds)
        blocks = {case: [floor, floor * spread, floor * spread] for case in ratios.WITNESSES}
        if floor == 20.0 and not is_quiet:
            blocks["lock/all"] = [70.0]  # disturbed as well
        return ratios.Round(blocks, {})

    rounds = (one for one in rest for _ in range(2))
    monkeypatch.setattr(ratios, "run_once", run_once)
    result = ratios.measure(Path("program"), 2, say=lambda _: None)
    assert result.is_quiet == is_quiet
    assert chosen is None or result.chosen.best(ratios.FLOOR) == chosen
    assert result.is_quiet == ("none of them quiet" not in _how(monkeypatch, result))


def _how(monkeypatch: pytest.MonkeyPatch, result: ratios.Result) -> str:
    monkeypatch.setattr(ratios, "limits", lambda _: [])
    monkeypatch.setattr(ratios, "in_a_program", lambda _: {})
    return report.kept(result).how


def test_limits_are_those_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ratios.Limit("everything on, in cycles", 68.0, (68.0, 68.0), 60, "TSC cycles over bare", (68.0, 68.0))
    monkeypatch.setattr(ratios, "_limits", lambda _: [line])
    result = ratios.Result(ratios.Round({}, {}), [], 0)
    assert ratios.limits(result, processors.Processor("AMD", 25, 17)) == [line]
    assert ratios.limits(result, processors.this(INTEL)) == []


def test_a_round_in_which_a_witness_is_slow_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor alone touches three lines, and is right in rounds in which more memory is slow."""
    slow = iter([1.0, 1.2, 1.0])

    def run(program: Path, repetitions: int, only: str = ".", *arguments: str) -> ratios.Round:
        if arguments:
            return ratios.Round({"single/bare": [1.0]}, {})
        return ratios.Round({key: [10.0] for key in ratios.WITNESSES} | {"lock/all": [12 * next(slow)]}, {})

    monkeypatch.setattr(ratios, "run_once", run)
    said: list[str] = []
    result = ratios.measure(Path("none"), rounds=2, say=said.append)
    assert (result.attempts, len(result.good), result.repeated) == (3, 2, 1)
    assert "lock/all is 20.0 % off its best" in said[1]
