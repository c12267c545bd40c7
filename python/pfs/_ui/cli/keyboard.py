"""Reads keys from the terminal."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["BACK", "DOWN", "ENTER", "UP", "Keyboard"]

UP, DOWN, ENTER, BACK = "k", "j", "\r\n", "\x1b\x7f\b"  # keys that mean the same
_ARROWS = {b"A": b"k", b"B": b"j", b"C": b"\r", b"D": b"\x7f"}


class Keyboard:
    """Reads keys without waiting for Enter. It reads nothing if the input is no terminal."""

    def __init__(self, is_used: bool = True) -> None:
        self._descriptor = sys.stdin.fileno() if is_used and sys.stdin.isatty() else None

    def __enter__(self) -> Self:
        if self._descriptor is not None:
            import termios
            import tty

            self._saved = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._descriptor is not None:
            import termios

            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._saved)

    def read(self, seconds: float) -> str:
        """Returns the keys that are pressed within this time, or ""."""
        if self._descriptor is None:
            time.sleep(seconds)
            return ""
        if not select.select([self._descriptor], [], [], max(0.0, seconds))[0]:
            return ""
        data = os.read(self._descriptor, 64)
        if not data:  # the terminal has gone
            return "q"
        # Arrows are keys of one letter; other keys with a sequence of their own mean nothing.
        data = re.sub(rb"\x1b[\[O]([A-D])", lambda match: _ARROWS[match[1]], data)
        return "" if len(data) > 1 and data.startswith(b"\x1b") else data.decode("ascii", "ignore")
