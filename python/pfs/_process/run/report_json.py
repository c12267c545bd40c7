"""A report as JSON, and a report that was kept as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pfs._base import paths
from pfs._process.findings.find import Finding
from pfs._process.run.launch import Took
from pfs._process.run.report import OpenWait, Report, largest
from pfs._read.show import storable

__all__ = ["as_json", "read_json"]

_WAITS = ("count", "time", "longest")
_IO = ("time", "reads", "bytes_read", "writes", "bytes_written")
# The lists: the attribute of a report, the names of what its keys consist of, those of its numbers, and the number to order by.
_LISTS = {
    "thread_time": ("times", ("name", "state"), ("threads", "time"), 1),
    "classes": ("classes", ("class",), _WAITS, 1),
    "locks": ("locks", ("name",), _WAITS, 1),
    "conditions": ("conditions", ("name",), _WAITS, 1),
    "idle": ("idle", ("name",), _WAITS, 1),
    "waits": ("waits", ("name",), _WAITS, 1),
    "blocked": ("blocked", ("name", "source"), _WAITS, 2),
    "holders": ("holders", ("name", "source", "does"), ("count", "time"), 1),
    "files": ("files", ("file",), (*_IO, "longest"), 0),
    "sockets": ("sockets", ("name",), _IO, 0),
    "peers": ("peers", ("address", "name"), _WAITS, 1),
    "statements": (
        "statements", ("digest_text",), ("count", "time", "rows_sent", "rows_affected", "errors", "longest"), 1,
    ),
    "memory": ("memory", ("name",), ("count", "bytes", "in_use", "most_in_use"), 3),
}  # fmt: skip


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    return {name: storable(value) if isinstance(value, str) else value for name, value in values.items()}


def as_json(report: Report, limit: int) -> dict[str, Any]:
    """Returns plain values for JSON. Each list has its `limit` largest rows; thread_time has all. Times are picoseconds."""
    found: dict[str, Any] = {
        "findings": [finding.as_json() for finding in report.findings],
        "took": asdict(report.took) if report.took is not None else None,
        "limit": limit,
        "host": report.host,
        "lives": report.lives,
        "began": min(report.facts.began, default=None),
        "ended": max(report.facts.ended, default=None),
        "processes": report.processes,
        "not_ended": [_stored(asdict(wait)) for wait in report.longest_open(limit)],
    }
    for name, (attribute, keys, numbers, by) in _LISTS.items():
        rows = largest(getattr(report, attribute), by, None if name == "thread_time" else limit)
        found[name] = [
            _stored(dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True)))
            | dict(zip(numbers, values, strict=True))
            for key, values in rows
        ]
    return found | {
        "only_counted": report.only_counted,
        "lost": report.lost,
        "notes": list(map(storable, report.notes)),
        "unread": list(map(storable, report.unread)),
        "unrecorded": [
            {"count": count, "program": storable(program) or None, "reason": why}
            for (program, why), count in report.most_unrecorded(limit)
        ],
    }


def read_json(path: str) -> Report:
    """Reads a report that was written as JSON: what ``as_json`` returns, perhaps with more entries.

    Raises:
        InvalidValue: the file holds no report.
    """
    from pfs._save.foreign import foreign

    with foreign(path, "holds no report of pfs"):
        with paths.reading(path, follow=True) as file:
            data = json.loads(file.read())
        report = Report(read=[path], host=str(data["host"]), lives=bool(data["lives"]), processes=list(data["processes"]))
        report.limit = int(data["limit"])
        report.findings = [Finding(**row) for row in data["findings"]]
        report.took = Took(**data["took"]) if data["took"] is not None else None
        report.open = [OpenWait(**row) for row in data["not_ended"]]
        if data["began"] is not None:
            report.facts.began, report.facts.ended = [int(data["began"])], [int(data["ended"])]
        for name, (attribute, keys, numbers, _) in _LISTS.items():
            rows = getattr(report, attribute)
            for row in data[name]:
                key = tuple(str(row[one]) for one in keys)
                rows[key if len(keys) > 1 else key[0]] = [int(row[number]) for number in numbers]
        report.only_counted = int(data["only_counted"])
        report.lost = {str(name): int(count) for name, count in data["lost"].items()}
        report.notes, report.unread = list(map(str, data["notes"])), list(map(str, data["unread"]))
        report.unrecorded = {(str(row["program"] or ""), str(row["reason"])): int(row["count"]) for row in data["unrecorded"]}
        return report
