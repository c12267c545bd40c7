"""Four threads compute in Python; mended, one process for each computes."""

import multiprocessing
import sys
import threading


def count(limit: int) -> int:
    total = 0
    for number in range(limit):
        total += number % 7
    return total


make = multiprocessing.get_context("fork").Process if "mended" in sys.argv else threading.Thread
workers = [make(target=count, args=(2_000_000,)) for _ in range(4)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
