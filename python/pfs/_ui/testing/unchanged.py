"""Records a session of pytest as ``pfs run`` records a program: --pfs-instrument.

The session starts again below itself, with ``libperfschema-run.so`` in it. That library has a segment of its own beside that of
``pfs`` in the same process: what a test does is the sum of both. Children write into a folder of the session's own, so that
workers of pytest-xdist do not count each other's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pfs._process import processes
from pfs._process.recorded import JOIN, is_noise, is_recorded, recorded
from pfs._process.run import launch
from pfs._process.run import program as programs
from pfs._process.run.watch import Watch
from pfs._read.source import OWN
from pfs._ui.testing.children import Child, Children
from pfs._ui.testing.totals import Totals
from pfs.errors import StateError

if TYPE_CHECKING:
    from pfs._read.source import Source

__all__ = ["Filter", "Started", "is_recorded", "packages_of", "run"]

_OF_PYTHON = re.compile(r"wait/synch/\w+/python/([\w.<>]+):\d+$")


def packages_of(option: str) -> tuple[str, ...]:
    """Returns the packages of the option's value; none means all.

    Raises:
        pytest.UsageError: it does not name packages.
    """
    packages = tuple(filter(None, option.split(",")))
    for package in packages:
        if package.endswith(".py") or not all(part.isidentifier() for part in package.split(".")):
            raise pytest.UsageError(
                f"--pfs-instrument: {package!r} is no package: legal are names as in import, with commas in between; "
                "paths of tests stand before this option"
            )
    return packages


def run(config: pytest.Config) -> int:
    """Runs this session again, recorded, and returns its exit code.

    Raises:
        pytest.UsageError: this interpreter cannot be recorded.
    """
    try:
        interpreter = programs.look(sys.executable, os.environ)
    except OSError as error:
        raise pytest.UsageError(f"--pfs-instrument: {error.strerror}: {error.filename}") from None
    if interpreter.blind:
        raise pytest.UsageError(f"--pfs-instrument: pfs can see nothing of {interpreter.path}: {interpreter.blind}")
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.stop_global_capturing()  # the session below writes to our stdout
    arguments = list(config.invocation_params.args)
    command = [sys.executable, *sys.orig_argv[1:]]
    if not arguments or sys.orig_argv[-len(arguments) :] != [str(argument) for argument in arguments]:
        command = [sys.executable, "-m", "pytest", *map(str, arguments)]  # pytest.main(): another program called it
    with launch.folder_of_run(keep=False) as folder, Watch(folder, takes=False):
        try:
            # A budget of statements is for those of the test; the test itself does not count.
            parts = [part for part in launch.PYTHON_PARTS if part != "tests"]
            environment = os.environ | launch.environment(folder, python=parts)
        except StateError as error:
            raise pytest.UsageError(f"--pfs-instrument: {error}") from None
        child = subprocess.Popen(command, env=environment, cwd=config.invocation_params.dir)
        code = launch.wait_for(child)
    return launch.end_as(code)


class Filter:
    """Leaves out what no test is to be judged by: locks of the interpreter, pfs itself, and with packages all other locks."""

    def __init__(self, packages: tuple[str, ...] = ()) -> None:
        self._packages = packages

    def __call__(self, totals: Totals) -> Totals:
        return Totals({name: numbers for name, numbers in totals.counts.items() if self._has(name)}, totals.lost)

    def _has(self, name: str) -> bool:
        if is_noise(name) or name == JOIN:  # a join waits for the work of a thread
            return False
        if not self._packages or not name.startswith("wait/synch/") or name == "wait/synch/cond/python/gil":
            return True
        match = _OF_PYTHON.match(name)
        return match is not None and any(match[1] == package or match[1].startswith(package + ".") for package in self._packages)


class Started(Children):
    """Follows all programs that this process starts, however it starts them, and theirs."""

    def __init__(self) -> None:
        super().__init__()
        self._before = processes.default_directory()
        source = recorded()
        if source is None:
            raise StateError(f"there is no segment of this process in {self._before}: it does not record itself")
        self._recorded = source
        self._folder = os.path.join(self._before, f"of-{self._pid}")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        os.environ["PFS_DIR"] = self._folder

    def sources(self) -> list[Source]:
        """Returns the segment of pfs, and that of the library that records the program."""
        return [OWN, self._recorded]

    def _keeps(self) -> bool:
        return False  # PFS_KEEP is there for us

    def _hear(self) -> None:
        own = re.compile(rf"{self._pid}\D")
        for folder in processes.with_users(self._folder):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if name.endswith(".pfs") and path not in self._known and not own.match(name):
                    self._known[path] = Child(path)

    def close(self) -> None:
        super().close()
        os.environ["PFS_DIR"] = self._before
