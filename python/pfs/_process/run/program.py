"""Looks at a program before it runs: whether pfs can see into it, and what it cannot see there."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["REASONS", "Program", "Unrecorded", "behind_shim", "command_of", "look"]

_MOST_SCRIPTS = 5  # as the kernel follows "#!"
_LOAD, _INTERPRETER = 1, 3  # p_type of ELF
_MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine
# Programs whose locks are instructions of their own, by a text in them.
_OWN_LOCKS = {
    b"LWLock": "PostgreSQL: its LWLocks and spinlocks are instructions of its own; only their sleeps on semaphores are seen",
    b"ngx_shmtx_lock": "nginx: its locks in shared memory are instructions of its own",
}
# A run-time library of a sanitizer, as the dynamic linker has its name. It must be the first of all that are loaded.
_SANITIZER = re.compile(rb"\0(lib(?:a|hwa|l|t)san\.so\.\d+)\0")


_PYENV = re.compile(rb'^exec "([^"]*/pyenv)" exec "\$program" "\$@"$', re.MULTILINE)

Unrecorded = tuple[str, str]  # a program, or "" for processes; why it is not recorded
_MACHINE = os.uname().machine
# Why a program is not recorded, by the names that cpp/run/calls/exec.cpp has for it.
REASONS = {
    "setuid": "it is setuid or setgid: the system ignores LD_PRELOAD",
    "machine": f"it is no program for {_MACHINE}",
    "static": "it is statically linked: there is no dynamic linker that could load pfs",
    "musl": "its C library is musl: libperfschema-run.so needs glibc",
    "linker": "its dynamic linker is not that of glibc",
    "sanitizer": "it was built with a sanitizer, whose library must be loaded first",
    "environment": "it got an environment without LD_PRELOAD",
    "root": "what a process starts after chroot() to this folder: libperfschema-run.so is not there",
    "gone": "libperfschema-run.so could not be opened from there: another root, or removed",
}


@dataclass(slots=True)
class Program:
    """Describes a program: its file, why nothing of it can be seen, and what of it cannot be seen."""

    path: str
    blind: str = ""  # empty = it can be seen
    unseen: list[str] = field(default_factory=list)
    sanitizers: list[str] = field(default_factory=list)  # libraries that must be loaded before all others


def command_of(words: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Returns what to run for a command line: a file of Python, ``app.py``, need be neither executable nor in the PATH. The
    interpreter of its first line runs it, else the one that runs pfs."""
    file = words[0]
    if (
        not file.endswith(".py")
        or not os.path.isfile(file)
        or ("/" not in file and shutil.which(file, path=environment.get("PATH")))
    ):
        return list(words)
    path = os.path.join(os.curdir, file) if "/" not in file else file
    if os.access(path, os.X_OK):
        return [path, *words[1:]]
    interpreter = _script_interpreter(path)
    return [interpreter if interpreter and os.path.exists(interpreter) else sys.executable, *words]


def behind_shim(words: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Returns the command and the environment that a shim of pyenv ends in. Its scripts are some 45 processes, which say nothing
    of the program."""
    path = shutil.which(words[0], path=environment.get("PATH")) or ""
    given, tool = (list(words), dict(environment)), os.path.basename(path)

    def said(*command: str) -> str:
        return os.fsdecode(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)

    try:
        with open(path, "rb") as file:
            match = _PYENV.search(file.read(1 << 14))
        if match is None or tool.startswith(("pip", "easy_install")):  # pyenv adds work of its own to these
            return given
        pyenv = os.fsdecode(match[1])
        program = said(pyenv, "which", tool).strip()
        found = dict(line.split("=", 1) for line in said(pyenv, "exec", "env", "-0").split("\0") if "=" in line)
    except (OSError, subprocess.CalledProcessError):
        return given  # the shim says what is wrong, such as a version that is not installed
    if program.startswith(found.get("PYENV_ROOT", "/")):
        found["PATH"] = f"{os.path.dirname(program)}:{found.get('PATH', os.defpath)}"
    return [program, *words[1:]], found


def look(name: str, environment: Mapping[str, str]) -> Program:
    """Returns what is known of a program before it runs.

    Raises:
        FileNotFoundError: there is no such program.
        PermissionError: it is no executable file.
    """
    path = name if "/" in name else shutil.which(name, path=environment.get("PATH"))
    if path is None or not os.path.exists(path):
        raise FileNotFoundError(2, "there is no such program", name)
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        raise PermissionError(13, "this is no program that you may execute", path)
    program = Program(path)
    for _ in range(_MOST_SCRIPTS):
        interpreter = _script_interpreter(path)
        if interpreter is None or not os.path.exists(interpreter):
            break
        path = interpreter
    _check_elf(path, program)
    return program


def _script_interpreter(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            first = file.read(256)
    except OSError:
        return None
    words = first[2:].split(b"\n", 1)[0].split() if first.startswith(b"#!") else []
    if not words:
        return None
    if os.path.basename(words[0]) == b"env" and len(words) > 1 and not words[-1].startswith(b"-"):
        return shutil.which(os.fsdecode(words[-1]))
    return os.fsdecode(words[0])


def _check_elf(path: str, program: Program) -> None:
    """Fills `blind` and `unseen`. A file that cannot be read stays as it is."""
    try:
        info = os.stat(path)
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            head = image[:64]
            if len(head) < 64 or head[:4] != b"\x7fELF":
                return
            if info.st_mode & (stat.S_ISUID | stat.S_ISGID) and os.geteuid() != info.st_uid:
                program.blind = REASONS["setuid"]
                return
            if head[4] != 2 or struct.unpack_from("<H", head, 18)[0] != _MACHINES.get(_MACHINE):
                program.blind = REASONS["machine"]
                return
            start, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
            table = image[start : start + size * count]  # a slice ends with the file, whatever the header claims
            parts = [struct.unpack_from("<IIQQQQ", table, i * size) for i in range(count)]
            loader = next(((offset, length) for kind, _, offset, _, _, length in parts if kind == _INTERPRETER), None)
            if loader is None:
                program.blind = REASONS["static"]
                return
            name, text = image[loader[0] : sum(loader)].rstrip(b"\0"), image[:]
    except (OSError, ValueError, struct.error):  # mmap() says ValueError of an empty file
        return
    if b"musl" in os.path.basename(name):
        program.blind = REASONS["musl"]
    elif b"\xff Go buildinf:" in text:
        program.unseen.append("Go: its own locks, and files and sockets that it opens without the C library")
    elif b"rustc version" in text or b"/rustc/" in text:
        program.unseen.append("Rust: locks of std::sync that are free, and folders that are listed")
    program.sanitizers = [name.decode() for name in dict.fromkeys(_SANITIZER.findall(text))]
    if program.sanitizers:
        program.unseen.append("programs that it starts: it was built with a sanitizer, whose library must be loaded first")
    program.unseen += [what for marker, what in _OWN_LOCKS.items() if marker in text]
    if os.path.basename(path) == "java":
        program.unseen.append("Java: its monitors and java.util.concurrent")
    if b"io_uring" in text:
        program.unseen.append("io_uring: reads and writes that go through it")
