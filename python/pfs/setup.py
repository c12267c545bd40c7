"""The setup tables as writable objects, and variables and status as mappings.

    pfs.setup_instruments.update(where="wait/io/file/%", timed=False)     # -> rows changed
    pfs.setup_instruments["wait/synch/mutex/myapp/%"].enabled = False
    pfs.setup_actors.insert(user="joe", enabled=False)
    with pfs.setup_instruments.only("wait/io/file/%"):                    # put back at the end of the block
        ...

Changes act at once, on running threads as well. What is not legal raises, changes nothing and names what is legal.
"""

from __future__ import annotations

from pfs._setup.rows import Column, Rows, is_yes
from pfs._setup.rows import timed as _timed
from pfs._setup.table import Only, Saved, SetupTable
from pfs._setup.values import UnknownKey, Values, option_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pfs._setup.rows import Where

    Flag = bool | str

__all__ = [
    "Rows",
    "Saved",
    "SetupTable",
    "UnknownKey",
    "Values",
    "option_text",
    "setup_actors",
    "setup_consumers",
    "setup_instruments",
    "setup_loggers",
    "setup_meters",
    "setup_objects",
    "setup_threads",
    "setup_timers",
    "status",
    "threads",
    "variables",
]


class InstrumentRows(Rows):
    """Rows of setup_instruments."""

    __slots__ = ()
    enabled = Column("ENABLED", is_yes)
    timed = Column("TIMED", _timed)
    trace_enabled = Column("TRACE_ENABLED", is_yes)


class ConsumerRows(Rows):
    """Rows of setup_consumers."""

    __slots__ = ()
    enabled = Column("ENABLED", is_yes)


class ObjectRows(Rows):
    """Rows of setup_objects."""

    __slots__ = ()
    enabled = Column("ENABLED", is_yes)
    timed = Column("TIMED", is_yes)


class TimerRows(Rows):
    """Rows of setup_timers."""

    __slots__ = ()
    timer_name = Column("TIMER_NAME", str)


class ActorRows(Rows):
    """Rows of setup_actors."""

    __slots__ = ()
    enabled = Column("ENABLED", is_yes)
    history = Column("HISTORY", is_yes)
    trace_enabled = Column("TRACE_ENABLED", is_yes)


class ThreadClassRows(Rows):
    """Rows of setup_threads."""

    __slots__ = ()
    enabled = Column("ENABLED", is_yes)
    history = Column("HISTORY", is_yes)


class MeterRows(Rows):
    """Rows of setup_meters."""

    __slots__ = ()
    enabled = Column("ENABLED", is_yes)
    frequency = Column("FREQUENCY", int)


class LoggerRows(Rows):
    """Rows of setup_loggers."""

    __slots__ = ()
    level = Column("LEVEL", str)


class ThreadRows(Rows):
    """Rows of threads."""

    __slots__ = ()
    instrumented = Column("INSTRUMENTED", is_yes)
    history = Column("HISTORY", is_yes)


