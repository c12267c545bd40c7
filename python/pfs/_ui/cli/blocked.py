"""Writes who waits for which lock, and who holds it, as ``pfs top`` shows it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Sequence

from pfs._process.system_calls import waits_of
from pfs._read.present import Blocked
from pfs._read.show import plain, some, time_text

__all__ = ["blocked_lines", "blocked_screen", "system_lines", "wrapped"]

_MOST_THREADS = 8  # named in a line

_TIME = re.compile(r"(\d) ([pnµm]?s\b)")


def blocked_lines(rows: Sequence[Blocked]) -> list[str]:
    """Returns two lines for each thread that waits for a lock, below a heading: the wait, and the holder.

    It returns nothing if no thread waits.
    """
    if not rows:
        return []
    lines = [f"blocked now: {some(len({row.thread_id for row in rows}), 'thread')}"]
    for row in rows:
        lines += [f"  {waiting_text(row)}", f"      {holder_text(row)}"]
    return [plain(line) for line in lines]


def system_lines(pid: int, chosen: Collection[int] | None = None) -> list[str]:
    """Returns a line for each system call in which threads of a process wait: all threads, or the chosen ones."""
    lines = []
    for threads, text in waits_of(pid, chosen):
        more = f" and {len(threads) - _MOST_THREADS} more" if len(threads) > _MOST_THREADS else ""
        lines.append(plain(f"  {', '.join(threads[:_MOST_THREADS])}{more}: {text}"))
    return lines


def blocked_screen(rows: Sequence[Blocked], width: int, height: int) -> list[str]:
    """Returns the same for a screen, in at most `height` lines of `width`. Deadlocks, numbers and lines of code come first.

    A line says how many waits do not fit.
    """
    rows = sorted(rows, key=lambda row: row.deadlock is None)
    if not rows:
        return []
    circles = "; ".join(f"DEADLOCK {circle}" for circle in dict.fromkeys(row.deadlock for row in rows if row.deadlock))
    heading = f"blocked now: {some(len({row.thread_id for row in rows}), 'thread')}"
    lines = wrapped(plain(f"{heading}; {circles}" if circles else heading), width, 4)
    for done, row in enumerate(rows):
        name = _name_of(row).removeprefix("wait/synch/")
        text = f"  {row.thread_id} waits {time_text(row.wait)} at {row.source or '?'} for {name} ({row.operation}), "
        more = wrapped(plain(text + row.thread.removeprefix("thread/")), width, 6)
        more += wrapped(plain(f"    {holder_text(row, is_short=True)}"), width, 6)
        is_last = done == len(rows) - 1
        if done and len(lines) + len(more) + (not is_last) > height:
            return [*lines[: max(1, height - 1)], f"  and {len(rows) - done} more: pfs show PID blocked"[:width]]
        lines += more
    return lines[:height]


def wrapped(text: str, width: int, indent: int) -> list[str]:
    """Returns a text in lines of at most `width`; those behind the first are indented. A number stays with its unit."""
    joined = _TIME.sub("\\1\0\\2", text)
    lines = textwrap.wrap(joined, width, subsequent_indent=" " * min(indent, width // 2), break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def _name_of(row: Blocked) -> str:
    return row.name if row.object_name is None else f"{row.name} {row.object_name}"


def waiting_text(row: Blocked) -> str:
    """Returns '3 reader waits 12 s for wait/synch/mutex/app/LOCK (lock) at app.py:20'."""
    waiter = f"{row.thread_id} {row.thread.removeprefix('thread/')}"
    text = f"{waiter} waits {time_text(row.wait)} for {_name_of(row)} ({row.operation})"
    return f"{text} at {row.source or '?'}" + ("" if row.deadlock is None else f", DEADLOCK {row.deadlock}")


def holder_text(row: Blocked, is_short: bool = False) -> str:
    """Returns 'held by 2 writer for 13 s from app.py:11, now in wait/io/file/app/log at app.py:14 for 2 s'.

    `is_short`: the name of the thread comes last.
    """
    if row.holder is None:
        readers = f"held by {some(row.readers, 'reader')}"
        return readers if row.readers else "the holder is not known"
    if row.holder_name is None:
        return f"held by {row.holder}, which is no thread of this process any more"
    name = row.holder_name.removeprefix("thread/")
    text = f"held by {row.holder}" + ("" if is_short else f" {name}")
    if row.held is not None:
        text += f" for {time_text(row.held)}"
    if row.held_at is not None:
        text += f" from {row.held_at}"
    if is_short and row.deadlock is not None:
        return text  # what the holder waits for has lines of its own
    if row.doing is not None:
        source = row.doing_at or "?"
        if is_short:
            text += f", now at {source} in {row.doing.removeprefix('wait/synch/')} for {time_text(row.doing_for)}"
        else:
            text += f", now in {row.doing} at {source} for {time_text(row.doing_for)}"
    return f"{text}, {name}" if is_short else text
