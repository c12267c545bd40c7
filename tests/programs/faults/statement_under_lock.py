"""Four threads ask one database through one connection, under a lock; mended, each thread has a connection of its own."""

import contextlib
import os
import sqlite3
import sys
import threading

MENDED = "mended" in sys.argv
lock = threading.Lock()
if os.path.exists("parts.db"):
    os.unlink("parts.db")
shared = sqlite3.connect("parts.db", check_same_thread=False)
shared.execute("create table part(id integer primary key, price integer)")
shared.executemany("insert into part values(?, ?)", ((i, i % 97) for i in range(5_000)))
shared.commit()


def ask() -> None:
    own = sqlite3.connect("parts.db") if MENDED else shared
    for i in range(100):
        with contextlib.nullcontext() if MENDED else lock:  # FAULT
            own.execute("select sum(price * price) from part where price > ?", (i,)).fetchone()


threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
