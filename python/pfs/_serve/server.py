"""Listens at a socket and bounds what clients may take: connections, bytes of a statement, time to log in."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import stat
from collections.abc import Callable
from typing import cast

from mysql_mimic import IdentityProvider, NativePasswordAuthPlugin, User
from mysql_mimic.auth import AuthPlugin
from mysql_mimic.control import LocalControl
from mysql_mimic.errors import ErrorCode
from mysql_mimic.stream import ConnectionClosed, MysqlStream

from pfs._serve.prepared import BoundedConnection
from pfs._serve.session import MOST_BYTES, Client, Context
from pfs._serve.tls import context as context_of_tls
from pfs.errors import Error, InvalidValue

__all__ = ["open_tcp", "open_unix", "password_in", "serve"]

_MOST_CLIENTS = 64
_PATIENCE = 10.0  # seconds to log in, and for the rest of a packet that has begun
_FIELD_LIST, _CHANGE_USER = b"\x04", b"\x11"
_WITH_DATABASE, _WITH_TLS, _WITH_PLUGIN = 1 << 3, 1 << 11, 1 << 19  # flags of a login
_TLS_REQUEST = 32  # bytes: a login without its texts


class _AnyPassword(NativePasswordAuthPlugin):  # type: ignore[misc]
    """Is for a unix socket: who may open it may read. Some clients cannot do without a password."""

    def password_matches(self, user: User, scramble: bytes, nonce: bytes) -> bool:
        return True


class _Users(IdentityProvider):  # type: ignore[misc]
    """Accepts every name, with the password if there is one."""

    def __init__(self, password: str | None) -> None:
        self._plugin = _AnyPassword() if password is None else NativePasswordAuthPlugin()
        self._secret = None if password is None else NativePasswordAuthPlugin.create_auth_string(password)

    def get_plugins(self) -> list[AuthPlugin]:
        return [self._plugin]

    async def get_user(self, username: str) -> User:
        return User(username, self._secret, NativePasswordAuthPlugin.name)


def _is_login(body: bytes) -> bool:
    """Returns whether every text of a login ends inside it."""
    flags, place = int.from_bytes(body[:4], "little"), body.find(b"\0", 32) + 1
    if len(body) < 34 or not 0 < place < len(body) or body[place] > 250:
        return False
    place += 1 + body[place]  # the answer to the challenge
    for flag in (_WITH_DATABASE, _WITH_PLUGIN):
        if flags & flag:
            place = body.find(b"\0", place) + 1
            if not place:
                return False
    return True


class _Reader:
    """Gives mysql-mimic the bytes of a client, in packets of bounded size.

    mysql-mimic reads a text up to a NUL, and never ends if there is none. So this class checks the packets that have such texts.
    The first packet may ask for TLS, and the client does not wait for an answer. So it is read from the socket, to its last byte:
    asyncio would read on, and keep what is the first message of TLS.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._plain = cast(asyncio.Transport, writer.transport)
        self._plain.pause_reading()
        self._login: socket.socket | None = socket.socket(fileno=os.dup(self._plain.get_extra_info("socket").fileno()))
        self._is_first = True  # the first packet is the login

    async def read(self, size: int) -> bytes:
        """Returns the header of a packet."""
        header = await self._exactly(1)  # a client may be idle before it
        header += await self._rest(size - 1)
        if int.from_bytes(header[:3], "little") > MOST_BYTES:
            self.hang_up()  # the client goes on sending, and TLS would wait for it
            raise ConnectionClosed
        return header

    async def readexactly(self, size: int) -> bytes:
        """Returns the body of a packet."""
        body = await self._rest(size)
        was_first, self._is_first = self._is_first, False
        if self._login is not None:
            self.close()
            if len(body) == _TLS_REQUEST and int.from_bytes(body[:4], "little") & _WITH_TLS:
                self._is_first = True  # the login follows, in TLS
                return body
            self._plain.resume_reading()
        if (was_first and not _is_login(body)) or (not was_first and body[:1] == _CHANGE_USER):
            raise ConnectionClosed
        return body + b"\0" if body[:1] == _FIELD_LIST and b"\0" not in body else body

    def close(self) -> None:
        if self._login is not None:
            self._login.close()
            self._login = None

    def hang_up(self) -> None:
        if self._login is not None:
            self._login.shutdown(socket.SHUT_RDWR)
        self._plain.abort()

    async def _rest(self, size: int) -> bytes:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._exactly(size)
        except TimeoutError:
            self.hang_up()
            raise ConnectionClosed from None

    async def _exactly(self, size: int) -> bytes:
        try:
            if self._login is None:
                return await self._reader.readexactly(size)
            found = b""
            while len(found) < size:
                more = await asyncio.get_running_loop().sock_recv(self._login, size - len(found))
                if not more:
                    raise ConnectionClosed
                found += more
            return found
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ConnectionClosed from None