class SetupInstruments(SetupTable[InstrumentRows]):
    """What is watched: one row per instrument."""

    name = "setup_instruments"
    rows_type = InstrumentRows

    def update(
        self,
        where: Where = None,
        *,
        enabled: Flag | None = None,
        timed: Flag | None = None,
        flags: str | None = None,
        trace_enabled: Flag | None = None,
    ) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed.

        `timed`: True, False, or "CONTENDED" for mutexes and rwlocks (``wait/synch/mutex/%``, ``wait/synch/rwlock/%``): they are
        tried first. One that is free is counted as a wait of zero, without a reading of the timer and without a row in
        ``events_waits_*``; one that must be waited for is an event as with True. ``pfs.Lock`` and other locks whose waits begin
        and end in two calls cannot be tried: they are timed as with True. Ignored for what has no duration (memory, errors).
        `trace_enabled` is legal for instruments that are enabled, and does nothing for those that make no events.

        Raises:
            InvalidValue: "CONTENDED" for something that is no such lock, or ``trace_enabled`` for something that is not enabled;
                also if that is only one of the rows chosen. Nothing is changed.
        """
        return self._update_given(where, enabled=enabled, timed=timed, flags=flags, trace_enabled=trace_enabled)

    def only(self, where: Where) -> Only[SetupInstruments]:
        """A block in which only these instruments are enabled; all settings are put back at its end."""
        return Only(self, where, "ENABLED")


class SetupConsumers(SetupTable[ConsumerRows]):
    """Where events go: one row per consumer. A consumer works only if the ones above it are on as well."""

    name = "setup_consumers"
    rows_type = ConsumerRows

    def update(self, where: Where = None, *, enabled: Flag | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled)


class SetupTimers(SetupTable[TimerRows]):
    """Which timer each class of events is timed with: names of ``performance_timers``."""

    name = "setup_timers"
    rows_type = TimerRows

    def update(self, where: Where = None, *, timer_name: str | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, timer_name=timer_name)


class SetupObjects(SetupTable[ObjectRows]):
    """Which tables of the program are watched: the row of its type, schema and name counts, else that of (type, schema, '%'),
    else that of (type, '%', '%'); without one it is not. Text instead of a dict is a pattern on OBJECT_SCHEMA; ``\\%`` is the
    name '%'.

        pfs.setup_objects.insert(object_schema="shop", object_name="orders", timed=False)      # a row for TABLE
    """

    name = "setup_objects"
    rows_type = ObjectRows

    def _name_column(self) -> str:
        return "OBJECT_SCHEMA"

    def update(self, where: Where = None, *, enabled: Flag | None = None, timed: Flag | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled, timed=timed)


class SetupActors(SetupTable[ActorRows]):
    """Whose threads are instrumented: asked when a thread begins to work for somebody; running threads stay as they are. Only
    TRACE_ENABLED, whether they are traced, acts at once.

    ``insert(host="%", user="%", role="%", enabled=True, history=True, trace_enabled=False)``: each may be left out. ``%`` in
    a row means any, and there are no roles. A pattern instead of a dict is one of HOST; ``where={"USER": r"\\%"}`` chooses the
    rows for any user.
    """

    name = "setup_actors"
    rows_type = ActorRows

    def update(
        self,
        where: Where = None,
        *,
        enabled: Flag | None = None,
        history: Flag | None = None,
        trace_enabled: Flag | None = None,
    ) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled, history=history, trace_enabled=trace_enabled)


class SetupThreads(SetupTable[ThreadClassRows]):
    """The thread instruments: whether their new threads are instrumented."""

    name = "setup_threads"
    rows_type = ThreadClassRows

    def update(self, where: Where = None, *, enabled: Flag | None = None, history: Flag | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled, history=history)


class SetupMeters(SetupTable[MeterRows]):
    """Groups of metrics: whether and how often (in seconds, 1 to 16777215) the program is to read them."""

    name = "setup_meters"
    rows_type = MeterRows

    def update(self, where: Where = None, *, enabled: Flag | None = None, frequency: int | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, enabled=enabled, frequency=frequency)


class SetupLoggers(SetupTable[LoggerRows]):
    """Loggers of the program: the least important messages that they are to pass on: none, error, warn, info, debug."""

    name = "setup_loggers"
    rows_type = LoggerRows

    def _key(self) -> tuple[str, ...]:
        return ("NAME",)

    def update(self, where: Where = None, *, level: str | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, level=level)


class Threads(SetupTable[ThreadRows]):
    """The threads of the program. An int instead of a pattern is a THREAD_ID."""

    name = "threads"
    rows_type = ThreadRows

    def update(self, where: Where = None, *, instrumented: Flag | None = None, history: Flag | None = None) -> int:
        """Changes the rows that `where` chooses. Returns the number of rows changed."""
        return self._update_given(where, instrumented=instrumented, history=history)


setup_instruments = SetupInstruments()
setup_consumers = SetupConsumers()
setup_objects = SetupObjects()
setup_timers = SetupTimers()
setup_actors = SetupActors()
setup_threads = SetupThreads()
setup_meters = SetupMeters()
setup_loggers = SetupLoggers()
threads = Threads()
variables = Values("global_variables")
status = Values("global_status")
