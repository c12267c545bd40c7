"""The segment of a program that was killed in the middle of its work."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import Build
from tests.python.programs.test_programs import Talker, environment


@contextmanager
def killed_program(build: Build, work: Path, options: str = "") -> Iterator[Path]:
    """Kills tests/programs/checked.c among statements, stages, transactions, waits, files and memory. Gives its segment, in a
    folder of a file system in memory that is removed at the end of the block.

    Args:
        work: an empty folder for the files of the program.
        options: its PFS_OPTIONS.
    """
    place = Path(f"/dev/shm/pfs-test-killed-{work.name}-{os.getpid()}")
    place.mkdir(mode=0o700)
    try:
        with subprocess.Popen(
            [build("checked"), work, "0"], env=environment(place, PFS_OPTIONS=options), stdout=subprocess.PIPE, text=True
        ) as process:
            Talker(process).until("working")
            time.sleep(0.3)
            process.kill()
        yield next(place.glob("*.pfs"))
    finally:
        shutil.rmtree(place)
