"""Shows objects that the program declares: its variables, meters, loggers, tasks, functions; its clients and their hosts.

    threads = pfs.register_variable("myapp_threads", 4, minimum=1, maximum=64, documentation="Threads that work.")
    threads.value = 8                              # global_variables, variables_info

    task = pfs.register_task("myapp/cleanup", interval=60)
    with task:                                     # component_scheduler_tasks: RUNNING; then TIMES_RUN, TIMES_FAILED if it raised
        clean_up()

pfs only shows these objects; it sets and runs nothing. A second registration of a name changes its properties. None of these
functions is meant for hot paths.
"""

from __future__ import annotations

from collections.abc import Mapping

from pfs import _core
from pfs.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from types import EllipsisType, TracebackType
    from typing import Any, Literal, Self

    Value = bool | int | float | str | None
    Scope = Literal["GLOBAL", "SESSION", "SESSION_ONLY"]
    DataType = Literal["Integer", "Numeric", "String", "Enumeration", "Boolean", "Set"]
    Source = Literal["COMPILED", "GLOBAL", "SERVER", "EXPLICIT", "EXTRA", "USER", "LOGIN", "COMMAND_LINE", "PERSISTED", "DYNAMIC"]
    Level = Literal["none", "error", "warn", "info", "debug"]

__all__ = [
    "Function",
    "Logger",
    "Meter",
    "Task",
    "Variable",
    "account_lock",
    "host_error",
    "host_forget",
    "host_seen",
    "login_failed",
    "login_succeeded",
    "register_function",
    "register_logger",
    "register_meter",
    "register_task",
    "register_variable",
    "set_connect_attrs",
    "set_user_variable",
]

_SCOPES = ("GLOBAL", "SESSION", "SESSION_ONLY")
_TYPES = ("Integer", "Numeric", "String", "Enumeration", "Boolean", "Set")
_SOURCES = ("COMPILED", "GLOBAL", "SERVER", "EXPLICIT", "EXTRA", "USER", "LOGIN", "COMMAND_LINE", "PERSISTED", "DYNAMIC")
_LEVELS = ("none", "error", "warn", "info", "debug")
_METRICS = ("counter", "updown", "gauge")
_METER, _METRIC, _LOGGER, _TASK, _FUNCTION = range(5)
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


def _code(what: str, value: object, legal: Sequence[str]) -> int:
    for i, name in enumerate(legal):
        if str(value).lower() == name.lower():
            return i
    raise InvalidValue(f"{what} is one of {', '.join(legal)}, not {value!r}")


def _text(value: Value) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    if isinstance(value, int | float):
        return repr(value)
    raise InvalidValue(f"bad value {value!r}: legal are bool, int, float, str and None")


def _value(text: str, kind: str) -> Value:
    if kind == "Boolean":
        return text == "ON"
    return int(text) if kind == "Integer" else float(text) if kind == "Numeric" else text


def _type_of(value: Value) -> str:
    for kind, name in ((bool, "Boolean"), (int, "Integer"), (float, "Numeric")):
        if isinstance(value, kind):
            return name
    return "String"


class Variable:
    """Is a variable of the program, with rows in ``variables_metadata``, ``variables_info``, ``global_variables`` ..."""

    __slots__ = ("_type", "name")

    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self._type = type

    def _read(self, table: str) -> Any:
        for name, value in _core.rows(table, ("VARIABLE_NAME", "VARIABLE_VALUE"), None):
            if name.lower() == self.name.lower():
                return None if value is None else _value(value, self._type)
        return None

    @property
    def value(self) -> Any:
        """The global value. Setting it makes VARIABLE_SOURCE DYNAMIC.

        Raises:
            InvalidValue: it is not of the variable's type, or outside its range.
            OperationNotAllowed: the scope is SESSION_ONLY.
        """
        return self._read("global_variables")

    @value.setter
    def value(self, value: Value) -> None:
        self.set(value)

    def set(self, value: Value, source: Source = "DYNAMIC", path: str | None = None) -> None:
        """Sets the global value, with VARIABLE_SOURCE and VARIABLE_PATH (the file that it comes from)."""
        _core.variable_set(self.name, _text(value), _code("source", source, _SOURCES), path)

    @property
    def thread_value(self) -> Any:
        """The value that the calling thread's session sees. Set it to give the session one of its own, ``del`` to take it away.

        Raises:
            OperationNotAllowed: the scope is GLOBAL.
        """
        return self._read("session_variables")

    @thread_value.setter
    def thread_value(self, value: Value) -> None:
        _core.thread_variable_set(self.name, _text(value))

    @thread_value.deleter
    def thread_value(self) -> None:
        _core.thread_variable_forget(self.name)

    def set_attribute(self, name: str, value: str | None) -> None:
        """Sets a row of ``global_variable_attributes``; None removes it."""
        _core.variable_attribute(self.name, name, value)

    def unregister(self) -> None:
        """Removes the variable, its attributes and the values of threads."""
        _core.variable_unregister(self.name)

    def __repr__(self) -> str:
        return f"<variable {self.name}>"


