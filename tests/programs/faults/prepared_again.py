"""Each look-up has its value in its text, so it is prepared again; mended, the value is bound."""

import sqlite3
import sys

MENDED = "mended" in sys.argv
db = sqlite3.connect(":memory:")
db.execute("create table part(id integer primary key, price int, name text, shelf int)")
db.executemany("insert into part values(?, ?, ?, ?)", ((i, i * 3, f"part {i}", i % 9) for i in range(1000)))
for i in range(6000):
    if MENDED:
        found = db.execute("select price, name from part where id = ? and shelf < 9 order by price", (i % 1000,))
    else:
        found = db.execute(f"select price, name from part where id = {i % 1000} and shelf < 9 order by price")  # FAULT
    assert found.fetchone()[0] == i % 1000 * 3
