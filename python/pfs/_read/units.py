"""Units of time, for all who read or write one: conditions, SQL, frames, options, budgets of tests."""

from __future__ import annotations

import re

from pfs.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Literal, TypeAlias

    Time: TypeAlias = float | str | timedelta
    Unit: TypeAlias = Literal["ps", "ns", "us", "ms", "s", "min", "timedelta"]

__all__ = ["LEGAL", "UNITS", "in_picoseconds", "picoseconds", "seconds", "whole_seconds"]

UNITS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12, "min": 60 * 10**12}  # in picoseconds
LEGAL = ", ".join(UNITS)
_TIME = re.compile(r"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)\s*([A-Za-zµμ]+)\s*")


def in_picoseconds(number: str, unit: str) -> int | None:
    """Returns the picoseconds of a number with a unit, rounded, or None if there is no such unit. Case does not matter."""
    size = UNITS.get(unit.lower().replace("µ", "u").replace("μ", "u"))
    if size is None:
        return None
    return int(number) * size if number.isdecimal() else round(float(number) * size)


def picoseconds(what: str, time: object, unit: str = "s") -> int:
    """Returns a time of a user in picoseconds: a number in `unit`, a text such as "5ms", or a timedelta.

    Raises:
        InvalidValue: it is no time from 0 on. `what` names it in the message.
    """
    found: int | None = None
    if isinstance(time, str):
        match = _TIME.fullmatch(time)
        found = in_picoseconds(*match.groups()) if match else None
    elif hasattr(time, "__index__") and not isinstance(time, bool):
        found = time.__index__() * UNITS[unit]
    elif isinstance(time, float) and abs(time) < float("inf"):
        found = round(time * UNITS[unit])
    elif hasattr(time, "total_seconds"):
        found = round(time.total_seconds() * 1e6) * UNITS["us"]
    if found is None or found < 0:
        name = {"ps": "picoseconds", "s": "seconds"}[unit]
        raise InvalidValue(f"bad time {time!r} for {what}: legal are {name}, a timedelta, or a text such as '5ms' ({LEGAL})")
    return found


def seconds(what: str, time: object) -> float:
    """Returns a time of a user in seconds. See ``picoseconds``."""
    return picoseconds(what, time) / UNITS["s"]


def whole_seconds(what: str, time: object) -> int:
    """Returns a time of a user, rounded to seconds, which fit into 32 bits.

    Raises:
        InvalidValue: they do not, or it is no time.
    """
    found = round(seconds(what, time))
    if found >= 2**32:
        raise InvalidValue(f"{what} is 0 to {2**32 - 1} seconds, not {time!r}")
    return found
