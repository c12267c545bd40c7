"""Listens at a socket and bounds what clients may take: connections, bytes of a statement, time to log in."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import ssl
import stat
from collections.abc import Callable
from typing import Any

from pfs._export.serve.connection import Connection, Password
from pfs._export.serve.session import Client, Context
from pfs._export.serve.stream import PATIENCE, ConnectionClosed, Stream
from pfs._export.serve.tls import context as context_of_tls
from pfs._export.serve.variables import MOST_CLIENTS
from pfs._export.serve.wire import Refusal
from pfs.errors import Error

__all__ = ["open_tcp", "open_unix", "print_faults", "serve"]

_TOO_MANY = 1040
# The process list has the program's threads, and tools leave out the row with their own number: none has it.
_FIRST_CONNECTION = 10**9


class _Server:
    def __init__(self, context: Context, password: str | None) -> None:
        self._context = context
        self._password = Password(password)
        self._tls = context_of_tls()
        self._last = _FIRST_CONNECTION

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._last = self._last + 1 if self._last < 0xFFFFFFFF else _FIRST_CONNECTION
        stream = Stream(reader, writer)
        number = self._last
        client = self._context.clients[number] = Client(self._context, number, stream)
        patience = asyncio.get_running_loop().call_later(PATIENCE, _hang_up, client, stream)
        try:
            if len(self._context.clients) > MOST_CLIENTS:
                await stream.write([Refusal(_TOO_MANY, "Too many connections").packet(has_state=False)])
                return
            await Connection(stream, client, number, self._password, self._tls).serve()
        except (ConnectionClosed, asyncio.CancelledError):  # the latter at the end of the server
            pass
        except Exception as error:  # about bytes that are no packets: it ends this client and no other
            logging.getLogger("pfs.serve").info("client: %s", error)
        finally:
            del self._context.clients[number]
            patience.cancel()  # it would keep the client for so long
            stream.close()


def _hang_up(client: Client, stream: Stream) -> None:
    if client.user is None:
        stream.hang_up()


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


def print_faults(loop: asyncio.AbstractEventLoop, found: dict[str, Any]) -> None:
    """Prints what asyncio has found, but not that a client has left in the middle of an answer."""
    if not isinstance(found.get("exception"), (ConnectionError, ssl.SSLError)):
        loop.default_exception_handler(found)


async def serve(listening: socket.socket, context: Context, password: str | None, ready: Callable[[], None]) -> None:
    """Answers clients until SIGINT or SIGTERM. Calls `ready` when both work, and a statement would be answered at once."""
    for name in ("pfs.serve", "sqlglot"):  # they would print each wrong statement
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it would warn when a client of TLS leaves
    loop, end = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(print_faults)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    server = _Server(context, password)
    start = asyncio.start_unix_server if listening.family == socket.AF_UNIX else asyncio.start_server
    listener = await start(server.connected, sock=listening)
    await context.begin()  # clients that have just started a server have little patience
    ready()
    await end.wait()
    listener.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=1)
    context.workers.close()
