"""``pfs run`` over and over: forks, execs, signals, jumps in a random order, with other allocators, with sanitizers."""

from __future__ import annotations

import glob
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

from tests import budgets
from tests.python.run.test_run import PFS, SOURCES, own_folder, pytestmark

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

LETTERS = "fFvpdsjce"  # of matrix.c
OPTIONS: tuple[tuple[str, ...], ...] = (
    (),
    ("--all-on",),
    ("--only", "memory,locks,files"),
    ("--children", "none"),
    ("--children", "fork"),
    ("--decode", "redis,http"),
)
ALLOCATORS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.[0-9]*")
SANITIZERS = ("address", "thread", "undefined")
SEED = budgets.seed()


def built(folder: Path, *flags: str) -> Path:
    program = folder / "-".join(["matrix", *(flag.rpartition("=")[2] for flag in flags[:1])])
    done = subprocess.run(
        ["cc", "-O1", "-g", *flags, "-o", program, SOURCES / "matrix.c", "-lpthread"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and flags:
        pytest.skip(f"cc {' '.join(flags)} does not work here: {done.stderr[:200]}")
    assert done.returncode == 0, done.stderr
    return program


def outcome(*command: str | Path, **environment: str) -> tuple[str, str, int]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | environment)
    return done.stdout, done.stderr, done.returncode


def same_as_without(folder: Path, program: Path, letters: str, options: tuple[str, ...], **environment: str) -> None:
    """Runs a program without pfs and with it. Nothing may differ, and nothing may be lost."""
    plain = outcome(program, letters, **environment)
    report = folder / "report.json"
    command: list[str | Path] = [*PFS, "run", "--json", "-o", str(report), *options, "--", program, letters]
    said = f"matrix {letters} with {options} {environment}; PFS_TEST_SEED={SEED}"
    assert outcome(*command, **environment) == plain, said
    assert plain[2] == 42, said
    found = json.loads(report.read_text())
    if "thread" in program.name:  # ThreadSanitizer runs handlers of signals when it likes, also inside a probe
        found["lost"].pop("Performance_schema_locker_lost", None)
    assert (found["lost"], found["unread"]) == ({}, []), said


def test_any_order_with_any_options(tmp_path: Path) -> None:
    print(f"PFS_TEST_SEED={SEED}")
    source = random.Random(SEED)
    program = built(tmp_path)
    for _ in range(budgets.RUN_PROGRAMS):
        letters = "".join(source.choices(LETTERS, k=source.randrange(1, 7))) + source.choice(("", "x"))
        same_as_without(tmp_path, program, letters, source.choice(OPTIONS))


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_with_another_allocator(tmp_path: Path, allocator: str) -> None:
    found = sorted(glob.glob(f"/usr/lib/x86_64-linux-gnu/{allocator}"))
    if not found:
        pytest.skip(f"{allocator} is not installed")
    program = built(tmp_path)
    for options in ((), ("--only", "memory,locks,files")):
        same_as_without(tmp_path, program, LETTERS, options, LD_PRELOAD=found[-1])


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_a_program_built_with_a_sanitizer(tmp_path: Path, sanitizer: str) -> None:
    """Its library must be loaded first. What the program starts is not recorded then."""
    program = built(tmp_path, f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all")
    same_as_without(tmp_path, program, "fvpsjc", ())
