"""Takes the text of a client apart: its statements, their words, their parameters, and the titles of what they select."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects import MySQL
from sqlglot.tokenizer_core import Token, TokenType

from pfs._export.serve.variables import CHARSETS
from pfs._export.serve.wire import time_text
from pfs._sql.functions import MYSQL
from pfs._sql.units import mysql_tokens
from pfs.errors import InvalidValue

__all__ = ["Statement", "statements"]

_VERSION = MYSQL[0] * 10000 + MYSQL[1] * 100 + MYSQL[2]
_MOST_TITLE = 256  # characters
_AFTER_ITEMS = {
    TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.UNION,
    TokenType.EXCEPT, TokenType.INTERSECT, TokenType.INTO, TokenType.FOR, TokenType.WINDOW,
}  # fmt: skip
_BEFORE_ITEMS = {
    "ALL", "DISTINCT", "DISTINCTROW", "HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT",
    "SQL_NO_CACHE", "SQL_CALC_FOUND_ROWS",
}  # fmt: skip
# MySQL executes comments that name no later version than its own.
_COMMENT = re.compile(
    r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+"|`[^`]*+`|/\*(?P<executed>!(?P<version>\d{5,6})?(?P<text>.*?))?\*/"""
    r"""|/\*.*?\*/|--\s[^\n]*+|\#[^\n]*+""",
    re.DOTALL,
)
_SYNONYMS = {  # after SHOW
    "FIELDS": "COLUMNS", "INDEXES": "INDEX", "KEYS": "INDEX", "LOCAL": "SESSION", "SCHEMA": "DATABASE", "SCHEMAS": "DATABASES",
}  # fmt: skip
_SHOWS = ("SHOW", "DESCRIBE", "DESC")
_COLUMNS_OF_SHOW = {TokenType.CHARACTER_SET, TokenType.COLLATE, TokenType.DEFAULT, TokenType.TABLE, TokenType.DATABASE}
_HINTS = _BEFORE_ITEMS - {"ALL", "DISTINCT", "DISTINCTROW"}  # they change no answer


