"""Shows objects that the program declares: its variables and meters.

    threads = pfs.register_variable("myapp_threads", 4, minimum=1, maximum=64, documentation="Threads that work.")
    threads.value = 8                              # global_variables, variables_info

pfs only shows these objects; it sets and runs nothing. A second registration of a name changes its properties. None of these
functions is meant for hot paths.
"""

from __future__ import annotations

from pfs import _core
from pfs._read.units import whole_seconds
from pfs.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Literal

    from pfs._read.units import Time

    Value = bool | int | float | str | None
    Scope = Literal["GLOBAL", "SESSION", "SESSION_ONLY"]
    DataType = Literal["Integer", "Numeric", "String", "Enumeration", "Boolean", "Set"]
    Source = Literal["COMPILED", "GLOBAL", "SERVER", "EXPLICIT", "EXTRA", "USER", "LOGIN", "COMMAND_LINE", "PERSISTED", "DYNAMIC"]

__all__ = ["Meter", "Variable", "register_meter", "register_variable"]

_SCOPES = ("GLOBAL", "SESSION", "SESSION_ONLY")
_TYPES = ("Integer", "Numeric", "String", "Enumeration", "Boolean", "Set")
_SOURCES = ("COMPILED", "GLOBAL", "SERVER", "EXPLICIT", "EXTRA", "USER", "LOGIN", "COMMAND_LINE", "PERSISTED", "DYNAMIC")
_METRICS = ("counter", "updown", "gauge")
_METER, _METRIC, LOGGER, TASK, FUNCTION = range(5)


def code_of(what: str, value: object, legal: Sequence[str]) -> int:
    """Returns the number of a value in an enum of the C API. `what` names it in the message of InvalidValue."""
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
    """A variable of the program, with rows in ``variables_metadata``, ``variables_info``, ``global_variables`` ..."""

    __module__ = "pfs"  # where users find it

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
        _core.variable_set(self.name, _text(value), code_of("source", source, _SOURCES), path)

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
    number = code_of("type", kind, _TYPES)
    _core.variable_register(
        name, _text(value), number, code_of("scope", scope, _SCOPES), _text(minimum), _text(maximum), documentation
    )
    variable = Variable(name, _TYPES[number])
    for attribute, text in (attributes or {}).items():
        variable.set_attribute(attribute, text)
    return variable


class Meter:
    """A row of ``setup_meters``, a group of metrics. ``pfs.setup_meters`` says whether and how often they are read."""

    __module__ = "pfs"  # where users find it

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
        documentation: str | None = None,
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
        _core.metric_register(name, self.name, code_of("type of a metric", type, _METRICS), number is float, unit, documentation)

    def unregister(self) -> None:
        """Removes the row and its metrics."""
        _core.row_unregister(_METER, self.name)


def register_meter(name: str, frequency: Time = 10, *, enabled: bool = True, documentation: str | None = None) -> Meter:
    """Registers a meter whose metrics the program reads every `frequency`: 1 to 16777215 seconds, or a text as "1min".

    Raises:
        InvalidValue: a bad frequency, or a name that is empty or longer than 63 bytes.
        LimitReached: ``performance_schema_max_meter_classes``.
    """
    every = whole_seconds("FREQUENCY of a meter", frequency)
    return Meter(name, _core.meter_register(name, every, enabled, documentation))


# ---- Clients
