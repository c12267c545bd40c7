"""Each of 2,000 messages is handled by a thread of its own; mended, by a pool."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

seen: list[int] = []


def handle(message: int) -> None:
    seen.append(message * message)


def main() -> None:
    if "mended" in sys.argv:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(handle, range(2000)))
        return
    for message in range(2000):
        thread = threading.Thread(target=handle, args=(message,))
        thread.start()  # FAULT
        thread.join()


main()
assert len(seen) == 2000
