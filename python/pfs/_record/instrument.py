"""Records waits of the program: for anything, for the next request, for rows of its tables and for locks on them."""

from __future__ import annotations

from pfs import _core
from pfs.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import ParamSpec, Self, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["Table", "idle", "wait"]

_NO_PLAIN_CALL = 0x20 | 0x80 | 0x200  # code flags of generators, coroutines and asynchronous generators


def _plain_function(function: Callable[P, R], what: str) -> Callable[P, R]:
    """Returns `function` if a call runs it to its end: generators and coroutines raise TypeError."""
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & _NO_PLAIN_CALL:
        raise TypeError(f"{what} cannot decorate {function!r}, which waits later: use 'with' around the part that waits")
    return function


class wait:
    """Records a wait of the program: an event of ``wait/app/<name>`` for each run of a block or function.

        with pfs.wait("myapp/GPU"):
            kernel.synchronize()

        @pfs.wait("myapp/RPC")
        def ask(server): ...

    The name is "component/name" or the full name. Threads may share an object, and blocks of one object may nest. An exception
    ends the wait and propagates. SOURCE is where the block begins, or where the function is called.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
        TypeError: a generator or coroutine function is decorated; use ``with`` around the part that waits.
    """

    __module__ = "pfs"  # where users find it

    __slots__ = ("_point",)

    def __init__(self, name: str) -> None:
        self._point = _core.WaitPoint(name)

    @property
    def name(self) -> str:
        """Full name of the instrument."""
        return self._point.name

    def __enter__(self) -> Self:
        self._point.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._point.end()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        from functools import wraps

        point = self._point

        @wraps(_plain_function(function, "pfs.wait"))
        def waiting(*args: P.args, **kwargs: P.kwargs) -> R:
            point.begin()
            try:
                return function(*args, **kwargs)
            finally:
                point.end()

        return waiting

    def __repr__(self) -> str:
        return f"pfs.wait({self._point.name!r})"


class idle:
    """Records time in which the thread has nothing to do, such as between two requests: an event ``idle`` for each run of a
    block or function.

        with pfs.idle():
            request = connection.recv(4096)

        @pfs.idle()
        def next_request(): ...

    An idle event has no NESTING_EVENT_ID. An object may be used again. An exception ends the event and propagates. SOURCE is
    where the block begins, or where the function is called.

    Raises:
        TypeError: a generator or coroutine function is decorated; use ``with`` around the part that waits.
    """

    __module__ = "pfs"  # where users find it

    __slots__ = ()

    def __enter__(self) -> Self:
        _core.idle_begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _core.idle_end()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        from functools import wraps

        @wraps(_plain_function(function, "pfs.idle"))
        def idling(*args: P.args, **kwargs: P.kwargs) -> R:
            _core.idle_begin()
            try:
                return function(*args, **kwargs)
            finally:
                _core.idle_end()

        return idling

    def __repr__(self) -> str:
        return "pfs.idle()"


# The values of INTERNAL_LOCK and EXTERNAL_LOCK, in the order of enum pfs_table_lock.
_LOCKS = (
    "READ",
    "READ WITH SHARED LOCKS",
    "READ HIGH PRIORITY",
    "READ NO INSERT",
    "READ EXTERNAL",
    "WRITE ALLOW WRITE",
    "WRITE CONCURRENT INSERT",
    "WRITE LOW PRIORITY",
    "WRITE",
    "WRITE EXTERNAL",
)
_FETCH, _INSERT, _UPDATE, _DELETE = range(4)


class TableIO:
    """Records a wait for rows of a ``Table``, as a context manager. Set ``rows`` to the number of rows; it is 1 at first."""

    __slots__ = ("_handle", "_index", "_operation", "_rows")

    def __init__(self, handle: _core.TableHandle, operation: int, index: int) -> None:
        self._handle, self._operation, self._index = handle, operation, index
        self._rows: int | None = None

    @property
    def rows(self) -> int:
        return 1 if self._rows is None else self._rows

    @rows.setter
    def rows(self, rows: int) -> None:
        if rows < 0:
            raise InvalidValue(f"rows = {rows}: a wait is for 0 rows or more")
        self._rows = rows

    def __enter__(self) -> Self:
        self._handle.io_begin(self._operation, self._index)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        failed = kind is not None and self._rows is None
        self._handle.io_end(0 if failed else self.rows)


