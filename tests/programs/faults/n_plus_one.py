"""A list of orders asks for the customer of each order; mended, one statement joins both tables."""

import sqlite3
import sys

db = sqlite3.connect(":memory:")
db.execute("create table customer(id integer primary key, name text)")
db.execute("create table purchase(id integer primary key, customer integer)")
db.executemany("insert into customer values(?, ?)", ((i, f"name {i}") for i in range(300)))
db.executemany("insert into purchase values(?, ?)", ((i, i % 300) for i in range(400)))
for _ in range(40):
    if "mended" in sys.argv:
        rows = db.execute("select p.id, c.name from purchase p join customer c on c.id = p.customer").fetchall()
    else:
        rows = db.execute("select id, customer from purchase").fetchall()
        rows = [(i, db.execute("select name from customer where id = ?", (who,)).fetchone()[0]) for i, who in rows]  # FAULT
    assert len(rows) == 400
