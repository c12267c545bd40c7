"""A process that others look at: it runs the code it is told, step by step, with its segment in a folder of its own."""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tests import MAY_FORK
from tests.python._programs.segment_file import HEADER, HEADER_ROOM

_LOOP = """
import sys
world = {}
exec("import os, pfs", world)
print(world["pfs"]._core.segment_path(), flush=True)
for line in sys.stdin:
    exec(eval(line), world)
    print("done", flush=True)
"""

LAYOUT_MAJOR, PID, PID_NAMESPACE, START_TICKS = (
    HEADER[field] for field in ("layout_major", "pid", "pid_namespace", "process_start_ticks")
)
BOOT_ID, EPOCH, LIBRARY_VERSION, COMMAND = (
    HEADER[field] for field in ("boot_id", "epoch_unix_micros", "library_version", "command")
)


# Where one of them is set, pytest's summary repeats every message in full.
CI_VARIABLES = ("CI", "BUILD_NUMBER")


def clean_environment(folder: Path, **more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PFS_") and name not in CI_VARIABLES}
    return {**own, "PFS_DIR": str(folder), **more}


T = TypeVar("T")


def until(condition: Callable[[], T | None], seconds: float = 30) -> T:
    """Waits until a condition holds, and returns what it has said."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.02)
    return found


class Subject:
    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", *MAY_FORK, "-c", _LOOP, *arguments],
            env=clean_environment(folder, **environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        assert self.process.stdout is not None
        self.path = Path(self.process.stdout.readline().strip())

    def do(self, code: str) -> None:
        """Runs code there, to its end. It has `pfs` and what earlier code has made."""
        self.send(code)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "done\n"

    def send(self, code: str) -> None:
        """The same without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(repr(textwrap.dedent(code)) + "\n")
        self.process.stdin.flush()

    def is_done(self, seconds: float) -> bool:
        """Has it done what was sent? Waits so long at most; once it says so nothing is left to wait for."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return False
        assert self.process.stdout.readline() == "done\n"
        return True

    def kill(self, reap: bool = True) -> None:
        self.process.send_signal(signal.SIGKILL)
        if reap:
            self.process.wait(60)
        else:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


@contextmanager
def subject(folder: Path, *arguments: str, **environment: str) -> Iterator[Subject]:
    running = Subject(folder, *arguments, **environment)
    try:
        yield running
    finally:
        running.close()


def forge(path: Path, offset: int, value: int | bytes) -> None:
    """Changes 8 bytes, or these bytes, of a segment's header."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(struct.pack("<Q", value) if isinstance(value, int) else value)


def copy_header(path: Path, to: Path) -> None:
    """A segment of the same size and header, with nothing in it."""
    with path.open("rb") as file:
        to.write_bytes(file.read(HEADER_ROOM))
    os.truncate(to, path.stat().st_size)


@contextmanager
def subject_with_a_lock(folder: Path) -> Iterator[Subject]:
    """Starts one in a new folder "segments", which has taken a lock."""
    (folder / "segments").mkdir(mode=0o700)
    with subject(folder / "segments") as running:
        running.do('lock = pfs.Lock("app/LOCK_a")\nwith lock: pass\n')
        yield running
