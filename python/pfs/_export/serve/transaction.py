"""Answers statements about transactions. They change nothing here, but a client may ask whether one is open."""

from __future__ import annotations

import re

from pfs._export.serve.statements import Statement
from pfs._export.serve.wire import Refusal

__all__ = ["Transaction"]

_NO_SAVEPOINT, _NO_SQL = 1305, 1064
_BEGIN = re.compile(r"BEGIN( WORK)?|START TRANSACTION\b.*")
_END = re.compile(r"(COMMIT|ROLLBACK)( WORK)?(?P<chain> AND( NO)? CHAIN)?( NO)?( RELEASE)?")


class Transaction:
    """The transaction of a client, with the names of its savepoints.

    Attributes:
        is_open: whether a statement has begun one.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._savepoints: list[str] = []

    def takes(self, statement: Statement, is_autocommit: bool) -> bool:
        """Returns whether a statement is about transactions, and does what it says.

        Raises:
            Refusal: there is no such savepoint, or the statement has other words.
        """
        first = statement.word(0)
        if first not in ("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"):
            return False
        texts = [text for text, _ in statement.values()[0]]
        words = " ".join([first, *(text.upper() for text in texts if text.upper() != first)])
        if first in ("SAVEPOINT", "RELEASE") or re.match("ROLLBACK( WORK)? TO ", words):
            self._savepoint(first, texts[-1].lower() if texts else "", is_autocommit)
            return True
        if _BEGIN.fullmatch(words):
            self._savepoints, self.is_open = [], True
            return True
        if (end := _END.fullmatch(words)) is None:
            if first == "START":  # of a replica
                return False
            raise Refusal(_NO_SQL, f"{words[:80]!r} is no statement that pfs answers")
        self._savepoints = []
        self.is_open = end["chain"] is not None and " NO " not in end["chain"]
        return True

    def _savepoint(self, first: str, name: str, is_autocommit: bool) -> None:
        if first == "SAVEPOINT":
            if self.is_open or not is_autocommit:  # else it ends with its statement
                self._savepoints = [*(each for each in self._savepoints if each != name), name][-1000:]
            return
        if name not in self._savepoints:
            raise Refusal(_NO_SAVEPOINT, f"SAVEPOINT {name} does not exist")
        place = self._savepoints.index(name)
        del self._savepoints[place + (first == "ROLLBACK") :]
