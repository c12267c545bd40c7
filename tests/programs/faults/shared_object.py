"""Four threads without the GIL merge counts into one dict; mended, each has a dict, and they are added up at the end."""

import sys
import threading

THREADS = 4
parts = [dict.fromkeys(range(300_000), 1) for _ in range(THREADS)]
totals: list[dict[int, int]] = [{} for _ in range(THREADS if "mended" in sys.argv else 1)]
start = threading.Barrier(THREADS)


def merge(thread: int) -> None:
    total, part = totals[thread % len(totals)], parts[thread]
    start.wait()
    for _ in range(15):
        total.update(part)  # FAULT


threads = [threading.Thread(target=merge, args=(thread,)) for thread in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for each in totals[1:]:
    totals[0].update(each)
