"""Random statements of each dialect: no literal is in a digest, all names are, and the shape alone makes it.

sqlglot's tokenizer of the dialect is the witness for where names and literals are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pfs

tokens = pytest.importorskip("sqlglot.tokens", reason="sqlglot is not installed: pip install '.[serve]'")
from sqlglot.dialects.dialect import Dialect  # noqa: E402

MARKER = "zqmark"


@dataclass(frozen=True)
class Spelling:
    """How a dialect writes names, literals and comments. {} is what stands in them."""

    witness: str
    names: tuple[str, ...]
    strings: tuple[str, ...]
    numbers: tuple[str, ...]
    comments: tuple[str, ...]


COMMENTS = ("/* {} ' */", "-- {} '\n", "/*{}*/")
NUMBERS = ("{}", "{}.5", "{}e3", ".{}")
STRINGS = ("'{}'", "'it''s {}'", "'{} -- x'", "'/* {}'")
SPELLINGS = {
    "mysql": Spelling(
        "mysql", ("{}", "`{}`", "`{} ' x`"), (*STRINGS, '"{}"', r"'a\'{}'", "'{}\"'"), NUMBERS[:2], (*COMMENTS, "# {} '\n")
    ),
    "postgresql": Spelling(
        "postgres",
        ("{}", '"{}"', '"{} \' x"'),
        (*STRINGS, r"'{}\'", r"E'a\'{}'", "$${}'$$", "$t${} $$ $t$"),
        NUMBERS,
        (*COMMENTS, "/* a /* {} */ {} ' */"),
    ),
    "duckdb": Spelling("duckdb", ("{}", '"{}"', '"{} \' x"'), (*STRINGS, r"'{}\'", "$${}'$$"), NUMBERS, COMMENTS),
    "sqlite": Spelling("sqlite", ("{}", '"{}"', "[{}]", "`{}`", "[{} ' x]"), (*STRINGS, r"'{}\'"), NUMBERS, COMMENTS),
    "tsql": Spelling("tsql", ("{}", '"{}"', "[{}]", "[{} ' x]"), (*STRINGS, r"'{}\'", "N'{}'"), NUMBERS, COMMENTS),
    "oracle": Spelling(
        "oracle", ("{}", '"{}"', '"{} \' x"'), (*STRINGS, r"'{}\'", "N'{}'", "q'[it's {}]'", "Q'!a'{}!'"), NUMBERS, COMMENTS
    ),
}

NAME, LITERAL = "\1", "\2"  # places in a shape
operand = st.sampled_from([NAME, LITERAL, f"{NAME}.{NAME}", f"{NAME}({LITERAL})", f"{NAME}({NAME}, {LITERAL})"])
condition = st.tuples(operand, st.sampled_from(["=", "<>", "<=", "LIKE", "+"]), operand).map(" ".join)
in_list = st.integers(1, 4).map(lambda count: f"{NAME} IN ({', '.join([LITERAL] * count)})")
where = st.lists(condition | in_list, min_size=1, max_size=4).map(" AND ".join)
shape = st.one_of(
    where.map(lambda test: f"SELECT {NAME}, {LITERAL} FROM {NAME} WHERE {test} ORDER BY {NAME}"),
    where.map(lambda test: f"DELETE FROM {NAME} WHERE {test}"),
    where.map(lambda test: f"UPDATE {NAME} SET {NAME} = {LITERAL} WHERE {test}"),
    st.integers(1, 3).map(
        lambda rows: f"INSERT INTO {NAME} ({NAME}, {NAME}) VALUES " + ", ".join([f"({LITERAL}, {LITERAL})"] * rows)
    ),
    where.map(lambda test: f"SELECT COUNT(*) AS {NAME} FROM {NAME} JOIN {NAME} ON {test}"),
)


def written(data: st.DataObject, form: str, spelling: Spelling, names: list[str]) -> str:
    """Returns a statement of the shape, with the names and with literals and comments that hold the marker or a number."""
    out, at = [], 0
    for part in re.split(f"([{NAME}{LITERAL} ])", form):
        if part == NAME:
            out.append(names[at])
            at += 1
        elif part == LITERAL:
            number = str(data.draw(st.integers(910_000, 919_999)))
            text = data.draw(st.sampled_from([MARKER, f"x {MARKER}9", f"{MARKER}.{MARKER}"]))
            is_number = data.draw(st.booleans())
            out.append(
                data.draw(st.sampled_from(spelling.numbers if is_number else spelling.strings)).format(
                    *[number if is_number else text] * 2
                )
            )
        elif part == " ":
            out.append(
                data.draw(st.sampled_from([" ", " ", "\n", *(f" {each} " for each in spelling.comments)])).format(*[MARKER] * 2)
            )
        else:
            out.append(part)
    return "".join(out)


def names_for(data: st.DataObject, form: str, spelling: Spelling) -> list[str]:
    return [data.draw(st.sampled_from(spelling.names)).format(f"nm{i}") for i in range(form.count(NAME))]


def names_in(digest: str) -> list[str]:
    return re.findall(r"`(nm[^`]*)`", digest)


LITERALS = {kind for kind in tokens.TokenType if "STRING" in kind.name or kind.name == "NUMBER"}
WORDS = {tokens.TokenType.VAR, tokens.TokenType.IDENTIFIER}


def check_with_witness(statement: str, witness: str, digest: str) -> None:
    found = Dialect.get_or_raise(witness).tokenize(statement)
    assert [token.text for token in found if token.token_type in WORDS and token.text.startswith("nm")] == names_in(digest)
    assert not [token for token in found if MARKER in token.text and token.token_type not in LITERALS]


@pytest.mark.parametrize("dialect", SPELLINGS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_shape_alone_makes_the_digest(dialect: str, data: st.DataObject) -> None:
    """I2 to I4."""
    spelling, form = SPELLINGS[dialect], data.draw(shape)
    names = names_for(data, form, spelling)
    first, second = (written(data, form, spelling, names) for _ in range(2))
    hash_of_first, digest = pfs.digest(first, dialect=dialect)
    assert digest is not None
    assert pfs.digest(second, dialect=dialect) == (hash_of_first, digest)
    assert MARKER not in digest, first
    assert re.search(r"9\d{5}", digest) is None, first
    check_with_witness(first, spelling.witness, digest)
    changed = data.draw(st.integers(0, len(names) - 1))
    others = [name.replace("nm", "nmother") if i == changed else name for i, name in enumerate(names)]
    assert pfs.digest(written(data, form, spelling, others), dialect=dialect)[0] != hash_of_first


def test_the_witness_sees_a_wrong_dialect() -> None:
    """The control: read as MySQL, a name in double quotes is a literal."""
    statement = 'DELETE FROM "nm0" WHERE nm1 = 1'
    for dialect in ("sqlite", "mysql"):
        digest = str(pfs.digest(statement, dialect=dialect)[1])
        if dialect == "sqlite":
            check_with_witness(statement, "sqlite", digest)
        else:
            with pytest.raises(AssertionError):
                check_with_witness(statement, "sqlite", digest)
