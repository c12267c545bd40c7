"""Every fact of docs/reference/semantics.md is named by a test: an index of who proves what.

A fact without a test is in LATER, with the reason; it must leave the list when a test comes.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
LATER: dict[str, str] = {}
OPTIONAL = {
    "A8": "wraps after 213 days: documented",
    "E2": "the order of rows, which no test may rely on",
    "L12": "there are no index look-ups",
}


def facts(root: Path) -> set[str]:
    """The numbers of all facts."""
    return set(re.findall(r"^- \*\*([A-L]\d+)\*\* ", (root / "docs/reference/semantics.md").read_text(), re.MULTILINE))


def named_facts(text: str) -> set[str]:
    """Facts that a text names: A1, A1-A3, "F4 F5", test_H2_..."""
    found = set()
    for match in re.finditer(r"(?<![A-Za-z0-9])([A-L])(\d{1,2})(?:-\1?(\d{1,2}))?(?![A-Za-z0-9])", text.replace("_", " ")):
        section, first, last = match[1], int(match[2]), int(match[3] or match[2])
        found |= {f"{section}{number}" for number in range(first, last + 1)}
    return found


def heads(path: Path) -> str:
    """Names and docstrings of the tests of a file, C++ tests by their names and comments."""
    text = path.read_text()
    if path.suffix != ".py":
        return "\n".join(re.findall(r"^(?://.*|TEST.*)$", text, re.MULTILINE))
    tests = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    return "\n".join(f"{node.name} {ast.get_docstring(node) or ''}" for node in tests)


def test_every_fact_has_a_test_that_names_it(root: Path) -> None:
    """Every fact is named by a test, except those that are listed."""
    wanted = facts(root)
    assert len(wanted) > 130
    files = [*TESTS.glob("python/**/test_*.py"), *TESTS.glob("cpp/*.cpp"), *TESTS.glob("bench/test_*.py")]
    named = set().union(*(named_facts(heads(path)) for path in files if path.name != Path(__file__).name))
    assert wanted - named == set(LATER) | set(OPTIONAL), {
        "without a test": sorted(wanted - named - set(LATER) - set(OPTIONAL)),
        "have one": sorted(named & (set(LATER) | set(OPTIONAL))),
    }


def test_the_index_finds_names_and_only_names() -> None:
    """Negative control: ranges, underscores, no words that only look so."""
    assert named_facts("test_F4_totals and H2, G1-G3; UTF8 B2B x86 A1b") == {"F4", "H2", "G1", "G2", "G3"}
    assert named_facts("nothing") == set()
