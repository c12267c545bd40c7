"""pfs.digest beside a plain model of it (digest_model.py), for statements made of parts and for any bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pfs
from tests.python.statements.digest_model import Model, split

MODEL = Model(Path(__file__).resolve().parents[3])
LIMIT = 1 << 16

WORDS = split(
    "select SELECT from in IN not null NULL is values count max between and limit order by set default int as case then"
)
LITERALS = split(
    "1 0 1.5 .5 1. 1e3 1e-3 1E+5 1_0 0o7 0x1F 0b1 'a' 'it''s' 'a\\'b' \"x\" n'x' x'41' _utf8'x' ? ?1 $1 :p %s %(p)s $$x$$ $t$x$t$"
)
NAMES = [
    "a",
    "T1",
    "`a b`",
    "`a``b`",
    "größe",
    "_x",
    "a$b",
    "1a",
    "t.a",
    "t.select",
    'u."c d"',
    "@v",
    "@'x y'",
    "@@v",
    "@@session.v",
]
SIGNS = ["-", "+", "- -", "+-", "--", "---"]
MARKS = split(
    "( ) ( ) , , , . ; * / % = < > <= <=> <> != := || && | & ^ ~ ! << >> -> ->> => == :: : [ ] { } @ $ # \\ ' \" ` % e x _"
)
GLUE = ["", "", " ", " ", "\n", "\t ", "/* c */", "-- c\n", "# c\n", "/*!", "/*!50000 ", "*/", "--c\n", "\x00"]

part = (
    st.sampled_from(WORDS) | st.sampled_from(LITERALS) | st.sampled_from(NAMES) | st.sampled_from(SIGNS) | st.sampled_from(MARKS)
)
piece = st.tuples(part, st.sampled_from(GLUE)).map("".join)
statement = st.lists(piece, max_size=25).map(lambda parts: "".join(parts).encode())
value = st.sampled_from([*LITERALS, "NULL", "-1", "- -1", "+2"])
row = st.lists(value, min_size=1, max_size=4).map(lambda values: "(" + ", ".join(values) + ")")
rows = st.lists(row, min_size=1, max_size=5).map(lambda rows: ("insert into t values " + ", ".join(rows)).encode())
item = value | st.sampled_from(
    split("$1::int 1::a.b(2)[] 'x'::text+2 now() f(1,g(2)) default -now() date'x' cast(1as`t`) x f(x) (select(1)) [1,2] 1] @@v")
)
mixed = st.tuples(
    st.sampled_from(["a in ", "insert into t values ", "f "]),
    st.lists(st.lists(item, max_size=4).map(lambda items: "(" + ", ".join(items) + ")"), min_size=1, max_size=4),
).map(lambda parts: (parts[0] + ", ".join(parts[1])).encode())
noise = st.binary(max_size=40) | st.lists(
    st.sampled_from([bytes([c]) for c in b"'\"`\\/*!-#@$%().,;:?eExX019a_ \n\x00\xc3\xa9"]), max_size=24
).map(b"".join)
anything = statement | rows | mixed | noise | st.lists(statement | noise, max_size=4).map(b"".join)


@settings(max_examples=1500, deadline=None)
@given(anything)
@example(b"select 1 - -1, (-a), - - - 2 in (1), (2)")
@example(b"a in (1), (2, 3), (4), (5) ; ;")
def test_digest_is_that_of_the_model(text: bytes) -> None:
    """I3, I4: the same text as the model's, whatever the bytes."""
    assert (pfs.digest(text, LIMIT)[1] or "") == MODEL.text(text)


@settings(max_examples=300, deadline=None)
@given(anything)
def test_a_smaller_limit_gives_a_beginning(text: bytes) -> None:
    """I2: the text simply ends; a limit that is larger than all tokens changes nothing."""
    whole = pfs.digest(text, LIMIT)
    before = ""
    for limit in range(40):
        found = pfs.digest(text, limit)[1] or ""
        assert found.startswith(before)
        assert (whole[1] or "").startswith(found.rstrip("\ufffd"))
        before = found.rstrip("\ufffd")
    assert pfs.digest(text, 2 * len(text) + 64) == whole


@settings(max_examples=300, deadline=None)
@given(st.lists(part.filter(lambda text: text not in MARKS[-12:] and "-" not in text), max_size=15), st.data())
def test_blanks_and_comments_make_no_difference(parts: list[str], data: st.DataObject) -> None:
    """I5: spellings of one statement have one digest, also when it is cut."""
    blanks = st.sampled_from([" ", "\n\t", " /* 'x */ ", "\r\n-- it's\n", " # `\n", "\x00"])
    limit = data.draw(st.integers(1, 60))
    plain = " ".join(parts)
    spelled = "".join(word + data.draw(blanks) for word in parts)
    if MODEL.text(plain.encode()) == MODEL.text(spelled.encode()):  # not where a string is left open
        assert pfs.digest(plain, limit) == pfs.digest(spelled, limit)


@pytest.mark.parametrize(
    "text", [b"(" * 100_000, b"-" * 100_000 + b"1", b"$a$" * 50_000, b"'" * 100_001, b"/*" * 50_000, b"a " * 50_000 + b"--" * 9]
)
def test_long_hostile_texts(text: bytes) -> None:
    """A text of a hundred kilobytes is read to its end, or to where its tokens end, at once."""
    assert pfs.digest(text) == pfs.digest(text)
    assert (pfs.digest(text, LIMIT * 8)[1] or "") == MODEL.text(text)
