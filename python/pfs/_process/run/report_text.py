"""The report of ``pfs run`` as text for a terminal."""

from __future__ import annotations

import re

from pfs._process.findings.find import text_of as findings_text
from pfs._process.run.report import Report, add_up, largest
from pfs._read.show import bytes_text, count_text, storable, time_text

__all__ = ["text_of"]

# What an interpreter reads: its own files and those of installed packages.
_IMPORTED = re.compile(
    r"/python3\.\d+t?(?:/|$)|/__pycache__(?:/|$)|/(?:site|dist)-packages(?:/|$)|/pyvenv\.cfg$|/pfs/_auto(?:/|$)"
    r"|\) (?:lib)?python[^/]*/(?:py|pyc|so|zip|cfg|pth)$"
)


def _without_noise(report: Report) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """Returns locks that somebody waited for, and files with all that Python reads, its own and of packages, in one row."""
    locks = {name: numbers for name, numbers in report.locks.items() if numbers[1] > 0}
    imported = {name for name in report.files if _IMPORTED.search(name)}
    files: dict[str, list[int]] = {}
    for name, numbers in report.files.items():
        add_up(files, f"(Python and its packages: {len(imported)} files)" if name in imported else name, numbers)
    return locks, files


def text_of(report: Report, limit: int, everything: bool = False) -> str:
    """Returns the report for a terminal. `everything`: also locks that were always free, and each file that Python imports."""
    parts = []
    shown_locks, shown_files = (report.locks, report.files) if everything else _without_noise(report)

    def add(title: str, columns: str, rows: list[list[str]]) -> None:
        if not rows:
            return
        names = columns.split("|")
        widths = [max(len(name), *(len(row[i]) for row in rows)) for i, name in enumerate(names)]
        # The name comes last: it has any length.
        lines = ["  ".join([*(c.rjust(w) for c, w in zip(row[:-1], widths, strict=False)), row[-1]]) for row in (names, *rows)]
        parts.append("\n".join([title, *("  " + line for line in lines)]))

    def clean(name: str) -> str:
        return "".join(c if c.isprintable() else "?" for c in storable(name))

    def io(name: str, n: list[int]) -> list[str]:
        return [time_text(n[0]), count_text(n[1]), bytes_text(n[2]), count_text(n[3]), bytes_text(n[4]), clean(name)]

    def waits(name: str, n: list[int]) -> list[str]:
        return [time_text(n[1]), count_text(n[0]), time_text(n[2]), clean(name)]

    if report.findings:
        parts.append(findings_text(report.findings))
    if (took := report.took) is not None:
        used = time_text(took.user + took.system)
        parts.append(
            f"Took {time_text(took.wall)}, {used} of processors ({time_text(took.user)} user, {time_text(took.system)} system)"
        )
    if (dead := [wait for wait in report.open if wait.deadlock is not None]) != []:
        together = (
            f"{len(dead)} threads wait for each other"
            if len({wait.deadlock for wait in dead}) < len(dead)
            else "Threads wait for each other"
        )
        parts.append(f"DEADLOCK: {together} for {time_text(max(wait.time for wait in dead))}")
    opened = [
        [
            time_text(wait.time),
            wait.thread.removeprefix("thread/"),
            clean(wait.source),
            clean(wait.holder or "").removeprefix("thread/"),
            clean(wait.holder_source or ""),
            clean(wait.name.removeprefix("wait/").removeprefix("synch/")),
        ]
        for wait in report.longest_open(limit)
    ]
    add("Not ended when the program did", "time|thread|line|held by|which is at|name", opened)
    add("Waited for", "time|count|longest|class", [waits(*item) for item in largest(report.classes, 1, limit)])
    locks = [(name.removeprefix("wait/synch/"), numbers) for name, numbers in largest(shown_locks, 1, limit)]
    add("Locks and conditions", "time|count|longest|name", [waits(*item) for item in locks])
    blocked = [
        [time_text(longest), count_text(count), time_text(time), clean(name.removeprefix("wait/synch/")), clean(line)]
        for (name, line), (count, time, longest) in report.longest_blocked(limit)
    ]
    add("Blocked longest by a lock", "longest|count|time|name|line", blocked)
    other_waits = [
        (name.removeprefix("wait/system/").removeprefix("wait/synch/").removeprefix("wait/"), n)
        for name, n in largest(report.waits, 1, limit)
    ]
    add("Other waits", "time|count|longest|name", [waits(*item) for item in other_waits])
    add("Files", "time|reads|read|writes|written|file", [io(*item) for item in largest(shown_files, 0, limit)])
    sockets = [(name.removeprefix("wait/io/socket/"), numbers) for name, numbers in largest(report.sockets, 0, limit)]
    add("Sockets", "time|reads|read|writes|written|name", [io(*item) for item in sockets])
    add(
        "Statements",
        "time|count|rows|affected|errors|statement",
        [
            [time_text(n[1]), count_text(n[0]), count_text(n[2]), count_text(n[3]), count_text(n[4]), clean(name)]
            for name, n in largest(report.statements, 1, limit)
        ],
    )
    add(
        "Memory",
        "allocations|bytes|in use at the end|most in use|name",
        [
            [count_text(n[0]), bytes_text(n[1]), bytes_text(n[2]), bytes_text(n[3]), clean(name.removeprefix("memory/"))]
            for name, n in largest(report.memory, 3, limit)
        ],
    )
    if len(parts) == (report.took is not None) + bool(report.findings):
        parts.append("pfs saw no event." if report.processes else "pfs saw no event: no process has made a segment.")
    if report.lost:
        parts.append("Not recorded: " + ", ".join(f"{name} {value}" for name, value in sorted(report.lost.items())))
    for (program, why), count in report.most_unrecorded(limit):
        what = f"{program}{f' ({count} times)' * (count > 1)}" if program else f"{count} process{'es' * (count > 1)}"
        parts.append(f"Not recorded: {clean(what)}: {clean(why)}")
    if len(report.unrecorded) > limit:
        parts.append(f"Not recorded: {len(report.unrecorded) - limit} more programs; --limit shows more of them")
    parts += [f"Not seen: {clean(text)}" for text in report.notes]
    parts += [f"Not read: {text}" for text in report.unread]
    return "\n\n".join(parts)