class TableLock:
    """Records a wait for a lock on a ``Table``, as a context manager around the code that takes the lock."""

    __slots__ = ("_handle", "_lock")

    def __init__(self, handle: _core.TableHandle, lock: int) -> None:
        self._handle, self._lock = handle, lock

    def __enter__(self) -> Self:
        self._handle.lock_begin(self._lock)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._handle.lock_end(kind is None)


class Table:
    """Declares a table of the program: a dict of records, a cache, a store, anything with rows that are found and changed.

        orders = pfs.Table("shop.orders", indexes=("PRIMARY", "by_name"))

        with orders.fetch(index="by_name") as io:
            found = store.find(name)
            io.rows = len(found)
        with orders.insert():
            store.add(order)
        with orders.lock("write"):
            mutex.acquire()
        ...
        orders.unlock()

    The name is "schema.name", or a name without schema; the object is a handle of the table, shown in ``table_handles`` until
    it is closed or collected. One ``with`` block is one wait, which may cover many rows: each counts, the time is the wait's.
    Rows show in ``table_io_waits_summary_by_table`` and ``_by_index_usage``, locks in ``table_lock_waits_summary_by_table``;
    ``setup_objects`` says which tables are instrumented. Threads may share an object.

    Args:
        name: "schema.name"; each is cut at 64 bytes.
        indexes: the ways to find rows; names for ``index=``.
        temporary: OBJECT_TYPE is TEMPORARY TABLE.

    Raises:
        InvalidValue: no name, or a NUL character in one.
    """

    __module__ = "pfs"  # where users find it

    __slots__ = ("_handle", "_indexes", "_name")

    def __init__(self, name: str, indexes: Iterable[str] = (), *, temporary: bool = False) -> None:
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, 'schema.name' or 'name', not {type(name).__name__}")
        if isinstance(indexes, str):
            raise TypeError(f"indexes must be several names, such as ({indexes!r},), not one str")
        schema, dot, rest = name.partition(".")
        if not dot:
            schema, rest = "", name
        self._name = name
        self._indexes = {index: place for place, index in enumerate(indexes)}
        if not rest or "\0" in name or any("\0" in index for index in self._indexes):
            raise InvalidValue(f"bad name {name!r}: legal is 'schema.name' or 'name', without NUL characters, and so for indexes")
        self._handle = _core.TableHandle(schema, rest, list(self._indexes), temporary)

    @property
    def name(self) -> str:
        """The name, as it was given."""
        return self._name

    def _io(self, operation: int, index: str | None) -> TableIO:
        if index is not None and index not in self._indexes:
            raise InvalidValue(
                f"{self._name} has no index {index!r}: legal are None, {', '.join(map(repr, self._indexes))}".rstrip(", ")
            )
        return TableIO(self._handle, operation, -1 if index is None else self._indexes[index])

    def fetch(self, index: str | None = None) -> TableIO:
        """Records that rows are read, through an index or (None) without one."""
        return self._io(_FETCH, index)

    def insert(self) -> TableIO:
        """Records that rows are added. No index is involved."""
        return self._io(_INSERT, None)

    def update(self, index: str | None = None) -> TableIO:
        """Records that rows are changed."""
        return self._io(_UPDATE, index)

    def delete(self, index: str | None = None) -> TableIO:
        """Records that rows are removed."""
        return self._io(_DELETE, index)

    def lock(self, kind: str = "WRITE") -> TableLock:
        """Records that the table is locked: put the block around the code that takes the lock. The lock is shown as held until
        ``unlock``, unless an exception leaves the block.

        Args:
            kind: the value of INTERNAL_LOCK or EXTERNAL_LOCK in ``table_handles``, in upper or lower case: READ, READ WITH
                SHARED LOCKS, READ HIGH PRIORITY, READ NO INSERT, WRITE ALLOW WRITE, WRITE CONCURRENT INSERT, WRITE LOW
                PRIORITY, WRITE; READ EXTERNAL, WRITE EXTERNAL.

        Raises:
            InvalidValue: another kind.
        """
        if str(kind).upper() not in _LOCKS:
            raise InvalidValue(f"bad kind of lock {kind!r}: legal are {', '.join(_LOCKS)}")
        return TableLock(self._handle, _LOCKS.index(kind.upper()))

    def unlock(self) -> None:
        """Shows that no lock is held."""
        self._handle.unlock()

    def close(self) -> None:
        """Removes the row of the handle. This object records nothing any more; the table and its counts stay."""
        self._handle.close()

    def drop(self) -> None:
        """Removes the rows of the table, and closes this handle. Counts by instrument stay."""
        self._handle.drop()
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"pfs.Table({self._name!r})"
