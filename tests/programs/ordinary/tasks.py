"""Twenty tasks of asyncio take jobs from a queue."""

import asyncio


async def worker(jobs: "asyncio.Queue[int | None]") -> None:
    while await jobs.get() is not None:
        await asyncio.sleep(0.001)


async def main() -> None:
    jobs: asyncio.Queue[int | None] = asyncio.Queue()
    workers = [asyncio.create_task(worker(jobs)) for _ in range(20)]
    for job in [*range(600), *[None] * 20]:
        jobs.put_nowait(job)
    await asyncio.gather(*workers)


asyncio.run(main())
