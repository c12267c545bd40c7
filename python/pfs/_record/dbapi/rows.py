"""Provides proxies of the objects of a database driver, and cursors that count rows."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from pfs._core import RunningStatement


class Proxy:
    """Forwards to a plain object everything that a subclass does not define. isinstance() sees the class of the plain object."""

    __slots__ = ("__weakref__", "_plain")
    _plain: Any

    @property
    def plain(self) -> Any:
        """The driver's own module, connection or cursor, for code that needs its type. What it does is not recorded."""
        return self._plain

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._plain)

    def __getattr__(self, name: str) -> Any:
        if name == "_plain":  # copy and pickle create objects without __init__
            raise AttributeError(name)
        return getattr(self._plain, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._plain.__reduce_ex__(protocol)  # copies the plain object, if it can be copied

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._plain, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._plain, name)

    def __dir__(self) -> list[str]:
        return dir(self._plain)

    def __repr__(self) -> str:
        return f"<pfs.dbapi of {self._plain!r}>"

    def __eq__(self, other: object) -> bool:
        return bool(self._plain == (other._plain if isinstance(other, Proxy) else other))

    def __hash__(self) -> int:
        return hash(self._plain)


class Rows(Proxy):
    """Counts the rows that a cursor fetches for the statement that it has executed. The statement ends with the last row."""

    __slots__ = ("_counts_changes", "_rows", "_run")
    _run: RunningStatement | None
    _rows: int
    _counts_changes: bool

    def __init__(self, plain: Any, run: RunningStatement | None, counts_changes: bool) -> None:
        """`counts_changes` says that rowcount after the last row is the number of rows that the statement has changed. In some
        drivers it is the number of rows of a SELECT."""
        set_plain(self, plain)
        set_rows(self, 0)
        set_run(self, run)
        set_counts_changes(self, counts_changes)

    def _finish(self) -> None:
        run = self._run
        if run is None:
            return
        set_run(self, None)
        if self._rows:
            run.rows_sent = self._rows
        if self._counts_changes:
            count = self._plain.rowcount  # INSERT ... RETURNING
            if count > 0:
                run.rows_affected = count
        run.end()

    def _fail(self, error: BaseException) -> None:
        run = self._run
        if run is not None:
            set_run(self, None)
            if self._rows:
                run.rows_sent = self._rows
            run.end(error)

    def fetchone(self) -> Any:
        try:
            row = self._plain.fetchone()
        except BaseException as error:
            self._fail(error)
            raise
        if self._run is not None:
            if row is None:
                self._finish()
            else:
                set_rows(self, self._rows + 1)
        return row

    def fetchmany(self, *args: Any, **kwargs: Any) -> Any:
        try:
            rows = self._plain.fetchmany(*args, **kwargs)
        except BaseException as error:
            self._fail(error)
            raise
        if self._run is not None:
            if rows:
                set_rows(self, self._rows + len(rows))
            else:
                self._finish()
        return rows

    def fetchall(self) -> Any:
        try:
            rows = self._plain.fetchall()
        except BaseException as error:
            self._fail(error)
            raise
        if self._run is not None:
            set_rows(self, self._rows + len(rows))
            self._finish()
        return rows

    def __iter__(self) -> Iterator[Any]:
        return self if hasattr(type(self._plain), "__next__") else self._iterate()

    def _iterate(self) -> Iterator[Any]:
        """Iterates over cursors that are iterable but no iterators, such as MySQLdb's."""
        try:
            for row in self._plain:
                if self._run is not None:
                    set_rows(self, self._rows + 1)
                yield row
        except GeneratorExit:
            raise
        except BaseException as error:
            self._fail(error)
            raise
        self._finish()

    def __next__(self) -> Any:
        try:
            row = next(self._plain)
        except StopIteration:
            self._finish()
            raise
        except BaseException as error:
            self._fail(error)
            raise
        if self._run is not None:
            set_rows(self, self._rows + 1)
        return row

    def close(self) -> Any:
        self._finish()
        return self._plain.close()

    def __enter__(self) -> Any:
        entered = self._plain.__enter__()
        return self if entered is self._plain else entered

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> Any:
        self._finish()
        return self._plain.__exit__(kind, error, trace)

    def __del__(self) -> None:
        try:
            if self._run is not None:
                self._finish()
        except Exception:  # the connection may be closed
            pass


set_plain = Proxy.__dict__["_plain"].__set__
set_run = Rows.__dict__["_run"].__set__
set_rows = Rows.__dict__["_rows"].__set__
set_counts_changes = Rows.__dict__["_counts_changes"].__set__
