"""Ends commands that run until they are stopped, by Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import time
from types import FrameType

__all__ = ["Stop"]


class Stop:
    """Takes SIGINT and SIGTERM: each raises KeyboardInterrupt where the command is, and is remembered.

    Inside a destructor it only is remembered: Python would print the exception, and drop it. So a loop also asks `check`, or
    waits with `sleep`.
    Threads: for the main thread.
    """

    _LONGEST = 1.0  # seconds of one sleep

    def __init__(self) -> None:
        self.has_come = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        while frame is not None and frame.f_code.co_name != "__del__":
            frame = frame.f_back
        if frame is None:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal has come."""
        if self.has_come:
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Waits that long. Raises KeyboardInterrupt if a signal has come."""
        end = time.monotonic() + seconds
        self.check()
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self._LONGEST))
            self.check()
