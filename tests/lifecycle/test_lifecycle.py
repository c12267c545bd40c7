"""Whatever becomes of a program, pfs does not show: random programs, with pfs and without.

PFS_TEST_LONG and PFS_TEST_SEED as everywhere (tests/budgets.py): the seed is the first program, and the next has the next number.

| variable | for |
| --- | --- |
| PFS_LIFECYCLE_FOLDER | where segments are, such as /dev/shm; without it each program has a tmpfs of 1 to 64 MiB |
| PFS_LIFECYCLE_PARTS | what programs are made of, with commas: see PARTS |
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests import budgets
from tests.lifecycle import lifecycle

PARTS = tuple(os.environ.get("PFS_LIFECYCLE_PARTS", ",".join(lifecycle.PARTS)).split(","))


@pytest.fixture(scope="module")
def way() -> list[str]:
    found = lifecycle.namespace()
    if found is None:
        pytest.skip("needs a mount namespace: root, or user namespaces that may mount a tmpfs")
    return found


def test_programs_do_not_notice(way: list[str], tmp_path: Path) -> None:
    unknown = set(PARTS) - set(lifecycle.PARTS)
    assert not unknown, f"PFS_LIFECYCLE_PARTS: {sorted(unknown)} are no parts; legal are {', '.join(lifecycle.PARTS)}"
    programs = lifecycle.build(tmp_path)
    first = seed = budgets.seed()
    print(f"PFS_TEST_SEED={first} PFS_LIFECYCLE_PARTS={','.join(PARTS)}")
    wrong = []
    end = time.monotonic() + budgets.LIFECYCLE_SECONDS
    while time.monotonic() < end:
        if (said := lifecycle.compare(way, programs, seed, PARTS, lifecycle.LEFT, tmp_path)) is not None:
            wrong.append(said)
        seed += 1
    print(f"{seed - first} programs")
    assert not wrong, f"{len(wrong)} of {seed - first} programs:\n" + "\n".join(wrong[:50])


def test_children_that_are_killed_as_they_start_leave_no_more_than_others(way: list[str], tmp_path: Path) -> None:
    """Each makes its first event, and with it a file, about when it is killed; its parent makes one after the other."""
    programs = lifecycle.build(tmp_path)
    for step in range(60):
        text = f"((t1d){1000 + 37 * step % 700})25885"
        left = lifecycle.run(way, programs.watched, text, 8, tmp_path).left
        assert len(left) <= lifecycle.LEFT, text


def test_a_library_that_kills_children_is_found(way: list[str], tmp_path: Path) -> None:
    """Negative control: a library that aborts in children of limited programs, and a bound that nothing can keep."""
    programs = lifecycle.build(tmp_path, "-DBROKEN")
    parts = ("work", "nofile", "fork")
    found = [lifecycle.compare(way, programs, seed, parts, 1 << 30, tmp_path) for seed in range(12)]
    assert any(said is not None and "child signal 6" in said for said in found), found
    assert "segments are left" in str(lifecycle.compare(way, programs, 0, ("work",), -1, tmp_path))
