"""The processes of one ``pfs run``: their tree, the tables of all of them, and ``pfs top`` over them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pfs
from pfs._base import installed
from pfs._process.run import tree
from pfs._ui.cli.top_tree import TreeSampler

PFS = [sys.executable, "-m", "pfs"]
# The program writes the process ids that the tree must show. "grandchild" is killed, "child" ends, the others run on.
SCRIPT = """
import os, signal, sys, time
folder = sys.argv[1]
def start(name):
    pid = os.fork()
    if pid == 0:
        with open(f"{folder}/{name}", "w") as file:
            file.write(f"{os.getpid()} {os.getppid()}")
    return pid
open(f"{folder}/root", "w").write(f"{os.getpid()} 0")
if start("child") == 0:
    if (grandchild := start("grandchild")) == 0:
        time.sleep(60)
    while not os.path.exists(f"{folder}/grandchild") or os.path.getsize(f"{folder}/grandchild") == 0:
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(grandchild, signal.SIGKILL)
    os.waitpid(grandchild, 0)
    os._exit(0)
if start("other") == 0:
    time.sleep(60)
os.wait()
while not os.path.exists(f"{folder}/other") or os.path.getsize(f"{folder}/other") == 0:
    time.sleep(0.01)
open(f"{folder}/ready", "w").close()
time.sleep(60)
"""

pytestmark = pytest.mark.skipif(
    not Path(installed.library_dir(), "libperfschema-run.so").exists(), reason="libperfschema-run.so is for x86-64"
)


def output(*command: str | Path) -> str:
    return subprocess.run([*PFS, *command], capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Yields the folder of a run of four processes, their ids and parents by name."""
    base = tmp_path_factory.mktemp("tree")
    (base / "script.py").write_text(SCRIPT)
    (base / "out").mkdir()
    environment = os.environ | {"PFS_DIR": str(base / "segments")}
    command = [*PFS, "run", "--keep", "--no-report", "--", sys.executable, str(base / "script.py"), str(base / "out")]
    child = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (base / "out/ready").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    (folder,) = (base / "segments").glob("run-*")
    ids = {}
    for name in ("root", "child", "grandchild", "other"):
        pid, parent = (base / "out" / name).read_text().split()
        ids[name] = (int(pid), int(parent))
    try:
        yield folder, {name: pid for name, (pid, _) in ids.items()}, dict(ids.values())
    finally:
        for name in ("other", "root"):
            os.kill(ids[name][0], signal.SIGTERM)
        child.wait(60)


Family = tuple[Path, dict[str, int], dict[int, int]]


