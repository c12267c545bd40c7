"""Folders in which another user has put something: pipes that block a reader, links to files of root, folders of another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pfs._base import paths
from pfs._read.places.own_names import names_for
from pfs._ui.cli.sql import history_file
from tests.python._programs.subject import Subject, clean_environment, subject, subject_with_a_lock
from tests.python.run.test_run import PFS

NOBODY = 65534
USER, SQUATTER = 54321, 54322
OTHERS = r"belongs to another user|a link in a folder that others can write to|others can write to it|Not a directory"
ROOT_ONLY = pytest.mark.needs("root")


def pfs_command(*words: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs a command. A command that blocks is an error: none of these takes long."""
    return subprocess.run([*PFS, *words], capture_output=True, text=True, timeout=60, check=False, **more)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Subject]:
    with subject_with_a_lock(tmp_path) as running:
        yield running


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder of another user that everybody can reach."""
    path = Path(tempfile.mkdtemp(prefix="pfs-test-theirs-", dir="/var/tmp"))
    path.chmod(0o777)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


def plant(path: Path, what: str, target: Path) -> None:
    if what == "pipe":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to(target)
    elif what == "folder":
        path.mkdir()
    else:
        path.write_text("planted\n")
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


# ---- Reading


@pytest.mark.parametrize("name", ["parents", "names"])
@pytest.mark.parametrize("what", ["pipe", "link", "folder", "file"])
def test_no_file_beside_segments_stops_a_reader(program: Subject, tmp_path: Path, name: str, what: str) -> None:
    run = program.path.parent / "run-1"
    run.mkdir()
    shutil.copy(program.path, run / program.path.name)
    (target := tmp_path / "target").write_text(f"{program.pid}:1 1:2\n")
    plant(run / name, what, target)
    env = clean_environment(program.path.parent)
    for command in (["ps", "--tree"], ["top", str(run), "--batch", "--count", "1", "--interval", "0.1"]):
        done = pfs_command(*command, env=env)
        assert done.returncode == 0, done.stderr
        assert str(program.pid) in done.stdout


@ROOT_ONLY
def test_a_file_of_names_that_another_user_has_put_there_names_nothing(program: Subject) -> None:
    """Who may not write the segment does not say how its locks are called."""
    names = program.path.parent / "names"
    names.write_text("app/LOCK_a -> forged\n")
    show = ["show", str(program.path), "events_waits_summary_global_by_event_name", "--human"]
    env = clean_environment(program.path.parent)
    assert len(names_for(str(program.path)).lines) == 1
    os.chown(names, NOBODY, NOBODY)
    assert names_for(str(program.path)).lines == ()
    assert "forged" not in pfs_command(*show, env=env).stdout


# ---- The folder of a run


@pytest.fixture
def folder_of_user() -> Iterator[Path]:
    folder = Path(f"/dev/shm/pfs-{USER}")
    if folder.exists():
        pytest.skip("a user with this number has been here")
    yield folder
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)


def run_as_user(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs ``pfs run`` as a user, who may read everything: this Python may be in a folder of root."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PFS_", "XDG_", "TMPDIR"))}
    capability = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    user = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", *capability]
    command = [*user, *PFS, "run", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env, cwd="/")


@ROOT_ONLY
@pytest.mark.parametrize("what", ["755", "777", "link", "file"])
def test_pfs_run_runs_a_program_whose_folder_another_user_has_made(folder_of_user: Path, theirs: Path, what: str) -> None:
    """The squatter of /dev/shm/pfs-UID neither stops the program nor sees or replaces its segments."""
    if what.isdigit():
        folder_of_user.mkdir()
        folder_of_user.chmod(int(what, 8))
    elif what == "link":
        folder_of_user.symlink_to(theirs)
    else:
        folder_of_user.touch()
    os.chown(folder_of_user, SQUATTER, SQUATTER, follow_symlinks=False)
    done = run_as_user("--keep", "--", "/bin/sh", "-c", "echo $PFS_DIR")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    try:
        assert f": the segments of this run are in {folder}" in done.stderr
        assert "1 process" in done.stderr
        assert folder.parent in (Path("/dev/shm"), Path("/tmp"))
        assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (USER, 0o700)
    finally:
        shutil.rmtree(folder)
    assert list(theirs.iterdir()) == []
    if what != "file":
        assert list(folder_of_user.iterdir()) == []


@ROOT_ONLY
def test_pfs_run_uses_the_folder_of_its_user(folder_of_user: Path) -> None:
    """The control of the test above."""
    done = run_as_user("--", "/bin/sh", "-c", "echo $PFS_DIR")
    assert Path(done.stdout.strip()).parent == folder_of_user
    assert "are in" not in done.stderr


def test_pfs_run_runs_a_program_when_there_is_no_place_for_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pfs._process.run import launch

    def refused(*words: object, **named: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setenv("PFS_DIR", str(tmp_path / "segments"))
    monkeypatch.setattr(tempfile, "mkdtemp", refused)
    with launch.folder_of_run(keep=False) as folder:
        environment = os.environ | launch.environment(folder)
        done = subprocess.run(["echo", "runs"], env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "runs\n"


@ROOT_ONLY
def test_a_report_leaves_the_segment_of_another_user_out(program: Subject) -> None:
    from pfs._process import processes
    from pfs._process.run.report import gather

    program.kill()
    os.chown(program.path, NOBODY, NOBODY)
    report = gather(processes.scan(str(program.path.parent)))
    assert report.processes == []
    assert "it belongs to nobody" in report.unread[0]


# ---- Opening and making


@pytest.mark.parametrize("what", ["pipe", "link", "folder"])
def test_only_a_plain_file_is_opened(tmp_path: Path, what: str) -> None:
    (target := tmp_path / "target").write_text("text")
    plant(tmp_path / "planted", what, target)
    with pytest.raises(OSError, match=r"no plain file|Too many levels|Is a directory"):
        paths.opened(tmp_path / "planted")
    if what == "link":
        os.close(paths.opened(tmp_path / "planted", follow=True))
    with pytest.raises(FileNotFoundError):
        paths.opened(tmp_path / "absent")
    os.close(paths.opened(target, owners=[os.geteuid()]))
    with pytest.raises(PermissionError, match="belongs to another user"):
        paths.opened(target, owners=[USER])


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (path := tmp_path / "file").write_text("old")
    os.link(path, tmp_path / "second")
    with pytest.raises(TypeError), paths.replaced(path) as file:
        file.write("no bytes")  # type: ignore[call-overload]
    assert path.read_text() == "old"
    with paths.replaced(path, 0o644) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o644)
    assert (tmp_path / "second").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["file", "second"]


def test_an_output_may_be_a_pipe_or_a_link_of_this_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "link").symlink_to("target")
    for way in (paths.replaced, lambda path: paths.appended(path)):
        with way(tmp_path / "link") as file:
            file.write(b"text\n")
    assert (tmp_path / "target").read_text() == "text\ntext\n"
    reader, writer = os.pipe()
    with paths.replaced(f"/dev/fd/{writer}") as file:
        file.write(b"text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    os.close(writer)


@ROOT_ONLY
@pytest.mark.parametrize("what", ["pipe", "link", "file"])
@pytest.mark.parametrize("owner", [0, NOBODY])
def test_nothing_is_written_to_what_another_user_has_put_there(theirs: Path, tmp_path: Path, what: str, owner: int) -> None:
    (precious := tmp_path / "precious").write_text("precious")
    plant(path := theirs / "x", what, precious)
    os.chown(path, owner, owner, follow_symlinks=False)
    if (what, owner) != ("pipe", 0) and (what, owner) != ("file", 0):
        with pytest.raises(OSError, match=OTHERS):
            paths.appended(path)
    if what == "link" or (what, owner) == ("pipe", NOBODY):
        with pytest.raises(OSError, match=OTHERS), paths.replaced(path) as file:
            file.write(b"secret")
    elif what == "file":
        with paths.replaced(path) as file:
            file.write(b"secret")
        assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (0, 0o600)
    assert precious.read_text() == "precious"


@ROOT_ONLY
@pytest.mark.parametrize("what", ["link", "of another user", "open"])
def test_a_folder_is_made_or_is_ones_own(theirs: Path, tmp_path: Path, what: str) -> None:
    paths.own_folder(str(tmp_path / "above" / "new"))
    assert (tmp_path / "above" / "new").stat().st_mode & 0o777 == 0o700
    paths.own_folder(str(tmp_path / "above" / "new"))
    path = tmp_path / "planted"
    if what == "link":
        path.symlink_to(tmp_path / "above")
    else:
        path.mkdir()
        path.chmod(0o777)
        if what == "of another user":
            path.chmod(0o700)
            os.chown(path, NOBODY, NOBODY)
    with pytest.raises(OSError, match=OTHERS):
        paths.own_folder(str(path))


# ---- Modes of what is written


OUTPUTS: dict[str, list[str]] = {
    "snapshot": ["snapshot", "PID", "OUT/folder"],
    "snapshot file": ["snapshot", "PID", "OUT/file.pfs.zip"],
    "snapshot summaries": ["snapshot", "PID", "OUT/sums.pfs.zip", "--summaries"],
    "show": ["show", "PID", "threads", "--csv", "-o", "OUT/threads.csv"],
    "show parquet": ["show", "PID", "threads", "-f", "parquet", "-o", "OUT/threads.parquet"],
    "ps": ["ps", "--json", "-o", "OUT/ps.json"],
    "sql": ["sql", "PID", "select * from threads", "-o", "OUT/threads.txt"],
    "otel": ["otel", "PID", "-o", "OUT/spans.jsonl"],
    "otel all": ["otel", "--all", "-o", "OUT/spans.jsonl"],
    "run": ["run", "-o", "OUT/report", "--", "ls", "OUT"],
    "diff": ["diff", "OUT/a.zip", "OUT/a.zip", "-o", "OUT/diff.txt"],
    "trace merge": ["trace", "merge", "TRACE", "-o", "OUT/all.sql"],
    "trace export": ["trace", "export", "TRACE", "-f", "chrome", "-o", "OUT/all.json"],
}


def written(trace: Path) -> list[Path]:
    """Returns the files of a trace, when the program has written them."""
    while not (there := [path for path in trace.glob("*.sql") if path.stat().st_size]):
        time.sleep(0.05)
    return there


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_no_file_is_more_readable_than_the_segment(tmp_path: Path, mode: int) -> None:
    segments, out, trace = (tmp_path / name for name in ("segments", "out", "trace"))
    for folder in (segments, out, trace):
        folder.mkdir(mode=0o755)
    options = f"performance_schema_trace_enabled=ON,performance_schema_trace_directory={trace}"
    env = {**clean_environment(segments), "PFS_MODE": f"{mode:04o}"}
    with subject(segments, PFS_MODE=f"{mode:04o}", PFS_OPTIONS=options) as running:
        running.do('lock = pfs.Lock("app/LOCK_a")\nwith lock: pass\nwith pfs.statement("a/b", text="select 1"): pass\n')
        assert running.path.stat().st_mode & 0o777 == mode
        for path in written(trace):
            path.chmod(mode)
        words = {"PID": str(running.pid), "OUT": str(out), "TRACE": str(trace)}
        first = pfs_command("snapshot", str(running.pid), out / "a.zip", env=env, umask=0o022)
        assert first.returncode == 0, first.stderr
        for command in OUTPUTS.values():
            done = [words.get(word, word.replace("OUT/", f"{out}/")) for word in command]
            result = pfs_command(*done, env=env, umask=0o022)
            assert result.returncode == 0, (command, result.stderr)
    found = {str(path.relative_to(out)): path.stat().st_mode & 0o777 for path in out.rglob("*")}
    assert found.pop("folder") == mode | 0o100 | (mode & 0o044) >> 2
    assert len(found) > 100
    assert {name: oct(its) for name, its in found.items() if its != mode} == {}


def test_an_output_follows_the_mode_when_it_is_there_already(program: Subject, tmp_path: Path) -> None:
    out = tmp_path / "threads.csv"
    out.write_text("old")
    out.chmod(0o644)
    done = pfs_command("show", str(program.pid), "threads", "--csv", "-o", out, env=clean_environment(program.path.parent))
    assert done.returncode == 0, done.stderr
    assert out.stat().st_mode & 0o777 == 0o600


# ---- Writing where another user was before


@ROOT_ONLY
@pytest.mark.parametrize("end", ["", ".part"])
@pytest.mark.parametrize("command", ["snapshot", "show", "trace", "otel", "metrics"])
def test_no_command_of_root_writes_through_a_link(program: Subject, theirs: Path, tmp_path: Path, command: str, end: str) -> None:
    (precious := tmp_path / "precious").write_text("precious")
    out = theirs / "x.pfs.zip"
    plant(theirs / f"x.pfs.zip{end}", "link", precious)
    (trace := tmp_path / "trace").mkdir()
    (tmp_path / "traced").mkdir(mode=0o700)
    if command == "trace":
        options = f"performance_schema_trace_enabled=ON,performance_schema_trace_directory={trace}"
        with subject(tmp_path / "traced", PFS_OPTIONS=options) as running:
            running.do('with pfs.statement("a/b", text="select 1"): pass\n')
            written(trace)
    words = {
        "snapshot": ["snapshot", "PID", "OUT", "--force"],
        "show": ["show", "PID", "threads", "-o", "OUT"],
        "trace": ["trace", "merge", str(trace), "-o", "OUT"],
        "otel": ["otel", "PID", "-o", "OUT"],
        "metrics": ["metrics", "PID", "--textfile", "OUT"],
    }[command]
    given = {"PID": str(program.pid), "OUT": str(out)}
    done = pfs_command(*(given.get(word, word) for word in words), env=clean_environment(program.path.parent))
    assert precious.read_text() == "precious"
    if end:
        assert done.returncode == 0, done.stderr
        assert not out.is_symlink()
    else:
        assert done.returncode == 1
        assert "it belongs to another user" in done.stderr


@ROOT_ONLY
@pytest.mark.parametrize("what", ["lock", "node", "open node", "part"])
def test_pfs_collect_trusts_no_folder_of_another_user(program: Subject, theirs: Path, tmp_path: Path, what: str) -> None:
    (precious := tmp_path / "precious").write_text("precious")
    node = theirs / "n"
    node.mkdir(mode=0o700)
    if what == "node":
        os.chown(node, NOBODY, NOBODY)
    elif what == "open node":
        node.chmod(0o777)
    elif what == "lock":
        (node / ".lock").symlink_to(tmp_path / "new")
    else:
        (node / "0000000001-20260101T000000.pfs.zip.part").symlink_to(precious)
    done = pfs_command("collect", "--once", "--to", theirs, "--node", "n", env=clean_environment(program.path.parent))
    said = {"node": "belongs to another user", "open node": "others can write to it", "lock": "Too many levels", "part": ""}[what]
    assert said in done.stderr
    assert (done.returncode == 0) == (what == "part")
    assert not (tmp_path / "new").exists()
    assert precious.read_text() == "precious"
    assert not list(node.glob("*.part"))


@ROOT_ONLY
def test_the_history_of_root_is_in_no_home_of_another_user(theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under sudo, HOME may be that of the user."""
    monkeypatch.setenv("HOME", str(theirs))
    assert history_file() is None
    tmp_path.chmod(0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history_file() == str(tmp_path / ".pfs_sql_history")


# ---- Pipes among the files that are read


@pytest.mark.parametrize("what", ["cut", "snapshot", "json", "parquet", "trace", "password"])
def test_no_pipe_stops_a_reader_of_files(program: Subject, tmp_path: Path, what: str) -> None:
    env = clean_environment(program.path.parent)
    folder = tmp_path / "folder"
    assert pfs_command("snapshot", str(program.pid), folder, env=env).returncode == 0
    assert pfs_command("collect", "--once", "--to", tmp_path / "fleet", "--node", "n", env=env).returncode == 0
    (tmp_path / "traces").mkdir()
    path = {
        "cut": tmp_path / "fleet/n/0000000009-20260101T000000.pfs.zip",
        "snapshot": tmp_path / "x.pfs.zip",
        "json": folder / "snapshot.json",
        "parquet": folder / "threads.parquet",
        "trace": tmp_path / "traces/trace.a.b.1.2.3.sql",
        "password": tmp_path / "password",
    }[what]
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    commands = {
        "cut": [["top", "--fleet", str(tmp_path / "fleet"), "--batch", "--count", "1"],
                ["collect", "--once", "--to", str(tmp_path / "fleet"), "--node", "n"]],
        "snapshot": [["sql", str(path), "select 1 from threads"]],
        "json": [["sql", str(folder), "select 1 from threads"], ["diff", str(folder), str(folder)]],
        "parquet": [["sql", str(folder), "select 1 from threads"], ["diff", str(folder), str(folder)]],
        "trace": [["trace", "merge", str(tmp_path / "traces"), "-o", "-"]],
        "password": [["serve", str(folder), "--port", "0", "--password-file", str(path)]],
    }[what]  # fmt: skip
    for command in commands:
        done = pfs_command(*command, env=env)
        assert "Traceback" not in done.stderr
        assert (done.returncode == 0) == (what == "cut"), done.stderr
        assert "it is no plain file" in done.stderr or what == "cut"
