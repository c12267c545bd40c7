"""Four threads hold the lock of their phase while they sleep, in six phases; mended, they sleep before they take it."""

import threading
import time
from sys import argv


def work(lock: threading.Lock) -> None:
    for _ in range(3):
        if "mended" in argv:
            time.sleep(0.005)
        with lock:  # FAULT
            if "mended" not in argv:
                time.sleep(0.005)


for _ in range(6):
    of_phase = threading.Lock()
    threads = [threading.Thread(target=work, args=(of_phase,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
