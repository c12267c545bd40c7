"""Finds processes by the name of their program, and the only one that runs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from pfs._process import processes
from pfs._read.nearest import hint
from pfs._read.show import plain
from pfs.errors import AttachError

__all__ = ["lines_of", "names_of", "only_living", "path_of", "running"]

_INTERPRETER = re.compile(r"(python|pypy)[0-9.]*")
_MOST = 20  # lines of a list


def names_of(command: str) -> set[str]:
    """Returns the names of a process: its program, and the script or module that a Python interpreter runs, with and without .py.

    A program may have written a title over its arguments, such as "nginx: master process".
    """
    words = command.split()
    if not words:
        return set()
    program = os.path.basename(words[0].removesuffix(":"))
    names = {program}
    if _INTERPRETER.fullmatch(program):
        for at, word in enumerate(words[1:], 1):
            if word == "-m" and at + 1 < len(words):
                names.add(words[at + 1])
                break
            if word == "-c":
                break
            if not word.startswith("-"):
                script = os.path.basename(word)
                names |= {script, script.removesuffix(".py")}
                break
    return names


def _segments(folders: Sequence[str]) -> list[processes.Found]:
    there = processes.scan_all(part for folder in folders for part in processes.with_runs(folder))
    return [found for found in there if not found.doubt]


def running(name: str) -> list[tuple[int, str]]:
    """Returns pid and command line of the processes that run a program of this name, recorded or not."""
    found = []
    for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = os.fsdecode(file.read(65536)).replace("\0", " ").strip()
        except OSError:
            continue  # it has ended
        if name in names_of(command):
            found.append((pid, command))
    return found


def lines_of(there: Sequence[tuple[Any, ...]]) -> str:
    """Returns a line for each process, of what is said of it; the command comes last."""
    shown = "".join(f"\n  {'  '.join(map(str, about))}  {plain(command)[:100]}" for *about, command in there[:_MOST])
    return shown + (f"\n  and {len(there) - _MOST} more" if len(there) > _MOST else "")


def _list(there: Sequence[processes.Found]) -> str:
    return lines_of([(found.identity.pid, found.state, found.command) for found in there])


def _is_program(path: str) -> bool:
    if path.endswith(".py"):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(4).startswith((b"\x7fELF", b"#!"))
    except OSError:
        return False


def path_of(name: str) -> str:
    """Returns the segment of the process of this name, in the folder of this user, else in those of other users.

    A process that runs comes before those that are dead or whose state is not known. A file of this name, or a folder with
    segments, comes last.

    Raises:
        AttachError: no process has this name, or several have it.
    """
    own = processes.default_directory()
    known: set[str] = set()
    for folders in ([own], [folder for folder in processes.shared_directories() if folder != own]):
        there = _segments(folders)
        known.update(*(names_of(found.command) for found in there))
        named = [found for found in there if name in names_of(found.command)]
        for state in processes.STATES:
            found = [one for one in named if one.state == state]
            if len(found) == 1:
                return found[0].path
            if found:
                raise AttachError(f"{len(found)} processes are called '{name}': give the pid of one, or its path{_list(found)}")
    if (os.path.isfile(name) and not _is_program(name)) or any(map(processes.scan, processes.with_runs(name))):
        return name
    if unrecorded := running(name):
        one = f"pfs join {unrecorded[0][0] if len(unrecorded) == 1 else 'PID'} records it"
        raise AttachError(f"no recorded process is called '{name}'; of those that run, {one}:{lines_of(unrecorded)}")
    shut = processes.closed([own])
    near = hint(name, sorted(known)) or ("" if shut else ": there are no segments at all (PFS_DIR says where they are)")
    raise AttachError(f"no process and no segment is called '{name}'{near}{shut and '; '}{shut}")


def only_living() -> str:
    """Returns the segment of the only process of this user that runs.

    Raises:
        AttachError: none runs, or several do. The message lists them.
    """
    own = processes.default_directory()
    there = _segments([own])
    alive = sorted((found for found in there if processes.is_alive(found.state)), key=lambda found: -found.identity.started)
    if len(alive) == 1:
        return alive[0].path
    if alive:
        raise AttachError(f"{len(alive)} processes run: give the pid or the name of one{_list(alive)}")
    ended = sum(found.state == "dead" for found in there)
    counted = ((ended, "that ended"), (len(there) - ended, "whose state is not known"))
    others = " and ".join(f"{count} {what}" for count, what in counted if count)
    shut = processes.closed([own])
    raise AttachError("; ".join(filter(None, [f"no process with pfs runs in {own}", others and f"pfs ps lists {others}", shut])))
