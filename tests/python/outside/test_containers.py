"""Processes of containers: namespaces as they have, read from the host and from a container beside them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pfs
from pfs._export.serve import sources as served
from pfs._process import elsewhere, processes
from pfs._process.findings.ask import processor_time
from pfs._ui.cli import top_minute
from pfs._ui.cli.top_tree import TreeSampler
from tests.python._programs.subject import clean_environment, until

PFS = [sys.executable, "-m", "pfs"]
CONTAINER = ["unshare", "--pid", "--fork", "--mount-proc"]
PROGRAM = """
import sys, pfs
with pfs.Lock("app/LOCK"):
    print(pfs.status["performance_schema_status_reason"], flush=True)
    sys.stdin.readline()
"""

pytestmark = [
    pytest.mark.needs("root"),
    pytest.mark.needs("unshare"),
    pytest.mark.skipif(
        os.geteuid() == 0 and subprocess.run([*CONTAINER, "true"], check=False, capture_output=True).returncode != 0,
        reason="needs rights to make namespaces",
    ),
]


@contextmanager
def container(folder: Path, *setup: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Runs the program as process 1 of a pid namespace. Yields what started it, and its id here. `setup`: lines of a shell in the
    container."""
    script = "\n".join(["set -e", *setup, 'exec "$@"'])
    command = [*CONTAINER, "sh", "-c", script, "sh", sys.executable, "-c", PROGRAM]
    environment = clean_environment(folder)
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == "\n"
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        yield outer, int(children[0])
        outer.kill()


