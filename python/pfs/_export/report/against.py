"""Compares two reports: which differences are larger than their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pfs._process.run.contents import Listed, clean
from pfs._process.run.where_time import words_of
from pfs._read.show import count_text, rate_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pfs._export.report.sampled import Sampled
    from pfs._process.run.report import Report

__all__ = ["compared", "compared_samples", "error_of"]

_ERRORS = 2.0  # standard errors that a difference must exceed
_LEAST = 0.01  # of the time of all waits, or of a count: smaller differences are left out
_BLOCKS = 20  # of time: samples within one depend on each other


@dataclass(frozen=True, slots=True)
class _Sum:
    """A number of waits, their time, and its standard error."""

    count: float = 0.0
    time: float = 0.0
    error: float = 0.0


def error_of(count: float, time: float, longest: float) -> float:
    """Returns the most that the standard error of a sum of independent times can be. Nothing is known of a single time.

    The variance of numbers from 0 to `longest` is at most (longest - mean) * mean (Bhatia and Davis), and that of their sum is
    `count` times as much. The variance of all is `count / (count - 1)` times that of those that were seen.
    """
    if count < 2:
        return math.inf if count else 0.0
    return math.sqrt(max(0.0, longest - time / count) * time * count / (count - 1))


def compared(report: Report, before: Report, limit: int) -> list[str | Listed]:
    """Returns the differences of two reports in sentences and lists."""
    is_rate = report.lives or before.lives
    lengths = [_seconds(one) if is_rate else 1.0 for one in (report, before)]
    now, then = (dict(_sums(one, length)) for one, length in zip((report, before), lengths, strict=True))
    least = _LEAST * max(sum(one.time for (kind, _), one in sums.items() if kind == "class") for sums in (now, then))
    floors = [_floors(one, sums) for one, sums in ((report, now), (before, then))]
    larger, counts = [], []
    for key in sorted(now.keys() | then.keys()):
        a, b = now.get(key, _Sum()), then.get(key, _Sum())
        change = a.time - b.time
        if (key not in now and b.time <= floors[0].get(key[0], 0)) or (key not in then and a.time <= floors[1].get(key[0], 0)):
            continue  # a list that was cut may have had it
        kind, name = key[0], clean(key[1].removeprefix("wait/"))
        numbers = [count_text(round(b.count)), count_text(round(a.count))]
        if abs(change) > max(least, _ERRORS * math.hypot(a.error, b.error)):
            row = [time_text(round(b.time)), time_text(round(a.time)), _signed(change), _percent(a.time, b.time), *numbers, kind]
            larger.append((abs(change), [*row, name]))
        elif abs(a.count - b.count) > _LEAST * max(a.count, b.count) and max(a.time, b.time) >= least:
            counts.append((abs(a.count - b.count), [*numbers, _percent(a.count, b.count), kind, name]))
    what = "per second, because a process still ran" if is_rate else "of the whole runs"
    said = [f"Counts and times are {what}. {_took(report, before)}".rstrip(), *_findings(report, before)]
    said.append(
        "A time has changed if the difference is larger than two standard errors, for waits that do not depend on each other, "
        "and than 1 % of all waits. Other loads of the machine are not in that error. Counts are exact."
    )
    result: list[str | Listed] = ["\n".join(said)]
    for title, columns, found in (
        ("Times that have changed", "before|after|difference|%|calls before|calls after|kind|name", larger),
        ("Only the calls have changed", "before|after|%|kind|name", counts),
    ):
        found.sort(key=lambda item: (-item[0], item[1]))
        if found:
            chosen = found[:limit]
            result.append(
                Listed(title, tuple(columns.split("|")), [row for _, row in chosen], [round(size) for size, _ in chosen])
            )
    return result


def _seconds(report: Report) -> float:
    wall = max(report.facts.ended, default=0) - min(report.facts.began, default=0)
    return max(wall / 1e6, 1e-6)


def _sums(report: Report, length: float) -> Iterator[tuple[tuple[str, str], _Sum]]:
    """Yields the sums of a report, divided by a length, by kind and name."""
    by_kind = {"class": report.classes, "lock": report.locks, "condition": report.conditions, "wait": report.waits}
    for kind, sums in by_kind.items():
        for name, (count, time, longest) in sums.items():
            yield (kind, name), _Sum(count / length, time / length, error_of(count, time, longest) / length)
    for name, (time, reads, _, writes, _, longest) in report.files.items():  # other calls have times, too
        yield ("file", name), _Sum((reads + writes) / length, time / length, math.sqrt(longest * time) / length)
    for name, (count, time, _, _, _, longest) in report.statements.items():
        yield ("statement", name), _Sum(count / length, time / length, error_of(count, time, longest) / length)


def _floors(report: Report, sums: dict[tuple[str, str], _Sum]) -> dict[str, float]:
    """Returns the least time of each kind whose list was cut."""
    found: dict[str, list[float]] = {}
    for (kind, _), one in sums.items():
        found.setdefault(kind, []).append(one.time)
    return {kind: min(times) for kind, times in found.items() if len(times) == report.limit}


def _signed(change: float) -> str:
    return f"{'+' if change > 0 else '-'}{time_text(round(abs(change)))}"


def _percent(after: float, before: float) -> str:
    return f"{after / before - 1:+.0%}" if before else "new"


def _took(report: Report, before: Report) -> str:
    if report.took is None or before.took is None:
        return ""
    a, b = report.took, before.took
    used = f"{time_text(a.user + a.system)} of processors after {time_text(b.user + b.system)}"
    return f"Took {time_text(a.wall)} after {time_text(b.wall)} ({_percent(a.wall, b.wall)}), {used}: of one run each."


def _findings(report: Report, before: Report) -> Iterator[str]:
    """Yields which faults are new, and which have gone."""
    now, then = ({(one.name, one.place): one for one in two.findings} for two in (report, before))
    for key in now.keys() - then.keys():
        yield f"New: {now[key].sentence} [{key[0]}]."
    for key in then.keys() - now.keys():
        yield f"Gone: {then[key].sentence} [{key[0]}]."


def compared_samples(now: Sampled, then: Sampled) -> Listed:
    """Returns the average active threads of each class, before and after, and the 95 % interval of the difference."""
    rows, sizes = [], []
    ours, theirs = _means(now), _means(then)
    for kind in sorted(ours.keys() | theirs.keys()):
        (a, error_a), (b, error_b) = ours.get(kind, (0.0, 0.0)), theirs.get(kind, (0.0, 0.0))
        change, error = a - b, 1.96 * math.hypot(error_a, error_b)
        verdict = f"{change:+.3g} ± {error:.2g}" if abs(change) > error else "within its error"
        rows.append([rate_text(b), rate_text(a), verdict, words_of(kind)])
        sizes.append(round(abs(change) * 1e6))
    return Listed("Active threads, before and after", ("before", "after", "difference", "class"), rows, sizes)


def _means(samples: Sampled) -> dict[str, tuple[float, float]]:
    """Returns the mean of each class and its standard error, from the means of blocks of time."""
    import numpy as np

    result = {}
    for kind, amounts in zip(samples.classes, samples.chart, strict=True):
        blocks = np.array([block.mean() for block in np.array_split(np.array(amounts), min(_BLOCKS, samples.bins))])
        scale = samples.unit / samples.width
        error = float(blocks.std(ddof=1)) / math.sqrt(len(blocks)) if len(blocks) > 1 else math.inf
        result[kind] = float(blocks.mean()) * scale, error * scale
    return result
