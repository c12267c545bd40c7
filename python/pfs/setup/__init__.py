"""Declares the setup tables as writable objects, and variables and status as mappings.

    pfs.setup_instruments.update("wait/io/file/%", timed=False)           # -> rows changed
    pfs.setup_instruments["wait/synch/mutex/myapp/%"].enabled = False
    pfs.setup_instruments["wait/synch/mutex/%"].timed = "CONTENDED"       # also holds for instruments that register later
    pfs.setup_actors.insert(user="joe", enabled=False)
    with pfs.setup_instruments.only("wait/io/file/%"):                    # the block's end restores them
        ...

Changes act at once, also on running threads. An illegal change raises, changes nothing and names what is legal.
"""

from __future__ import annotations

from pfs import _core
from pfs._read.source import OWN
from pfs.setup._rows import Rows
from pfs.setup._table import Only, Saved, SetupTable, _sql
from pfs.setup._values import UnknownKey, Values, option_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from pfs._read.source import Source
    from pfs.setup._rows import Where


class InstrumentRules(SetupTable):
    """Lists the rules for instruments that register later, oldest first. Of two rules for one setting, the later rule holds.

    A change of ``setup_instruments`` by a pattern adds a rule; the presets of PFS_OPTIONS are the first ones. ``delete`` and
    ``truncate`` take rules back: instruments that still are as the rules said become as the remaining rules say.

        pfs.setup_instruments.rules.insert(pattern="wait/io/%", enabled=False)
        pfs.setup_instruments.rules.delete("wait/io/%")      # text is a pattern on PATTERN, a number is an ORDINAL
    """

    name = "setup_instrument_rules"

    def _name_column(self) -> str:
        return "PATTERN"


class SetupInstruments(SetupTable):
    """Says what is instrumented: one row per instrument.

    A change by a pattern on NAME with ``%`` also holds for instruments that register later: see ``rules``.

    `timed` is True, False, or "CONTENDED" for mutexes and rwlocks (``wait/synch/mutex/%``, ``wait/synch/rwlock/%``). With
    "CONTENDED" a probe tries the lock first. An uncontended lock counts as a wait of zero, without a timer read and without a row
    in ``events_waits_*``; a contended lock is an event as with True. ``pfs.Lock`` and other locks whose waits begin and end in
    two calls cannot be tried: they are timed as with True.

    `timed` is "SAMPLED" for waits of any kind (``wait/%``, ``idle``). Then one wait in ``performance_schema_sampling_interval``
    (64) is an event as with True, at pseudo-random distances. The others only count, in COUNT_STAR and in COUNT_NOT_SAMPLED. SUM,
    MIN, AVG and MAX are those of the timed waits.

    `timed` is "STATE" for the same waits. Then all of them count, none is timed, and each has a row in ``events_waits_current``
    while it runs; a lock as with "CONTENDED" only if the thread must wait. A sampler, ``blocked`` and ``running`` need no more.

    `timed` has no effect on instruments without a duration (memory, errors).

    `trace_enabled` is legal for enabled instruments, and has no effect on those that make no events.
    """

    name = "setup_instruments"

    @property
    def rules(self) -> InstrumentRules:
        """The rules that changes by patterns have left for instruments that register later."""
        return InstrumentRules(self._source)

    def _may_come(self, where: Where) -> bool:
        return isinstance(where, str) and "%" in where and _core.may_match(where)

    def _update(self, where: Where, assignments: Mapping[str, object]) -> int:
        pattern = _pattern_on_name(where)
        if pattern is None:
            return super()._update(where, assignments)
        if not _core.may_match(pattern):
            self[pattern]  # raises UnknownName
        before = len(self)
        changed = super()._update(where, assignments)
        settings = [(column.upper(), _sql(value)) for column, value in assignments.items() if column.upper() in _OF_RULES]
        if settings and ("%" in pattern or changed == 0):
            self._source.insert(InstrumentRules.name, [("PATTERN", pattern), *settings])
            if len(self) != before:  # another thread has registered an instrument before the rule was there
                changed = super()._update(where, assignments)
        return changed

    def save(self) -> Saved:
        """Returns all current settings, with the rules, for ``restore``."""
        return Saved(self.name, super().save()._rows, self.rules._rows(self.rules._columns()))

    def restore(self, saved: Saved) -> int:
        """Restores the rules and settings. Instruments that have registered since follow the restored rules.

        Returns:
            The number of rows changed.

        Raises:
            InvalidValue: the settings belong to another table.
        """
        if getattr(saved, "_table", None) != self.name:
            return super().restore(saved)  # raises
        before = super().save()._rows
        self._restore_rules(saved._rules)  # which changes rows, too
        super().restore(saved)
        after = super().save()._rows
        return sum(settings != after.get(name, settings) for name, settings in before.items())

    def _restore_rules(self, then: Sequence[tuple[Any, ...]]) -> None:
        columns = self.rules._columns()
        now = self.rules._rows(columns)
        same = 0
        while same < min(len(now), len(then)) and now[same] == then[same]:
            same += 1
        for row in reversed(now[same:]):
            self._source.delete(InstrumentRules.name, [("ORDINAL", str(row[0]), False)])
        for row in then[same:]:
            given = [(column, str(value)) for column, value in zip(columns, row, strict=True) if value is not None]
            self._source.insert(InstrumentRules.name, given[1:])

    def only(self, pattern: Where, /) -> Only[SetupInstruments]:
        """Returns a context manager: inside the block only these instruments are enabled, also those that register in it. Its end
        restores all settings."""
        return Only(self, pattern, "ENABLED")


