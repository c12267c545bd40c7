"""``pfs demo`` runs an instrumented program that indexes the standard library of this Python, and shows what it waited for."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pandas as pd

from pfs._process.attach import Schema, attach
from pfs._read.show import bytes_text, count_text, time_text
from pfs.errors import Error

__all__ = ["Demo", "bytes_text", "count_text", "python_files", "run", "standard_library", "time_text"]


def standard_library() -> str:
    """Returns the folder of the standard library of the running Python."""
    return sysconfig.get_paths()["stdlib"]


def python_files(root: str | os.PathLike[str] | None = None) -> list[str]:
    """Returns the readable .py files below a folder, sorted. None is the standard library without installed packages."""
    found = []
    for folder, folders, names in os.walk(root or standard_library()):
        if root is None:
            folders[:] = [name for name in folders if name not in ("site-packages", "dist-packages")]
        for name in names:
            path = os.path.abspath(os.path.join(folder, name))
            if name.endswith(".py") and "\n" not in path and os.path.isfile(path) and os.access(path, os.R_OK):
                found.append(path)
    return sorted(found)


@dataclass(frozen=True)
class Demo:
    """Holds what the program did, and its segment, from which every table can still be read.

    The program itself counted `files`, `bytes`, `words` and `distinct`.
    """

    segment: str
    files: int
    bytes: int
    words: int
    distinct: int
    output: str
    schema: Schema

    def table(self, name: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Returns a table of the program, as ``pfs.table`` does for this process."""
        return self.schema.table(name, columns)

    def busiest_files(self, limit: int = 10) -> pd.DataFrame:
        """Returns rows of file_summary_by_instance, most time first."""
        files = self.table("file_summary_by_instance")
        return files.sort_values(["SUM_TIMER_WAIT", "FILE_NAME"], ascending=[False, True]).head(limit)

    def mutex_instruments(self, limit: int = 10) -> pd.DataFrame:
        """Rows of events_waits_summary_global_by_event_name of mutexes, most time first: objects that are gone count too."""
        waits = self.table("events_waits_summary_global_by_event_name")
        waits = waits[waits["EVENT_NAME"].str.startswith("wait/synch/mutex/") & (waits["COUNT_STAR"] > 0)]
        return waits.sort_values("SUM_TIMER_WAIT", ascending=False).head(limit)

    def last_events(self, limit: int = 10) -> pd.DataFrame:
        """Returns the last rows of events_waits_history_long."""
        return self.table("events_waits_history_long").sort_values("TIMER_END").tail(limit)


def run(
    root: str | os.PathLike[str] | None = None,
    threads: int = 4,
    keep_dir: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Demo:
    """Runs the program to its end and opens the segment that it leaves.

    Args:
        root: folder whose .py files are read; the standard library if None.
        threads: worker threads of the program, 1 to 256.
        keep_dir: folder for the segment and the index, which stay there. A temporary one if None: it is removed, and the
            tables stay readable until the result is dropped.
        progress: called with the files done and the files in all.

    Raises:
        Error: the program failed; the message has what it wrote.
    """
    if keep_dir is not None:
        Path(keep_dir).mkdir(parents=True, exist_ok=True, mode=0o700)
        return _run(python_files(root), threads, Path(keep_dir).absolute(), progress)
    with tempfile.TemporaryDirectory(prefix="pfs-demo-") as folder:
        return _run(python_files(root), threads, Path(folder), progress)


def _run(files: list[str], threads: int, folder: Path, progress: Callable[[int, int], None] | None) -> Demo:
    program = Path(__file__).with_name("bin") / "pfs-demo-index"
    environment = {key: value for key, value in os.environ.items() if key not in ("PFS_OPTIONS", "PFS_SEGMENT", "PFS_MODE")}
    environment.update(PFS_DIR=str(folder), PFS_KEEP="1")
    command = [str(program), "--threads", str(threads), "--out", str(folder), "-"]
    segment = ""
    result = (0, 0, 0, 0)
    with (
        tempfile.TemporaryFile() as names,
        tempfile.TemporaryFile("w+") as complaints,
        _started(command, environment, names, files, complaints) as running,
    ):
        assert running.stdout is not None
        for line in running.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "progress" and progress is not None:
                done, total = rest.split()
                progress(int(done), int(total))
            elif word == "segment":
                segment = rest
            elif word == "result":
                files_, bytes_, words, distinct = (int(number) for number in rest.split())
                result = (files_, bytes_, words, distinct)
        status = running.wait()
        complaints.seek(0)
        text = complaints.read().strip()
    if status != 0:
        raise Error(f"{program.name} ended with status {status}: {text or 'it said nothing'}")
    if not segment:
        raise Error(f"{program.name} could not make its segment in {folder}: {text or 'is the disk full?'}")
    return Demo(segment, *result, str(folder / "index.txt"), attach(segment))


def _started(
    command: list[str], environment: dict[str, str], names: IO[bytes], files: list[str], complaints: IO[str]
) -> subprocess.Popen[str]:
    names.write(os.fsencode("\n".join(files)))
    names.seek(0)
    return subprocess.Popen(command, env=environment, stdin=names, stdout=subprocess.PIPE, stderr=complaints, text=True)
