"""Reads and writes baselines: the events of each test by instrument."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pfs._ui.testing.totals import EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pfs._ui.testing.totals import Counts

__all__ = ["events_of", "name_of", "read", "tolerances", "write"]

_FORMAT = 1
# The end of a name that moves with the source or the build: wait/synch/mutex/python/shop:41
_PLACE = re.compile(r"(:\d+|\+0x[0-9a-f]+)$")


def name_of(instrument: str) -> str:
    """Returns the name of an instrument as a baseline has it: it stays when a line of the program moves."""
    return _PLACE.sub("", instrument)


def events_of(counts: Counts) -> dict[str, int]:
    """Returns the events by instrument as a baseline has them, sorted."""
    events: dict[str, int] = {}
    for name, numbers in sorted(counts.items()):
        if numbers[EVENTS]:
            name = name_of(name)
            events[name] = events.get(name, 0) + numbers[EVENTS]
    return events


def read(path: str, option: str) -> dict[str, dict[str, int]]:
    try:
        stored = json.loads(Path(path).read_text())
        if stored["pfs_baseline"] != _FORMAT:
            raise pytest.UsageError(f"{option}: {path} is of format {stored['pfs_baseline']}, this version knows {_FORMAT}")
        return {str(test): {str(name): int(n) for name, n in counts.items()} for test, counts in stored["tests"].items()}
    except FileNotFoundError:
        raise pytest.UsageError(f"{option}: there is no {path}: --pfs-write-baseline {path} makes it") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise pytest.UsageError(f"{option}: {path} is no baseline that --pfs-write-baseline has made ({error!r})") from None


def write(path: Path, done: Mapping[str, dict[str, Any]]) -> None:
    """Writes a baseline. Tests that did not pass, or were not run, keep their entry of the file."""
    tests = read(str(path), "--pfs-write-baseline") if path.exists() else {}
    for test, of_test in done.items():
        if of_test["passed"]:
            tests[test] = events_of(of_test["counts"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pfs_baseline": _FORMAT, "tests": dict(sorted(tests.items()))}, indent=1) + "\n")


def tolerances(text: str) -> list[tuple[str, float, int]]:
    """Returns (pattern, share, events) in the order in which they are tried: the one without a pattern comes last."""
    special: list[tuple[str, float, int]] = []
    general: list[tuple[str, float, int]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        pattern, _, number = line.rpartition("=")
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*%|([0-9]+)", number.strip())
        if match is None:
            raise pytest.UsageError(
                f"pfs_baseline_tolerance: bad line {line!r}: legal are '10%' or '3' (events), or 'wait/synch/% = 10%'"
            )
        tolerance = (pattern.strip() or "%", float(match[1] or 0) / 100, int(match[2] or 0))
        (special if pattern.strip() else general).append(tolerance)
    return special + general
