"""Answers statements that take care of a server. Where they have nothing to do here, they are done.

Tools that only read send them: a dump locks the tables, which keeps no table of performance_schema still in MySQL, either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pfs import _core
from pfs._export.serve.answers import Answer, text_answer
from pfs._export.serve.statements import Statement, statements
from pfs._export.serve.variables import Value
from pfs._export.serve.wire import Column, Kind, Refusal

if TYPE_CHECKING:
    from pfs._export.serve.information import Information

__all__ = ["Prepared", "cared_for"]

_NO_SUCH_OPTION, _UNKNOWN_STATEMENT, _WRONG_ARGUMENTS, _TOO_MANY = 1031, 1243, 1210, 1461
_NO_SQL, _UNKNOWN_TABLE = 1064, 1146
_MOST_PREPARED = 100
# Their first words. Another one is no statement.
_CAN_BE_PREPARED = {
    "(", "ALTER", "ANALYZE", "CALL", "CHECK", "CHECKSUM", "COMMIT", "CREATE", "DELETE", "DESC", "DESCRIBE", "DO", "DROP",
    "EXPLAIN", "FLUSH", "GRANT", "INSERT", "INSTALL", "KILL", "LOCK", "OPTIMIZE", "RENAME", "REPAIR", "REPLACE", "RESET",
    "REVOKE", "ROLLBACK", "SELECT", "SET", "SHOW", "START", "STOP", "TABLE", "TRUNCATE", "UNINSTALL", "UNLOCK", "UPDATE", "USE",
    "VALUES", "WITH",
}  # fmt: skip


def cared_for(statement: Statement, schema: str, information: Information) -> Answer | None:
    """Returns the answer to a statement of this kind; None if it is of another kind, or would change something.

    Args:
        schema: of names without one.

    Raises:
        Refusal: MySQL refuses it for tables of performance_schema.
    """
    word = statement.word(0)
    if word in ("UNLOCK", "FLUSH"):
        return Answer()
    if word == "LOCK" and all(texts[-1][0].upper() in ("READ", "LOCAL") for texts in statement.values()):
        if unknown := [where for where, is_there in _named(statement, schema, information) if not is_there]:
            raise Refusal(_UNKNOWN_TABLE, f"Table '{unknown[0]}' doesn't exist")
        return Answer()
    if word == "XA" and statement.word(1) == "RECOVER":
        columns = [Column(name, Kind.LONGLONG, 21) for name in ("formatID", "gtrid_length", "bqual_length")]
        return Answer([*columns, Column("data", Kind.VAR_STRING, 128)], [])
    if word == "CHECK":
        return text_answer(
            ["Table", "Op", "Msg_type", "Msg_text"], [_check(*each) for each in _named(statement, schema, information)]
        )
    if word == "HANDLER":
        name = "".join(text for text, _ in statement.values()[0][:1])
        raise Refusal(_NO_SUCH_OPTION, f"Table storage engine for '{name}' doesn't have this option")
    if word == "HELP":
        topic = statement.values()[0][0][0].lower() if statement.values()[0] else ""
        if topic in _core.tables():
            return text_answer(
                ["name", "description", "example"], [(topic, _core.table_info(topic)["doc"], f"SELECT * FROM {topic}")]
            )
        return text_answer(["name", "is_it_category"], [])
    return None


def _named(statement: Statement, schema: str, information: Information) -> list[tuple[str, bool]]:
    """Returns the tables that follow two words, and whether they exist."""
    found: list[tuple[str, bool]] = []
    for place, texts in enumerate(statement.values()):
        words = [text for text, _ in texts]
        if not place and words[0].upper() in ("TABLE", "TABLES"):
            words = words[1:]
        where, name = (words[0], words[2]) if words[1:2] == ["."] else (schema, words[0] if words else "")
        found.append((f"{where}.{name}", bool(information.types(where.lower(), name.lower()))))
    return found


def _check(table: str, is_there: bool) -> tuple[str, ...]:
    if is_there:
        return table, "check", "note", "The storage engine for the table doesn't support check"
    return table, "check", "Error", f"Table '{table}' doesn't exist"


class Prepared:
    """Keeps the statements that a client has prepared by PREPARE: they have names."""

    def __init__(self) -> None:
        self._held: dict[str, Statement] = {}

    def answered(self, statement: Statement, users: Mapping[str, Value | None]) -> tuple[Statement, list[object]] | None:
        """Returns what EXECUTE executes: a statement and the values of its parameters. None: PREPARE and DEALLOCATE are done.

        Raises:
            Refusal: there is no such statement, or it has other parameters.
        """
        words = [text for texts in statement.values() for text, _ in texts]
        if statement.word(0) == "PREPARE" and len(words) >= 3:
            text = str(users.get(words[-1].lower()) or "") if words[-2] == "@" else words[-1]
            found = statements(text)
            if found and found[0].word(0) not in _CAN_BE_PREPARED:
                raise Refusal(_NO_SQL, f"{found[0].text[:80]!r} is no statement that pfs answers")
            if len(found) != 1 or len(self._held) >= _MOST_PREPARED:
                raise Refusal(_TOO_MANY, f"PREPARE takes one statement, and {_MOST_PREPARED} of them are legal at a time")
            self._held[words[0].lower()] = found[0]
            return None
        name = next((word for word in words if word.upper() not in ("PREPARE", "")), "").lower()
        if name not in self._held:
            raise Refusal(_UNKNOWN_STATEMENT, f"Unknown prepared statement handler ({name}) given to {statement.word(0)}")
        if statement.word(0) != "EXECUTE":
            del self._held[name]
            return None
        values: list[object] = [users.get(texts[-1][0].lower()) for texts in statement.values() if len(texts) > 1]
        if len(values) != self._held[name].parameters:
            raise Refusal(_WRONG_ARGUMENTS, "Incorrect arguments to EXECUTE")
        return self._held[name], values
