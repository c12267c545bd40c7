"""A program of which every view of the schema sys has rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pfs
from tests.python._programs.fresh_process import environment
from tests.python._programs.subject import Subject, subject

_WORK = """
import sqlite3, threading, time
from tests.python._programs import tables
pfs.setup_consumers.update(enabled=True)
pfs.set_account("joe", "here")

# What comes first in the base tables comes last in a view. A count of 1 is the least that a view regards.
quiet = pfs.Lock("app/QUIET")
with quiet, pfs.stage("app/short"): pass
with pfs.open("first", "w", name="app/first") as file: file.write("x")
tiny = pfs.Table("shop.tiny", ("by_name",))
with tiny.fetch(), tiny.fetch("by_name"): pass
for text, counts in (
    ("warns", {"warnings": 1}), ("fails", {"errors": 1, "no_index_used": 1}), ("scans", {"no_good_index_used": 1}),
    ("sorts", {"sort_rows": 1, "created_tmp_tables": 1}),
):
    with pfs.statement("app/first", "SELECT " + text) as running: running.add(**counts)

connection = pfs.dbapi(sqlite3).connect(":memory:")
connection.execute("create table t (a)")
for number in range(30):
    connection.execute("insert into t values (?)", (number,))
    connection.execute("select * from t where a < ?", (number,)).fetchall()
    try: connection.execute("select nothing")
    except sqlite3.OperationalError: pass
    with pfs.Lock("app/LOCK"), pfs.stage("app/step"), pfs.open(f"file{number % 3}", "w", name=f"app/data{number % 2}") as file:
        file.write("x" * 1000 * (number + 1))
    with pfs.open(f"file{number % 3}", name="app/data0") as file: file.read()
kept = pfs.memory("app/buffer")
kept.alloc(5000)
freed = pfs.memory("app/freed")
for size in (100, 200, 300): freed.alloc(size)
freed.free(200)
unseen = pfs.memory("app/unseen")
pfs.setup_instruments.update({"NAME": "memory/app/unseen"}, enabled=False)
pfs.server.set_connect_attrs({"program_name": "tester", "_pid": "7"})
pfs.server.set_processlist(db="shop", start_time=time.time() - 90)

# Digests, each with its own time. Counts differ, and not all are multiples of the number of executions.
for number in range(40):
    for _ in range(3):
        with pfs.statement("app/report", f"SELECT c{number} FROM t", schema="shop" if number % 2 else None) as running:
            time.sleep(number * 2e-4)
            running.add(rows_sent=number, rows_examined=3 * number, lock_time=number)
for number, text in enumerate(("SELECT DISTINCT a FROM t", "SELECT a FROM t ORDER BY a", "SELECT a, count(*) FROM t GROUP BY a")):
    for turn in range(4 + number):
        with pfs.statement("app/query", text, schema="shop") as running:
            running.add(rows_affected=5, rows_examined=7 * turn, rows_sent=turn)
            if turn <= number: running.add(no_index_used=1)
            if turn == 3: running.add(no_good_index_used=2, warnings=number, errors=number % 2)
            if number: running.add(sort_rows=10 + turn, sort_scan=1, sort_range=turn, sort_merge_passes=turn)
            running.add(created_tmp_tables=2 + turn)
            if number == 2: running.add(created_tmp_disk_tables=1 + turn)

# Tables, whose files have their names; an index that nothing uses; a table of the schema mysql, which is off at first.
pfs.setup_objects.update({"OBJECT_SCHEMA": "mysql"}, enabled=True)
os.mkdir("shop")
orders = pfs.Table("shop.orders", ("PRIMARY", "by_name", "by_date"))
lines = pfs.Table("shop.lines", ("PRIMARY", "by_order"))
loose = pfs.Table("loose", ("by_key",))
grants = pfs.Table("mysql.grants", ("by_user",))
for number in range(6):
    with orders.fetch("by_name") as io: io.rows = number
    with orders.fetch("PRIMARY"), orders.update("by_name"), orders.delete("PRIMARY"): pass
    with lines.fetch() as io: io.rows = 100
    with lines.insert(), orders.insert(): pass
with loose.fetch(): pass
for path in ("shop/orders.ibd", "shop/orders.log", "shop/lines", "lines.ibd"):
    with pfs.open(path, "w", name="app/table") as file: file.write(path * 100)
    for _ in range(len(path)):
        with pfs.open(path, name="app/table") as file: file.read()

# More waits than may nest are lost.
with pfs.wait("app/a"), pfs.wait("app/b"), pfs.wait("app/c"), pfs.wait("app/d"), pfs.wait("app/e"), pfs.wait("app/f"): pass

def other():
    pfs.set_account("ann", "there")
    with pfs.Lock("app/OTHER"), pfs.statement("app/query", "SELECT 1"): pass
    with pfs.open("other", "w", name="app/data1") as file: file.write("z")
