"""The same as tests/programs/checked.c in Python: rows that prove themselves, and a log of what was done.

python checked_program.py FOLDER LOG    works until it is killed; prints "segment PATH", then "working"
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading

import pfs
from pfs import _core

WORKERS, BLOCK, ENTRY = 4, 1000, 64
folder, log_file = sys.argv[1:]
with open(log_file, "w+b") as file:
    file.truncate(WORKERS * ENTRY)
    log = mmap.mmap(file.fileno(), WORKERS * ENTRY)

locks = [pfs.Lock("checked/lock") for _ in range(WORKERS)]
gate, tree, blocks = pfs.Lock("checked/gate"), pfs.RWLock("checked/tree"), pfs.memory("checked/block")


def use_file(i: int, m: int) -> None:
    length = 64 + m % 512
    path = f"{folder}/w{i}-{m}-{length}"
    with pfs.open(path, "w+b", buffering=0, name="checked/data") as data:
        data.write(b"x" * length)
        data.seek(0)
        data.read(length)
    os.unlink(path)


def use_statement(i: int, n: int) -> None:
    with pfs.transaction("SERIALIZABLE") as transaction:
        transaction.trx_id = n
        transaction.gtid = f"g{n}"
        with pfs.statement("checked/select") as statement:
            statement.statement_id = n
            statement.schema = f"s{n}"
            statement.text = f"SELECT {n} /" + chr(ord("a") + n % 26) * (n % 60)
            statement.rows_examined = n
            statement.rows_sent = 3 * n
            with pfs.stage("checked/counting", progress=True) as stage:
                stage.estimated = 2 * n
                stage.completed = n
                with locks[i], blocks.block(BLOCK):
                    if i % 2 == 0:
                        with tree.read():
                            pass
                    if n % 4 == 0:
                        use_file(i, n)
                    if i == WORKERS - 1:
                        with gate:
                            pass


def work(i: int) -> None:
    pfs.set_account(f"user_{i}", f"host_{i}")
    n = 0
    while True:  # a word is stored at once, so a kill finds no half of it
        n += 1
        struct.pack_into("Q", log, i * ENTRY, n)
        use_statement(i, n + i * 100000)
        struct.pack_into("Q", log, i * ENTRY + 8, n)


gate.acquire()
print("segment", _core.segment_path())
print("working 1", flush=True)
threads = [threading.Thread(target=work, args=(i,)) for i in range(WORKERS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
