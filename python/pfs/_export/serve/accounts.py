"""Answers statements about accounts and threads. A client knows its own account, and may end no thread of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pfs._export.serve.answers import Answer, text_answer
from pfs._export.serve.statements import Statement
from pfs._export.serve.wire import Refusal

__all__ = ["account_answer", "has_killed"]

_NO_SUCH_GRANT, _NO_SUCH_USER, _NO_SUCH_THREAD, _NOT_OWNER = 1141, 1396, 1094, 1095


class _Client(Protocol):
    user: str | None

    def stop(self, only_statement: bool) -> None: ...


def has_killed(statement: Statement, user: str | None, clients: Mapping[int, _Client]) -> bool:
    """Does what KILL says if it is about a client, and returns whether it is.

    A client sends KILL QUERY from a second connection when its user presses Ctrl-C.

    Args:
        clients: by the number of their connection.

    Raises:
        Refusal: it is another user's.
    """
    texts = [text for text, _ in statement.values()[0]]
    number = texts[-1] if texts else ""
    other = clients.get(int(number)) if number.isdecimal() else None
    if other is None:
        return False
    if other.user != user:
        raise Refusal(_NOT_OWNER, f"You are not owner of thread {number}")
    other.stop(only_statement="QUERY" in map(str.upper, texts))
    return True


def account_answer(statement: Statement, user: str, host: str, threads: Callable[[], set[int]]) -> Answer | None:
    """Returns the answer to SHOW GRANTS, SHOW CREATE USER, or KILL of a thread; None for other statements.

    Args:
        threads: gives the Ids of SHOW PROCESSLIST.

    Raises:
        Refusal: the statement is about another account, or a thread.
    """
    texts = [text for text, _ in statement.values()[0]]
    quoted = f"`{user}`@`{host}`"
    if statement.is_of(["GRANTS"]) and statement.word(0) == "SHOW":
        named = texts[texts.index("FOR") + 1 :] if "FOR" in texts else texts[2:]
        if not _is_own(named, user):
            raise Refusal(_NO_SUCH_GRANT, f"There is no such grant defined for user '{named[0]}': pfs has no accounts")
        granted = f"GRANT SELECT, PROCESS, REPLICATION CLIENT, SHOW VIEW ON *.* TO {quoted}"
        return text_answer([f"Grants for {user}@{host}"], [(granted,)])
    if statement.is_of(["CREATE USER"]) and statement.word(0) == "SHOW":
        if not _is_own(texts[2:], user):
            raise Refusal(_NO_SUCH_USER, f"Operation SHOW CREATE USER failed for '{texts[2]}': pfs has no accounts")
        return text_answer([f"CREATE USER for {user}@{host}"], [(f"CREATE USER {quoted}",)])
    if statement.word(0) == "KILL" and texts and texts[-1].isdecimal():
        if int(texts[-1]) in threads():
            raise Refusal(_NOT_OWNER, f"You are not owner of thread {texts[-1]}: pfs ends no thread of a program")
        raise Refusal(_NO_SUCH_THREAD, f"Unknown thread id: {texts[-1]}")
    return None


def _is_own(named: list[str], user: str) -> bool:
    """Returns whether words name the account of the client: no word does, too."""
    return not named or named[0].upper().startswith("CURRENT_USER") or named[0] == user
