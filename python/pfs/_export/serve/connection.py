"""Speaks with one client: its login, then its commands, one after the other."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import ssl
import string
import struct
from collections.abc import Awaitable, Callable, Sequence

from pfs._export.serve.answers import Answer
from pfs._export.serve.prepared import Prepared, Store
from pfs._export.serve.session import Client
from pfs._export.serve.stream import ConnectionClosed, Stream
from pfs._export.serve.variables import VERSION, charset_of
from pfs._export.serve.wire import (
    UTF8,
    Column,
    Fields,
    Flag,
    Kind,
    Malformed,
    Refusal,
    Status,
    binary_rows,
    counted,
    definition,
    text_rows,
)

__all__ = ["Connection", "Password"]

_PLUGIN = b"mysql_native_password"
_TLS_REQUEST = 32  # bytes: a login without its texts
_OFFERED = (
    Flag.LONG_PASSWORD | Flag.FOUND_ROWS | Flag.LONG_FLAG | Flag.WITH_DATABASE | Flag.ODBC | Flag.IGNORE_SPACE | Flag.PROTOCOL_41
    | Flag.INTERACTIVE | Flag.TLS | Flag.TRANSACTIONS | Flag.SECURE_CONNECTION | Flag.MULTI_STATEMENTS | Flag.MULTI_RESULTS
    | Flag.PS_MULTI_RESULTS | Flag.PLUGIN_AUTH
)  # fmt: skip
_BAD_HANDSHAKE, _DENIED, _UNKNOWN_COMMAND, _NO_SQL, _EMPTY, _UNKNOWN, _MALFORMED = 1043, 1045, 1047, 1064, 1065, 1105, 1835
_WRONG_CHARACTERS, _NOT_SUPPORTED = 1300, 1235
_NOTHING = Status(0)
_LETTERS = string.ascii_letters + string.digits  # Connector/J reads the challenge as ASCII


class Password:
    """Knows whether a client has the password. Without one every answer is right: who may open the socket may read."""

    def __init__(self, password: str | None) -> None:
        self._twice = None if password is None else _sha1(_sha1(password.encode()))

    def is_right(self, answer: bytes, challenge: bytes) -> bool:
        """``answer``: SHA1(password) XOR SHA1(challenge + SHA1(SHA1(password)))."""
        if self._twice is None:
            return True
        if len(answer) != hashlib.sha1().digest_size:
            return False
        mask = _sha1(challenge + self._twice)
        once = bytes(one ^ other for one, other in zip(answer, mask, strict=True))
        return hmac.compare_digest(_sha1(once), self._twice)


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data).digest()


def _challenge() -> bytes:
    return "".join(secrets.choice(_LETTERS) for _ in range(20)).encode()


class Connection:
    """The connection of one client."""

    def __init__(self, stream: Stream, client: Client, number: int, password: Password, tls: ssl.SSLContext) -> None:
        self._stream = stream
        self._client = client
        self._number = number
        self._password = password
        self._tls = tls
        self._challenge = _challenge()
        self._flags = Flag(0)  # what both can do
        self._store = Store(stream.hang_up)
        self._commands: dict[int, Callable[[bytes], Awaitable[None]]] = {
            0x02: self._use,
            0x03: self._query,
            0x04: self._list_fields,
            0x09: self._statistics,
            0x0D: self._debug,
            0x0E: self._ping,
            0x11: self._change_user,
            0x16: self._prepare,
            0x17: self._execute,
            0x18: self._long_data,
            0x19: self._close,
            0x1A: self._reset_statement,
            0x1B: self._set_option,
            0x1C: self._fetch,
            0x1F: self._reset,
        }

    async def serve(self) -> None:
        """Answers until the client leaves.

        Raises:
            ConnectionClosed: it was not let in, or sends no packets.
        """
        try:
            await self._login()
            self._client.reset_charset(self._charset)
            await self._stream.write([self._ok()])
            while True:
                self._stream.begin()
                body = await self._stream.read()
                if body[:1] == b"\1":
                    return
                await self._command(body)
        except (Refusal, Malformed) as error:  # what it sends next is no packet, or is not for it
            await self._stream.write([_refusal(error).packet()])
            raise ConnectionClosed from None

    async def _command(self, body: bytes) -> None:
        try:
            command = self._commands.get(body[0]) if body else None
            if command is None:
                raise Refusal(_UNKNOWN_COMMAND, f"Unknown command {body[:1].hex()}")
            await command(body[1:])
        except (Refusal, Malformed) as error:
            await self._stream.write([_refusal(error).packet()])
        except (ConnectionClosed, ConnectionError):
            raise
        except Exception as error:
            logging.getLogger("pfs.serve").info("a command failed", exc_info=True)
            await self._stream.write([Refusal(_UNKNOWN, str(error)).packet()])

    def _ok(self, changed: int = 0, status: Status = _NOTHING) -> bytes:
        return b"\0" + counted(changed) + b"\0" + struct.pack("<HH", self._client.status | status, len(self._client.warnings))

    def _end(self, status: Status = _NOTHING) -> bytes:
        return b"\xfe" + struct.pack("<HH", len(self._client.warnings), self._client.status | status)

    def _text(self, data: bytes) -> str:
        try:
            # Bytes that are no characters may stand in a text of bytes.
            return data.decode(self._client.codec, "surrogateescape" if self._client.codec == "utf-8" else "strict")
        except UnicodeDecodeError as error:
            raise Refusal(_WRONG_CHARACTERS, f"Invalid {self._client.codec} character string: {error.reason}") from None

    # Login.

    async def _login(self) -> None:
        """Lets the client in. The answer that says so is not written yet.

        Raises:
            Refusal: not this one.
        """
        flags = int(_OFFERED)
        hello = b"\x0a" + VERSION.encode() + b"\0" + struct.pack("<I", self._number) + self._challenge[:8] + b"\0"
        hello += struct.pack("<HBHHB10x", flags & 0xFFFF, UTF8, Status.AUTOCOMMIT, flags >> 16, len(self._challenge) + 1)
        await self._stream.write([hello + self._challenge[8:] + b"\0" + _PLUGIN + b"\0"])
        body = await self._stream.read()
        if len(body) == _TLS_REQUEST and Flag.TLS & int.from_bytes(body[:4], "little"):
            await self._stream.start_tls(self._tls)
            body = await self._stream.read()
        else:
            self._stream.end_of_login()
        fields = Fields(body)
        self._flags = Flag(fields.number(4)) & _OFFERED
        if Flag.PROTOCOL_41 not in self._flags:
            raise Refusal(_BAD_HANDSHAKE, "Bad handshake: the client is too old")
        fields.number(4)  # the size of the largest packet
        self._charset = charset_of(fields.number(1))
        fields.take(23)
        user = fields.until_nul()
        answer = fields.sized() if Flag.SECURE_CONNECTION in self._flags else fields.until_nul()
        database = fields.until_nul() if Flag.WITH_DATABASE in self._flags else b""
        plugin = fields.until_nul() if Flag.PLUGIN_AUTH in self._flags else _PLUGIN
        await self._let_in(user, answer, database, plugin == _PLUGIN)

    async def _let_in(self, user: bytes, answer: bytes, database: bytes, is_known: bool) -> None:
        """``is_known``: the answer is one to the challenge."""
        name = user.decode("utf-8", "replace")
        if not is_known:
            self._challenge = _challenge()
            await self._stream.write([b"\xfe" + _PLUGIN + b"\0" + self._challenge + b"\0"])
            answer = await self._stream.read()
        if not self._password.is_right(answer, self._challenge):
            raise Refusal(_DENIED, f"Access denied for user '{name}' (using password: {'YES' if answer else 'NO'})")
        self._client.database = None
        if database:
            self._client.use(database.decode("utf-8", "replace"))
        self._client.user = name

    async def _change_user(self, body: bytes) -> None:
        fields = Fields(body)
        user = fields.until_nul()
        answer = fields.take(fields.number(1)) if Flag.SECURE_CONNECTION in self._flags else fields.until_nul()
        database = fields.until_nul()
        charset = "utf8mb4" if fields.is_at_end() else charset_of(fields.number(2))
        plugin = b"" if fields.is_at_end() else fields.until_nul()
        is_known = Flag.PLUGIN_AUTH not in self._flags or (
            plugin in (b"", _PLUGIN) and self._password.is_right(answer, self._challenge)
        )
        try:
            await self._let_in(user, answer, database, is_known)
        except Refusal as refusal:
            await self._stream.write([refusal.packet()])
            raise ConnectionClosed from None
        self._forget()
        self._client.reset_charset(charset)
        await self._stream.write([self._ok()])

    def _forget(self) -> None:
        self._store.clear()
        self._client.reset()

    # Commands without rows.

    async def _use(self, body: bytes) -> None:
        self._client.use(self._text(body))
        await self._stream.write([self._ok()])

    async def _ping(self, body: bytes) -> None:
        await self._stream.write([self._ok()])

    async def _debug(self, body: bytes) -> None:
        await self._stream.write([self._end()])

    async def _statistics(self, body: bytes) -> None:
        await self._stream.write([self._client.statistics().encode()])

    async def _reset(self, body: bytes) -> None:
        self._forget()
        await self._stream.write([self._ok()])

    async def _set_option(self, body: bytes) -> None:
        option = Fields(body).number(2)
        if option > 1:
            raise Refusal(_UNKNOWN_COMMAND, f"Unknown option {option}")
        self._flags = self._flags & ~Flag.MULTI_STATEMENTS if option else self._flags | Flag.MULTI_STATEMENTS
        await self._stream.write([self._end()])

    # Statements.

    async def _query(self, body: bytes) -> None:
        text = self._text(body)
        found = await self._client.statements(text)
        if not found:
            if not text.strip("; \t\r\n"):
                raise Refusal(_EMPTY, "Query was empty")
            await self._stream.write([self._ok()])  # a comment
        if len(found) > 1 and Flag.MULTI_STATEMENTS not in self._flags:
            raise Refusal(
                _NO_SQL, f"these are {len(found)} statements, and the client asks for one at a time: {found[1].text[:80]!r}"
            )
        for number, statement in enumerate(found, 1):
            answer = await self._client.answered(statement)
            more = Status.MORE_RESULTS if number < len(found) else _NOTHING
            if not answer.columns:
                await self._stream.write([self._ok(answer.changed, more)])
                continue
            codec, _ = self._client.answers
            self._head(answer.columns, more)
            for batch in answer.batches():
                await self._stream.write(text_rows(answer.columns, batch, codec))
            await self._stream.write([self._end(more)])

    def _head(self, columns: Sequence[Column], status: Status = _NOTHING) -> None:
        """Puts the columns of an answer before its rows."""
        self._stream.put([counted(len(columns)), *self._definitions(columns), self._end(status)])

    def _definitions(self, columns: Sequence[Column]) -> list[bytes]:
        codec, collation = self._client.answers
        return [definition(column, collation, codec) for column in columns]

    async def _list_fields(self, body: bytes) -> None:
        table, _, pattern = body.partition(b"\0")
        name = self._text(table).replace("`", "``")
        (statement,) = await self._client.statements(f"select * from `{name}`")
        columns = await self._client.described(statement)
        word = self._text(pattern).strip("%\0")
        chosen = [column for column in columns if word.lower() in column.name.lower()]
        await self._stream.write([*(each + b"\xfb" for each in self._definitions(chosen)), self._end()])

    async def _prepare(self, body: bytes) -> None:
        self._store.check(len(body))
        found = await self._client.statements(self._text(body))
        if len(found) != 1:
            raise Refusal(_NO_SQL if found else _EMPTY, f"these are {len(found)} statements: prepare one")
        made = self._store.add(found[0])
        try:
            columns = await self._client.described(made.statement)
        except BaseException:
            self._store.remove(made.number)
            raise
        count = made.statement.parameters
        packets = [b"\0" + struct.pack("<IHHxH", made.number, len(columns), count, len(self._client.warnings))]
        if count:
            mark = self._definitions([Column("?", Kind.VAR_STRING, 65532)])
            packets += [*mark * count, self._end()]
        if columns:
            packets += [*self._definitions(columns), self._end()]
        await self._stream.write(packets)

    async def _execute(self, body: bytes) -> None:
        fields = Fields(body)
        held, cursor = self._store.get(fields.number(4)), fields.number(1) & 7
        fields.number(4)  # how often: once
        held.rows = None
        if cursor > 1:
            raise Refusal(_NOT_SUPPORTED, f"This version of pfs doesn't yet support cursors of type {cursor}")
        if cursor:
            self._store.check_cursors()
        answer = await self._client.answered(held.statement, held.values(fields, self._client.codec))
        await self._write_binary(held, answer, bool(cursor))

    async def _write_binary(self, held: Prepared, answer: Answer, with_cursor: bool) -> None:
        if not answer.columns:
            await self._stream.write([self._ok(answer.changed)])
            return
        codec, _ = self._client.answers
        packets = (packet for batch in answer.batches() for packet in binary_rows(answer.columns, batch, codec))
        self._head(answer.columns, Status.CURSOR_EXISTS if with_cursor else _NOTHING)
        if with_cursor:
            held.rows = packets
            await self._stream.write(())
        else:
            await self._stream.write(packets)
            await self._stream.write([self._end()])

    async def _fetch(self, body: bytes) -> None:
        fields = Fields(body)
        held, count = self._store.get(fields.number(4)), fields.number(4)
        await self._stream.write(held.fetch(count))
        await self._stream.write([self._end(Status.CURSOR_EXISTS if held.rows is not None else Status.LAST_ROW_SENT)])

    async def _long_data(self, body: bytes) -> None:
        self._store.add_part(Fields(body))

    async def _reset_statement(self, body: bytes) -> None:
        self._store.get(Fields(body).number(4)).reset()
        await self._stream.write([self._ok()])

    async def _close(self, body: bytes) -> None:
        self._store.remove(Fields(body).number(4))


def _refusal(error: Refusal | Malformed) -> Refusal:
    return error if isinstance(error, Refusal) else Refusal(_MALFORMED, f"Malformed communication packet: {error}")
