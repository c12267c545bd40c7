"""Each row is committed alone; mended, one transaction has all rows."""

import os
import sqlite3
import sys

if os.path.exists("orders.db"):
    os.unlink("orders.db")
db = sqlite3.connect("orders.db")
db.execute("create table orders(id integer primary key, name text)")
for i in range(150):
    db.execute("insert into orders values(?, ?)", (i, f"order {i}"))
    if "mended" not in sys.argv:
        db.commit()  # FAULT
db.commit()
