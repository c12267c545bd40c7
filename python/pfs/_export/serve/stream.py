"""Takes packets from a client and gives it packets: of bounded size, in bounded time, in the clear or in TLS."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import cast

from pfs._export.serve.wire import Refusal

__all__ = ["MOST_BYTES", "PATIENCE", "ConnectionClosed", "Stream"]

MOST_BYTES = 1 << 18  # of a statement: sqlglot takes 2 s and 150 MB for this many
PATIENCE = 10.0  # seconds to log in, and for the rest of a packet that has begun
_BUFFER = 1 << 18  # bytes
_OUT_OF_ORDER = 1156


class ConnectionClosed(Exception):
    """Says that the client has left, or must."""


class Stream:
    """Has the two ends of a connection.

    The first packet may ask for TLS, and the client does not wait for an answer. So it is read from the socket, to its last byte:
    asyncio would read on, and keep what is the first message of TLS.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._plain = cast(asyncio.Transport, writer.transport)
        self._plain.pause_reading()
        self._login: socket.socket | None = socket.socket(fileno=os.dup(self._plain.get_extra_info("socket").fileno()))
        self._out = bytearray()
        self._number = 0  # of the next packet, in both directions

    def begin(self) -> None:
        """Begins a command: its first packet has number 0."""
        self._number = 0

    async def read(self) -> bytes:
        """Returns the next packet of the client, which may be idle before it.

        Raises:
            ConnectionClosed: it has left, stopped inside the packet, or sends more than a statement may have.
            Refusal: the packet has a wrong number.
        """
        header = await self._exactly(1)
        header += await self._rest(3)
        size = int.from_bytes(header[:3], "little")
        if size > MOST_BYTES:
            self.hang_up()  # the client goes on sending, and TLS would wait for it
            raise ConnectionClosed
        body = await self._rest(size)
        if header[3] != self._number:
            raise Refusal(_OUT_OF_ORDER, f"Got packets out of order: {header[3]} instead of {self._number}")
        self._number = (self._number + 1) % 256
        return body

    async def write(self, packets: Iterable[bytes]) -> None:
        """Gives the client packets, which are made as it takes them. Returns when it has taken most of them."""
        rest = iter(packets)
        while self._take(rest):
            await self._flush()
        await self._flush()

    def put(self, packets: Iterable[bytes]) -> None:
        """Takes a few packets that go out with the next `write`."""
        rest = iter(packets)
        while self._take(rest):
            pass

    def _take(self, packets: Iterator[bytes]) -> bool:
        """Takes packets until many wait. Returns whether there may be more. None has 16 MiB: a row has not."""
        out, number = self._out, self._number
        try:
            for body in packets:
                out += (len(body) | number << 24).to_bytes(4, "little")
                out += body
                number = number + 1 & 255
                if len(out) > _BUFFER:
                    return True
        finally:
            self._number = number
        return False

    async def _flush(self) -> None:
        self._writer.write(self._out)
        self._out = bytearray()
        await self._writer.drain()

    def end_of_login(self) -> None:
        """Leaves the socket to asyncio. The client has sent all of its login, and waits for an answer."""
        self._close_login()
        self._plain.resume_reading()

    async def start_tls(self, context: ssl.SSLContext) -> None:
        self._close_login()
        transport = await asyncio.get_running_loop().start_tls(self._plain, self._plain.get_protocol(), context, server_side=True)
        self._writer._transport = self._reader._transport = transport  # type: ignore[attr-defined]

    def peer(self) -> str:
        """Returns the host of the client."""
        address = self._plain.get_extra_info("peername")
        host = address[0] if isinstance(address, tuple) else "localhost"
        return "localhost" if host in ("127.0.0.1", "::1") else str(host)

    def is_gone(self) -> bool:
        """Returns whether the client has left."""
        return self._reader.at_eof() or self._plain.is_closing()

    def close(self) -> None:
        self._close_login()
        self._writer.close()

    def hang_up(self) -> None:
        if self._login is not None:
            self._login.shutdown(socket.SHUT_RDWR)
        self._plain.abort()

    def _close_login(self) -> None:
        if self._login is not None:
            self._login.close()
            self._login = None

    async def _rest(self, size: int) -> bytes:
        try:
            async with asyncio.timeout(PATIENCE):
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
