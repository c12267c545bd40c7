"""A process gets 6,000 numbers from a queue, each in a message; mended, 500 in a message."""

import sys
from multiprocessing import Process, Queue

EACH = 500 if "mended" in sys.argv else 1


def work(jobs: "Queue[list[int]]") -> None:
    while jobs.get():  # FAULT
        pass


def main() -> None:
    jobs: Queue[list[int]] = Queue()
    child = Process(target=work, args=(jobs,))
    child.start()
    for number in range(0, 6000, EACH):
        jobs.put(list(range(number, number + EACH)))
    jobs.put([])
    child.join()


if __name__ == "__main__":
    main()