def test_the_tree_is_that_of_the_program(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, pids, parents = family
    monkeypatch.setenv("PFS_DIR", str(folder.parent))
    rows = json.loads(output("ps", "--tree", "--json"))
    assert {row["PID"]: row["PARENT_PID"] for row in rows} == {pid: parent or None for pid, parent in parents.items()}
    assert [row["PID"] for row in rows] == [pids[name] for name in ("root", "child", "grandchild", "other")]
    states = {row["PID"]: row["STATE"] for row in rows}
    assert {name: states[pid] for name, pid in pids.items()} == {
        "root": "alive", "child": "dead", "grandchild": "dead", "other": "alive",
    }  # fmt: skip
    indents = [len(row["COMMAND"]) - len(row["COMMAND"].lstrip()) for row in rows]
    assert indents == [0, 2, 4, 2]
    for row in rows:
        with pfs.attach(row["PATH"]) as schema:
            waits = schema.table("events_waits_summary_global_by_event_name", where="EVENT_NAME != 'idle'")
        if row["STATE"] == "dead":
            assert (row["COUNT_STAR"], row["SUM_TIMER_WAIT"]) == (waits["COUNT_STAR"].sum(), waits["SUM_TIMER_WAIT"].sum())
        assert row["COUNT_STAR"] > 0
    table = output("ps", "--tree", "--dir", folder)
    assert table.count("script.py") == 4  # the folder of one run
    assert len(re.findall(r"  [0-9.]+ [nµm]?s  ", table)) == 4  # SUM_TIMER_WAIT has a unit


def test_processes_that_ended_too_soon_for_pfs_run_have_their_parents(family: Family) -> None:
    folder, pids, parents = family
    noted = folder / tree.FILE
    noted.rename(away := noted.with_suffix(".away"))
    try:
        nodes = tree.tree(str(folder))
    finally:
        away.rename(noted)
    above = {node.found.identity.pid: node.parent and node.parent.found.identity.pid for node in nodes}
    assert above == {pid: parent or None for pid, parent in parents.items()}
    assert len(above) == len(pids)


def test_show_gives_the_rows_of_all_processes(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, pids, _ = family
    monkeypatch.setenv("PFS_DIR", str(folder.parent))
    wanted = ("file_summary_by_instance", "--tree", "--where", "FILE_NAME like '%/out/%' and COUNT_WRITE > 0", "--json")

    def writers(process: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for row in json.loads(output("show", process, *wanted)):
            found.setdefault(os.path.basename(row["FILE_NAME"]), []).append(row["PID"])
        return found

    assert writers(str(pids["root"])) == {name: [pid] for name, pid in pids.items()}
    assert writers(f"{folder}/{pids['child']}.pfs") == {name: [pids[name]] for name in ("child", "grandchild")}


def test_top_adds_the_processes_up(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, pids, _ = family
    monkeypatch.setenv("PFS_DIR", str(folder.parent))
    text = output("top", folder, "--batch", "--count", "1", "--limit", "1000")
    assert text.startswith("pfs top: 2 running and 2 ended processes in ")
    assert {int(pid) for pid in re.findall(r"^(\d+): ", text, re.MULTILINE)} == set(pids.values())
    assert {name for name in pids if re.search(rf"/out/{name} ", text)} == set(pids)
    below = output("top", f"{folder}/{pids['child']}.pfs", "--tree", "--batch", "--count", "1")
    assert {int(pid) for pid in re.findall(r"^(\d+): ", below, re.MULTILINE)} == {pids["child"], pids["grandchild"]}


def test_top_shows_what_the_threads_of_all_processes_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each role has the time of its threads in all processes, and the roles stand below the line for all threads."""
    script = """if 1:
        import os, threading, time
        child = os.fork()
        def nap(): time.sleep(0.5)
        def spin():
            end = time.monotonic() + 0.3
            while time.monotonic() < end: pass
        for work in [nap, spin if child else nap]:
            threading.Thread(target=work, name=work.__name__).start()
        if child: os.waitpid(child, 0)
        """
    monkeypatch.setenv("PFS_DIR", str(tmp_path))
    subprocess.run([*PFS, "run", "--keep", "--no-report", "--", sys.executable, "-c", script], check=True, timeout=60)
    (folder,) = tmp_path.glob("run-*")
    text = output("top", folder, "--batch", "--count", "1")
    threads, *roles = re.findall(r"^(threads|  python/\w+): .*\d+ %", text, re.MULTILINE)
    assert (threads, set(roles)) == ("threads", {"  python/nap", "  python/spin", "  python/MainThread"})
    rows = json.loads(output("show", folder, "thread_time", "--tree", "--json"))
    naps = [row for row in rows if row["NAME"] == "thread/python/nap"]
    assert len({row["PID"] for row in naps}) == 2
    sampler = TreeSampler(str(folder))
    assert sum(time for (role, _), (_, time) in sampler._after.times.items() if role == "thread/python/nap") == sum(
        row["SUM_TIMER_WAIT"] for row in naps
    )
    sampler.look()
    assert sampler.roles == []  # no thread lives


def test_a_folder_may_have_several_runs(family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be named like a program, without a slash."""
    folder, pids, _ = family
    monkeypatch.setenv("PFS_DIR", str(tmp_path / "none"))
    monkeypatch.chdir(folder.parents[1])
    for name in ("segments", "./segments", f"segments/{folder.name}"):
        text = output("top", name, "--batch", "--count", "1", "--limit", "1000")
        assert text.startswith("pfs top: 2 running and 2 ended processes in segments"), name
        assert {int(pid) for pid in re.findall(r"^(\d+): ", text, re.MULTILINE)} == set(pids.values()), name
        rows = json.loads(output("show", name, "threads", "--tree", "--json"))
        assert {row["PID"] for row in rows} == set(pids.values()), name
    again = tmp_path / "again"
    again.mkdir(mode=0o700)
    shutil.copytree(folder, again / "run-first")
    shutil.copytree(folder, again / "pfs-1000" / "run-second")
    assert len(tree.trees(str(again))) == 8
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    done = subprocess.run([*PFS, "top", "empty"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "no process and no segment is called 'empty'" in done.stderr) == (1, True)


def test_a_process_that_pfs_run_has_not_started_has_no_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFS_DIR", str(tmp_path))
    script = "import pfs, time; pfs.Lock('a/b').acquire(); print('on', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(pfs.AttachError, match=f"process {child.pid} has no tree: it was not started by pfs run"):
            tree.folder_of(child.pid)
        assert tree.tree(str(tmp_path))[0].found.identity.pid == child.pid  # a folder of any segments: all at the top
    finally:
        child.kill()
        child.communicate()


# ---- pfs run --top


def test_top_beside_the_program_is_lines_on_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFS_DIR", str(tmp_path / "segments"))
    script = "import time\nfor i in range(30):\n    open('/dev/null').close(); time.sleep(0.1)\nprint('the end')"
    command = [*PFS, "run", "--top", "--interval", "0.2", "--no-report", "--", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "the end\n")
    assert done.stderr.count("pfs top: 1 running and 0 ended processes in ") >= 3
    assert "/dev/null" in done.stderr


def on_terminal(command: list[str], stdout: int | None) -> tuple[int, str]:
    """Runs a command whose stderr, and stdout if it is None, is a terminal of 24 lines. Returns its exit code, and the output."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "LINES": "24", "COLUMNS": "80"}
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout or theirs, stderr=theirs, env=environment)
    os.close(theirs)
    data = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                data += os.read(ours, 1 << 16)
            except OSError:  # the terminal has no other side any more
                break
    os.close(ours)
    return child.wait(60), data.decode(errors="replace")


def test_top_is_a_screen_on_the_terminal_of_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFS_DIR", str(tmp_path / "segments"))
    script = "import time; open('/dev/null').close(); time.sleep(3); print('the end')"
    command = [*PFS, "run", "--top", "--interval", "0.2", "--no-report", "--", sys.executable, "-c", script]
    with open(tmp_path / "output", "w") as file:
        code, screen = on_terminal(command, file.fileno())
    assert (code, (tmp_path / "output").read_text()) == (0, "the end\n")
    assert "pfs top: 1 running" in screen
    assert screen.count("\x1b[?1049h") == screen.count("\x1b[?1049l") == 1  # the screen of before comes back
    # The program and the screen do not share a terminal.
    code, said = on_terminal(command, None)
    assert (code, "would write to one terminal" in said.replace("\r\n", " ").replace("  ", " ")) == (2, True)