def register_variable(
    name: str,
    value: Value = None,
    *,
    type: DataType | None = None,
    scope: Scope = "GLOBAL",
    minimum: float | None = None,
    maximum: float | None = None,
    documentation: str = "",
    attributes: Mapping[str, str] | None = None,
) -> Variable:
    """Registers a variable of the program.

    Args:
        name: 1 to 64 bytes without blanks; case does not matter. A variable that is registered already keeps its value.
        value: the first value.
        type: DATA_TYPE; that of `value` if None: Boolean, Integer, Numeric or String.
        scope: GLOBAL: one value; SESSION: threads may have values of their own; SESSION_ONLY: only they have any.
        minimum, maximum: the range of numbers.
        attributes: rows of ``global_variable_attributes``.

    Raises:
        InvalidValue: a bad name, or a value that is not of the type or outside the range.
        AlreadyExists: the name is that of an option of pfs.
        LimitReached: ``performance_schema_max_program_rows``.
    """
    kind = type or _type_of(value)
    number = _code("type", kind, _TYPES)
    _core.variable_register(
        name, _text(value), number, _code("scope", scope, _SCOPES), _text(minimum), _text(maximum), documentation
    )
    variable = Variable(name, _TYPES[number])
    for attribute, text in (attributes or {}).items():
        variable.set_attribute(attribute, text)
    return variable


class Meter:
    """Is a row of ``setup_meters``, a group of metrics. ``pfs.setup_meters`` says whether and how often they are read."""

    __slots__ = ("_key", "name")

    def __init__(self, name: str, key: int) -> None:
        self.name = name
        self._key = key

    @property
    def frequency(self) -> int:
        """The seconds between two readings that ``setup_meters`` has now; 0 if the meter is disabled. Reading it is cheap."""
        return _core.meter_frequency(self._key)

    def metric(
        self,
        name: str,
        type: Literal["counter", "updown", "gauge"] = "counter",
        *,
        number: type[int | float] = int,
        unit: str | None = None,
        description: str | None = None,
    ) -> None:
        """Adds a metric, a row of ``setup_metrics``. A counter only grows, an up-down counter also falls, a gauge shows a state.

        ``pfs metrics`` exports it if the status variable METER.NAME has its value:

            pfs.register_meter("myapp.queue").metric("depth", "gauge", unit="items")
            depth = pfs.register_status("myapp.queue.depth")
            depth.add(1)

        Raises:
            InvalidValue: a bad type, or a name that is empty or longer than 63 bytes.
            LimitReached: ``performance_schema_max_metric_classes``.
        """
        _core.metric_register(name, self.name, _code("type of a metric", type, _METRICS), number is float, unit, description)

    def unregister(self) -> None:
        """Removes the row and its metrics."""
        _core.row_unregister(_METER, self.name)


def register_meter(name: str, frequency: int = 10, *, enabled: bool = True, description: str | None = None) -> Meter:
    """Registers a meter whose metrics the program reads every `frequency` seconds, 1 to 16777215.

    Raises:
        InvalidValue: a bad frequency, or a name that is empty or longer than 63 bytes.
        LimitReached: ``performance_schema_max_meter_classes``.
    """
    if not 0 <= frequency < 2**32:
        raise InvalidValue(f"FREQUENCY of a meter is 1 to 16777215 seconds, not {frequency}")
    return Meter(name, _core.meter_register(name, frequency, enabled, description))


class Logger:
    """Is a row of ``setup_loggers``."""

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
        _core.row_unregister(_LOGGER, self.name)


def register_logger(name: str, level: Level = "info", *, description: str | None = None) -> Logger:
    """Registers a logger, whose level users change through ``pfs.setup_loggers``.

    Raises:
        InvalidValue: a bad level, or a name that is empty or longer than 128 bytes.
        LimitReached: ``performance_schema_max_logger_classes``.
    """
    return Logger(name, _core.logger_register(name, _code("level", level, _LEVELS), description))


class Task:
    """Is a row of ``component_scheduler_tasks``. As a context manager it counts a run, which fails if an exception leaves it."""

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
        _core.row_unregister(_TASK, self.name)


def register_task(name: str, interval: int, *, comment: str | None = None) -> Task:
    """Registers a task that runs every `interval` seconds.

    Raises:
        InvalidValue: a name that is empty or longer than 64 bytes, or an interval that is no number of seconds.
    """
    if not 0 <= interval < 2**32:
        raise InvalidValue(f"the interval of a task is 0 to {2**32 - 1} seconds, not {interval}")
    _core.task_register(name, comment, interval)
    return Task(name)


class Function:
    """Is a row of ``user_defined_functions``. As a context manager it counts one use in UDF_USAGE_COUNT."""

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
        _core.row_unregister(_FUNCTION, self.name)


def register_function(name: str, return_type: str, *, type: str = "function", library: str | None = None) -> Function:
    """Registers a function that the program has loaded.

    Raises:
        InvalidValue: a name that is empty or longer than 64 bytes.
    """
    _core.function_register(name, return_type, type, library)
    return Function(name)


# ---- Clients


def set_connect_attrs(attributes: Mapping[str, str | None]) -> None:
    """Sets the attributes of the client that the calling thread works for: rows of ``session_connect_attrs``, in this order.

        pfs.set_account("anna", "desk")
        pfs.set_connect_attrs({"program_name": "shop", "_pid": "4711"})

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
    _core.host_error(ip, _code("error of a host", error, _HOST_ERRORS))


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
