"""Writes answers as fast as the client reads, bounds prepared statements, and writes their parameters as literals."""

from __future__ import annotations

import re
from typing import Any

from mysql_mimic import connection, packets
from mysql_mimic.connection import Connection
from mysql_mimic.errors import SQLSTATES, ErrorCode, MysqlError
from mysql_mimic.results import ResultSet

from pfs._serve.answers import Rows

__all__ = ["BoundedConnection"]

# Bounds for one client.
_MOST_STATEMENTS = 1000
_MOST_BYTES = 4 << 20  # of their texts; as many of parameters that come in parts
_MOST_CURSORS = 8  # each holds an answer
_MOST_PARAMETERS = 1000  # each takes a pass over the text
_COST = 64  # bytes of an object that holds no bytes yet
_TOO_MANY_STATEMENTS, _TOO_MANY_PARAMETERS = 1461, 1390
SQLSTATES.update({_TOO_MANY_STATEMENTS: b"42000", _TOO_MANY_PARAMETERS: b"HY000"})


class _Parameters:
    """Finds the question marks that are parameters. mysql-mimic's own pattern also stops at quotes in comments and in texts.

    mysql-mimic also writes texts with the quotes that are in them. So `sub` mends its literals.
    """

    _pattern = re.compile(
        r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+"|`[^`]*+`|/\*.*?\*/|--\s[^\n]*+|\#[^\n]*+|(?P<parameter>\?)""", re.DOTALL
    )

    def findall(self, text: str) -> list[re.Match[str]]:
        return [each for each in self._pattern.finditer(text) if each["parameter"]]

    def sub(self, literal: str, text: str, count: int) -> str:
        """Replaces the first parameter."""
        place = next(each.start() for each in self._pattern.finditer(text) if each["parameter"])
        return f"{text[:place]}{_mended(literal)}{text[place + 1 :]}"


def _mended(literal: str) -> str:
    """Returns SQL for the literal of mysql-mimic: numbers, texts in quotes, times without."""
    if literal.startswith("'"):
        inner = literal[1:-1].replace("\\", "\\\\").replace("'", "''")
        return f"'{inner}'"
    return f"'{literal}'" if re.match(r"\d+[-:]|-?\d+ day", literal) else literal


packets.REGEX_PARAM = connection.REGEX_PARAM = _Parameters()


class BoundedConnection(Connection):  # type: ignore[misc]
    """Is the connection of a client, with bounds that MySQL has, too."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._parts: dict[int, int] = {}  # bytes of parameters that came in parts, by statement

    async def authenticate(self, *arguments: Any, **named: Any) -> None:
        if self.session.database:
            try:
                await self.session.use(self.session.database)
            except MysqlError as error:  # later the client would take it for the end of the connection
                await self.stream.write(self.error(msg=error.msg, code=error.code))
                raise
        await super().authenticate(*arguments, **named)

    async def write_text_resultset(self, result_set: ResultSet) -> None:
        """Writes a batch of rows when the client has taken those before. mysql-mimic would write all rows at once."""
        columns, rows = result_set.columns, result_set.rows
        head = [packets.make_column_count(self.capabilities, len(columns))]
        for each in columns:
            head.append(packets.make_column_definition_41(self.server_charset, name=each.name, column_type=each.type))
        self.stream.write_many(head if self.deprecate_eof() else [*head, self.eof()])
        count = 0
        for batch in rows.batches() if isinstance(rows, Rows) else [rows]:
            count += self.stream.write_text_rows(batch, columns)
            await self.stream.drain()
        await self.stream.write(self.ok_or_eof(affected_rows=count))

    async def handle_stmt_prepare(self, data: bytes) -> None:
        held = [len(each.sql) for each in self.prepared_stmts.values()]
        if len(held) >= _MOST_STATEMENTS or sum(held) + len(data) > _MOST_BYTES:
            text = f"Can't create more than max_prepared_stmt_count statements (current value: {_MOST_STATEMENTS})"
            raise MysqlError(f"{text}; their texts have at most {_MOST_BYTES} bytes", _TOO_MANY_STATEMENTS)
        if data.count(b"?") > _MOST_PARAMETERS:
            text = f"Prepared statement contains too many placeholders: at most {_MOST_PARAMETERS} are legal"
            raise MysqlError(text, _TOO_MANY_PARAMETERS)
        await super().handle_stmt_prepare(data)

    async def handle_stmt_send_long_data(self, data: bytes) -> None:
        number = int.from_bytes(data[:4], "little")
        if number not in self.prepared_stmts:
            return  # the client waits for no answer to this command, not even for an error
        self._parts[number] = self._parts.get(number, 0) + len(data) + _COST
        if sum(self._parts.values()) > _MOST_BYTES:
            self.stream.reader.hang_up()
            return
        await super().handle_stmt_send_long_data(data)

    async def handle_stmt_execute(self, data: bytes) -> None:
        number = int.from_bytes(data[:4], "little")
        opened = sum(each.cursor is not None for key, each in self.prepared_stmts.items() if key != number)
        if opened >= _MOST_CURSORS and len(data) > 4 and data[4]:
            raise MysqlError(f"{opened} cursors are open: close a statement", ErrorCode.UNKNOWN_ERROR)
        await super().handle_stmt_execute(data)
        self._parts.pop(number, None)

    async def handle_stmt_reset(self, data: bytes) -> None:
        await super().handle_stmt_reset(data)
        self._parts.pop(int.from_bytes(data[:4], "little"), None)

    async def handle_stmt_close(self, data: bytes) -> None:
        await super().handle_stmt_close(data)
        self._parts.pop(int.from_bytes(data[:4], "little"), None)
