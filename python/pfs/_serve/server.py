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

from mysql_mimic import IdentityProvider, NativePasswordAuthPlugin, User
from mysql_mimic.auth import AuthPlugin
from mysql_mimic.connection import Connection
from mysql_mimic.control import LocalControl
from mysql_mimic.errors import ErrorCode
from mysql_mimic.stream import ConnectionClosed, MysqlStream

from pfs._serve.session import Client, Context
from pfs.errors import Error, InvalidValue

__all__ = ["open_tcp", "open_unix", "password_in", "serve"]

_MOST_CLIENTS = 64
_MOST_BYTES = 1 << 20  # of a statement
_PATIENCE = 10.0  # seconds to log in
_FIELD_LIST, _CHANGE_USER = b"\x04", b"\x11"
_WITH_DATABASE, _WITH_PLUGIN = 1 << 3, 1 << 19  # flags of a login


class _Users(IdentityProvider):  # type: ignore[misc]
    """Accepts every name, with the password if there is one."""

    def __init__(self, password: str | None) -> None:
        self._secret = None if password is None else NativePasswordAuthPlugin.create_auth_string(password)

    def get_plugins(self) -> list[AuthPlugin]:
        return [NativePasswordAuthPlugin()]

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
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._is_first = True  # the first packet is the login

    async def read(self, size: int) -> bytes:
        """Returns the header of a packet."""
        header = await self._exactly(size)
        if int.from_bytes(header[:3], "little") > _MOST_BYTES:
            raise ConnectionClosed
        return header

    async def readexactly(self, size: int) -> bytes:
        """Returns the body of a packet."""
        body = await self._exactly(size)
        is_login, self._is_first = self._is_first, False
        if (is_login and not _is_login(body)) or (not is_login and body[:1] == _CHANGE_USER):
            raise ConnectionClosed
        return body + b"\0" if body[:1] == _FIELD_LIST and b"\0" not in body else body

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ConnectionClosed from None


class _Server:
    def __init__(self, context: Context, password: str | None) -> None:
        self._context = context
        self._users = _Users(password)
        self._control = LocalControl()
        self._clients = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients += 1
        stream, client = MysqlStream(_Reader(reader), writer), Client(self._context)
        connection = Connection(stream, client, self._control, self._users)
        try:
            if self._clients > _MOST_CLIENTS:
                await stream.write(connection.error(msg="Too many connections", code=ErrorCode.CON_COUNT_ERROR))
                return
            connection.connection_id = await self._control.add(connection)
            asyncio.get_running_loop().call_later(_PATIENCE, _hang_up, client, writer)
            await connection.start()
        except Exception as error:  # about bytes that are no packets: it ends this client and no other
            logging.getLogger("mysql_mimic").info("client: %s", error)
        finally:
            self._clients -= 1
            await self._control.remove(connection.connection_id)
            writer.close()


def _hang_up(client: Client, writer: asyncio.StreamWriter) -> None:
    if client.username is None:
        writer.transport.abort()


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
