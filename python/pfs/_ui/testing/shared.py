"""Writes what tests did for those who read no terminal: JSON, Markdown for a pull request, annotations of GitHub."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pfs import _core
from pfs._read.show import count_text, time_text
from pfs._ui.testing.lines import file_of
from pfs._ui.testing.totals import EVENTS, TIME, chosen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pfs._ui.testing.budget import Exceeded

__all__ = ["as_json", "for_github", "write_json", "write_markdown"]

_FORMAT = 1
_COLUMNS = ("events", "picoseconds", "bytes_read", "bytes_written")
_MOST = 10  # tests of a table


def as_json(exceeded: Sequence[Exceeded], root: str, location: tuple[str, int | None, str]) -> list[dict[str, Any]]:
    """Returns limits that a test exceeded, each with a file below `root` and a line: of the program, else of the test."""
    rows = []
    for one in exceeded:
        places = [place for line in one.lines if (place := file_of(line, root)) is not None]
        file, line = places[0] if places else (location[0], (location[1] or 0) + 1)
        rows.append({"limit": one.text.partition("\n")[0], "text": str(one), "file": file, "line": line})
    return rows


def write_json(path: Path, done: Mapping[str, dict[str, Any]]) -> None:
    tests = {
        test: {
            **{name: of_test[name] for name in ("passed", "lost", "exceeded")},
            "instruments": {
                name: dict(zip(_COLUMNS, numbers, strict=True)) for name, numbers in sorted(of_test["counts"].items())
            },
        }
        for test, of_test in sorted(done.items())
    }
    _write(path, json.dumps({"pfs_report": _FORMAT, "pfs": _core.__version__, "tests": tests}, indent=1))


def write_markdown(path: Path, done: Mapping[str, dict[str, Any]], notes: Sequence[str]) -> None:
    """Writes the tests that exceeded a limit, and those that waited longest."""
    over = {test: of_test["exceeded"] for test, of_test in sorted(done.items()) if of_test["exceeded"]}
    parts = [f"### pfs: {len(over)} of {len(done)} tests did more than they may", *notes]
    for test, exceeded in over.items():
        texts = "\n\n".join(one["text"] for one in exceeded)
        where = ", ".join(dict.fromkeys(f"{one['file']}:{one['line']}" for one in exceeded))
        parts.append(f"<details open><summary><code>{test}</code> at {where}</summary>\n\n```text\n{texts}\n```\n</details>")
    waits = {test: list(chosen(of_test["counts"], ("wait/%",)).values()) for test, of_test in done.items()}
    sums = {test: [sum(column) for column in zip(*rows, strict=True)] for test, rows in waits.items() if rows}
    if sums:
        longest = sorted(sums, key=lambda test: (-sums[test][TIME], test))[:_MOST]
        waited = {test: time_text(sums[test][TIME]) if sums[test][TIME] else "-" for test in longest}
        rows = [f"| `{test}` | {count_text(sums[test][EVENTS])} | {waited[test]} |" for test in longest]
        parts.append("\n".join(["| test | waits | waited |", "| --- | ---: | ---: |", *rows]))
    _write(path, "\n\n".join(parts))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    is_summary = str(path) == os.environ.get("GITHUB_STEP_SUMMARY")  # other programs of the step write to it
    with path.open("a" if is_summary else "w") as file:
        file.write(text + "\n")


def for_github(done: Mapping[str, dict[str, Any]], root: Path) -> list[str]:
    """Returns the commands that make GitHub show each limit that was exceeded beside its line; nothing outside of GitHub. Files
    are relative to `root`."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return []

    checkout = os.environ.get("GITHUB_WORKSPACE", str(root))

    def quoted(text: str, more: str = "") -> str:
        return "".join(f"%{ord(letter):02X}" if letter in "%\r\n" + more else letter for letter in text)

    rows = [(test, one) for test, of_test in sorted(done.items()) for one in of_test["exceeded"]]
    places = [f"file={quoted(os.path.relpath(root / one['file'], checkout), ':,')},line={one['line']}" for _, one in rows]
    return [f"::error {at},title=pfs::{quoted(test + ': ' + one['text'])}" for at, (test, one) in zip(places, rows, strict=True)]
