import os, sqlite3, threading

lock = threading.Lock()  # one seller at a time writes to the log
log = open("orders.log", "a")


def sell(seller: int) -> None:
    db = sqlite3.connect("shop.db")
    for order in range(25):
        (price,) = db.execute("select price from items where id = ?", (order % 7,)).fetchone()
        with lock:
            print(seller, order, price, file=log, flush=True)
            os.fsync(log.fileno())


with sqlite3.connect("shop.db") as db:
    db.execute("create table if not exists items (id integer primary key, price)")
    db.executemany("insert or replace into items values (?, ?)", [(item, item * 10) for item in range(7)])
for thread in [threading.Thread(target=sell, args=(seller,)) for seller in range(4)]:
    thread.start()