thread = threading.Thread(target=other); thread.start(); thread.join()

def start(steps):
    # Runs a generator up to its yield in a thread that then stays as it is.
    ready, forever = threading.Event(), threading.Event()
    def body():
        left_open = steps()
        next(left_open)
        ready.set()
        forever.wait()
        del left_open
    threading.Thread(target=body, name=steps.__name__, daemon=True).start()
    ready.wait()

def without_account():
    with pfs.open("early", "w", name="app/early") as file, pfs.stage("app/early"): file.write("x" * 77)
    with pfs.statement("app/early", "SELECT early"): pass
    early = pfs.memory("app/early"); early.alloc(900)
    pfs.server.set_processlist(command="Daemon", start_time=time.time() - 500)
    with pfs.wait("app/GPU"): yield

def clerk():
    pfs.set_account("joe", "there")
    pfs.server.set_connect_attrs({"program_name": "clerk"})
    pfs.server.set_processlist(command="Query", state="working", start_time=time.time() - 200)
    more = pfs.memory("app/buffer"); more.alloc(70)
    for _ in range(20):
        with pfs.open("clerk", "w", name="app/data0") as file: file.write("y" * 1000)
    with pfs.Lock("app/CLERK"), pfs.stage("app/checks"): pass
    with pfs.transaction(), pfs.statement("app/long", "SELECT " + ", ".join(map(str, range(40)))) as running:
        running.add(no_good_index_used=1, rows_sent=2, created_tmp_tables=3)
        with pfs.stage("app/long", estimated=300) as stage:
            stage.completed = 100
            yield

granted = [tables.MetadataLock("shop.orders", lock=2, status=tables.GRANTED, identity=1)]
granted += [tables.MetadataLock("shop.lines", lock=3, duration=2, status=tables.GRANTED, identity=2)]
granted += [tables.MetadataLock("", kind=1, lock=1, status=tables.GRANTED, identity=6)]

def blocked():
    pfs.set_account("ann", "here")
    pfs.server.set_processlist(command="Query", info="DROP TABLE orders", start_time=time.time() - 20)
    with pfs.statement("app/drop", "DROP TABLE orders") as running, pfs.statement("app/inner", "SELECT inner") as inner:
        running.add(rows_affected=4, rows_examined=9)
        inner.add(no_index_used=1)
        wanted = [tables.MetadataLock("shop.orders", status=tables.PENDING, identity=3)]
        wanted += [tables.MetadataLock("shop.lines", status=tables.PENDING, identity=4)]
        wanted += [tables.MetadataLock("", kind=1, status=tables.PENDING, identity=7)]
        wanted += [tables.MetadataLock("shop.orders", lock=1, status=tables.GRANTED, identity=5)]
        wanted[0].begin()
        yield

for steps in (without_account, clerk, blocked): start(steps)

contended = pfs.Lock("app/CONTENDED")
def quick():
    pfs.set_account("ann", "there")
    with contended: time.sleep(0.003)
with contended:
    threads = [threading.Thread(target=quick) for _ in range(3)]
    for thread in threads: thread.start()
    time.sleep(0.05)
for thread in threads: thread.join()

held = pfs.Lock("app/HELD")
held.acquire()
shared = pfs.RWLock("app/SHARED")
shared.write().__enter__()
threading.Thread(target=lambda: (time.sleep(0.1), shared.read().__enter__()), daemon=True).start()
threading.Thread(target=held.acquire, daemon=True).start()
"""
_LAST = {"wait/synch/mutex/app/HELD", "wait/synch/rwlock/app/SHARED"}


def _waits(schema: pfs.Schema) -> bool:
    """Do both threads wait that the program starts last?"""
    open_waits = schema.table("events_waits_current", ["EVENT_NAME"], where="END_EVENT_ID is null")
    return set(open_waits["EVENT_NAME"]) >= _LAST


@contextmanager
def waiting(folder: Path) -> Iterator[tuple[Subject, pfs.Schema]]:
    """Runs the program in an empty folder, until all its threads wait."""
    folder.chmod(0o700)
    given = environment(folder)
    with subject(folder, PYTHONPATH=given["PYTHONPATH"], PFS_TEST_DRIVER=given["PFS_TEST_DRIVER"]) as running:
        running.do(f"os.chdir({str(folder)!r})")
        running.do(_WORK)
        with pfs.attach(str(running.path)) as schema:
            until = time.monotonic() + 60
            while not _waits(schema):
                assert time.monotonic() < until
                time.sleep(0.01)
            yield running, schema


def snapshot(folder: Path) -> pfs.Snapshot:
    """Runs the program in an empty folder and reads its tables while it waits."""
    with waiting(folder) as (_, schema):
        return schema.snapshot()
