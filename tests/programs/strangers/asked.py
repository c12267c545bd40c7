"""A client of asyncio opens a connection for each of 400 requests."""

import asyncio


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(b"+" + line)
        await writer.drain()
    writer.close()


async def ask(port: int, number: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)  # FAULT
    writer.write(b"%d\n" % number)
    await reader.readline()
    writer.close()
    await writer.wait_closed()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    for number in range(400):
        await ask(server.sockets[0].getsockname()[1], number)


asyncio.run(main())
