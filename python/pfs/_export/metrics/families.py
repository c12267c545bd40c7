"""Declares which columns of which tables become metrics, and under which names.

The names after the prefix, and the labels, are those of Prometheus' mysqld_exporter where it has the metric. The declaration of
a table says whether a column counts or tells about now, and how processes add up (`across`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from pfs import _core
from pfs._export.metrics.metric import Kind, Labels, Metric, seconds

if TYPE_CHECKING:
    from pfs._read.source import Source

__all__ = ["GROUPS", "Family", "Group", "Key", "Values", "label_of"]

Key = tuple[str, ...]
Values = list[int]

_NONE = "NONE"  # the label of a NULL
_MOST_TEXT = 120  # characters of a digest's text, as in mysqld_exporter


@dataclass(frozen=True)
class Family:
    """Declares one metric: a column, or several columns that a label tells apart."""

    name: str
    doc: str
    columns: Mapping[str, str]  # by the value of the label
    label: str = ""
    without_index: str = ""  # a value of the label that only rows without an index have
    bare: bool = False  # a counter without _total, as mysqld_exporter has some
    unit: str = ""  # of the values, if the name does not say it


def one(name: str, column: str, doc: str) -> Family:
    return Family(name, doc, {"": column})


def by(label: str, name: str, doc: str, column: str, values: Sequence[str], without_index: str = "") -> Family:
    """Declares a metric of columns such as COUNT_READ and COUNT_WRITE: `column` is "COUNT_{}"."""
    return Family(name, doc, {value: column.format(value.upper()) for value in values}, label, without_index)


@dataclass(frozen=True)
class Group:
    """Declares the metrics of one table. A key is the texts of its labels; values are numbers in the order of `columns`."""

    table: str
    labels: Mapping[str, str]  # columns by labels
    families: Sequence[Family]
    rank: str = ""  # only the rows with the most of this column are exported, because a program may have any number of rows
    only_used: bool = False  # leaves rows of zeros out: there are thousands
    in_mysqld_exporter: bool = True
    prefix_removed: str = field(default="", kw_only=True)  # of a label, by mysqld_exporter

    @cached_property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(column for family in self.families for column in family.columns.values())) + (
            [self.rank] if self.rank and all(self.rank not in family.columns.values() for family in self.families) else []
        )

    @cached_property
    def gauges(self) -> frozenset[int]:
        """The numbers of the columns that tell about now. The others count, since the start of the process."""
        rules = {column["name"]: column["across"] for column in _core.table_info(self.table)["columns"]}
        return frozenset(number for number, column in enumerate(self.columns) if rules[column] == "gauge")

    def read(self, source: Source) -> dict[Key, Values]:
        """Returns the rows of a process. Rows with the same labels are added up."""
        count = len(self.labels)
        found: dict[Key, Values] = {}
        for row in source.rows(self.table, [*self.labels.values(), *self.columns]):
            key = tuple(label_of(name, text) for name, text in zip(self.labels, row, strict=False))
            values = [0 if value is None else int(value) for value in row[count:]]
            if self.only_used and not any(values):
                continue
            before = found.get(key)
            found[key] = values if before is None else [a + b for a, b in zip(before, values, strict=True)]
        return found

    def chosen(self, rows: Mapping[Key, Values], top: int) -> list[tuple[Key, Values]]:
        """Returns the rows to export, sorted by their labels."""
        if self.rank and len(rows) > top:
            number = self.columns.index(self.rank)
            return sorted(sorted(rows.items(), key=lambda row: (-row[1][number], row[0]))[:top])
        return sorted(rows.items())

    def metrics(self, rows: Mapping[Key, Values], top: int, prefix: str, compat: bool) -> list[Metric]:
        chosen = [(self._shown(key, compat), values) for key, values in self.chosen(rows, top)]
        number_of = {column: number for number, column in enumerate(self.columns)}
        made = []
        for family in self.families:
            numbers = {label: number_of[column] for label, column in family.columns.items()}
            kind: Kind = "gauge" if self.gauges.issuperset(numbers.values()) else "counter"
            unit = next((unit for unit in ("seconds", "bytes") if family.name.endswith("_" + unit)), "")
            metric = Metric(prefix + family.name, kind, family.doc, unit, bare=family.bare)
            for key, values in chosen:
                labels: Labels = tuple(zip(self.labels, key, strict=True))
                for value, number in numbers.items():
                    if value and value == family.without_index and key[-1] != _NONE:
                        continue
                    text = seconds(values[number]) if (unit or family.unit) == "seconds" else str(values[number])
                    metric.add(((*labels, (family.label, value)) if family.label else labels), text)
            made.append(metric)
        return made

    def _shown(self, key: Key, compat: bool) -> Key:
        return tuple(text.removeprefix(self.prefix_removed if compat else "") for text in key)


def label_of(name: str, text: object) -> str:
    if text is None:
        return _NONE
    return str(text)[:_MOST_TEXT] if name == "digest_text" else str(text)


_BY_EVENT = {"event_name": "EVENT_NAME"}
_BY_TABLE = {"schema": "OBJECT_SCHEMA", "name": "OBJECT_NAME"}
_MODES = ("read", "write", "misc")
_OPERATIONS = ("fetch", "insert", "update", "delete")
_SQL_LOCKS = (
    *("read_normal", "read_with_shared_locks", "read_high_priority", "read_no_insert"),
    *("write_normal", "write_allow_write", "write_concurrent_insert", "write_low_priority"),
)


def _events(name: str, what: str, column: str = "WAIT") -> tuple[Family, Family]:
    count = "COUNT_STAR" if column == "WAIT" else f"COUNT_{column}"
    return one(name, count, f"{what}."), one(f"{name}_seconds", f"SUM_TIMER_{column}", f"Seconds of {what[0].lower()}{what[1:]}.")


def _io(name: str, what: str) -> tuple[Family, Family, Family]:
    return (
        by("mode", name, f"{what} operations.", "COUNT_{}", _MODES),
        by("mode", f"{name}_seconds", f"Seconds of {what.lower()} operations.", "SUM_TIMER_{}", _MODES),
        by("mode", f"{name}_bytes", f"Bytes of {what.lower()} operations.", "SUM_NUMBER_OF_BYTES_{}", _MODES[:2]),
    )


def _lock_waits(kind: str, what: str, values: Sequence[str], column: str = "{}") -> tuple[Family, Family]:
    return (
        by("operation", f"{kind}_lock_waits", f"Waits for {what} locks of tables.", f"COUNT_{column}", values),
        by(
            "operation",
            f"{kind}_lock_waits_seconds",
            f"Seconds of waits for {what} locks of tables.",
            f"SUM_TIMER_{column}",
            values,
        ),
    )


def _table_io(name: str, what: str, without_index: str = "") -> tuple[Family, Family]:
    seconds_of = f"Seconds of {what[0].lower()}{what[1:]}."
    return (
        by("operation", name, f"{what}.", "COUNT_{}", _OPERATIONS, without_index),
        by("operation", f"{name}_seconds", seconds_of, "SUM_TIMER_{}", _OPERATIONS, without_index),
    )


_DIGEST = "events_statements"
GROUPS: tuple[Group, ...] = (
    Group("events_waits_summary_global_by_event_name", _BY_EVENT, _events("events_waits", "Waits")),
    Group("file_summary_by_event_name", _BY_EVENT, _io("file_events", "File")),
    Group("socket_summary_by_event_name", _BY_EVENT, _io("socket_events", "Socket"), in_mysqld_exporter=False),
    Group(
        "lock_holds_summary_global_by_event_name",
        _BY_EVENT,
        _events("lock_holds", "Locks held", "HOLD"),
        in_mysqld_exporter=False,
    ),
    Group("events_stages_summary_global_by_event_name", _BY_EVENT, _events("events_stages", "Stages"), in_mysqld_exporter=False),
    Group(
        "events_transactions_summary_global_by_event_name",
        _BY_EVENT,
        _events("events_transactions", "Transactions"),
        in_mysqld_exporter=False,
    ),
    Group(
        "events_statements_summary_global_by_event_name",
        _BY_EVENT,
        (
            *_events("statements", "Statements"),
            one("statements_errors", "SUM_ERRORS", "Errors of statements."),
            one("statements_warnings", "SUM_WARNINGS", "Warnings of statements."),
            one("statements_rows_sent", "SUM_ROWS_SENT", "Rows that statements returned."),
        ),
        in_mysqld_exporter=False,
    ),
    Group(
        "events_statements_summary_by_digest",
        {"schema": "SCHEMA_NAME", "digest": "DIGEST", "digest_text": "DIGEST_TEXT"},
        (
            *_events(_DIGEST, "Statements by digest"),
            one(f"{_DIGEST}_errors", "SUM_ERRORS", "Errors by digest."),
            one(f"{_DIGEST}_warnings", "SUM_WARNINGS", "Warnings by digest."),
            one(f"{_DIGEST}_rows_affected", "SUM_ROWS_AFFECTED", "Rows changed by digest."),
            one(f"{_DIGEST}_rows_sent", "SUM_ROWS_SENT", "Rows returned by digest."),
            one(f"{_DIGEST}_rows_examined", "SUM_ROWS_EXAMINED", "Rows examined by digest."),
            one(f"{_DIGEST}_tmp_tables", "SUM_CREATED_TMP_TABLES", "Temporary tables by digest."),
            one(f"{_DIGEST}_tmp_disk_tables", "SUM_CREATED_TMP_DISK_TABLES", "Temporary tables on disk by digest."),
            one(f"{_DIGEST}_sort_merge_passes", "SUM_SORT_MERGE_PASSES", "Merge passes of sorts by digest."),
            one(f"{_DIGEST}_sort_rows", "SUM_SORT_ROWS", "Sorted rows by digest."),
            one(f"{_DIGEST}_no_index_used", "SUM_NO_INDEX_USED", "Statements without an index by digest."),
        ),
        rank="SUM_TIMER_WAIT",
    ),
    Group(
        "table_io_waits_summary_by_table", _BY_TABLE, _table_io("table_io_waits", "Operations on tables"), rank="SUM_TIMER_WAIT"
    ),
    Group(
        "table_io_waits_summary_by_index_usage",
        {**_BY_TABLE, "index": "INDEX_NAME"},
        _table_io("index_io_waits", "Operations on indexes", "insert"),
        rank="SUM_TIMER_WAIT",
    ),
    Group(
        "table_lock_waits_summary_by_table",
        _BY_TABLE,
        (*_lock_waits("sql", "SQL", _SQL_LOCKS), *_lock_waits("external", "external", ("read", "write"), "{}_EXTERNAL")),
        rank="SUM_TIMER_WAIT",
    ),
    Group(
        "memory_summary_global_by_event_name",
        _BY_EVENT,
        (
            one("memory_events_alloc_bytes", "SUM_NUMBER_OF_BYTES_ALLOC", "Bytes allocated."),
            one("memory_events_free_bytes", "SUM_NUMBER_OF_BYTES_FREE", "Bytes freed."),
            one("memory_events_used_bytes", "CURRENT_NUMBER_OF_BYTES_USED", "Bytes in use now."),
        ),
        only_used=True,
        prefix_removed="memory/",
    ),
    Group(
        "events_errors_summary_global_by_error",
        {"error": "ERROR_NAME"},
        (Family("errors", "Errors.", {"raised": "SUM_ERROR_RAISED", "handled": "SUM_ERROR_HANDLED"}, "state"),),
        only_used=True,
        in_mysqld_exporter=False,
    ),
)
