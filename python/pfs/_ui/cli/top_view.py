"""Holds what a user of ``pfs top`` has chosen to see, and what the keys do."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pfs._read.samples import BUSIEST, Choice, Row, Section
from pfs._ui.cli.keyboard import BACK, DOWN, ENTER, UP

__all__ = ["HELP", "KEYS", "KEYS_OF_HISTORY", "LONGEST", "SHORTEST", "View"]

KEYS = "1-4 part 0 all  ↑↓ ⏎ history  sort: t time c count a avg n name  space + - ? q"
KEYS_OF_HISTORY = "esc all rows  ↑↓ another row  space freeze  + - interval  ? help  q quit"
HELP = """\
Keys
  1 2 3 4   one part, in the order of the screen; 0: all parts
  up down   choose a row, also k j
  enter     the history of the row: its lines of code and last events
  esc       back to all rows, also backspace and left
  t c a n   sorts by time, count, average, name
  space     freezes the screen; again: goes on
  + -       doubles or halves the interval
  ? q       this help: any key leaves it; quits

Columns
  events/s  events per second of the last interval; on the first screen since the start
  time/s    time that all threads together waited in each second; waits that still run count
  average   time of one event
  now       the innermost event that the thread is in

blocked now: threads that have waited for a lock for some time, and the holder of the lock
lost: events and objects that did not fit; pfs show PID global_status says which"""
SHORTEST, LONGEST = 0.1, 60.0  # seconds between two screens
_ORDERS = {"t": "SUM_TIMER_WAIT desc", "c": "COUNT_STAR desc", "a": "AVG_TIMER_WAIT desc", "n": "NAME"}


def _identity(section: Section, row: Row) -> tuple[object, ...]:
    """Returns what a row keeps from one interval to the next."""
    return (section.name, *(row.key or (row.name,)))


@dataclass(slots=True)
class View:
    """Holds what the user has chosen to see."""

    interval: float
    choice: Choice = BUSIEST
    section: int = 0  # 0 = all
    is_frozen: bool = False
    is_help: bool = False
    is_over: bool = False
    chosen: tuple[Section, Row] | None = None  # the row that the arrows have chosen
    is_open: bool = False  # the history of that row is shown
    listed: list[tuple[Section, Row]] = field(default_factory=list)  # rows of the screen that the user sees

    def press(self, key: str) -> None:
        """Handles a key. Keys without a meaning have no effect."""
        where = self.choice.where
        if key in "qQ" or (key in BACK and not self.is_open and not self.is_help):
            self.is_over = key in "qQ\x1b"
        elif self.is_help or key in "?h":
            self.is_help = not self.is_help
        elif key in BACK:
            self.is_open = False
        elif key in ENTER:
            self.is_open = self.is_open or self.move(0)
        elif key in UP or key in DOWN:
            self.move(-1 if key in UP else 1)
        elif key in "01234":
            self.section, self.is_open = int(key), False
        elif key in "tcan":
            self.choice = Choice(_ORDERS[key])
            self.choice.where = where
        elif key == " ":
            self.is_frozen = not self.is_frozen
        elif key == "+":
            self.interval = min(LONGEST, self.interval * 2)
        elif key == "-":
            self.interval = max(SHORTEST, self.interval / 2)

    def move(self, rows: int) -> bool:
        """Chooses the row that lies `rows` below the chosen one, or the first. Returns whether there is one."""
        names = [_identity(*one) for one in self.listed]
        if self.chosen is not None and (now := _identity(*self.chosen)) in names:
            at = max(0, min(len(names) - 1, names.index(now) + rows))
        elif self.chosen is not None and rows == 0:
            return True  # it has no event in this interval
        else:
            at = 0
        if names:
            self.chosen = self.listed[at]
        return bool(names)

    def is_chosen(self, section: Section, row: Row) -> bool:
        """Returns whether the arrows have chosen this row."""
        return self.chosen is not None and _identity(*self.chosen) == _identity(section, row)

    def pause(self) -> None:
        """Waits for the interval, or until another thread has set `is_over`."""
        due = time.monotonic() + self.interval
        while not self.is_over and (left := due - time.monotonic()) > 0:
            time.sleep(min(0.25, left))