class Statement:
    """Is one statement of a client.

    Attributes:
        text: from its first word to its last.
        parameters: how many question marks stand for a value.
    """

    def __init__(self, whole: str, tokens: Sequence[Token]) -> None:
        self._whole = whole
        self._tokens = tokens
        self.text = whole[tokens[0].start : tokens[-1].end + 1]
        self.parameters = sum(token.token_type == TokenType.PLACEHOLDER for token in tokens)

    def word(self, place: int) -> str:
        """Returns a word in upper case; "" if there is none, or something in quotes."""
        words = [word for token in self._tokens[: place + 1] for word in _words(token)]
        return words[place] if place < len(words) else ""

    def values(self) -> list[list[tuple[str, bool]]]:
        """Returns what stands between commas outside of brackets: texts, and whether each stood in quotes."""
        return [[(token.text, token.token_type == TokenType.STRING) for token in part] for part in self._parts()]

    def _parts(self) -> list[list[Token]]:
        found: list[list[Token]] = [[]]
        depth = 0
        for token in self._rest():
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if token.token_type == TokenType.COMMA and not depth:
                found.append([])
            else:
                found[-1].append(token)
        return found

    def value_as_select(self, place: int) -> Statement | None:
        """Returns a SELECT of what the item of SET at this place assigns; None if that is a literal or a variable."""
        item = self._parts()[place]
        at = next((at for at, token in enumerate(item) if token.token_type in (TokenType.EQ, TokenType.COLON_EQ)), None)
        value = [] if at is None else item[at + 1 :]
        first = value[0].text if value else ""
        names = (TokenType.VAR, TokenType.TRUE, TokenType.FALSE)
        is_name = len(value) == 1 and value[0].token_type in names and item[0].text == "@"
        is_plain = len(value) < 2 or (first in ("-", "@") and len(value) == 2) or (first == "@@" and len(value) in (2, 4))
        if is_plain and not is_name:
            return None
        return Statement(self._whole, [_token(TokenType.SELECT, "SELECT", value[0]), *value])

    def without_into(self) -> tuple[Statement, list[str]] | None:
        """Returns a SELECT without INTO, and the variables behind it, whose names begin with @. None if it has none."""
        depth = 0
        for place, token in enumerate(self._tokens):
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth or token.token_type != TokenType.INTO:
                continue
            end, found = place + 1, []
            while end + 1 < len(self._tokens) and self._tokens[end].token_type == TokenType.PARAMETER:
                found.append(self._tokens[end + 1].text.lower())
                end += 2
                if end < len(self._tokens) and self._tokens[end].token_type == TokenType.COMMA:
                    end += 1
            rest = [*self._tokens[:place], *self._tokens[end:]]
            return (Statement(self._whole, rest), found) if found and rest else None
        return None

    def _rest(self) -> Sequence[Token]:
        """Returns what follows the first word. For sqlglot it is one text behind some words."""
        if self._tokens[0].token_type not in (TokenType.COMMAND, TokenType.EXECUTE) or len(self._tokens) != 2:
            return self._tokens[1:]
        return mysql_tokens(self._tokens[1].text)

    def tree(self, values: Sequence[object] = ()) -> exp.Expression:
        """Returns the tree of the statement.

        Args:
            values: of its parameters.

        Raises:
            InvalidValue: it is no statement of MySQL.
        """
        rest = iter(values)
        tokens: list[Token] = []
        for token in _of_show(self._tokens) if self.word(0) in _SHOWS else self._tokens:
            if token.token_type == TokenType.PLACEHOLDER and values:
                tokens += _tokens_of(next(rest), token)
            elif not (_words(token)[0] in _HINTS and self._is_before_items(tokens)):
                tokens.append(token)
        try:
            tree: Any
            (tree,) = MySQL().parser().parse(_with_brackets(tokens), self._whole)
        except (sqlglot.errors.SqlglotError, RecursionError, ValueError) as error:
            raise _no_sql(error) from None
        if tree is None:
            raise InvalidValue("the statement is empty")
        return tree  # type: ignore[no-any-return]

    @staticmethod
    def _is_before_items(tokens: Sequence[Token]) -> bool:
        return bool(tokens) and (tokens[-1].token_type in (TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL))

    def as_select(self) -> Statement:
        """Returns a SELECT of what follows the first word."""
        first = self._tokens[0]
        return Statement(self._whole, [_token(TokenType.SELECT, "SELECT", first), *self._tokens[1:]])

    def is_of(self, kinds: Iterable[str]) -> str:
        """Returns the one of these that follows the first word; "" if none does."""
        words = " ".join(self.word(place) for place in (1, 2, 3)) + " "
        return next((kind for kind in kinds if words.startswith(kind + " ")), "")

    def titles(self, tree: exp.Expression) -> list[str | None] | None:
        """Returns the titles of what a SELECT names, as they were typed: None stands for a star. None for another statement."""
        while isinstance(tree, exp.SetOperation | exp.Subquery):
            tree = tree.this
        if not isinstance(tree, exp.Select):
            return None
        items = self._items()
        return (
            [self._title(*pair) for pair in zip(items, tree.expressions, strict=True)]
            if len(items) == len(tree.expressions)
            else None
        )

    def _title(self, tokens: Sequence[Token], item: exp.Expression) -> str | None:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            return None
        if isinstance(item, exp.Alias):
            return str(item.alias)
        if isinstance(item, exp.Column):
            return tokens[-1].text
        if (isinstance(item, exp.Literal) and item.is_string) or isinstance(item, exp.National):
            return tokens[0].text[:_MOST_TITLE]
        return self._whole[tokens[0].start : tokens[-1].end + 1][:_MOST_TITLE]

    def _items(self) -> list[list[Token]]:
        """Returns the words of each item that the outermost SELECT, or the first of several, names."""
        depth, begin, least = 0, 0, len(self._tokens)
        for place, token in enumerate(self._tokens):
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if token.token_type == TokenType.SELECT and depth < least:
                begin, least = place + 1, depth
        while begin < len(self._tokens) and _words(self._tokens[begin])[0] in _BEFORE_ITEMS:
            begin += 1
        found: list[list[Token]] = [[]]
        depth = 0
        for token in self._tokens[begin:]:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth < 0 or (depth == 0 and token.token_type in _AFTER_ITEMS):
                break
            if token.token_type == TokenType.COMMA and depth == 0:
                found.append([])
            else:
                found[-1].append(token)
        return found if all(found) else []


