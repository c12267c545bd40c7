"""Times with a unit in statements: ``5ms`` is the number of its picoseconds."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from pfs._read.units import LEGAL, in_picoseconds
from pfs.errors import InvalidValue

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

__all__ = ["mysql_tokens", "without_units"]

_MAY_HAVE = re.compile(r"\d[A-Za-z\u00b5\u03bc]")
_WORD = re.compile(r"[A-Za-z\u00b5\u03bc]+(?!\w)")
_TIME = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)([A-Za-z\u00b5\u03bc]+)")


def without_units(statement: str) -> str:
    """Returns a statement of DuckDB in which times are numbers.

    Raises:
        InvalidValue: a number has a unit that is not one of time.
    """
    if _MAY_HAVE.search(statement) is None:
        return statement
    import duckdb

    data = statement.encode("utf-8", "surrogatepass")
    found = [(at, kind.name) for at, kind in duckdb.tokenize(statement)]  # in bytes
    parts, done = [], 0
    for (at, kind), (end, after) in pairwise(found):
        if kind == "numeric_const" and after == "identifier":
            word = _WORD.match(data[end:].decode("utf-8", "surrogatepass"))
            match = None if word is None else _TIME.fullmatch(data[at:end].decode() + word[0])
            if match is None:  # a blank is between them, or a name in quotes follows
                continue
            time = in_picoseconds(match[1], match[2])
            if time is None:
                raise InvalidValue(f"unknown unit '{match[2]}' in {match[0]}: legal are {LEGAL}")
            parts += [data[done:at], str(time).encode()]
            done = end + len(match[2].encode())
    return b"".join([*parts, data[done:]]).decode("utf-8", "surrogatepass")


def mysql_tokens(statement: str) -> list[Token]:
    """Returns the words of a text of MySQL, in which a time is a number.

    A name may begin with a digit there: what has no unit of a time, stands behind a dot, ``@`` or AS, or in quotes is a name.

    Raises:
        SqlglotError: the text has no words of SQL.
    """
    from sqlglot.dialects import MySQL
    from sqlglot.tokenizer_core import Token, TokenType

    found: list[Token] = []
    for token in MySQL().tokenize(statement):
        if (
            token.token_type == TokenType.VAR
            and (match := _TIME.fullmatch(token.text)) is not None
            and (time := in_picoseconds(match[1], match[2])) is not None
            and not (found and found[-1].token_type in (TokenType.DOT, TokenType.PARAMETER, TokenType.ALIAS))
        ):
            token = Token(TokenType.NUMBER, str(time), token.line, token.col, token.start, token.end, [*token.comments])
        found.append(token)
    return found
