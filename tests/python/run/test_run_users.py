"""Processes that become another user under ``pfs run``: servers that drop root, su, setpriv. Who may read a run."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.python.run.test_run import LIBRARY, PFS, SOURCES, pytestmark

__all__ = ["pytestmark"]  # test_run's mark holds here, too

ROOT_ONLY = pytest.mark.needs("root")
NOBODY = 65534
READER = 3000  # users that have no name
GROUP = 2000


@pytest.fixture(scope="module")
def everybody_reads() -> None:
    """Skips where another user can neither run the interpreter with the installed package, nor load the library."""
    other = ["setpriv", "--reuid", str(READER), "--regid", str(READER), "--clear-groups"]
    for what, command in ((sys.prefix, [*PFS, "--version"]), (LIBRARY, ["head", "-c0", str(LIBRARY)])):
        tried = subprocess.run([*other, *command], cwd="/", capture_output=True, text=True, timeout=60)
        if "Permission denied" in tried.stderr or "No module named" in tried.stderr:
            pytest.skip(f"another user cannot read {what}: {tried.stderr[-200:]}")
        assert tried.returncode == 0, tried.stderr


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can reach, as /dev/shm is."""
    path = Path(tempfile.mkdtemp(prefix="pfs-test-users-", dir="/dev/shm"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def drops() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pfs-test-users-"))
    folder.chmod(0o755)
    subprocess.run(["cc", "-O1", "-pthread", "-o", folder / "drops", SOURCES / "drops.c"], check=True)
    yield folder / "drops"
    shutil.rmtree(folder)


def run(
    place: Path, *command: str | Path, options: tuple[str, ...] = ()
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    report = place / "report.json"
    done = subprocess.run(
        [*PFS, "run", "--json", "-o", str(report), "--limit", "1000", *options, "--", *command],
        env=os.environ | {"PFS_DIR": str(place)}, cwd="/", capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done, json.loads(report.read_text())


def reads(report: dict[str, Any], name: str) -> int:
    return sum(int(row["reads"]) for row in report["files"] if row["file"] == name)


@ROOT_ONLY
@pytest.mark.parametrize("how", ["setuid", "seteuid", "setreuid", "setresuid"])
def test_workers_that_drop_root_are_recorded(place: Path, drops: Path, how: str) -> None:
    """Each of three children becomes another user before its first event, and then locks and reads 100 times."""
    done, report = run(place, drops, how)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert len(report["processes"]) == 4
    assert reads(report, "/etc/passwd") == 300
    assert {row["name"]: row["count"] for row in report["locks"]}["wait/synch/mutex/drops/m"] == 300
    assert report["unread"] == []


@ROOT_ONLY
def test_the_folders_of_a_run_are_closed_to_others(place: Path, drops: Path) -> None:
    done, _ = run(place, drops, "setuid", options=("--keep",))
    folder = Path(done.stderr.split()[-1])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o711  # entered, but not listed
    (own,) = (path for path in folder.iterdir() if path.is_dir())
    assert (own.name, own.stat().st_uid, stat.S_IMODE(own.stat().st_mode)) == (f"pfs-{NOBODY}", NOBODY, 0o700)
    assert len(list(folder.glob("*.pfs"))) == 1
    files = list(own.iterdir())
    assert len(files) == 3
    assert {(path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in files} == {(NOBODY, 0o600)}
    # Readers find all of them.
    environment = os.environ | {"PFS_DIR": str(place)}
    listed = subprocess.run([*PFS, "ps", "--json"], env=environment, capture_output=True, text=True, check=True).stdout
    assert sorted(row["USER"] for row in json.loads(listed)) == sorted(["root", *[pwd.getpwuid(NOBODY).pw_name] * 3])
    tree = subprocess.run([*PFS, "ps", "--tree"], env=environment, capture_output=True, text=True, check=True).stdout
    assert len(tree.splitlines()) == 5
    subprocess.run([*PFS, "gc"], env=environment, capture_output=True, check=True)
    assert list(folder.rglob("*.pfs")) == []


@ROOT_ONLY
@pytest.mark.usefixtures("everybody_reads")
@pytest.mark.parametrize(
    "command",
    [
        ("setpriv", "--reuid", str(NOBODY), "--clear-groups", "sh", "-c"),
        ("su", "-s", "/bin/sh", pwd.getpwuid(NOBODY).pw_name, "-c"),
        ("runuser", "-u", pwd.getpwuid(NOBODY).pw_name, "--", "sh", "-c"),
    ],
    ids=lambda command: command[0],
)
def test_programs_that_are_started_as_another_user(place: Path, command: tuple[str, ...]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    plain = subprocess.run([*command, "cat /etc/hostname; id -u"], cwd="/", capture_output=True, text=True, check=True)
    done, report = run(place, *command, "cat /etc/hostname; id -u")
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)
    assert done.stdout.endswith(f"{NOBODY}\n")
    assert reads(report, "/etc/hostname") > 0
    commands = [process["command"] for process in report["processes"]]
    assert "cat /etc/hostname" in commands
    assert any(one.startswith("sh -c cat") for one in commands)


@ROOT_ONLY
@pytest.mark.needs("nginx")
def test_workers_of_nginx(place: Path) -> None:
    site = Path(tempfile.mkdtemp(prefix="pfs-test-users-"))
    try:
        site.chmod(0o755)
        (site / "index.html").write_text("hello\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (site / "nginx.conf").write_text(
            f"user nobody {'nogroup' if Path('/etc/debian_version').exists() else 'nobody'}; worker_processes 2; daemon off;\n"
            f"pid {site}/pid; error_log {site}/error.log; events {{ }}\n"
            f"http {{ access_log off; client_body_temp_path {site}/body; proxy_temp_path {site}/proxy;\n"
            f"fastcgi_temp_path {site}/f; uwsgi_temp_path {site}/u; scgi_temp_path {site}/s;\n"
            f"server {{ listen 127.0.0.1:{port}; root {site}; }} }}\n"
        )
        report = place / "report.json"
        command = [
            *PFS,
            "run",
            "--json",
            "-o",
            str(report),
            "--limit",
            "1000",
            "--",
            "nginx",
            "-p",
            str(site),
            "-c",
            f"{site}/nginx.conf",
        ]
        server = subprocess.Popen(command, env=os.environ | {"PFS_DIR": str(place)}, cwd="/", stderr=subprocess.PIPE)
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            for _ in range(20):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                    assert answer.read() == b"hello\n"
            # While it runs: workers are found by pid.
            ps = subprocess.run([*PFS, "ps", "--json"], env=os.environ | {"PFS_DIR": str(place)}, capture_output=True, text=True)
            assert [row["USER"] for row in json.loads(ps.stdout)].count("nobody") >= 1
        finally:
            server.terminate()
            server.wait(60)
            assert server.stderr is not None
            server.stderr.close()
        gathered = json.loads(report.read_text())
        assert len(gathered["processes"]) >= 2
        rows = {row["file"]: row for row in gathered["files"]}
        assert f"{site}/index.html" in rows
        accepted = [row for row in gathered["sockets"] if row["name"].endswith("/accepted")]
        assert sum(row["reads"] for row in accepted) >= 20
    finally:
        shutil.rmtree(site)


@ROOT_ONLY
@pytest.mark.usefixtures("everybody_reads")
@pytest.mark.parametrize(("mode", "others"), [("0640", False), ("0644", True), ("", False)])
@pytest.mark.parametrize("is_there", [True, False])
def test_the_mode_holds_for_the_folder_of_a_run(place: Path, mode: str, others: bool, is_there: bool) -> None:
    """A sidecar with the group of the folder reads a run of another user, as the mode of the segments lets it.

    So it does of one in a folder that pfs run makes.
    """
    shared = place / "shared"
    shared.mkdir()
    os.chown(shared, 0, GROUP)
    shared.chmod(0o3777)
    given = shared if is_there else shared / "app"
    environment = os.environ | {"PFS_DIR": str(given)} | ({"PFS_MODE": mode} if mode else {})
    program = ["setpriv", "--reuid", "1234", "--regid", str(GROUP), "--clear-groups"]
    done = subprocess.run(
        [*program, *PFS, "run", "--keep", "--no-report", "--", "cat", "/etc/hostname"],
        env=environment, cwd="/", capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    folder = Path(done.stderr.split()[-1])
    assert stat.S_IMODE(folder.stat().st_mode) == {"0640": 0o2750, "0644": 0o2755, "": 0o2700}[mode]

    def ps(user: int, group: int) -> subprocess.CompletedProcess[str]:
        who = ["setpriv", "--reuid", str(user), "--regid", str(group), "--clear-groups"]
        return subprocess.run(
            [*who, *PFS, "ps"], env=environment, cwd="/", capture_output=True, text=True, timeout=60, check=True
        )

    for user, group, reads in ((READER, GROUP, mode != ""), (READER, READER, others)):
        seen = ps(user, group)
        assert ("cat /etc/hostname" in seen.stdout) == reads, seen
        hidden = folder if is_there else given
        assert (f"1 folder cannot be read (permission): {hidden}" in seen.stderr) == (not reads), seen
