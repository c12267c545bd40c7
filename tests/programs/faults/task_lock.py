"""Tasks of asyncio ask a slow server under one lock; mended, they ask before they take it."""

import asyncio
import sys

MENDED = "mended" in sys.argv
TASKS = 40


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    await asyncio.sleep(0.005)
    writer.write(b"7\n")
    writer.close()


async def ask(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"price\n")
    price = int(await reader.readline())
    writer.close()
    return price


async def order(port: int, lock: asyncio.Lock, prices: list[int]) -> None:
    if MENDED:
        price = await ask(port)
        async with lock:
            await asyncio.sleep(0)
            prices.append(price)
        return
    async with lock:  # FAULT
        await asyncio.sleep(0)
        prices.append(await ask(port))


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    lock = asyncio.Lock()
    prices: list[int] = []
    await asyncio.gather(*(order(port, lock, prices) for _ in range(TASKS)))
    assert len(prices) == TASKS
    server.close()


asyncio.run(main())
