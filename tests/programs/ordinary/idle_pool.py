"""Eight workers wait for work most of the time."""

import queue
import threading
import time

work: queue.Queue[int | None] = queue.Queue()


def worker() -> None:
    while (limit := work.get()) is not None:
        sum(range(limit))


threads = [threading.Thread(target=worker) for _ in range(8)]
for thread in threads:
    thread.start()
for _ in range(5):
    for _ in range(20):
        work.put(10_000)
    time.sleep(0.02)
for _thread in threads:
    work.put(None)
for thread in threads:
    thread.join()
