"""A client of asyncio connects for each request to a server in the same process; mended, it keeps the connection."""

import asyncio
import sys

MENDED = "mended" in sys.argv


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    writer = None
    for _ in range(800):
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)  # FAULT
        writer.write(b"price\n")
        assert await reader.readline() == b"PRICE\n"
        if not MENDED:
            writer.close()
            await writer.wait_closed()
            writer = None
    if writer is not None:
        writer.close()
    server.close()


asyncio.run(main())
