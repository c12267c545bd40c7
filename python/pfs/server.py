"""Rows that only a database server declares: its clients and their hosts, its tasks, functions and loggers.

    task = pfs.server.register_task("myapp/cleanup", interval="1min")
    with task:                                     # component_scheduler_tasks: RUNNING; then TIMES_RUN, TIMES_FAILED if it raised
        clean_up()

This module is unstable: its names may change in any release. pfs only shows these objects; it sets and runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from pfs import _core
from pfs._read.units import whole_seconds
from pfs._record.program import FUNCTION, LOGGER, TASK, code_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import date
    from types import EllipsisType, TracebackType
    from typing import Literal, Self

    from pfs._read.units import Time

    Level = Literal["none", "error", "warn", "info", "debug"]

__all__ = [
    "Function",
    "Logger",
    "Task",
    "account_lock",
    "host_error",
    "host_forget",
    "host_seen",
    "login_failed",
    "login_succeeded",
    "register_function",
    "register_logger",
    "register_task",
    "set_connect_attrs",
    "set_processlist",
    "set_user_variable",
]

_LEVELS = ("none", "error", "warn", "info", "debug")
_HOST_ERRORS = (
    "host_blocked",
    "nameinfo_transient",
    "nameinfo_permanent",
    "format",
    "addrinfo_transient",
    "addrinfo_permanent",
    "fcrdns",
    "host_acl",
    "no_auth_plugin",
    "auth_plugin",
    "handshake",
    "proxy_user",
    "proxy_user_acl",
    "authentication",
    "ssl",
    "max_user_connections",
    "max_user_connections_per_hour",
    "default_database",
    "init_connect",
    "local",
    "account_locked",
    "temporary_account_locked",
    "unknown",
)


class Logger:
    """A row of ``setup_loggers``."""

    __slots__ = ("_key", "name")

    def __init__(self, name: str, key: int) -> None:
        self.name = name
        self._key = key

    @property
    def level(self) -> str:
        """The LEVEL that ``setup_loggers`` has now: none, error, warn, info or debug. Reading it is cheap."""
        return _LEVELS[_core.logger_level(self._key)]

    def unregister(self) -> None:
        """Removes the row."""
        _core.row_unregister(LOGGER, self.name)


def register_logger(name: str, level: Level = "info", *, documentation: str | None = None) -> Logger:
    """Registers a logger, whose level users change through ``pfs.setup_loggers``.

    Raises:
        InvalidValue: a bad level, or a name that is empty or longer than 128 bytes.
        LimitReached: ``performance_schema_max_logger_classes``.
    """
    return Logger(name, _core.logger_register(name, code_of("level", level, _LEVELS), documentation))


class Task:
    """A row of ``component_scheduler_tasks``. As a context manager it counts a run, which fails if an exception leaves it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def begin(self) -> None:
        """Begins a run: STATUS is RUNNING."""
        _core.task_begin(self.name)

    def end(self, failed: bool = False) -> None:
        """Ends a run: STATUS is WAITING, and TIMES_RUN grows by one."""
        _core.task_end(self.name, failed)

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(kind is not None)

    def unregister(self) -> None:
        """Removes the row."""
        _core.row_unregister(TASK, self.name)


def register_task(name: str, interval: Time, *, documentation: str | None = None) -> Task:
    """Registers a task that runs every `interval`, in whole seconds: 60, or "1min".

    Raises:
        InvalidValue: a name that is empty or longer than 64 bytes, or an interval that is no number of seconds.
    """
    _core.task_register(name, documentation, whole_seconds("the interval of a task", interval))
    return Task(name)


