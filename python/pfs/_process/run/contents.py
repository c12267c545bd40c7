"""The contents of a report: sentences and lists, for a terminal, Markdown or HTML."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pfs._process.run.report import Report, add_up, largest
from pfs._process.run.where_time import where_rows
from pfs._read.losses import loss_text
from pfs._read.places.short_names import shortened
from pfs._read.show import bytes_text, count_text, storable, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pfs._process.run.report import OpenWait

__all__ = ["Listed", "clean", "contents"]

# What an interpreter reads: its own files and those of installed packages.
_IMPORTED = re.compile(
    r"/python3\.\d+t?(?:/|$)|/__pycache__(?:/|$)|/(?:site|dist)-packages(?:/|$)|/pyvenv\.cfg$|/pfs/_auto(?:/|$)"
    r"|\) (?:lib)?python[^/]*/(?:py|pyc|so|zip|cfg|pth)$"
)


_MOST_IDLE = 3
_FAMILY = re.compile(r"^wait/(?:system/|synch/|io/socket/)?")  # that the title of a list tells


def _without_imports(files: dict[str, list[int]]) -> dict[str, list[int]]:
    """Returns the files that took time, with all that Python reads, its own and of packages, in one row."""
    imported = {name: numbers for name, numbers in files.items() if _IMPORTED.search(name)}
    shown = _without_small({name: numbers for name, numbers in files.items() if name not in imported}, 0)
    for numbers in imported.values():
        add_up(shown, f"(Python and its packages: {len(imported)} files)", numbers, longest=5)
    return shown


def _without_small(rows: dict[str, list[int]], by: int, least: float = 1) -> dict[str, list[int]]:
    """Returns the rows without those that have less than a hundredth of the time of all, or less than `least`."""
    least = max(least, sum(numbers[by] for numbers in rows.values()) / 100)
    return {name: numbers for name, numbers in rows.items() if numbers[by] >= least}


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of a report. The last column is a name of any length; `sizes` has a number for each row, for bars."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[str]]
    sizes: list[int]


def clean(name: str) -> str:
    """Returns a name on one line, without characters that a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in storable(name))


def _short(name: str) -> str:
    return clean(shortened(name))


