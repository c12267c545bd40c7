"""Answers SET: what a client sets for its session changes what it reads, and sometimes what it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pfs._export.serve.variables import Session, Value
from pfs._export.serve.wire import Refusal

__all__ = ["assign", "names_of", "set_one"]

_Word = tuple[str, bool]  # a text, and whether it stood in quotes
_SCOPES = ("GLOBAL", "SESSION", "LOCAL", "PERSIST", "PERSIST_ONLY")
_NOT_SET, _NO_SQL = 1235, 1064
_WITHOUT_SIGN = ("ROLE", "DEFAULT", "RESOURCE", "PASSWORD", "STATEMENT")
_LEVELS = {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}


def set_one(
    words: Sequence[_Word], session: Session, users: dict[str, Value | None], before: Mapping[str, Value | None]
) -> list[Refusal]:
    """Makes one setting of a SET, if it is known. Returns why it is ignored: clients set many.

    Args:
        users: the variables of the client, whose names begin with @.
        before: those before the SET.

    Raises:
        Refusal: it assigns nothing, or an unknown character set or time zone would make answers wrong.
    """
    try:
        _set(words, session, users, before)
    except Refusal as refusal:
        if refusal.code in (_NO_SQL, 1115, 1298):
            raise
        return [refusal]
    return []


def names_of(words: Sequence[_Word]) -> list[str]:
    """Returns the words before the sign of an assignment."""
    place = next((place for place, (text, quoted) in enumerate(words) if text in ("=", ":=") and not quoted), 0)
    return [text for text, _ in words[:place]]


def _set(words: Sequence[_Word], session: Session, users: dict[str, Value | None], before: Mapping[str, Value | None]) -> None:
    plain = " ".join(text.upper() for text, _ in words).split()
    if plain[:1] == ["NAMES"]:
        session.set_charset(_named(words[1:2]))
        if plain[2:3] == ["COLLATE"]:
            session.write("collation_connection", words[-1][0])
    elif plain[:2] in (["CHARACTER", "SET"], ["CHAR", "SET"]) or plain[:1] == ["CHARSET"]:
        session.set_charset(_named(words[-1:]))
    elif "TRANSACTION" in plain[:2] or plain[:1] in (["ISOLATION"], ["READ"]):
        _set_transaction(" ".join(plain), session)
    else:
        names = names_of(words)
        if not names and (not plain or plain[0] not in _WITHOUT_SIGN):
            raise Refusal(_NO_SQL, "SET needs a name, = and a value")
        assign(names, _value(words[len(names) + 1 :], session, before), session, users)


def _named(words: Sequence[_Word]) -> str | None:
    if not words:
        raise Refusal(_NOT_SET, "SET without a value is ignored")
    ((text, quoted),) = words
    return None if text.upper() == "DEFAULT" and not quoted else text


def _set_transaction(text: str, session: Session) -> None:
    level = text.partition("ISOLATION LEVEL ")[2]
    if level in _LEVELS:
        session.write("transaction_isolation", level.replace(" ", "-"))
    elif text.endswith(("READ ONLY", "READ WRITE")):
        session.write("transaction_read_only", text.endswith("ONLY"))


def assign(name: Sequence[str], value: Value | None, session: Session, users: dict[str, Value | None]) -> None:
    """Gives a variable a value.

    Raises:
        Refusal: it is ignored.
    """
    if name[:1] == ["@"]:
        if len(users) >= 1000 or len(str(value)) > 10_000:
            raise Refusal(_NOT_SET, f"@{name[-1]} is ignored: there are too many variables, or it is too long")
        users[name[-1].lower()] = value
        return
    scope = next((word.upper() for word in name[:-1] if word.upper() in _SCOPES), "SESSION")
    if not name or scope not in ("SESSION", "LOCAL"):
        raise Refusal(_NOT_SET, f"SET {scope} is ignored: a client sets its own session")
    session.write(name[-1], value)


def _value(words: Sequence[_Word], session: Session, users: Mapping[str, Value | None]) -> Value | None:
    """Returns the value of a text, a number, a word or another variable."""
    texts = [text for text, _ in words]
    if len(words) == 1:
        text, quoted = words[0]
        if not quoted and text.upper() in ("DEFAULT", "NULL"):
            return None
        return int(text) if text.isdecimal() and not quoted else text
    if texts[:1] == ["@@"]:
        return session.read(texts[-1], texts[1].upper() == "GLOBAL")
    if texts[:1] == ["@"] and len(texts) == 2:
        return users.get(texts[1].lower())
    if [text.upper() for text in texts[:2]] == ["CONCAT", "("] and texts[-1] == ")":
        parts: list[list[_Word]] = [[]]
        for word in words[2:-1]:
            if word == (",", False):
                parts.append([])
            else:
                parts[-1].append(word)
        found = [_value(part, session, users) for part in parts]
        return None if None in found else "".join(map(str, found)).strip(",")  # a list of modes may be empty before
    if texts[:1] == ["-"] and len(texts) == 2 and texts[1].isdecimal():
        return -int(texts[1])
    raise Refusal(_NOT_SET, f"SET to {' '.join(texts)[:80]!r} is ignored: a value is a literal or a variable")
