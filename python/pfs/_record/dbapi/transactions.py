"""Follows the transaction of a database connection: the driver says whether it is active, else the statements do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pfs._core import RunningTransaction, transaction

# After one of these, the state of the connection alone does not say what happened to the transaction.
CONTROL = frozenset(("abort", "begin", "commit", "end", "release", "rollback", "savepoint", "start"))
_COMMITS = ("commit", "end")
_ROLLBACKS = ("abort", "rollback")
_BEGINS = ("begin", "start")

# MySQL and MariaDB commit before and after these.
_IMPLICIT_COMMITS = frozenset(("alter", "analyze", "create", "drop", "grant", "lock", "rename", "revoke", "truncate"))
_ON_TEMPORARY = re.compile(r"\W*(create(\s+or\s+replace)?|drop)\s+temporary\b", re.IGNORECASE)
# These begin a transaction in MySQL and MariaDB if they name a table.
_OF_TABLES = frozenset(("delete", "insert", "load", "replace", "select", "update", "with"))
_FROM = re.compile(r"\bfrom\b(?!\s+`?(information_schema|performance_schema)\b)", re.IGNORECASE)
_TO_SAVEPOINT = re.compile(r"\brollback(\s+work|\s+transaction)?\s+to\b", re.IGNORECASE)
_IN_TRANSACTION, _AUTOCOMMIT = 1, 2  # SERVER_STATUS_IN_TRANS and SERVER_STATUS_AUTOCOMMIT of their protocol
_PARSE_ERROR = 1064
_OF_ROWS = frozenset((1022, 1048, 1062, 1205, 1216, 1217, 1264, 1406, 1451, 1452, 1586, 4025))  # errors about rows of a table
_END_ALL = frozenset((1213, 1614, 2006, 2013, 2055))  # deadlock; the connection is lost

_PQ_ACTIVE, _PQ_IN_TRANSACTION, _PQ_IN_ERROR = 1, 2, 3  # of libpq


class Transactions:
    """Follows the transaction of one connection. Only update() begins one."""

    __slots__ = ("_ask", "_driver", "_had_autocommit", "_has_autocommit", "_plain", "_transaction", "active", "is_sqlite")

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self._transaction = transaction()
        self.active: RunningTransaction | None = None
        self.is_sqlite = False
        self._driver = ""
        self._ask: Callable[[], bool] | None = None
        # PEP 249 has an attribute. Some drivers below differ.
        self._has_autocommit: Callable[[], bool] = lambda: getattr(plain, "autocommit", None) is True
        if isinstance(getattr(plain, "in_transaction", None), bool):  # sqlite3; mysql.connector
            self._ask = lambda: bool(plain.in_transaction)
            self.is_sqlite = not hasattr(plain, "server_status") and not hasattr(plain, "cmd_query")
            self._driver = "sqlite" if self.is_sqlite else "mysql"
            if not self.is_sqlite:
                self._has_autocommit = lambda: True  # reading the attribute would ask the server
        elif isinstance(getattr(plain, "transaction_in_progress", None), bool):  # oracledb
            self._driver = "oracle"
            self._ask = lambda: bool(plain.transaction_in_progress)
        elif isinstance(getattr(plain, "server_status", None), int):  # PyMySQL, mariadb
            self._ask = lambda: bool(plain.server_status & _IN_TRANSACTION)
            self._has_autocommit = lambda: bool(plain.server_status & _AUTOCOMMIT)
            self._driver = "mysql"
        elif self._status() is not None:  # psycopg, psycopg2
            self._ask = self._ask_postgres
            self._driver = "postgres"
        elif callable(getattr(plain, "get_autocommit", None)):  # MySQLdb, whose `autocommit` is a method
            self._has_autocommit = lambda: bool(plain.get_autocommit())
            self._driver = "mysql"
        elif type(plain).__module__.lstrip("_").partition(".")[0] == "duckdb":
            self._driver = "duckdb"
        self._had_autocommit = self._has_autocommit()

    def _status(self) -> int | None:
        """Returns the transaction status of libpq, which is that of the server's last answer."""
        get = getattr(self._plain, "get_transaction_status", None)
        found = get() if callable(get) else getattr(getattr(self._plain, "info", None), "transaction_status", None)
        return found if isinstance(found, int) else None

    def _ask_postgres(self) -> bool:
        status = self._status()
        if status == _PQ_ACTIVE:  # a COPY or a pipeline runs: the server has not answered yet
            return self.active is not None or not self._has_autocommit()
        return status in (_PQ_IN_TRANSACTION, _PQ_IN_ERROR)

    def says_active(self) -> bool:
        """Returns whether the driver says that a transaction is active. It is False if the driver cannot say."""
        try:
            return self._ask is not None and self._ask()
        except Exception:
            return False

    def exit_commits(self) -> bool:
        """Returns whether `with connection:` commits. The drivers of MySQL, Oracle and DuckDB close the connection instead."""
        return self._driver in ("", "postgres", "sqlite")

    def changed(self) -> bool:
        """Returns whether a transaction may have begun or ended without a keyword of CONTROL, or the driver cannot say."""
        return self._ask is None or self._driver == "mysql" or self.says_active() is (self.active is None)

    def will_commit(self) -> bool:
        """Returns whether COMMIT will commit: PostgreSQL rolls back a transaction that failed."""
        return self._driver != "postgres" or self._status() != _PQ_IN_ERROR

    def update(
        self, keyword: str, sql: str = "", error: BaseException | None = None, will_commit: bool = True, has_rows: bool = False
    ) -> None:
        """Records what a statement did to the transaction: whether it began, changed or ended it."""
        is_in = self._is_in(keyword, sql, error, has_rows)
        done = keyword if error is None else ""
        to_savepoint = done == "rollback" and _TO_SAVEPOINT.search(sql) is not None
        active = self.active
        if active is not None:
            if done == "savepoint":
                active.savepoint()
            elif done == "release":
                active.release_savepoint()
            elif to_savepoint:
                active.rollback_to_savepoint()
            if done in _COMMITS:
                self.finish(will_commit)
            elif done in _ROLLBACKS and not to_savepoint:
                self.finish(False)
            elif done in _BEGINS and self._driver == "mysql":
                self.finish(True)
            elif not is_in:
                self.finish(error is None or self._commits_implicitly(keyword, sql, error))
        if self.active is None and is_in:
            self.active = self._transaction.begin()
            if done == "savepoint":
                self.active.savepoint()

    def _commits_implicitly(self, keyword: str, sql: str, error: BaseException | None) -> bool:
        if self._driver != "mysql" or keyword not in _IMPLICIT_COMMITS or _ON_TEMPORARY.match(sql):
            return False
        return error is None or _number(error) != _PARSE_ERROR

    def _is_in(self, keyword: str, sql: str, error: BaseException | None, has_rows: bool) -> bool:
        was = self.active is not None
        if self._driver == "mysql":
            return self._is_in_mysql(keyword, sql, error, was, has_rows)
        if self._ask is not None:
            return self.says_active()
        if error is None:
            if keyword in _COMMITS or (keyword in _ROLLBACKS and not _TO_SAVEPOINT.search(sql)):
                return False
            if keyword in _BEGINS:
                return True
        return was or (self._driver != "duckdb" and not self._has_autocommit())

    def _is_in_mysql(self, keyword: str, sql: str, error: BaseException | None, was: bool, has_rows: bool) -> bool:
        autocommit, had_autocommit = self._has_autocommit(), self._had_autocommit
        self._had_autocommit = autocommit
        if error is not None:  # the packet of an error does not say whether a transaction is active
            number = _number(error)
            if number in _END_ALL or self._commits_implicitly(keyword, sql, error):
                return False
            return was or (not autocommit and number in _OF_ROWS)
        if self.says_active():
            return True
        if self._ask is not None and not has_rows:  # PyMySQL reads the status only from statements without rows
            return False
        if keyword in _BEGINS:
            return True
        if keyword in _COMMITS or self._commits_implicitly(keyword, sql, None) or (autocommit and not had_autocommit):
            return False
        if keyword in _ROLLBACKS:
            return was and _TO_SAVEPOINT.search(sql) is not None
        if autocommit or keyword not in _OF_TABLES:
            return was
        return was or keyword not in ("select", "with") or _FROM.search(sql) is not None

    def finish(self, committed: bool) -> None:
        """Ends the active transaction, if there is one."""
        active, self.active = self.active, None
        if active is not None:
            active.commit() if committed else active.rollback()

    def before_end(self) -> bool:
        """Prepares commit() or rollback() of the connection, and returns will_commit(). It begins a transaction that no statement
        has shown."""
        # With autocommit=False sqlite3 begins a transaction with the connection and after each commit(), before its first use.
        is_of_sqlite = self.is_sqlite and getattr(self._plain, "autocommit", None) is False
        if self.active is None and not is_of_sqlite and self.says_active():
            self.active = self._transaction.begin()
        return self.will_commit()

    def end(self, committed: bool, error: BaseException | None = None) -> None:
        """Records commit() or rollback() of the connection."""
        if self.says_active():
            # With autocommit=True commit() of sqlite3 does nothing. With autocommit=False the next transaction has begun already.
            if error is not None and _number(error) not in _END_ALL:
                return
            if error is None and self.is_sqlite and self._has_autocommit():
                return
        self.finish(committed and error is None)

    def ended_by(self, committed: bool) -> None:
        """Records a method or an attribute of the connection that may have ended the transaction."""
        had_autocommit, self._had_autocommit = self._had_autocommit, self._has_autocommit()
        if self._ask is not None:
            if not self.says_active():
                self.finish(committed)
        elif committed and self._has_autocommit() and not had_autocommit:
            self.finish(True)


def _number(error: BaseException) -> int | None:
    """Returns MySQL's number of an error."""
    first = getattr(error, "errno", None) or (error.args[0] if error.args else None)
    return first if isinstance(first, int) else None
