"""Rows of a database are looked up one by one, by keys that no other statement gave."""

import sqlite3

db = sqlite3.connect(":memory:")
db.execute("create table part(id integer primary key, name text)")
db.executemany("insert into part values(?, ?)", ((i, str(i)) for i in range(3000)))
for i in range(3000):
    assert db.execute("select name from part where id = ?", (i * 7 % 3000,)).fetchone() == (str(i * 7 % 3000),)