def _with_brackets(tokens: list[Token]) -> list[Token]:
    """Returns words in which each branch of CASE that sets a variable is in brackets: sqlglot reads none without."""
    if not any(token.token_type == TokenType.COLON_EQ for token in tokens):
        return tokens
    found: list[Token] = []
    open_at: list[int] = []  # depths at which a branch was opened
    depth = 0
    for place, token in enumerate(tokens):
        kind = token.token_type
        depth += (kind in (TokenType.L_PAREN, TokenType.CASE)) - (kind == TokenType.R_PAREN)
        if open_at and open_at[-1] == depth and kind in (TokenType.WHEN, TokenType.ELSE, TokenType.END):
            open_at.pop()
            found.append(Token(TokenType.R_PAREN, ")"))
        depth -= kind == TokenType.END
        found.append(token)
        at, _, sets = [*(each.token_type for each in tokens[place + 1 : place + 4]), None, None, None][:3]
        if kind in (TokenType.THEN, TokenType.ELSE) and (at, sets) == (TokenType.PARAMETER, TokenType.COLON_EQ):
            open_at.append(depth)
            found.append(Token(TokenType.L_PAREN, "("))
    return found


def statements(text: str, has_names_in_quotes: bool = False) -> list[Statement]:
    """Returns the statements between the semicolons of a text.

    Args:
        has_names_in_quotes: double quotes are those of names, as in the mode ANSI_QUOTES.

    Raises:
        InvalidValue: the text has no words of SQL.
    """
    if "/*!" in text or "/*+" in text:
        text = _COMMENT.sub(_executed, text)
    try:
        tokens = mysql_tokens(text)
    except sqlglot.errors.SqlglotError as error:
        raise _no_sql(error) from None
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            found.append([])
        else:
            if has_names_in_quotes and token.token_type == TokenType.STRING and text[token.start] == '"':
                token = _token(TokenType.IDENTIFIER, token.text, token)
            found[-1].append(_with_bytes(found[-1], token))
    return [Statement(text, each) for each in found if each]


def _with_bytes(before: list[Token], token: Token) -> Token:
    """Returns a word. A text behind the name of a character set is one, or bytes: then that name goes.

    Raises:
        InvalidValue: a text has bytes that are no characters.
    """
    is_binary = False
    if before and token.token_type == TokenType.STRING and (name := before[-1].text.lower())[:1] == "_" and name[1:] in CHARSETS:
        before.pop()
        is_binary = name == "_binary"
    try:
        data = token.text.encode("utf-8", "surrogateescape" if is_binary else "strict")
    except UnicodeEncodeError:
        raise InvalidValue("Invalid utf8mb4 character string: bytes are legal as _binary'...' or x'...'") from None
    return _token(TokenType.HEX_STRING, data.hex(), token) if is_binary else token


def _executed(found: re.Match[str]) -> str:
    """Returns the text of a comment that MySQL executes, at its place; other texts as they are."""
    if found[0].startswith("/*+"):  # advice for a planner is no part of a title
        return " " * len(found[0])
    if found["executed"] is None or int(found["version"] or 0) > _VERSION:
        return found[0]
    return " " * (found.start("text") - found.start()) + found["text"] + "  "


