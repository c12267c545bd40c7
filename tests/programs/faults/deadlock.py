"""Two threads take two locks in opposite order; mended, in one order."""

import os
import sys
import threading
import time

MENDED = "mended" in sys.argv
accounts, orders = threading.Lock(), threading.Lock()


def take(first: threading.Lock, second: threading.Lock) -> None:
    with first:
        time.sleep(0.05)
        with second:  # FAULT
            pass


threads = [
    threading.Thread(target=take, args=pair, daemon=True)
    for pair in ((accounts, orders), (accounts, orders) if MENDED else (orders, accounts))
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(0.2)
os._exit(0)
