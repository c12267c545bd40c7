"""``pfs run``: what it adds to a core dump."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

from pfs._process.run import launch
from tests.python.run.test_run import own_folder, pytestmark

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

PROGRAM = """
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int main(void) {
  for (int i = 0; i < 100; ++i) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    close(open("/etc/passwd", O_RDONLY));
  }
  kill(getpid(), SIGSEGV);
  pause();
}
"""


def dumped(program: Path, environment: dict[str, str]) -> int:
    """Returns the length of the core of a program that crashes."""
    folder = program.parent
    limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    done = subprocess.run(
        [program], cwd=folder, env=environment, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, limits)
    )
    assert done.returncode == -11
    (core,) = folder.glob("core*")
    size = core.stat().st_size
    core.unlink()
    return size


def test_a_core_is_less_than_a_mebibyte_longer(tmp_path: Path) -> None:
    """It was 21 MB longer: tables of zeros, which a pipe to another program writes all the same."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if re.fullmatch(r"core(\.%p)?", pattern) is None or resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
        pytest.skip("cores do not go to the working directory")
    (tmp_path / "crashes.c").write_text(PROGRAM)
    program = tmp_path / "crashes"
    subprocess.run(["cc", "-o", program, tmp_path / "crashes.c", "-lpthread"], check=True)
    plain = dumped(program, dict(os.environ))
    for parts in ((), ("memory", "locks", "files")):
        seen = dumped(program, {**os.environ, **launch.environment(str(tmp_path / "segments"), only=parts)})
        assert seen - plain < 1 << 20
