"""Has the numbers that MySQL gives to errors, by what pfs, DuckDB and sqlglot say."""

from __future__ import annotations

import re

from pfs._export.serve.functions import NOT_IN_GROUP
from pfs.errors import Error, InvalidValue, OperationNotAllowed, UnknownColumn, UnknownTable

__all__ = ["code_of"]

_CODES: tuple[tuple[type[Error], int], ...] = (
    (UnknownTable, 1146),
    (UnknownColumn, 1054),
    (OperationNotAllowed, 1142),
    (InvalidValue, 1064),
)
# By words of DuckDB.
_CODES_OF_WORDS = {
    "term out of range": 1054,
    "unknown table 'information_schema.": 1109,
    "number of provided arguments": 1582,
    "Out of Range Error": 1690,
    "Subquery returns 2 columns": 1241,
    "Invalid Input Error: missing )": 3696,
    "Ambiguous reference to column": 1052,
    "aggregate function calls cannot be nested": 1111,
    "clause cannot contain aggregates": 1111,
    "More than one row returned by a subquery": 1242,
    "Set operations can only apply to expressions with the same number": 1222,
    NOT_IN_GROUP: 1055,
}
# Of sqlglot, about functions that have a name in MySQL, and no place in its grammar.
_NO_ARGUMENT = re.compile(r"missing for <class 'sqlglot\.expressions\.(math\.\w+|string\.Concat)'")
_WRONG_COUNT, _NO_MEMORY, _NO_SUCH_FUNCTION, _UNKNOWN = 1582, 1041, 1305, 1105


def code_of(error: Error, statement: str) -> int:
    """Returns the number of an error about a statement."""
    said = str(error)
    if _NO_ARGUMENT.search(said) and statement.count("(") == statement.count(")"):
        return _WRONG_COUNT
    if "Function with name" in said and "does not exist" in said:
        return _NO_SUCH_FUNCTION
    if (found := next((code for words, code in _CODES_OF_WORDS.items() if words in said), None)) is not None:
        return found
    if said.startswith("Out of Memory"):  # DuckDB's words
        return _NO_MEMORY
    return next((code for kind, code in _CODES if isinstance(error, kind)), _UNKNOWN)
