"""A shop on sqlite3, watched by pfs.dbapi, that counts for itself what it does.

python -m tests.bench.sqlite_workload [--executions 20000]      compares with the tables, and reports the cost of the wrapper
"""

from __future__ import annotations

import argparse
import random
import re
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pfs

SCHEMA = "shop"


def normal_form(sql: str) -> str:
    """Our own notion of statements that are the same: literals and lists of them do not matter, nor do blanks and case."""
    text = re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)
    text = re.sub(r"'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b|\?", "?", text)
    text = re.sub(r"([,(]\s*)null\b", r"\1?", text, flags=re.IGNORECASE)  # a value, as any other
    text = re.sub(r"\(\s*\?(?:\s*,\s*\?)+\s*\)", "(...)", text)
    return " ".join(text.lower().replace(",", " , ").replace("(", " ( ").replace(")", " ) ").replace(";", " ").split())


class Workload:
    """Each execution is counted by its normal form: [executions, rows sent, rows affected, errors]."""

    def __init__(self, seed: int, connect: Callable[[], Any] | None = None) -> None:
        self.dice = random.Random(seed)
        self.connection = connect() if connect else pfs.dbapi(sqlite3, schema=SCHEMA).connect(":memory:", isolation_level=None)
        self.counted: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self.keywords: Counter[str] = Counter()
        self.ended = Counter[str]()
        self.executions = 0

    def count(self, sql: str, sent: int = 0, affected: int = 0, errors: int = 0) -> None:
        numbers = self.counted[normal_form(sql)]
        for place, more in enumerate((1, sent, affected, errors)):
            numbers[place] += more
        self.keywords[sql.split()[0].lower()] += 1
        self.executions += 1

    def ask(self, sql: str, *values: Any) -> list[Any]:
        way = self.dice.randrange(4)
        cursor = self.connection.cursor()
        cursor.execute(sql, values)
        if way == 0:
            rows = list(cursor)
        elif way == 1:
            rows = cursor.fetchall()
        elif way == 2:
            rows = []
            while part := cursor.fetchmany(7):
                rows += part
        else:
            rows = []
            while (row := cursor.fetchone()) is not None:
                rows.append(row)
        self.count(sql, sent=len(rows))
        return rows

    def change(self, sql: str, *values: Any) -> None:
        cursor = self.connection.execute(sql, values)
        self.count(sql, affected=max(cursor.rowcount, 0))

    def fail(self, sql: str, *values: Any) -> None:
        try:
            self.connection.execute(sql, values)
        except sqlite3.Error:
            self.count(sql, errors=1)
        else:
            raise AssertionError(sql)

    def prepare(self) -> None:
        self.change("CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT, credit REAL)")
        self.change("CREATE TABLE product (id INTEGER PRIMARY KEY, title TEXT UNIQUE, price REAL, stock INTEGER)")
        self.change("CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER, day INTEGER, state TEXT)")
        self.change(
            "CREATE TABLE line (sale INTEGER, product INTEGER, amount INTEGER, PRIMARY KEY (sale, product)) WITHOUT ROWID"
        )
        self.change("CREATE INDEX customer_city ON customer (city)")
        self.change("CREATE INDEX sale_customer ON sale (customer, day)")
        self.change("CREATE INDEX line_product ON line (product)")
        self.change("CREATE VIEW best AS SELECT product, sum(amount) AS total FROM line GROUP BY product")
        self.change("CREATE TEMP TABLE basket (product INTEGER, amount INTEGER)")
        self.transaction(self.load)

    def many(self, sql: str, rows: list[tuple[Any, ...]]) -> None:
        cursor = self.connection.executemany(sql, rows)
        self.count(sql, affected=cursor.rowcount)

    def transaction(self, work: Callable[[], None], *, committed: bool = True) -> None:
        self.change(self.dice.choice(("BEGIN", "BEGIN IMMEDIATE")))
        work()
        self.change("COMMIT" if committed else "ROLLBACK")
        self.ended["COMMITTED" if committed else "ROLLED BACK"] += 1

    def load(self) -> None:
        number = self.dice.randrange
        self.many(
            "INSERT INTO customer VALUES (?, ?, ?, ?)", [(i, f"n{i}", f"city{number(20)}", number(900)) for i in range(200)]
        )
        self.many("INSERT INTO product VALUES (?, ?, ?, ?)", [(i, f"p{i}", number(90) + 0.5, 1000) for i in range(100)])
        self.many("INSERT INTO sale VALUES (?, ?, ?, ?)", [(i, number(200), number(365), "open") for i in range(500)])
        self.many("INSERT OR IGNORE INTO line VALUES (?, ?, ?)", [(number(500), number(100), number(9) + 1) for _ in range(1500)])

    def steps(self) -> list[Callable[[], object]]:
        n, ask, change = self.dice.randrange, self.ask, self.change
        point: list[Callable[[], object]] = [
            lambda: ask("SELECT * FROM customer WHERE id = ?", n(220)),
            lambda: ask(f"select name, city from customer where id = {n(220)}"),
            lambda: ask(f"SELECT name FROM customer WHERE city = 'city{n(25)}' ORDER BY name"),
            lambda: ask("SELECT count(*) FROM sale WHERE customer = ?", n(200)),
            lambda: ask(f"SELECT price FROM product WHERE title = 'p{n(120)}'"),
            lambda: ask(f"SELECT title FROM product WHERE id IN ({n(100)}, {n(100)}, {n(100)})"),
            lambda: ask(f"SELECT id FROM sale WHERE day BETWEEN {n(100)} AND {n(365)} LIMIT {n(9) + 1}"),
            lambda: ask("SELECT max(price), min(price) FROM product"),
            lambda: ask("SELECT DISTINCT state FROM sale"),
            lambda: ask("SELECT id FROM customer WHERE credit > ? LIMIT 10", n(900)),
            lambda: ask("SELECT id FROM customer WHERE name LIKE ? LIMIT 5", f"n{n(9)}%"),
            lambda: ask("SELECT 1"),
            lambda: ask("SELECT changes(), total_changes()"),
            lambda: ask("SELECT coalesce(city, 'none') FROM customer WHERE id = ?", n(220)),
            lambda: ask("SELECT sum(amount) FROM line WHERE sale = ?", n(500)),
            lambda: ask("SELECT total FROM best WHERE product = ?", n(100)),
            lambda: ask("SELECT CASE WHEN stock > 10 THEN 'many' ELSE 'few' END FROM product WHERE id = ?", n(100)),
            lambda: ask("VALUES (1, 2)"),
            lambda: ask("PRAGMA table_info(sale)"),
            lambda: ask("PRAGMA user_version"),
        ]
        joins: list[Callable[[], object]] = [
            lambda: ask("SELECT s.id, c.name FROM sale s JOIN customer c ON c.id = s.customer WHERE s.id = ?", n(500)),
            lambda: ask("SELECT p.title, l.amount FROM line l JOIN product p ON p.id = l.product WHERE l.sale = ?", n(500)),
            lambda: ask(
                "SELECT c.city, count(*) FROM customer c LEFT JOIN sale s ON s.customer = c.id WHERE c.id < ? GROUP BY 1", n(9)
            ),
            lambda: ask("SELECT id FROM product p WHERE NOT EXISTS (SELECT 1 FROM line l WHERE l.product = p.id)"),
            lambda: ask("SELECT id FROM sale WHERE id < ? UNION SELECT id FROM product WHERE id < ?", n(5), n(5)),
            lambda: ask("SELECT id FROM sale WHERE id < 5 EXCEPT SELECT id FROM product WHERE id > 2"),
            lambda: ask("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < ?) SELECT x FROM c", n(20) + 1),
            lambda: ask("SELECT id, row_number() OVER (ORDER BY price) FROM product LIMIT 3"),
            lambda: ask("SELECT state, count(*) FROM sale GROUP BY state HAVING count(*) > 1 ORDER BY 2 DESC"),
            lambda: ask("EXPLAIN QUERY PLAN SELECT * FROM sale WHERE customer = 3"),
            lambda: ask("EXPLAIN SELECT * FROM line WHERE product = 3"),
        ]
        changes: list[Callable[[], object]] = [
            lambda: change("UPDATE product SET stock = stock - ? WHERE id = ?", n(3), n(110)),
            lambda: change(f"UPDATE customer SET credit = credit + {n(10)} WHERE city = 'city{n(25)}'"),
            lambda: change("UPDATE sale SET state = 'paid' WHERE customer = ? AND state = 'open'", n(200)),
            lambda: change("UPDATE sale SET state = 'open', day = ? WHERE id = ?", n(365), n(500)),
            lambda: change("INSERT INTO basket VALUES (?, ?)", n(100), n(5)),
            lambda: change(f"INSERT INTO basket VALUES ({n(100)}, 1), ({n(100)}, 2)"),
            lambda: change("INSERT INTO basket SELECT product, amount FROM line WHERE sale = ?", n(500)),
            lambda: change("DELETE FROM basket WHERE product = ?", n(100)),
            lambda: change("DELETE FROM basket"),
            lambda: change("REPLACE INTO line VALUES (?, ?, ?)", n(500), n(100), n(9)),
            lambda: change("INSERT INTO customer VALUES (?, 'x', NULL, 0) ON CONFLICT (id) DO NOTHING", n(200)),
            lambda: self.many("INSERT INTO basket (product) VALUES (?)", [(n(100),) for _ in range(n(9) + 1)]),
            lambda: self.fail("INSERT INTO customer VALUES (1, NULL, 'x', 0)"),
            lambda: self.fail("SELECT nothing FROM nowhere"),
            lambda: self.fail("SELEC 1"),
            lambda: self.transaction(self.order, committed=n(5) > 0),
        ]
        rare: list[Callable[[], object]] = [
            lambda: (change("CREATE TABLE scratch (a, b)"), change("DROP TABLE scratch")),
            lambda: (
                change("ALTER TABLE customer RENAME COLUMN credit TO worth"),
                change("ALTER TABLE customer RENAME COLUMN worth TO credit"),
            ),
            lambda: (change("CREATE INDEX by_price ON product (price)"), change("DROP INDEX by_price")),
            lambda: change("ANALYZE"),
            lambda: change("REINDEX sale_customer"),
            lambda: change("VACUUM"),
        ]
        return point * 6 + joins * 2 + changes * 3 + rare

    def order(self) -> None:
        self.change("SAVEPOINT a")
        self.change("UPDATE product SET stock = stock - 1 WHERE id = ?", self.dice.randrange(100))
        self.change("INSERT INTO sale (customer, day, state) VALUES (?, ?, ?)", self.dice.randrange(200), 1, "new")
        self.change(self.dice.choice(("RELEASE a", "ROLLBACK TO a")))
        self.ask("SELECT last_insert_rowid()")

    def run(self, executions: int) -> None:
        self.prepare()
        steps = self.steps()
        for step in steps:
            step()
        while self.executions < executions:
            self.dice.choice(steps)()

    def compare(self) -> None:
        """AssertionError where a table says something else than we do."""
        frame = pfs.table("events_statements_summary_by_digest")
        frame = frame[frame["SCHEMA_NAME"] == SCHEMA]
        told: dict[str, list[int]] = {}
        columns = ["COUNT_STAR", "SUM_ROWS_SENT", "SUM_ROWS_AFFECTED", "SUM_ERRORS"]
        samples = dict(zip(frame["DIGEST"], frame["QUERY_SAMPLE_TEXT"], strict=True))
        for row in frame.to_dict("records"):
            form = normal_form(samples[row["DIGEST"]])
            assert form not in told, form
            told[form] = [int(row[column]) for column in columns]
        assert told == dict(self.counted), {
            form: (told.get(form), self.counted.get(form))
            for form in told.keys() | self.counted.keys()
            if told.get(form) != self.counted.get(form)
        }
        names = pfs.table("events_statements_summary_global_by_event_name").set_index("EVENT_NAME")["COUNT_STAR"]
        shown = {name: int(count) for name, count in names.items() if str(name).startswith("statement/sql/") and count}
        mine: Counter[str] = Counter()
        for keyword, count in self.keywords.items():
            mine[f"statement/sql/{keyword if keyword != 'selec' else 'other'}"] += count
        assert shown == dict(mine)
        histogram = pfs.table("events_statements_histogram_global")
        assert int(histogram["COUNT_BUCKET"].sum()) == self.executions
        by_digest = pfs.table("events_statements_histogram_by_digest").groupby("DIGEST")["COUNT_BUCKET"].sum()
        for digest, text in samples.items():
            assert int(by_digest[digest]) == self.counted[normal_form(text)][0]
        transactions = pfs.table("events_transactions_summary_global_by_event_name")
        assert int(transactions["COUNT_STAR"].sum()) == sum(self.ended.values())


