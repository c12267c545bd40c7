"""A thread looks every 5 ms whether a result is there; mended, it waits for the event."""

import sys
import threading
import time

ready = threading.Event()
results: list[int] = []


def compute() -> None:
    for i in range(40):
        time.sleep(0.011) if i == 0 else sum(range(400_000))
    results.append(42)
    ready.set()


worker = threading.Thread(target=compute)
worker.start()
if "mended" in sys.argv:
    ready.wait()
else:
    while not results:
        time.sleep(0.005)  # FAULT
worker.join()
