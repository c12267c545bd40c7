"""Reads files of names: lines such as ``app/data+0x4080 -> shop/LOCK_orders``, with which users name the locks of a program.

A reader takes the file that PFS_NAMES names, else the one that ``pfs run --names`` has put beside the segment.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pfs._base import paths
from pfs.errors import InvalidValue

__all__ = ["BESIDE", "OwnNames", "names_for", "parse"]

BESIDE = "names"  # the file in the folder of a run
_ARROW = "->"
_CALLER = "(caller)"  # stands for a name: the pattern is a symbol, whose locks are its caller's
_IDLE = {"(idle)": True, "(not idle)": False}  # stand for a name: whether threads that wait at the condition have nothing to do
_SYMBOL = re.compile(r"[\w.$@]+\*?")
_MOST_BYTES = 1 << 24
# What stands before the part of a name that the user replaces.
_FAMILY = re.compile(r"(?:wait/[^/]+/[^/]+/|thread/)")


@dataclass(frozen=True, slots=True)
class OwnNames:
    """Holds the lines of a file of names. The first line that matches a name gives the user's own one."""

    lines: tuple[tuple[re.Pattern[str], str], ...] = ()
    wrappers: tuple[str, ...] = ()  # functions that take a lock for their caller
    idle: tuple[tuple[re.Pattern[str], bool], ...] = ()

    def name(self, candidates: Iterable[str]) -> str | None:
        """Returns the user's name of an instrument, behind its family (wait/synch/mutex/), or None.

        Args:
            candidates: the same name with an offset, with a symbol, and with a symbol and a line.
        """
        families = [(match[0], name) for name in candidates if (match := _FAMILY.match(name)) is not None]
        for pattern, own in self.lines:
            for family, name in families:
                if pattern.fullmatch(name):
                    return family + own
        return None

    def is_idle(self, candidates: Iterable[str]) -> bool | None:
        """Returns whether the user says that threads which wait at a condition are idle, or None. `candidates`: as for `name`."""
        names = list(candidates)
        return next((is_idle for pattern, is_idle in self.idle if any(map(pattern.fullmatch, names))), None)


def parse(text: str, file: str) -> OwnNames:
    """Reads the text of a file of names. Empty lines, and those that begin with ``#``, have no meaning.

    Raises:
        InvalidValue: a line is wrong. The message has its number, and what is legal.
    """
    lines, wrappers, idle = [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        pattern, arrow, own = (part.strip() for part in line.partition(_ARROW))
        problem = ""
        if not arrow:
            problem = f"there is no '{_ARROW}'"
        elif not pattern:
            problem = "the pattern is empty"
        elif not own or own.startswith("/") or own.endswith("/") or not own.isprintable():
            problem = f"bad name {own!r}"
        elif own == _CALLER and not _SYMBOL.fullmatch(pattern):
            problem = f"{pattern!r} is no symbol of a function, nor the begin of one and a '*'"
        if problem:
            raise InvalidValue(
                f"{file}:{number}: {problem}: legal is 'PATTERN {_ARROW} NAME', such as "
                f"'app/data+0x4080 {_ARROW} shop/LOCK_orders' or '*/pool_* {_ARROW} pools'"
            )
        if own == _CALLER:
            wrappers.append(pattern)
            continue
        # A pattern that begins inside a name begins after a "/".
        compiled = re.compile(rf"(?:.*/)?{fnmatch.translate(pattern)}", re.DOTALL)
        if own in _IDLE:
            idle.append((compiled, _IDLE[own]))
        else:
            lines.append((compiled, own))
    return OwnNames(tuple(lines), tuple(wrappers), tuple(idle))


def names_for(segment: str | None) -> OwnNames:
    """Returns the user's names for the process of a segment; none if there is no file of names.

    Raises:
        InvalidValue: PFS_NAMES names no file that can be read, or a line is wrong.
    """
    chosen = os.environ.get("PFS_NAMES")
    path = chosen or (os.path.join(os.path.dirname(segment), BESIDE) if segment else "")
    if not path:
        return OwnNames()
    try:
        # Beside a segment, only who may write the segment says how its locks are called.
        whose = None if chosen or not segment else paths.readable_by(os.stat(segment, follow_symlinks=False))
        with paths.reading(path, whose, follow=bool(chosen)) as file:
            return parse(file.read(_MOST_BYTES).decode(), path)
    except (OSError, UnicodeDecodeError) as error:
        if not chosen and isinstance(error, OSError):
            return OwnNames()
        raise InvalidValue(f"the file of names {path} cannot be read: {error}") from None
