"""What a segment takes by itself has a limit, which its arrays share, and what does not fit is counted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.programs.test_programs import TIMEOUT, environment

MIB = 1 << 20
PROGRAM = Path(__file__).parents[1] / "_programs/many_names.py"


def numbers(said: str) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"(\w+) (\d+)", said)}


def many_names(folder: Path, digests: int, files: int, own: int, *around: str, **env: str) -> tuple[dict[str, int], str]:
    uploads = folder / "uploads"
    uploads.mkdir()
    command = [*around, sys.executable, str(PROGRAM), str(digests), str(files), str(own), str(uploads)]
    segments = env.pop("PFS_DIR", str(folder))
    done = subprocess.run(
        command, env=environment(segments, **env), cwd=folder, capture_output=True, text=True, timeout=4 * TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return numbers(done.stdout), done.stdout.partition("reason ")[2]


def test_ten_thousand_digests_take_eight_megabytes(tmp_path: Path) -> None:
    found, _ = many_names(tmp_path, 9_990, 0, 0)
    assert found["digest_lost"] == found["object_cells_lost"] == 0
    assert found["digests"] >= 9_990
    assert found["statements"] >= 3 * 9_990
    assert found["segment"] <= 8 * MIB


def container(size: str) -> list[str]:
    """A mount namespace with a /dev/shm of its own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root: a file system of its own")
    script = f'mount -t tmpfs -o size={size},mode=1777 none /dev/shm && mkdir -m 700 /dev/shm/pfs-test || exit 99; exec "$@"'
    around = ["unshare", "-m", "sh", "-c", script, "sh"]
    if subprocess.run([*around, "true"], check=False).returncode != 0:
        pytest.skip("needs a kernel that gives a mount namespace of its own: unshare -m and mount -t tmpfs")
    return around


def test_the_shared_memory_of_a_container_is_the_programs(tmp_path: Path) -> None:
    """/dev/shm of 64 MiB, as Docker has it; the program itself takes 48."""
    found, reason = many_names(tmp_path, 9_990, 10_000, 48, *container("64m"), PFS_DIR="/dev/shm/pfs-test")
    assert found["segment"] <= 8 * MIB
    assert found["statements"] >= 3 * 9_990  # those of digests that do not fit are in the row for all others
    assert found["digests"] >= 4_000
    assert found["digest_lost"] > 0
    assert found["segment_memory_lost"] > 0
    assert found["files"] >= 1_000
    assert found["sockets"] == found["of"] == 100
    assert "max_segment_megabytes" in reason


def test_the_users_sizes_are_his_will(tmp_path: Path) -> None:
    options = "performance_schema_digests_size=10000,performance_schema_max_file_instances=20000"
    found, reason = many_names(tmp_path, 9_990, 3_000, 0, *container("64m"), PFS_DIR="/dev/shm/pfs-test", PFS_OPTIONS=options)
    assert found["digest_lost"] == found["file_instances_lost"] == found["names_lost"] == 0
    assert found["digests"] >= 9_990
    assert "max_segment_megabytes" not in reason
    shutil.rmtree(tmp_path / "uploads")
    options = "performance_schema_max_segment_megabytes=0,performance_schema_max_file_system_part=0"
    found, _ = many_names(tmp_path, 9_990, 3_000, 0, *container("64m"), PFS_DIR="/dev/shm/pfs-test", PFS_OPTIONS=options)
    assert found["digest_lost"] == found["segment_memory_lost"] == 0
