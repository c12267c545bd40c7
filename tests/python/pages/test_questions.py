"""docs/howto/questions.md and find_a_costly_lock.md: each line runs, and is about columns that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pfs
from tests.each import for_each

HOWTO = Path(__file__).resolve().parents[3] / "docs/howto"
PAGE = "".join((HOWTO / name).read_text() for name in ("questions.md", "find_a_costly_lock.md"))
LINES = re.findall(r"^\| [^|]+\? \| `(.+)` \|$", PAGE, re.MULTILINE)


def test_there_are_at_least_thirty_questions() -> None:
    assert len(LINES) >= 30
    assert len(re.findall(r"^\| .+\? \|", PAGE, re.MULTILINE)) == len(LINES)


@for_each("line", LINES)
def test_each_line_runs(line: str) -> None:
    with pfs.Lock("questions/LOCK_a"):
        pass
    result = eval(line, {"pfs": pfs})
    assert result is not None


def test_the_lines_find_what_they_look_for() -> None:
    answers = {}
    with pfs.Lock("questions/LOCK_held"), pfs.open("/etc/passwd", name="questions/file") as file:
        file.read(10)
        for line in LINES:
            answers[line] = repr(eval(line, {"pfs": pfs}))
    held = next(answer for line, answer in answers.items() if "mutex_instances" in line)
    opened = next(answer for line, answer in answers.items() if "file_instances" in line)
    assert "Empty DataFrame" not in held
    assert "/etc/passwd" in opened
