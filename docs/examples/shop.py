"""A program to look at from outside: three clerks take orders, an auditor reads prices, until it is ended.

    python shop.py FOLDER & pfs top $!
"""

import random
import sqlite3
import sys
import threading
import time
from pathlib import Path

import pfs

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").absolute()
database = pfs.dbapi(sqlite3)
orders, stock = pfs.Lock("shop/LOCK_orders"), pfs.Lock("shop/LOCK_stock")


def clerk(number: int) -> None:
    pfs.set_thread_name(f"clerk-{number}")
    connection = database.connect(str(folder / "shop.db"), timeout=30)
    while True:
        with pfs.statement("shop/order"):
            with orders:
                connection.execute("INSERT INTO orders (item, number) VALUES (?, ?)", (f"item{random.randrange(50)}", 3))
                connection.commit()
            best = "SELECT item, sum(number) FROM orders WHERE id > ? GROUP BY item ORDER BY 2 DESC LIMIT 10"
            connection.execute(best, (random.randrange(1000),)).fetchall()
        with stock, pfs.open(folder / "orders.log", "a", name="shop/log") as log:
            log.write("sold\n" * random.randrange(100))
        time.sleep(random.random() * 0.01)


def auditor() -> None:
    pfs.set_thread_name("auditor")
    while True:
        with pfs.open(folder / "prices.csv", name="shop/prices") as prices:
            prices.read()
        with stock:
            time.sleep(0.002)
        time.sleep(0.01)


(folder / "prices.csv").write_text("".join(f"item{i},{i}\n" for i in range(1000)))
setup = database.connect(str(folder / "shop.db"))
setup.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT, number INTEGER)")
setup.close()
for at in range(3):
    threading.Thread(target=clerk, args=(at,), daemon=True).start()
auditor()