def cost(rounds: int = 40) -> tuple[float, float, float]:
    """Nanoseconds per execution: plain, watched, and watched with all statements disabled; the fastest of many blocks."""
    best = [1e18, 1e18, 1e18]
    connections = [sqlite3.connect(":memory:", isolation_level=None)]
    connections += [pfs.dbapi(sqlite3, schema=SCHEMA).connect(":memory:", isolation_level=None) for _ in range(2)]
    for connection in connections:
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, i) for i in range(1000)])
    for _ in range(rounds):
        for place, connection in enumerate(connections):
            pfs.setup_instruments.update("statement/%", enabled=place != 2)
            start = time.perf_counter_ns()
            for i in range(500):
                connection.execute("SELECT b FROM t WHERE a = ?", (i,)).fetchall()
            best[place] = min(best[place], (time.perf_counter_ns() - start) / 500)
    pfs.setup_instruments.update("statement/%", enabled=True)
    return best[0], best[1], best[2]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--executions", type=int, default=20_000)
    workload = Workload(seed=4)
    workload.run(parser.parse_args().executions)
    workload.compare()
    print(f"{workload.executions} executions of {len(workload.counted)} statements: digests, names, rows and histograms agree")
    plain, watched, disabled = cost()
    print(f"point query: plain {plain:.0f} ns, watched {watched:.0f} ns ({watched / plain:.2f})", end="")
    print(f", disabled {disabled:.0f} ns ({disabled / plain:.2f})")


if __name__ == "__main__":
    main()
