"""Each task of Celery stores its result in a transaction of its own; mended, a task stores a hundred."""

import sqlite3
import sys

from celery import Celery
from celery.contrib.testing.worker import start_worker

MENDED = "mended" in sys.argv
app = Celery("worker", broker="memory://", backend="cache+memory://")
app.conf.worker_hijack_root_logger = False


@app.task
def store(first: int, count: int) -> None:
    db = sqlite3.connect("results.db")
    for number in range(first, first + count):
        db.execute("insert into result values(?)", (number,))
        if not MENDED:
            db.commit()  # FAULT
    db.commit()


if __name__ == "__main__":
    sqlite3.connect("results.db").execute("create table if not exists result(number)")
    with start_worker(app, pool="solo", perform_ping_check=False, loglevel="ERROR"):
        for result in [store.delay(first, 100) for first in range(0, 1200, 100)]:
            result.get(timeout=30)