class Function:
    """A row of ``user_defined_functions``. As a context manager it counts one use in UDF_USAGE_COUNT."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Self:
        _core.function_use(self.name, 1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _core.function_use(self.name, -1)

    def unregister(self) -> None:
        """Removes the row."""
        _core.row_unregister(FUNCTION, self.name)


def register_function(name: str, return_type: str, *, type: str = "function", library: str | None = None) -> Function:
    """Registers a function that the program has loaded.

    Raises:
        InvalidValue: a name that is empty or longer than 64 bytes.
    """
    _core.function_register(name, return_type, type, library)
    return Function(name)


def set_connect_attrs(attributes: Mapping[str, str | None]) -> None:
    """Sets the attributes of the client that the calling thread works for: rows of ``session_connect_attrs``, in this order.

        pfs.set_account("anna", "desk")
        pfs.server.set_connect_attrs({"program_name": "shop", "_pid": "4711"})

    They replace the earlier ones. If they have more than ``performance_schema_session_connect_attrs_size`` bytes, the last ones
    are dropped: ``_truncated`` stands first, and ``Performance_schema_session_connect_attrs_lost`` grows.
    """
    if not isinstance(attributes, Mapping):
        raise TypeError(f"attributes must be a mapping of names to values, not {type(attributes).__name__}")
    for name, value in attributes.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"the value of attribute {name!r} must be str or None, not {type(value).__name__}")
    _core.connect_attrs([(str(name), value) for name, value in attributes.items()])


def set_user_variable(name: str, value: bytes | str | float | EllipsisType | None) -> None:
    """Sets a named value of the calling thread, a row of ``user_variables_by_thread`` until the thread ends; ``...`` removes it.

    Values are cut at 65535 bytes, names at 64.
    """
    if value is ...:
        _core.user_variable_forget(name)
        return
    _core.user_variable_set(name, value if isinstance(value, bytes) or value is None else str(value))


def host_seen(ip: str, host: str | None = None, *, validated: bool = False) -> None:
    """Counts a connection from this address in ``host_cache``. `validated` says that the name was resolved."""
    _core.host_seen(ip, host, validated)


def host_error(ip: str, error: str) -> None:
    """Counts an error in a column of ``host_cache``: "authentication" counts in COUNT_AUTHENTICATION_ERRORS.

    Raises:
        InvalidValue: there is no such column; the message names them.
    """
    _core.host_error(ip, code_of("error of a host", error, _HOST_ERRORS))


def host_forget(ip: str) -> None:
    """Removes a row of ``host_cache``. ``pfs.truncate("host_cache")`` removes all."""
    _core.host_forget(ip)


def login_failed(user: str, host: str) -> None:
    """Counts a failed login in ``connection_control_failed_login_attempts``."""
    _core.login_failed(user, host)


def login_succeeded(user: str, host: str) -> None:
    """Removes the row of an account from ``connection_control_failed_login_attempts``, after a login that did not fail."""
    _core.login_succeeded(user, host)


def _seconds(day: date | None) -> int:
    return 0 if day is None else (day.toordinal() - 719163) * 86400


def account_lock(
    user: str,
    host: str,
    *,
    locked: bool = False,
    failed_attempts: int = 0,
    remaining_attempts: int = 0,
    lock_days: int = 0,
    since: date | None = None,
    until: date | None = None,
    remove: bool = False,
) -> None:
    """Sets the row of an account in ``temporary_account_locks``: `failed_attempts` failed logins lock it for `lock_days` days
    (-1: until it is unlocked), and `remaining_attempts` of them are left. `remove` removes the row."""
    lock = None if remove else (locked, failed_attempts, remaining_attempts, lock_days, _seconds(since), _seconds(until))
    _core.account_lock(user, host, lock)


def set_processlist(
    *,
    id: int | EllipsisType | None = ...,
    db: str | EllipsisType | None = ...,
    command: str | EllipsisType | None = ...,
    state: str | EllipsisType | None = ...,
    info: str | EllipsisType | None = ...,
    start_time: float | EllipsisType | None = ...,
    connection_type: str | EllipsisType | None = ...,
    resource_group: str | EllipsisType | None = ...,
    peer_port: int | EllipsisType | None = ...,
) -> None:
    """Sets what the calling thread shows in its row of ``processlist`` and the PROCESSLIST_ columns of ``threads``.

        pfs.server.set_processlist(command="Query", info=sql, start_time=time.time())

    An argument that is left out keeps its column; None makes it NULL; text that is wider than its column is cut. PROCESSLIST_TIME
    counts from `start_time`. The call takes no lock and makes no system call, so it may be called for each request.
    """
    given = (id, db, command, state, info, start_time, connection_type, resource_group, peer_port)
    names = ("id", "db", "command", "state", "info", "start_time", "connection_type", "resource_group", "peer_port")
    for name, value in zip(names, given, strict=True):
        if value is not ...:
            _core.set_processlist(name, int(value) if isinstance(value, float) else value)
