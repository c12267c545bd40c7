"""Four threads without the GIL collect garbage after each piece of work; mended, they leave that to Python."""

import gc
import sys
import threading

THREADS = 4
kept = [[number] for number in range(200_000)]
start = threading.Barrier(THREADS)


def work() -> None:
    start.wait()
    for _ in range(20):
        sum(range(100_000))
        if "mended" not in sys.argv:
            gc.collect()  # FAULT


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
