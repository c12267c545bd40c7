"""Four threads count words under one lock. A log line is written with fsync while the lock is held: that is the bug."""

import os
import tempfile
import threading

lock = threading.Lock()
counts: dict[str, int] = {}


def note(log, text: str) -> None:
    log.write(text + "\n")
    log.flush()
    os.fsync(log.fileno())


def work(log, turns: int) -> None:
    for turn in range(turns):
        with lock:
            counts[f"word{turn % 10}"] = counts.get(f"word{turn % 10}", 0) + 1
            note(log, f"counted {turn}")


with tempfile.NamedTemporaryFile("w", dir=os.environ.get("DATA", ".")) as log:
    threads = [threading.Thread(target=work, args=(log, 500)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
