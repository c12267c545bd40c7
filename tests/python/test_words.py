"""The texts of the tree use the words of the field: words of our own that readers stumbled over do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RETIRED = {
    r"written out\b(?! (in|to|as))": "hand-written, or fast path",
    r"the general way\b": "slow path",
    r"\b(short|long) way\b": "lock-free path, fast path, slow path",
    r"\brooms?\b": "capacity, buffer, space, module; is full",
    r"\blife\b": "generation, lifetime",
    r"\bgraves?\b": "retired cell",
    r"\bas usual\b": "common, uncommon",
    r"\blooked at\b": "instrumented, recorded, checked",
    r"\banew\b": "again",
    r"\bissues? #?\d": "say what the fact is",
    r"\bsemantics [a-l]\d": "semantics.md F8",
    # Oblique phrases: name the thing instead.
    r"\bso many\b": "this many, at most N",
    r"\band (its|their) like\b": "and the like, similar calls",
    r"\bwhoever\b": "the thread that, the user who, every reader",
    r"\b(of itself|that which|by turns|is told)\b": "say it with a noun",
    r"(?<!there )(?<!if )(?-i:\b(is|are) none\b)(?! (there|left|yet))": "is no X, is another X",
    r"(//|/\*\*?|\"\"\") ?(?-i:Is) (a|an|the|std::)\b": "a type's comment opens with a noun: A mutex that ...",
}
WHERE = ("cpp", "python", "docs", "README.md", "CONTRIBUTING.md", "CMakeLists.txt", "tests/cpp/CMakeLists.txt")


def retired_words(text: str) -> list[str]:
    return [match[0] for pattern in RETIRED for match in re.finditer(pattern, text, re.IGNORECASE)]


def texts(root: Path) -> list[Path]:
    found = [path for place in WHERE for path in [root / place, *(root / place).rglob("*")]]
    return sorted(path for path in found if path.suffix in (".h", ".hpp", ".c", ".cpp", ".py", ".pyi", ".md", ".txt", ".in"))


def test_no_retired_word_is_left(root: Path) -> None:
    found = texts(root)
    assert len(found) > 300
    wrong = [
        f"{path.relative_to(root)}:{number}: {', '.join(words)}"
        for path in found
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (words := retired_words(line))
    ]
    assert not wrong, "\n".join(wrong)


# A place that somebody wanted to fill in later.
MARKER = re.compile(r"@[A-Z_]+@|\b(TODO|TBD|FIXME)\b")


def test_no_page_waits_to_be_filled_in(root: Path) -> None:
    pages = [path for path in texts(root) if path.suffix == ".md"]
    assert len(pages) > 30
    wrong = [f"{path.relative_to(root)}: {match[0]}" for path in pages for match in MARKER.finditer(path.read_text())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("text", ["It takes @HOURS@.", "TODO: Intel"])
def test_the_marker_is_found(text: str) -> None:
    assert MARKER.search(text)


@pytest.mark.parametrize(
    "text",
    [
        *("The room is full.", "as usual", "// Looked at by readers.", "a word of an older life", "issue 7", "(SEMANTICS F8)"),
        *("at most so many rows", "read() and its like", "Whoever comes", "A link is none.", "// Is a mutex.", '"""Is the cut.'),
    ],
)
def test_the_check_finds_them(text: str) -> None:
    assert retired_words(text)


@pytest.mark.parametrize(
    "text",
    [
        *("a broom", "lifetime", "It is usually so.", "looks at it", "reissue 7", "(semantics.md F8)"),
        *("nullptr if there is none", "if page is None:", "// A mutex that is a lock", "// is the owner"),
    ],
)
def test_the_check_leaves_others_alone(text: str) -> None:
    assert not retired_words(text)
