"""What ``pfs run`` counts of many processes, and what it says of those that it cannot record."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pfs._process.run.contents import contents
from pfs._process.run.report import Report
from tests.python.run.test_run import LIBRARY, PFS, pytestmark

__all__ = ["pytestmark"]  # test_run's mark holds here, too

ROOT_ONLY = pytest.mark.needs("root")
MANY = """
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char** arguments) {
  const int children = atoi(arguments[1]), at_once = count > 2 ? atoi(arguments[2]) : 4;
  char bytes[9];
  for (int i = 0; i < children; ++i) {
    if (fork() == 0) {
      const int fd = open("/etc/passwd", O_RDONLY);
      if (read(fd, bytes, sizeof bytes) != sizeof bytes) _exit(1);
      close(fd);
      _exit(0);
    }
    if (i % at_once == at_once - 1) while (waitpid(-1, NULL, 0) > 0) {}
  }
  while (waitpid(-1, NULL, 0) > 0) {}
}
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "many.c").write_text(MANY)
    subprocess.run(["cc", "-O1", "-o", folder / "many", folder / "many.c"], check=True)
    return folder / "many"


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "static.c").write_text("int main(void) { return 7; }")
    if subprocess.run(["cc", "-static", "-o", folder / "static", folder / "static.c"], capture_output=True).returncode != 0:
        pytest.skip("there is no static C library")
    return folder / "static"


