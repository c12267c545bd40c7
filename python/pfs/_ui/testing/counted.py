"""Counts the instructions of a function in user mode, for ``pfs_overhead(count="instructions")``.

The processor counts them (perf_event_open), which takes no longer than the calls. Where it may not, as in most virtual machines,
the test runs once more below valgrind. Its tool callgrind writes a file of counts before each call of ``getsid``.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pfs.errors import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

    Block = tuple[bool, int]  # whether instruments are on, and calls

__all__ = ["Processor", "calls_of", "earlier_of", "in_valgrind", "leave_valgrind", "result_of_valgrind"]

_OPEN = {"x86_64": 298, "aarch64": 241}  # perf_event_open
HARDWARE_INSTRUCTIONS = (0, 1)
# Bits of perf_event_attr: the counter has its register for itself; no kernel, no hypervisor.
_PINNED, _NO_KERNEL, _NO_HYPERVISOR = 1 << 2, 1 << 5, 1 << 6
_MARK = "getsid"  # a function of the C library that hardly any program calls
_ENVIRONMENT = "PFS_COUNTED_BELOW_VALGRIND"
# The session below valgrind has one test. What makes it many, interrupts it or watches it is left out.
_WITHOUT = {"xdist": "-n0", "timeout": "--timeout=0", "_cov": "--no-cov", "randomly": "-pno:randomly"}


class Processor:
    """A counter of the processor, for the calling thread."""

    name = "perf_event_open"

    def __init__(self, event: tuple[int, int] = HARDWARE_INSTRUCTIONS) -> None:
        """Raises:
        OSError: there is no such counter here, or this process may not use it.
        """
        attributes = bytearray(128)
        struct.pack_into("=IIQ", attributes, 0, event[0], len(attributes), event[1])
        struct.pack_into("=Q", attributes, 40, _PINNED | _NO_KERNEL | _NO_HYPERVISOR)
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
        number = _OPEN.get(platform.machine(), -1)
        self._file = libc.syscall(number, buffer, 0, -1, -1, 8)  # of this thread on all processors, closed at an exec
        if self._file < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def _now(self) -> int:
        text = os.read(self._file, 8)
        if len(text) < 8:
            raise StateError("the processor's counter of instructions is taken: another program has pinned it")
        return int.from_bytes(text, sys.byteorder)

    def count(self, function: Callable[[], object]) -> int:
        before = self._now()
        function()
        return self._now() - before

    def close(self) -> None:
        os.close(self._file)


def in_valgrind(test: str) -> Path | None:
    """Returns the folder for what this session counts below valgrind, if it is one and runs for this test."""
    folder, _, of = os.environ.get(_ENVIRONMENT, "").partition(":")
    return Path(folder) if folder and of == test else None


def earlier_of(folder: Path) -> list[dict[str, Any]]:
    """Returns what the test measured before."""
    found: list[dict[str, Any]] = json.loads((folder / "earlier.json").read_text())
    return found


def calls_of(folder: Path) -> int:
    """Returns how many calls a block has: the session above has chosen, and divides by them."""
    return int((folder / "calls").read_text())


def leave_valgrind(folder: Path, blocks: Sequence[Block], run: Callable[[Block], Callable[[], object]]) -> NoReturn:
    """Runs the blocks between two marks each, tells the session above which they are, and ends this session."""

    def instrumentation(state: str) -> None:
        command = ["vgdb", f"--pid={os.getpid()}", "instrumentation", state]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise StateError(f"{' '.join(command)}: {done.stderr.strip()}")

    instrumentation("on")
    for block in blocks:
        function = run(block)
        os.getsid(0)
        function()
        os.getsid(0)
    instrumentation("off")
    (folder / "blocks").touch()
    pytest.exit("counted", returncode=0)


def result_of_valgrind(
    config: pytest.Config, test: str, calls: int, blocks: int, earlier: Sequence[Mapping[str, Any]]
) -> list[int]:
    """Runs a test once more, below valgrind, up to the measurement that comes after the `earlier` ones. Returns the instructions
    of each block of `calls` calls.

    Raises:
        StateError: there is no valgrind, or the run failed.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise StateError(
            "count='instructions' needs counters of the processor, which are not here, or valgrind: install valgrind"
        )
    root = config.rootpath
    with tempfile.TemporaryDirectory(prefix="pfs-") as name:
        folder = Path(name)
        (folder / "earlier.json").write_text(json.dumps(earlier))
        (folder / "calls").write_text(str(calls))
        command = [valgrind, "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", f"--dump-before={_MARK}"]
        command += [f"--callgrind-out-file={folder}/counts", "--", sys.executable, "-m", "pytest", test, f"--rootdir={root}"]
        command += ["-p", "no:cacheprovider", f"--basetemp={folder}/tmp"]
        command += [f"-p{plugin}" for plugin in config.option.plugins]
        command += [f"-o{setting}" for setting in config.option.override_ini or ()]
        command += ["-c", str(config.inipath)] if config.inipath is not None else []
        command += [option for plugin, option in _WITHOUT.items() if config.pluginmanager.hasplugin(plugin)]
        # The order of a set of texts must not differ from run to run.
        environment = os.environ | {_ENVIRONMENT: f"{folder}:{test}", "PYTHONHASHSEED": "0"}
        environment.pop("PYTEST_XDIST_WORKER", None)
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
        if not (folder / "blocks").exists():
            raise StateError(f"the test did not come so far below valgrind:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
        # Part 2 has what is between the first two marks, part 4 between the next two. Thread 1 is the main one.
        texts = [(folder / f"counts.{2 * number}-01").read_text() for number in range(1, blocks + 1)]
        return [int(match[1]) for text in texts if (match := re.search(r"^totals: (\d+)", text, re.MULTILINE))]