def beside(folder: Path, *command: str) -> str:
    """What a command prints in another container, which has the folder, too."""
    done = subprocess.run(
        [*CONTAINER, *PFS, *command], env=clean_environment(folder), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = Path(f"/dev/shm/pfs-test-container-{os.getpid()}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(mode=0o700)
    monkeypatch.setenv("PFS_DIR", str(made))
    return made


@pytest.fixture(autouse=True)
def removed(folder: Path) -> Iterator[None]:
    yield
    shutil.rmtree(folder)


def states(folder: Path) -> list[str]:
    return [row["STATE"] for row in json.loads(beside(folder, "ps", "--json"))]


def test_a_container_runs_until_it_ends_for_the_host_and_for_a_sidecar(folder: Path) -> None:
    """Whatever its pid is, and also after the namespace has gone: then pfs gc removes the segment."""
    with container(folder) as (_, pid):
        (row,) = pfs.processes().to_dict("records")
        assert (row["PID"], row["STATE"], row["PID_HERE"]) == (1, "alive (container)", pid)
        assert str(row["COMMAND"]).startswith(f"{sys.executable} -c ")
        assert states(folder) == ["alive (container)"]
        assert 'pfs_processes{state="alive"} 1\n' in beside(folder, "metrics")
        with pfs.attach(pid) as schema:
            assert schema.is_alive
            assert schema.pid == 1
            assert "wait/synch/mutex/app/LOCK" in list(schema.table("mutex_instances")["NAME"])
        assert len(pfs.gc()) == 0
        os.kill(pid, signal.SIGKILL)
        while processes.look(row["PATH"]).state != "dead":  # type: ignore[union-attr]
            pass
        assert states(folder) == ["dead"]
    assert list(pfs.processes()["STATE"]) == ["dead"]
    assert len(pfs.gc()) == 1


def ticks(pid: int) -> int:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_a_process_of_a_container_counts_as_one_that_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = folder / "run-a"
    run.mkdir(mode=0o700)
    with container(run) as (_, pid):
        assert TreeSampler(str(run)).headline().startswith("pfs top: 1 running and 0 ended processes in ")
        with pfs.attach(pid) as schema:
            watched: list[object] = []
            monkeypatch.setattr(top_minute, "Watch", watched.append)
            top_minute.MinuteLine(schema._source).watch()
            assert len(watched) == 1
            before, used, after = ticks(pid), processor_time(schema._source), ticks(pid)
            assert used is not None
            assert before <= used * os.sysconf("SC_CLK_TCK") / 10**12 <= after
        completion = {"_PFS_COMPLETE": "bash_complete", "COMP_WORDS": f"pfs show {str(pid)[:-1]}", "COMP_CWORD": "2"}
        offered = subprocess.run(PFS, env=os.environ | completion, capture_output=True, text=True, check=True).stdout
        assert f"plain,{pid}" in offered.splitlines()
        assert until(served.All(str(folder)).uptime)


def test_the_table_of_ps_names_the_pid_here_only_of_containers(folder: Path) -> None:
    with container(folder) as (_, pid):
        text = subprocess.run([*PFS, "ps"], capture_output=True, text=True, check=True).stdout
        assert "PID_HERE" in text.splitlines()[0]
        assert f"alive (container)  {pid:>8}  " in text
    text = subprocess.run([*PFS, "ps"], capture_output=True, text=True, check=True).stdout
    assert "PID_HERE" not in text


@pytest.mark.parametrize("directory", ["", "/var/pfs"])
def test_the_pid_of_the_host_finds_the_folder_of_the_container(folder: Path, directory: str) -> None:
    """Its /dev/shm is its own, of 64 MB; its root is read-only."""
    setup = ["mount -t tmpfs -o size=64m none /dev/shm", "unset PFS_DIR"]
    if directory:
        setup += ["mount -t tmpfs none /var", f"mkdir -m 1777 {directory}", f"export PFS_DIR={directory}"]
    with container(folder, *setup, "mount -o remount,ro,bind / || true") as (_, pid), pfs.attach(pid) as schema:
        assert schema.path.startswith(f"/proc/{pid}/root{directory or '/dev/shm'}/pfs-0/1.pfs")
        assert schema.is_alive
        assert "wait/synch/mutex/app/LOCK" in list(schema.table("mutex_instances")["NAME"])
        shown = subprocess.run([*PFS, "show", str(pid), "mutex_instances"], capture_output=True, text=True, check=True)
        assert "app/LOCK" in shown.stdout
        rows = subprocess.run([*PFS, "ps", "--all-users", "--json"], capture_output=True, text=True, check=True).stdout
        assert [row["STATE"] for row in json.loads(rows) if row["PID_HERE"] == pid] == ["alive (container)"]
    with pytest.raises(pfs.AttachError, match="is not recorded"):
        pfs.attach(os.getppid())


# What Docker gives a container, and --cap-add SYS_PTRACE.
_OF_DOCKER = (
    "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write setfcap"
)
CAPABILITIES = ",".join(f"+{name}" for name in [*_OF_DOCKER.split(), "sys_ptrace"])
SERVICE = """
import threading, time
lock = threading.Lock()
def serve():
    while True:
        with lock:
            time.sleep(0.01)
for _ in range(2):
    threading.Thread(target=serve, daemon=True).start()
print(flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="programs are joined on x86-64 only")
@pytest.mark.parametrize("is_beside", [False, True])
def test_a_service_of_a_container_is_joined_as_it_is(folder: Path, is_beside: bool) -> None:
    """From its host, and from a container that shares its pid namespace. It is no root, and does not see pfs."""
    closed = "mount -t tmpfs none /dev/shm; mount -t tmpfs none $0; mount -o remount,ro,bind /; exec "
    closed += 'setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all "$@"'
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", closed, sys.prefix]
    environment = clean_environment(folder)
    del environment["PFS_DIR"]
    with subprocess.Popen([*command, "/usr/bin/python3", "-c", SERVICE], env=environment, stdout=subprocess.PIPE) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == b"\n"
        pid = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
        join = [*PFS, "join", "1" if is_beside else str(pid), "--for", "2s", "--report"]
        if is_beside:
            beside = ["nsenter", "--target", str(pid), "--pid", "unshare", "--mount", "--mount-proc", "sh", "-ec"]
            limited = f"mount -t tmpfs none /dev/shm; exec setpriv --bounding-set=-all,{CAPABILITIES} --no-new-privs"
            join = [*beside, f'{limited} "$@"', "sh", *join]
        done = subprocess.run(join, env=environment, capture_output=True, text=True, timeout=120, check=False)
        outer.kill()
    assert done.returncode == 0, done.stderr
    assert "/root/dev/shm/pfs-10001/1.pfs" in done.stderr
    assert re.search(r"mutex/\S+\s+<string>:6", done.stdout), done.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0::/user.slice/session-1.scope", ""),
        (f"0::/system.slice/docker-{'0123456789ab' + 'c' * 52}.scope", "0123456789ab"),
        (
            "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1f2e3d4c_0a0b_4c4d_8e8f_112233445566.slice/"
            f"cri-containerd-{'abcdef012345' + '0' * 52}.scope",
            "abcdef012345 pod 1f2e3d4c-0a0b-4c4d-8e8f-112233445566",
        ),
        (
            f"11:memory:/kubepods/besteffort/pod1f2e3d4c-0a0b-4c4d-8e8f-112233445566/{'fedcba987654' + '1' * 52}",
            "fedcba987654 pod 1f2e3d4c-0a0b-4c4d-8e8f-112233445566",
        ),
    ],
)
def test_the_cgroup_names_the_container_and_its_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(line + "\n")
    monkeypatch.setattr(elsewhere, "PROC", str(tmp_path))
    assert elsewhere.container_of(7) == said
