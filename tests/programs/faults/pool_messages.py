"""A pool of processes gets 4,000 numbers, each in a message; mended, 500 in a message."""

import sys
from multiprocessing import Pool

MENDED = "mended" in sys.argv


def work(number: int) -> int:
    return number + 1


def main() -> None:
    with Pool(2) as pool:
        for _ in pool.imap(work, range(4000), chunksize=500 if MENDED else 1):  # FAULT
            pass


if __name__ == "__main__":
    main()