def _of_show(tokens: Sequence[Token]) -> list[Token]:
    """Returns the words of a SHOW that sqlglot knows for those that mean the same: also for DESCRIBE with a pattern."""
    made = [*tokens]
    if _words(made[0])[0] != "SHOW":
        is_name = [token.token_type == TokenType.DOT for token in made[2:]] in ([False], [True, False, False])
        if len(made) < 3 or not (made[-1].token_type == TokenType.STRING or (is_name and _is_name(made[1]))):
            return made
        made[-1] = _token(TokenType.STRING, made[-1].text, made[-1])
        begin = MySQL().tokenize("SHOW COLUMNS FROM")
        made = [*begin, *made[1:-1], _token(TokenType.LIKE, "LIKE", made[-1]), made[-1]]
    for place in (1, 2):
        known = _SYNONYMS.get(made[place].text.upper()) if place < len(made) else None
        if known is not None and made[place].token_type != TokenType.IDENTIFIER:
            (word,) = MySQL().tokenize(known)
            made[place] = _token(word.token_type, word.text, made[place])
    behind = next((place for place, token in enumerate(made) if token.token_type == TokenType.WHERE), len(made))
    made[:behind] = [
        _token(TokenType.FROM, "FROM", token) if token.token_type == TokenType.IN else token for token in made[:behind]
    ]
    if [token.text.upper() for token in made[3:6]] == ["IF", "NOT", "EXISTS"]:
        del made[3:6]
    for place in range(behind + 1, len(made) - 1):
        if made[place].token_type in _COLUMNS_OF_SHOW:  # sqlglot knows it as another word
            made[place] = _token(TokenType.IDENTIFIER, made[place].text, made[place])
    for place in range(len(made) - 3):
        if made[place].token_type in (TokenType.FROM, TokenType.IN) and made[place + 2].token_type == TokenType.DOT:
            schema, dot, table = made[place + 1 : place + 4]
            made[place + 1 : place + 4] = [table, _token(TokenType.FROM, "FROM", dot), schema]
            break
    return made


def _is_name(token: Token) -> bool:
    return token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)


def _words(token: Token) -> list[str]:
    """Returns the words of a token, which may be LOCK TABLES."""
    return [""] if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper().split() or [""]


def _no_sql(error: Exception) -> InvalidValue:
    return InvalidValue(f"the statement is no SQL of MySQL: {(str(error).splitlines() or [''])[0]}")


def _token(kind: TokenType, text: str, place: Token) -> Token:
    return Token(kind, text, place.line, place.col, place.start, place.end, [])


def _tokens_of(value: object, place: Token) -> list[Token]:
    """Returns the words that stand for a value.

    Raises:
        InvalidValue: SQL has no such number.
    """

    def token(kind: TokenType, text: str) -> Token:
        return _token(kind, text, place)

    if value is None:
        return [token(TokenType.NULL, "NULL")]
    if isinstance(value, bytes):
        return [token(TokenType.HEX_STRING, value.hex())]
    if isinstance(value, timedelta):
        return [token(TokenType.STRING, time_text(value))]
    if isinstance(value, date):
        kind = "DATETIME" if isinstance(value, datetime) else "DATE"
        return [token(each.token_type, each.text) for each in MySQL().tokenize(f"CAST('{value}' AS {kind})")]
    if isinstance(value, int | float | Decimal):
        if not math.isfinite(value):
            raise InvalidValue(f"{value} is no number of SQL")
        sign = [token(TokenType.DASH, "-")] if value < 0 else []
        number = token(TokenType.NUMBER, str(abs(value)))
        bracket: list[Any] = [token(TokenType.L_PAREN, "("), *sign, number, token(TokenType.R_PAREN, ")")]
        return bracket if sign else [number]
    return [token(TokenType.STRING, str(value))]
