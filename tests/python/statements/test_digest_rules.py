"""Digests of texts that are no SQL: the normalizers identity and regex."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import pfs


def shown(text: str | bytes, rules: str, limit: int = 1 << 16) -> str:
    return pfs.digest(text, limit, normalizer="regex", rules=rules)[1] or ""


def test_identity() -> None:
    """Blanks, case and comments stay; cut without half a character."""
    text = " GET  /a/1 -- größe;"
    digest, found = pfs.digest(text, normalizer="identity")
    assert found == text
    assert digest != pfs.digest(text + " ", normalizer="identity")[0]
    assert pfs.digest(text, len(" GET  /a/1 -- gr") + 2, normalizer="identity")[1] == " GET  /a/1 -- gr"
    assert pfs.digest("a", 1, normalizer="identity") == pfs.digest("", normalizer="identity") == (None, None)


@pytest.mark.parametrize(
    ("rules", "text", "expected"),
    [
        (r"\d+ -> N", "GET /user/17?page=2", "GET /user/N?page=N"),
        (r"0x[0-9a-f]+ -> H; \d+ -> N", "at 0x1f, 22", "at H, N"),
        (r"\d+ -> ?; \?(, \?)+ -> ?, ...", "f(1, 2, 3) g(4)", "f(?, ...) g(?)"),
        ("a -> b\nb -> c", "ab", "cc"),
        (r"\b\d+\b -> N", "a1 22 3b 4", "a1 N 3b N"),
        (r"^GET -> get; /$ -> ", "GET GET/ /", "get GET/ "),
        ("a|ab|abc -> X", "abcab", "XX"),
        ("(?:ab){2} -> X", "ababab", "Xab"),
        (r"'[^']*' -> S", "say 'it' and 'that", "say S and 'that"),
        ("[ ]+ -> _", "a  b c", "a_b_c"),
        (r"\; -> semicolon", "a;b", "asemicolonb"),
        (". -> x", "aé名\n", "xxx\n"),
        ("[^a] -> x", "aé名b", "axxx"),
        ("é+ -> e", "éé名", "e名"),
        (r"\w+ -> w", "größe a_1-b", "w w-w"),
        (r"a{2,3} -> X", "aaaaa a", "XX a"),
        (r"[a-c\]\-]+ -> X", "ab]-d", "Xd"),
        (r"\x41\t -> X", "A\tA", "XA"),
        ("aa ->", "aaab", "ab"),
    ],
)
def test_rules(rules: str, text: str, expected: str) -> None:
    """What a user declares at start, one rule after the other."""
    assert shown(text, rules) == expected


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("(a -> b", "'\\(' has no '\\)'"),
        ("a) -> b", "'\\)' has no '\\('"),
        ("[a -> b", "'\\[' has no '\\]'"),
        ("a* -> b", "it matches the empty text"),
        ("+a -> b", "nothing to repeat before '\\+'"),
        ("a+? -> b", "nothing to repeat before '\\?'"),
        ("a^b -> b", "\\^ is legal at the start only"),
        (r"\ba|b -> c", "need parentheses"),
        (r"\q -> c", "'.q' has no meaning here"),
        ("a{3,2} -> c", "legal between '{' and '}'"),
        ("a{300} -> c", "legal between '{' and '}'"),
        ("(a{200}){200} -> c", "it is too long"),
        ("(a|b)*a(a|b){12} -> c", "it is too complicated"),
        ("(" * 60 + "a" + ")" * 60 + " -> c", "too many parentheses"),
        ("[z-a] -> c", "a range"),
        (r"[\d-b] -> c", "a range"),
        (r"[a-\d] -> c", "a range"),
        ("[é] -> c", "only ASCII"),
        ("just text", "legal is 'pattern -> replacement'"),
        ("", "needs rules"),
    ],
)
def test_bad_rules(rules: str, message: str) -> None:
    """Told at once, with the pattern; nothing else happens."""
    with pytest.raises(pfs.InvalidValue, match=message):
        shown("text", rules)


def test_bad_normalizers() -> None:
    with pytest.raises(pfs.InvalidValue, match=r"legal are sql, mysql, postgresql, .*, identity, regex"):
        pfs.digest("a", normalizer="none")
    with pytest.raises(pfs.InvalidValue, match="for the normalizer regex only"):
        pfs.digest("a", rules="a -> b")


def test_hostile_texts_take_a_bounded_time() -> None:
    """A text of a megabyte, and a pattern that looks to the end of the text from every place: the rest is left as it is."""
    text = "a" * (1 << 20)
    assert shown(text, "a+b|a -> X").startswith("XX")
    assert len(shown(text, "a -> bb")) == 4096
    assert shown(text, "a+ -> X") == "X"


atom = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\d", "1"])
patterns = st.recursive(
    atom,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])).map(lambda part: f"(?:{part[0]}){part[1]}"),
    ),
    max_leaves=6,
)


@settings(max_examples=1000, deadline=None)
@given(patterns, st.text("abc1 \n", max_size=12))
def test_matches_are_the_leftmost_longest(pattern: str, text: str) -> None:
    """As Python's re finds them, when it is asked for each end."""
    expression = re.compile(pattern)
    if expression.fullmatch(""):
        with pytest.raises(pfs.InvalidValue, match="empty"):
            shown(text, f"{pattern} -> <>")
        return
    expected, at = "", 0
    while at < len(text):
        end = next((end for end in range(len(text), at, -1) if expression.fullmatch(text, at, end)), at)
        expected += text[at] if end == at else "<>"
        at = max(end, at + 1)
    try:
        found = shown(text, f"{pattern} -> <>")
    except pfs.InvalidValue as refused:
        if "too complicated" not in str(refused):
            raise
        reject()  # counted: hypothesis fails if it meets too many
    assert found == expected