class SetupConsumers(SetupTable):
    """Says where events go: one row per consumer. A consumer works only if the consumers above it are on as well."""

    name = "setup_consumers"


class SetupTimers(SetupTable):
    """Says which timer times each class of events, by its name in ``performance_timers``."""

    name = "setup_timers"


class SetupOverhead(SetupTable):
    """Limits what pfs may cost the process. With a limit, a thread of pfs multiplies the counts of all instruments by what their
    events cost, and divides by the processor time of the process. Above the limit it makes instruments cheaper: waits become
    SAMPLED or CONTENDED, then are only counted. Below it they become dearer again. ``pfs.table("overhead_steps")`` says what was
    changed, when and why.

        pfs.setup_overhead["process"].limit_ppm = 10_000      # 1 % of the processor time; 0 = no limit

    `may_disable` says whether instruments whose count alone costs too much may be switched off. Another process cannot set the
    first limit of a program.
    """

    name = "setup_overhead"


class SetupObjects(SetupTable):
    """Says which tables of the program are instrumented: the row of its type, schema and name decides, else that of (type,
    schema, '%'), else that of (type, '%', '%'). A table without such a row is not instrumented. Text instead of a dict is a
    pattern on OBJECT_SCHEMA; ``\\%`` is the name '%'.

        pfs.setup_objects.insert(object_schema="shop", object_name="orders", timed=False)      # a row for TABLE
    """

    name = "setup_objects"

    def _name_column(self) -> str:
        return "OBJECT_SCHEMA"


class SetupActors(SetupTable):
    """Says for which accounts threads are instrumented. A thread reads its row when its account is set, so running threads stay
    as they are. Only TRACE_ENABLED, whether they are traced, acts at once.

    ``insert(host="%", user="%", role="%", enabled=True, history=True, trace_enabled=False)`` shows the defaults. ``%`` in a row
    means any, and there are no roles. Text is a pattern on HOST; ``where="USER = '%'"`` chooses the rows for any user.
    """

    name = "setup_actors"


class SetupThreads(SetupTable):
    """Says for each thread instrument whether its new threads are instrumented."""

    name = "setup_threads"


class SetupMeters(SetupTable):
    """Says for each meter whether and how often (in seconds, 1 to 16777215) the program reads its metrics."""

    name = "setup_meters"


class SetupLoggers(SetupTable):
    """Says for each logger of the program the least severe messages that it passes on: none, error, warn, info, debug."""

    name = "setup_loggers"


class Threads(SetupTable):
    """Lists the threads of the program. An int instead of a pattern is a THREAD_ID."""

    name = "threads"


_OF_RULES = ("ENABLED", "TIMED", "TRACE_ENABLED")


def _pattern_on_name(where: Where) -> str | None:
    """Returns the pattern, if `where` is nothing but a pattern on NAME."""
    if where is None:
        return "%"
    if isinstance(where, str):
        return where
    if isinstance(where, int) or len(where) != 1:
        return None
    ((column, value),) = where.items()
    return value if str(column).upper() == "NAME" and isinstance(value, str) else None


_KINDS = (
    SetupInstruments, SetupConsumers, SetupObjects, SetupOverhead, SetupTimers, SetupActors, SetupThreads, SetupMeters,
    SetupLoggers, Threads,
)  # fmt: skip
TABLES: dict[str, type[SetupTable]] = {kind.name: kind for kind in _KINDS}


class Tables:
    """The setup tables of a process, as attributes with their names."""

    def __init__(self, source: Source) -> None:
        for name, kind in TABLES.items():
            setattr(self, name, kind(source))


globals().update(vars(Tables(OWN)))
variables = Values("global_variables")
status = Values("global_status")
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
    *TABLES,
]


def configure(**options: bool | int | str) -> None:
    """Sets start-time options. It must be called before this process has recorded or read anything.

    Names are those of ``pfs.variables``, with or without ``performance_schema_`` in front. Presets of instruments and consumers:
    ``configure(instrument="wait/io/file/%=counted", consumer_events_waits_history="OFF")``.

    Raises:
        StateError: pfs has started already.
        UnknownName: no such option.
        InvalidValue: a bad value. Nothing was started or changed.
    """
    _core.configure(option_text(options))
