"""`pfs` on a pseudo terminal of 80x24."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.python._programs.subject import clean_environment


class Terminal:
    def __init__(self, folder: Path, *arguments: str, term: str = "xterm-256color", **environment: str) -> None:
        """`folder`: with the segments."""
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        own = {**clean_environment(folder), "TERM": term, **environment}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            own.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pfs", *arguments],
            env=own,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests may run where it is ignored
        )
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, (text, self.seen[-3000:])
            if select.select([self.master], [], [], 0.2)[0]:
                self.seen += os.read(self.master, 65536).decode("utf-8", "replace")

    def press(self, keys: str) -> None:
        self.seen = ""
        os.write(self.master, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)