def report_of(
    tmp_path: Path, *command: str | Path, before: tuple[str, ...] = (), **variables: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    file = tmp_path / "report.json"
    done = subprocess.run(
        [*before, *PFS, "run", "--json", "--limit", "1000", "-o", file, "--", *command],
        env=os.environ | variables, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert file.exists(), done.stderr
    return done, json.loads(file.read_text())


def unrecorded(report: dict[str, Any]) -> dict[str | None, tuple[int, str]]:
    return {row["program"]: (row["count"], row["reason"]) for row in report["unrecorded"]}


@pytest.mark.parametrize(("children", "at_once"), [(150, 4), (1000, 4), (300, 100)])
def test_every_process_of_a_run_is_in_its_sums(many: Path, tmp_path: Path, children: int, at_once: int) -> None:
    """Also those whose segments have been removed while the program ran: they would fill the file system."""
    done, report = report_of(tmp_path, many, str(children), str(at_once))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(report["processes"]) == children + 1  # the program itself waits for them
    (row,) = (row for row in report["files"] if row["file"] == "/etc/passwd")
    assert (row["reads"], row["bytes_read"]) == (children, 9 * children)
    assert (report["lost"], report["unread"], report["unrecorded"]) == ({}, [], [])


def test_few_segments_are_there_at_one_time(many: Path, tmp_path: Path) -> None:
    # pfs run may be late, on a busy machine.
    script = (
        f"{many} 200; for i in $(seq 100); do n=$(ls $PFS_DIR | grep -c pfs); [ $n -lt 150 ] && break; sleep 0.2; done; echo $n"
    )
    done, report = report_of(tmp_path, "sh", "-c", script)
    assert int(done.stdout) < 150
    assert sum(row["reads"] for row in report["files"] if row["file"] == "/etc/passwd") == 200


def test_kept_segments_stay(many: Path, tmp_path: Path) -> None:
    command: list[str | Path] = [*PFS, "run", "--keep", "--", many, "100"]
    environment = os.environ | {"PFS_DIR": str(tmp_path / "segments")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert re.search(r"many 100: 101 processes\n", done.stderr)
    assert len(list(Path(done.stderr.split()[-1]).glob("*.pfs"))) == 101


def test_a_static_program_is_named(static: Path, tmp_path: Path) -> None:
    script = f"{static}; {static}; cd {static.parent}; ./static; true"
    _, report = report_of(tmp_path, "sh", "-c", script)
    why = "it is statically linked: there is no dynamic linker that could load pfs"
    assert unrecorded(report) == {str(static): (2, why), "./static": (1, why)}
    done = subprocess.run([*PFS, "run", "--", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert f"Not recorded: {static} (2 times): {why}" in done.stderr.splitlines()
    assert f"Not recorded: ./static: {why}" in done.stderr.splitlines()


@pytest.mark.parametrize(
    ("command", "reads"),
    [
        ("exec /no/such/program", 127),
        ("/lib64/ld-linux-x86-64.so.2 /bin/cat /dev/null", 0),
        ("cat /dev/null; sh -c 'cat /dev/null'", 0),
    ],
)
def test_what_runs_or_does_not_start_is_not_named(tmp_path: Path, command: str, reads: int) -> None:
    if "ld-linux" in command and not Path(command.split()[0]).exists():
        pytest.skip("this linker is for x86-64")
    done, report = report_of(tmp_path, "sh", "-c", command)
    assert done.returncode == reads
    assert report["unrecorded"] == []


def test_a_program_that_cannot_start_leaves_no_note(static: Path, tmp_path: Path) -> None:
    """The note is there before the call, and taken back after it."""
    (tmp_path / "tries.c").write_text(
        """
        #include <spawn.h>
        #include <unistd.h>
        int main(int count, char** arguments) {
          char* nothing[] = {NULL};
          pid_t child;
          execve(arguments[1], arguments, nothing);
          return posix_spawn(&child, arguments[1], NULL, NULL, arguments, nothing) == 0 || count != 2;
        }"""
    )
    subprocess.run(["cc", "-o", tmp_path / "tries", tmp_path / "tries.c"], check=True)
    copy = tmp_path / "static"
    copy.write_bytes(static.read_bytes())  # not executable
    done, report = report_of(tmp_path, tmp_path / "tries", copy)
    assert (done.returncode, report["unrecorded"]) == (0, [])


def test_an_environment_of_its_own_is_named(tmp_path: Path) -> None:
    _, report = report_of(tmp_path, "env", "-i", "/bin/cat", "/dev/null")
    assert unrecorded(report) == {"/bin/cat": (1, "it got an environment without LD_PRELOAD")}


@ROOT_ONLY
def test_a_setuid_program_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "id.c").write_text("int main(void) { return 0; }")
    subprocess.run(["cc", "-o", tmp_path / "id", tmp_path / "id.c"], check=True)
    os.chown(tmp_path / "id", 65534, 65534)
    (tmp_path / "id").chmod(0o4755)
    _, report = report_of(tmp_path, "sh", "-c", f"{tmp_path}/id; true")
    assert unrecorded(report) == {f"{tmp_path}/id": (1, "it is setuid or setgid: the system ignores LD_PRELOAD")}


@ROOT_ONLY
def test_a_full_file_system_is_told(many: Path, tmp_path: Path) -> None:
    """The processes run on; each is counted once, though none can write a byte."""
    full = tmp_path / "full"
    full.mkdir()
    script = (
        f'mount -t tmpfs -o size=64k,mode=0700 none "{full}" && dd if=/dev/zero of={full}/filler bs=1k 2>/dev/null; exec "$@"'
    )
    before = ("unshare", "--mount", "sh", "-c", script, "sh")
    if subprocess.run([*before, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs rights to mount")
    done, report = report_of(tmp_path, many, "10", before=before, PFS_DIR=str(full))
    assert (done.returncode, done.stdout, done.stderr, report["processes"]) == (0, "", "", [])
    ((program, (count, reason)),) = unrecorded(report).items()
    assert (program, count) == (None, 11)
    assert re.fullmatch(r".*a file in \S*/run-\w+: No space left on device", reason), reason
    # Without a report one line says it of the first process, while the program runs.
    command = [*before, *PFS, "run", "--no-report", "--", "sh", "-c", "/bin/true; echo end >&2"]
    done = subprocess.run(command, env=os.environ | {"PFS_DIR": str(full)}, capture_output=True, text=True, timeout=240)
    said, end = sorted(done.stderr.splitlines(), reverse=True)
    assert re.fullmatch(r"pfs run: not recorded: .*a file in \S*/run-\w+: No space left on device", said), said
    assert end == "end"


def test_a_segment_that_the_program_removes_is_counted(tmp_path: Path) -> None:
    done, report = report_of(tmp_path, "sh", "-c", "read line < /etc/hostname; rm -f $PFS_DIR/*.pfs; true")
    assert done.returncode == 0
    assert unrecorded(report) == {None: (1, "the segment was removed before the report could read it")}
    alone = "import glob, os; [os.unlink(path) for path in glob.glob(os.environ['PFS_DIR'] + '/*.pfs')]"
    command = [*PFS, "run", "--", sys.executable, "-c", alone]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "pfs saw no event.\n\nNot recorded: 1 process: the segment was removed" in done.stderr


@pytest.mark.parametrize(
    ("gathered", "said"),
    [
        (Report(), "pfs saw no event: no process has made a segment."),
        (Report(unrecorded={("", "the disk is full"): 1}), "pfs saw no event."),
        (Report(unread=["a.pfs: it is no segment"]), "pfs saw no event."),
        (Report(processes=[{}]), "pfs saw no event."),
    ],
)
def test_a_report_without_events_gives_one_reason(gathered: Report, said: str) -> None:
    assert contents(gathered, 10)[0] == said


@ROOT_ONLY
def test_a_folder_that_is_closed_to_a_worker_is_told(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    command = ("setpriv", "--reuid", "65534", "--clear-groups", "/bin/cat", "/etc/hostname")
    done, report = report_of(tmp_path, *command, PFS_DIR=str(closed / "segments"))
    assert done.returncode == 0
    ((program, (_, reason)),) = unrecorded(report).items()
    assert program is None
    assert re.fullmatch(r"/\S+ is closed to \w+, whom they became \(chmod o\+x opens it\)", reason), reason


# ---- Where the library cannot be opened


@pytest.fixture
def small_root(tmp_path: Path) -> Path:
    """A root with a shell, echo and the C library."""
    root = tmp_path / "root"
    for program in ("/bin/sh", "/bin/echo"):
        needed = [os.path.realpath(program), *re.findall(r"(/\S+) \(0x", subprocess.check_output(["ldd", program], text=True))]
        for file in needed:
            target = root / (program if file == needed[0] else file).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(Path(file).read_bytes())
            target.chmod(0o755)
    return root


@ROOT_ONLY
def test_another_root(small_root: Path, tmp_path: Path) -> None:
    """The dynamic linker would write a line to the program's stderr for each program there."""
    done, report = report_of(tmp_path, "chroot", small_root, "/bin/sh", "-c", "/bin/echo one; /bin/echo two >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\n", "two\n")
    why = "what a process starts after chroot() to this folder: libperfschema-run.so is not there"
    assert unrecorded(report) == {str(small_root): (1, why)}
    for folder in ("/", "/no/such/folder"):
        assert unrecorded(report_of(tmp_path, "chroot", folder, "/bin/true")[1]) == {}


@ROOT_ONLY
def test_a_private_folder_over_the_library(many: Path, tmp_path: Path) -> None:
    """As with bwrap --tmpfs /tmp, or a service with PrivateTmp: mounts differ from one process on."""
    copy = tmp_path / "package"
    preload = f"{copy}/libperfschema-run.so"
    shutil.copytree(LIBRARY.parent, copy, ignore=shutil.ignore_patterns("*.a"))
    hidden = f"unshare --mount sh -c 'mount -t tmpfs none {copy} && exec sh -c \"cat /dev/null; echo in\"'"
    gone = f"rm -r {copy}; sh -c 'cat /dev/null; echo in'"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs rights to mount")
    segments = tmp_path / "segments"
    segments.mkdir(mode=0o700)
    environment = os.environ | {"LD_PRELOAD": preload, "PFS_RUN_PRELOAD": preload, "PFS_DIR": str(segments), "PFS_KEEP": "1"}
    for script in (hidden, gone):
        done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "in\n", "")
        notes = [os.readlink(path) for path in segments.glob("*.unseen")]
        assert len(notes) >= 1
        assert {note.split()[0] for note in notes} == {"gone"}
        for path in segments.iterdir():
            path.unlink()


@pytest.mark.needs("bwrap")
def test_bubblewrap(tmp_path: Path) -> None:
    command = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--tmpfs",
        str(LIBRARY.parent),
        "sh",
        "-c",
        "cat /dev/null; echo in",
    ]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if plain.returncode != 0:
        pytest.skip("bubblewrap does not work here")
    done, _ = report_of(tmp_path, *command)
    assert (done.returncode, done.stdout, done.stderr) == (0, "in\n", plain.stderr)