class _Server:
    def __init__(self, context: Context, password: str | None) -> None:
        self._context = context
        self._users = _Users(password)
        self._tls = context_of_tls()
        self._control = LocalControl()
        self._clients = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        bounded, client = _Reader(reader, writer), Client(self._context)
        stream = MysqlStream(bounded, writer)
        patience = asyncio.get_running_loop().call_later(_PATIENCE, _hang_up, client, bounded)
        connection = BoundedConnection(stream, client, self._control, self._users, ssl=self._tls)
        try:
            if self._clients > _MOST_CLIENTS:
                await stream.write(connection.error(msg="Too many connections", code=ErrorCode.CON_COUNT_ERROR))
                return
            connection.connection_id = await self._control.add(connection)
            await connection.start()
        except Exception as error:  # about bytes that are no packets: it ends this client and no other
            logging.getLogger("mysql_mimic").info("client: %s", error)
        finally:
            self._clients -= 1
            patience.cancel()  # it would keep the client for so long
            await self._control.remove(connection.connection_id)
            bounded.close()
            writer.close()


def _hang_up(client: Client, reader: _Reader) -> None:
    if client.username is None:
        reader.hang_up()


def password_in(path: str) -> str:
    """Returns the password that is the first line of a file.

    Raises:
        InvalidValue: others may read the file, or the line is empty.
    """
    with open(path, encoding="utf-8") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise InvalidValue(f"{path} can be read by others: legal is a file of mode 0600")
        password = file.readline().rstrip("\r\n")
    if not password:
        raise InvalidValue(f"{path} has no password in its first line")
    return password


def open_unix(path: str) -> socket.socket:
    """Returns a socket that only this user can open. A socket at which nobody listens is replaced.

    Raises:
        Error: somebody listens there, or the path is no socket.
    """
    if os.path.lexists(path):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise Error(f"{path} exists and is no socket: give another --socket")
        with socket.socket(socket.AF_UNIX) as old:
            try:
                old.connect(path)
            except OSError as error:
                if error.errno != errno.ECONNREFUSED:
                    raise
            else:
                raise Error(f"somebody serves at {path} already: give another --socket")
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)  # the socket has its mode from the first moment
    try:
        made.bind(path)
    except OSError as error:
        made.close()
        error.filename = path
        raise
    finally:
        os.umask(before)
    return made


def open_tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


async def serve(listening: socket.socket, context: Context, password: str | None, ready: Callable[[], None]) -> None:
    """Answers clients until SIGINT or SIGTERM. Calls `ready` when both work."""
    for name in ("mysql_mimic", "sqlglot"):  # they would print each wrong statement
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it would warn when a client of TLS leaves
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    server = _Server(context, password)
    start = asyncio.start_unix_server if listening.family == socket.AF_UNIX else asyncio.start_server
    listener = await start(server.connected, sock=listening)
    ready()
    await end.wait()
    listener.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=1)
