# Made by `python -m pfs._generate` from the declarations of the tables. Do not edit.
# fmt: off
# ruff: noqa

from collections.abc import Mapping
from typing import Generic, TypeAlias, TypeVar, overload

from pfs.setup._rows import Rows as Rows, Where
from pfs.setup._table import Only, Saved as Saved, SetupTable as SetupTable
from pfs.setup._values import UnknownKey as UnknownKey, Values as Values, option_text as option_text
from pfs._read.source import Source

T = TypeVar("T")
Condition: TypeAlias = str | Mapping[str, object] | None

class Column(Generic[T]):
    @overload
    def __get__(self, rows: None, owner: object) -> str: ...
    @overload
    def __get__(self, rows: Rows, owner: object) -> T | None: ...
    def __set__(self, rows: Rows, value: T | str) -> None: ...

class InstrumentRules(SetupTable): ...

class SetupInstrumentsRows(Rows):
    enabled: Column[bool]
    timed: Column[bool | str]
    flags: Column[str]
    trace_enabled: Column[bool]

class SetupInstruments(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> SetupInstrumentsRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, enabled: bool | str | None = None, timed: bool | str | None = None, flags: str | None = None, trace_enabled: bool | str | None = None) -> int: ...  # type: ignore[override]
    @property
    def rules(self) -> InstrumentRules: ...
    def only(self, pattern: Where, /) -> Only[SetupInstruments]: ...

class SetupConsumersRows(Rows):
    enabled: Column[bool]

class SetupConsumers(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> SetupConsumersRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, enabled: bool | str | None = None) -> int: ...  # type: ignore[override]

class SetupObjectsRows(Rows):
    enabled: Column[bool]
    timed: Column[bool]

class SetupObjects(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> SetupObjectsRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, enabled: bool | str | None = None, timed: bool | str | None = None) -> int: ...  # type: ignore[override]

class SetupOverheadRows(Rows):
    limit_ppm: Column[int]
    may_disable: Column[bool]

class SetupOverhead(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> SetupOverheadRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, limit_ppm: int | str | None = None, may_disable: bool | str | None = None) -> int: ...  # type: ignore[override]

class SetupTimersRows(Rows):
    timer_name: Column[str]

class SetupTimers(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> SetupTimersRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, timer_name: str | None = None) -> int: ...  # type: ignore[override]

class SetupActorsRows(Rows):
    enabled: Column[bool]
    history: Column[bool]
    trace_enabled: Column[bool]

class SetupActors(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> SetupActorsRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, enabled: bool | str | None = None, history: bool | str | None = None, trace_enabled: bool | str | None = None) -> int: ...  # type: ignore[override]

class SetupThreadsRows(Rows):
    enabled: Column[bool]
    history: Column[bool]

class SetupThreads(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> SetupThreadsRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, enabled: bool | str | None = None, history: bool | str | None = None) -> int: ...  # type: ignore[override]

class SetupMetersRows(Rows):
    frequency: Column[int]
    enabled: Column[bool]

class SetupMeters(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> SetupMetersRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, frequency: int | str | None = None, enabled: bool | str | None = None) -> int: ...  # type: ignore[override]

class SetupLoggersRows(Rows):
    level: Column[str]

class SetupLoggers(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> SetupLoggersRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, level: str | None = None) -> int: ...  # type: ignore[override]

class ThreadsRows(Rows):
    instrumented: Column[bool]
    history: Column[bool]

class Threads(SetupTable):
    def __getitem__(self, where: str | int | Mapping[str, object]) -> ThreadsRows: ...
    def update(self, pattern: Where = None, /, *, where: Condition = None, instrumented: bool | str | None = None, history: bool | str | None = None) -> int: ...  # type: ignore[override]

class Tables:
    def __init__(self, source: Source) -> None: ...
    setup_instruments: SetupInstruments
    setup_consumers: SetupConsumers
    setup_objects: SetupObjects
    setup_overhead: SetupOverhead
    setup_timers: SetupTimers
    setup_actors: SetupActors
    setup_threads: SetupThreads
    setup_meters: SetupMeters
    setup_loggers: SetupLoggers
    threads: Threads

TABLES: dict[str, type[SetupTable]]
setup_instruments: SetupInstruments
setup_consumers: SetupConsumers
setup_objects: SetupObjects
setup_overhead: SetupOverhead
setup_timers: SetupTimers
setup_actors: SetupActors
setup_threads: SetupThreads
setup_meters: SetupMeters
setup_loggers: SetupLoggers
threads: Threads
variables: Values
status: Values

def configure(**options: bool | int | str) -> None: ...

__all__ = [
    "TABLES",
    "InstrumentRules",
    "Rows",
    "Saved",
    "SetupTable",
    "Tables",
    "UnknownKey",
    "Values",
    "configure",
    "option_text",
    "status",
    "variables",
    "setup_instruments",
    "setup_consumers",
    "setup_objects",
    "setup_overhead",
    "setup_timers",
    "setup_actors",
    "setup_threads",
    "setup_meters",
    "setup_loggers",
    "threads",
]