def contents(report: Report, limit: int, everything: bool = False) -> list[str | Listed]:
    """Returns the report without its findings. `everything`: also rows of little time, and each imported file."""
    parts: list[str | Listed] = []
    lists: list[tuple[int, Listed]] = []  # that come by the time of their first row
    least = report.took.wall / 100 if report.took is not None else 1  # a shorter wait is nothing to the run
    files = report.files if everything else _without_imports(report.files)

    def some(rows: dict[str, list[int]], by: int, least: float = 1) -> list[tuple[str, list[int]]]:
        return largest(rows if everything else _without_small(rows, by, least), by, limit)

    def most(rows: dict[str, list[int]], by: int) -> int:
        return max((numbers[by] for numbers in rows.values()), default=0)

    def add(
        title: str,
        columns: str,
        row: Callable[[Any, list[int]], list[str]],
        items: Sequence[tuple[Any, list[int]]],
        by: int | None,
        time: int | None = None,
    ) -> None:
        if items:
            sizes = [] if by is None else [numbers[by] for _, numbers in items]
            found = Listed(title, tuple(columns.split("|")), [row(name, numbers) for name, numbers in items], sizes)
            parts.append(found) if time is None else lists.append((time, found))

    def io(name: str, n: list[int]) -> list[str]:
        shown = clean(_FAMILY.sub("", name))  # a path begins with / or (
        return [time_text(n[0]), count_text(n[1]), bytes_text(n[2]), count_text(n[3]), bytes_text(n[4]), shown]

    def waits(name: str, n: list[int]) -> list[str]:
        return [time_text(n[1]), count_text(n[0]), time_text(n[2]), _short(_FAMILY.sub("", name))]

    def statement(name: str, n: list[int]) -> list[str]:
        return [time_text(n[1]), count_text(n[0]), count_text(n[2]), count_text(n[3]), count_text(n[4]), clean(name)]

    def memory(name: str, n: list[int]) -> list[str]:
        return [count_text(n[0]), bytes_text(n[1]), bytes_text(n[2]), bytes_text(n[3]), _short(name.removeprefix("memory/"))]

    def block(key: tuple[str, str], n: list[int]) -> list[str]:
        return [time_text(n[2]), count_text(n[0]), time_text(n[1]), _short(key[0].removeprefix("wait/synch/")), _short(key[1])]

    def peer(key: tuple[str, str], n: list[int]) -> list[str]:
        return [*waits(key[1], n), clean(key[0])]

    def opened(wait: OpenWait, _: list[int]) -> list[str]:
        return [
            time_text(wait.time),
            _short(wait.thread.removeprefix("thread/")),
            _short(wait.source),
            _short((wait.holder or "").removeprefix("thread/")),
            _short(wait.holder_source or ""),
            _short(wait.name.removeprefix("wait/").removeprefix("synch/")),
        ]

    said = []
    if (took := report.took) is not None:
        each = ", ".join(f"{time_text(time)} {of}" for of, time in (("user", took.user), ("system", took.system)) if time)
        said.append(f"Took {time_text(took.wall)}, {time_text(took.user + took.system)} of processors ({each})")
    where = [[*row[:2], _short(row[2]), row[3]] for row in where_rows(report, limit)]
    if where:
        said.append(f"Threads lived {where[0][0]}: {where[0][3]}")
    if counted := report.only_counted:
        events = sum(process["events"] for process in report.processes)
        said.append(
            f"Of {count_text(events)} waits {count_text(counted)} were only counted: the lists have the time of the others"
        )
    parts += ["\n".join(said)] if said else []
    if (dead := [wait for wait in report.open if wait.deadlock is not None]) != []:
        together = (
            f"{len(dead)} threads wait for each other"
            if len({wait.deadlock for wait in dead}) < len(dead)
            else "Threads wait for each other"
        )
        parts.append(f"DEADLOCK: {together} for {time_text(max(wait.time for wait in dead))}")
    not_ended = [(wait, [wait.time]) for wait in report.longest_open(limit)]
    title = "Waits that go on" if report.lives else "Not ended when the program did"
    add(title, "time|thread|line|held by|which is at|name", opened, not_ended, 0)

    def other(title: str, sums: dict[str, list[int]], time: int | None = None, least: float = 1) -> None:
        add(title, "time|count|longest|name", waits, some(sums, 1, least), 1, time)

    other("Locks", report.locks)
    add("Blocked longest by a lock", "longest|count|time|name|line", block, report.longest_blocked(limit), 2)
    conditions, sockets = dict(report.conditions), dict(report.sockets)
    for name, numbers in report.idle.items():  # listening sockets and conditions
        if not everything:
            sockets.pop(name, None)
        elif name not in sockets:
            add_up(conditions, name, numbers, longest=2)
    other("Conditions", conditions, most(conditions, 1), least)
    other("Other waits", report.waits, most(report.waits, 1), least)
    of_files = most({name: numbers for name, numbers in files.items() if name in report.files}, 0)
    columns = "time|reads|read|writes|written|"
    add("Files", f"{columns}file", io, largest(files, 0, limit), 0, of_files)
    add("Sockets", f"{columns}name", io, some(sockets, 0), 0, most(sockets, 0))
    peers = max((numbers[1] for numbers in report.peers.values()), default=0)
    add("Addresses of sockets", "time|count|longest|name|address", peer, largest(report.peers, 1, limit), 1, peers)
    of_statements = most(report.statements, 1)
    columns = "time|count|rows|affected|errors|statement"
    add("Statements", columns, statement, largest(report.statements, 1, limit), 1, of_statements)
    if not everything:
        other("Idle threads", dict(largest(report.idle, 1, _MOST_IDLE)), -1, least)
    parts += [found for _, found in sorted(lists, key=lambda item: -item[0])]
    add("Waited for", "time|count|longest|class", waits, some(report.classes, 1), 1)
    add("Where the time went", "time|threads|name|of it", lambda row, _: row, [(row, []) for row in where], None)
    columns = "allocations|bytes|in use at the end|most in use|name"
    add("Memory", columns, memory, largest(report.memory, 3, limit), 3)
    if not everything and (free := sum(n[0] for n in report.locks.values())) and not any(n[1] for n in report.locks.values()):
        parts.append(f"No thread had to wait for a lock: {count_text(free)} were taken.")
    if len(parts) == bool(said) + bool(where):
        is_explained = report.processes or report.unrecorded or report.unread  # by the lines below
        parts.append("pfs saw no event." if is_explained else "pfs saw no event: no process has made a segment.")
    parts += [f"Not recorded: {clean(loss_text(name, count))}" for name, count in sorted(report.lost.items())]
    for (program, why), count in report.most_unrecorded(limit):
        what = f"{program}{f' ({count} times)' * (count > 1)}" if program else f"{count} process{'es' * (count > 1)}"
        parts.append(f"Not recorded: {clean(what)}: {clean(why)}")
    if len(report.unrecorded) > limit:
        parts.append(f"Not recorded: {len(report.unrecorded) - limit} more programs; --limit shows more of them")
    parts += [f"Not seen: {clean(text)}" for text in report.notes]
    parts += [f"Not read: {clean(text)}" for text in report.unread]
    return parts
