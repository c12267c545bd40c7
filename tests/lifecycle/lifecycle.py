"""Random programs made of forks, execs, threads, limits and ends, each run with pfs and without, on a small file system.

A program may not notice pfs: the same output, the same exit code. It may leave a bounded number of segments. Each can be
read.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pfs
from pfs import _core
from pfs._base import installed

HERE = Path(__file__).resolve().parent
ENDS = {"end": "0126", "kill": "345", "outside": "K"}
KILLED_AFTER = (1000, 31000)  # microseconds, and 1000: see program.c
STEPS = {
    "work": ("l{}", (1, 300)),
    "events": ("e{}", (1, 100)),
    "open": ("q", (0, 0)),
    "sockets": ("s{}", (0, 60000)),
    "jumps": ("T{}", (1, 20)),
    "beside": ("b{}", (1, 3)),
    "memory": ("m{}", (1, 60)),
    "file": ("o{}", (0, 60000)),
    "threads": ("t{}", (1, 8)),
    "dlopen": ("d", (0, 0)),
    "longjmp": ("j", (0, 0)),
    "as": ("A{}", (64, 20000)),
    "fsize": ("S{}", (0, 64)),
    "nofile": ("N{}", (3, 20)),
    "exec": ("x", (0, 0)),
    "vfork": ("v", (0, 0)),
    "spawn": ("p", (0, 0)),
}
PARTS = (*STEPS, "fork", *ENDS)
TIMEOUT = 60  # seconds a program may take


@dataclass(frozen=True)
class Programs:
    watched: Path
    plain: Path


def build(folder: Path, *flags: str) -> Programs:
    """Compiles them as a user does."""
    env = {**os.environ, "PKG_CONFIG_PATH": f"{installed.library_dir()}/pkgconfig"}
    ask = subprocess.run(["pkg-config", "--cflags", "--libs", "perfschema"], env=env, capture_output=True, text=True, check=True)
    library = [*ask.stdout.split(), f"-Wl,-rpath,{installed.library_dir()}"]
    include = [word for word in library if word.startswith("-I")]
    common = ["gcc", "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    made = Programs(folder / "watched", folder / "plain")
    for program, how in ((made.watched, [*library, *flags]), (made.plain, [*include, "-DPFS_DISABLE"])):
        for command in (
            [
                *(str(HERE / f"{name}.c") for name in ("program", "leaving", "beside")),
                "-o",
                str(program),
                *how,
                "-lpthread",
                "-ldl",
            ],
            [str(HERE / "plugin.c"), "-fPIC", "-shared", "-o", f"{program}.so", *how],
        ):
            subprocess.run([*common, *command], check=True)
    return made


DEPTH = 4  # of forks in forks
DEAD = 3  # segments of dead processes that pfs may leave when it makes another
# The last segment that was made found no more than DEAD. The processes that were alive then may all have been killed since.
LEFT = DEAD + 1 + DEPTH


def script(seed: int, parts: tuple[str, ...]) -> tuple[str, int]:
    """A program, and the MiB of its file system."""
    dice = random.Random(seed)
    steps = [name for name in STEPS if name in parts]
    ends = "".join(ENDS[name] for name in ENDS if name in parts) or "2"

    def some(length: int, depth: int) -> str:
        text = ""
        for _ in range(length):
            if "fork" in parts and depth < DEPTH and dice.random() < 0.4:
                end = dice.choice(ends)
                text += f"({some(dice.randint(0, 4), depth + 1)}){dice.randint(*KILLED_AFTER) if end == 'K' else end}"
            elif steps:
                form, (low, high) = STEPS[dice.choice(steps)]
                text += form.format(dice.randint(low, high))
        return text

    return some(dice.randint(1, 12), 0), dice.choice((1, 2, 4, 8, 16, 32, 64))


@dataclass(frozen=True)
class Result:
    output: str
    code: int | None  # None: it did not end
    left: tuple[Path, ...]  # copies of segments


def namespace() -> list[str] | None:
    """How to get a mount namespace of one's own; None if there is no way."""
    for way in (["unshare", "-m"], ["unshare", "-rm"]):
        if shutil.which("unshare") is not None:
            done = subprocess.run([*way, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
            if done.returncode == 0:
                return way
    return None


def run(way: list[str], program: Path, text: str, mebibytes: int, folder: Path) -> Result:
    """Runs a program in an empty folder, with segments on a file system of so many MiB, or in PFS_LIFECYCLE_FOLDER."""
    work, copies = folder / "work", folder / "left"
    for path in (work, copies):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
    there = os.environ.get("PFS_LIFECYCLE_FOLDER")
    small = folder / "small" if there is None else Path(tempfile.mkdtemp(prefix="pfs-test-", dir=there))
    small.mkdir(exist_ok=True)
    mount = f'mount -t tmpfs -o size={mebibytes}m,mode=0700 none "{small}" || exit 99; ' if there is None else ""
    shell = f'{mount}"$0" reap "$1"; code=$?; cp "{small}"/*.pfs "{copies}" 2>/dev/null; exit $code'
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    env.update(PFS_DIR=str(small), PFS_OPTIONS=f"performance_schema_max_dead_segments={DEAD}")
    child = subprocess.Popen(
        [*way, "sh", "-c", shell, str(program), text],
        env=env, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = child.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        output, _ = child.communicate()
        return Result(output, None, ())
    finally:
        if there is not None:
            shutil.rmtree(small)
    return Result(output, child.returncode, tuple(copies.iterdir()))


def unreadable(segment: Path) -> str | None:
    """What is wrong with the segment of a process that has ended; None if every row of every table can be read, or if the process
    was killed while it made its segment."""
    with segment.open("rb") as file:
        identity = _core.identity(file.fileno())
    if segment.stat().st_blocks == 0 or (identity is not None and not identity.is_finished):
        return None
    try:
        opened = _core.Segment(str(segment))
        for table in _core.tables():
            skipped = _core.read(table, None, opened)[1]
            if skipped:
                return f"{table} lacks {skipped} rows"
    except pfs.AttachError as error:
        return str(error)
    return None


def compare(way: list[str], programs: Programs, seed: int, parts: tuple[str, ...], bound: int, folder: Path) -> str | None:
    """What is wrong with the program of a seed; None if nothing is."""
    text, mebibytes = script(seed, parts)
    plain = run(way, programs.plain, text, mebibytes, folder)
    watched = run(way, programs.watched, text, mebibytes, folder)
    what = f"seed {seed}, {mebibytes} MiB, {text!r}"
    if plain.code == 99 or plain.code is None:
        return f"{what}: the plain program does not run: {plain}"
    if watched.code is None:
        return f"{what}: hangs with pfs, behind {watched.output[-200:]!r}"
    if watched.output != plain.output:
        there, here = plain.output.splitlines(), watched.output.splitlines()
        line = next(
            (i for i, pair in enumerate(zip(there, here, strict=False)) if pair[0] != pair[1]), min(len(there), len(here))
        )
        return f"{what}: line {line + 1} is {here[line : line + 1]} with pfs, {there[line : line + 1]} without"
    if watched.code != plain.code:
        return f"{what}: exit code {watched.code} with pfs, {plain.code} without"
    if len(watched.left) > bound:
        return f"{what}: {len(watched.left)} segments are left, at most {bound} may be"
    for segment in watched.left:
        if (wrong := unreadable(segment)) is not None:
            return f"{what}: {segment.name}: {wrong}"
    return None
