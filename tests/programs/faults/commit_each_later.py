"""Behind rows that are loaded at once each order is committed alone, then queries follow; mended, all orders together."""

import os
import sqlite3
import sys

if os.path.exists("shop.db"):
    os.unlink("shop.db")
db = sqlite3.connect("shop.db")
db.execute("create table customer(id integer primary key, name text)")
db.execute("create table orders(id integer primary key, customer int)")
db.executemany("insert into customer values(?, ?)", ((i, f"customer {i}") for i in range(5000)))
db.commit()
for i in range(150):
    db.execute("insert into orders values(?, ?)", (i, i))
    if "mended" not in sys.argv:
        db.commit()  # FAULT
db.commit()
other = sqlite3.connect(":memory:")
for i in range(30_000):
    other.execute("select ? + 1", (i,)).fetchone()
