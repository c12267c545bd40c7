"""What the calls of an unchanged program take of its stacks, and of its memory, under ``pfs run``."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.run.test_run import PFS, SOURCES, own_folder, pytestmark, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

RUN = (*PFS, "run", "--no-report")
MOST_MORE = 4096  # bytes of a stack that a call takes more than without pfs; its first call has the dynamic linker find functions
LOCKS = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
  close(open("/dev/null", O_RDONLY));
  char line[256];
  const int result = mlockall(MCL_CURRENT | MCL_FUTURE);
  for (int i = 0; i < 100; ++i) close(open("/dev/null", O_RDONLY));
  FILE* status = fopen("/proc/self/status", "r");
  int kilobytes = 0;
  while (fgets(line, sizeof line, status) != NULL) if (sscanf(line, "VmRSS: %d", &kilobytes) == 1) break;
  return printf("%d %d\\n", result, kilobytes) < 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("small_stacks") / "small_stacks"
    subprocess.run(["cc", "-O1", "-o", made, SOURCES / "small_stacks.c", "-lpthread"], check=True)
    return made


@pytest.mark.parametrize("options", [(), ("--all-on",)], ids=["default", "all_on"])
def test_no_call_takes_much_of_a_stack(program: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Not even the first event of a process, which starts pfs, or that of a forked child."""

    def depths(name: str, *before: str) -> dict[str, int]:
        (tmp_path / name).mkdir()
        lines = run(*before, program, "depths", check=True, cwd=tmp_path / name, stdin=subprocess.DEVNULL).stdout.splitlines()
        return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}

    plain, seen = depths("plain"), depths("seen", *RUN, *options, "--")
    assert plain.keys() == seen.keys()
    assert len(plain) == 13
    assert {name: seen[name] - plain[name] for name in plain if seen[name] - plain[name] > MOST_MORE} == {}


@pytest.mark.parametrize("before", [(), (*RUN, "--"), (*RUN, "--all-on", "--")], ids=["plain", "default", "all_on"])
def test_the_first_event_may_come_on_the_smallest_alternate_stack(program: Path, tmp_path: Path, before: tuple[str, ...]) -> None:
    done = run(*before, program, "handler", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "handled\n" * 2), done.stderr
    assert (tmp_path / "made").read_text() == "xx"


def test_a_long_name_is_the_same_in_every_way_to_it(tmp_path: Path) -> None:
    """A name has little space on the stack at first. A longer one is made in a larger space, by a call on a relative path, on a
    descriptor of a folder, and on a descriptor that was there."""
    folder = tmp_path.joinpath(*["d" * 200] * 6)
    folder.mkdir(parents=True)
    (folder / "near").write_text("abc")
    code = f"""if True:
        import os
        def more(path, **below):
            fd = os.open(path, os.O_WRONLY | os.O_APPEND, **below)
            os.write(fd, b"x")
            os.close(fd)
        more("near")
        more({str(folder / "near")!r})
        more("../{"d" * 200}/near")
        more("near", dir_fd=os.open(".", os.O_RDONLY))
        os.read(0, 2)
        os.rename("near", "far")
        """
    with open(folder / "near") as file, contextlib.chdir(folder):
        command = (sys.executable, "-S", "-c", code)
        done = run(*PFS, "run", "--json", "-o", tmp_path / "report", "--", *command, stdin=file, check=True)
    assert done.stdout == ""
    names = {row["file"]: row for row in json.loads((tmp_path / "report").read_text())["files"]}
    ((name, row),) = [(name, row) for name, row in names.items() if "/dddd" in name and name.endswith(("/near", "/far"))]
    assert (len(name), name.endswith("/far")) == (512, True)
    assert (row["reads"], row["bytes_read"], row["writes"], row["bytes_written"]) == (1, 2, 4, 4)


def test_a_name_that_no_file_can_have_is_refused_as_ever(tmp_path: Path) -> None:
    """A single part as long as a path may be: there is no space for it behind the working directory."""
    code = """if True:
        import os
        def refused(call, *words):
            try:
                call(*words)
            except OSError as error:
                return error.strerror
        for name in "x" * 4095, "/" + "x" * 4094, "./" + "x" * 4093, "x" * 5000, "y" * 300 + "/" + "x" * 3000:
            print(refused(os.open, name, os.O_RDONLY), refused(os.rename, name, "a"), refused(os.rename, "a", name))
        """
    command = (sys.executable, "-S", "-c", code)
    plain = run(*command, cwd=tmp_path, check=True).stdout
    assert plain.count("File name too long") == 12
    assert run(*RUN, "--", *command, cwd=tmp_path, check=True).stdout == plain


@pytest.mark.needs("root")
def test_a_program_that_locks_its_memory_locks_little_of_pfs(tmp_path: Path) -> None:
    """mlockall() makes all memory that a process could use take place."""
    (tmp_path / "locks.c").write_text(LOCKS)
    subprocess.run(["cc", "-o", tmp_path / "locks", tmp_path / "locks.c"], check=True)
    result, kilobytes = map(int, run(*RUN, "--", tmp_path / "locks", check=True).stdout.split())
    assert result == 0
    assert kilobytes < 64 << 10
