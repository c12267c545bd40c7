"""Whom pfs trusts: not the current directory, not the environment of a program with another's rights, and of a segment only what
the owners of file and folder bear out. Nobody makes another one's process run his code, or has his file taken for another's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import pfs
from pfs import _core
from pfs._base import installed
from pfs._process import processes
from pfs._process.remote import Remote
from tests.conftest import Build
from tests.python._programs.subject import Subject, clean_environment, subject, subject_with_a_lock
from tests.python.programs.test_programs import environment

NOBODY = 65534
SOMEBODY = 4321
ROOT_ONLY = pytest.mark.needs("root")
TABLE = "events_waits_summary_global_by_event_name"

# Modules of the standard library, of others, and of this package.
PLANTED = [
    *("json", "os", "signal", "struct", "site", "sitecustomize", "usercustomize", "threading", "typing", "encodings"),
    *("numpy", "pandas", "pfs", "_core", "subprocess", "errors", "datetime", "stat", "pwd"),
]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Subject]:
    with subject_with_a_lock(tmp_path) as running:
        yield running


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder of somebody with bad intentions."""
    folder = tmp_path / "planted"
    folder.mkdir(mode=0o755)
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(folder)!r} + '/RAN', 'a').write('{name} ')\nraise SystemExit('planted')\n")
    return folder


def what_ran(planted: Path) -> str:
    return (planted / "RAN").read_text() if (planted / "RAN").exists() else ""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that every user can reach, and in which programs may have another's rights."""
    path = Path(f"/var/tmp/pfs-test-trust-{os.getpid()}")
    path.mkdir()
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


# ---- Code ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["directory", "PYTHONPATH"])
def test_a_change_runs_no_code_of_the_current_directory(
    program: Subject, planted: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Root changes programs of others, and stands anywhere when he does."""
    if way == "directory":
        monkeypatch.chdir(planted)
    else:
        monkeypatch.setenv("PYTHONPATH", str(planted))
    with Remote(str(program.path)) as remote:
        remote.call("truncate", TABLE)
    assert what_ran(planted) == ""


COMMANDS = {
    "findings": ["findings", "PID"],
    "report": ["report", "PID", "-o", "OUT/report.html"],
    "join": ["join", "OTHER", "--dry-run"],
    "ps": ["ps"],
    "truncate": ["truncate", "PID", TABLE],
    "set": ["set", "PID", "wait/io/%", "--enabled", "no"],
    "show": ["show", "PID", "threads"],
    "gc": ["gc"],
    "top": ["top", "PID", "--batch", "--count", "1", "--interval", "0.1"],
    "snapshot": ["snapshot", "PID", "OUT/snapshot.zip"],
    "diff": ["diff", "OUT/before.zip", "OUT/before.zip"],
    "sql": ["sql", "PID", "select count(*) from threads"],
    "metrics": ["metrics", "PID"],
    "otel": ["otel", "PID", "-o", "OUT/spans"],
    "record": ["record", "PID", "--for", "1s", "-o", "OUT/samples.ash"],
    "collect": ["collect", "--to", "OUT/fleet", "--once"],
    "serve": ["serve", "PID", "--socket", "OUT/socket"],
    "run": ["run", "--no-report", "--", "/bin/true"],
    "run python": ["run", "--no-report", "--", sys.executable, "OUT/program.py"],  # which finds its modules beside itself
    "config": ["config", "--cflags"],
    "describe": ["describe", "threads"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_run_no_code_of_the_current_directory(
    request: pytest.FixtureRequest, program: Subject, planted: Path, tmp_path: Path, name: str
) -> None:
    """Neither their own process, nor one that they start."""
    pfs_command = Path(sys.executable).with_name("pfs")
    if not pfs_command.exists():
        pytest.skip("the command is not installed beside this Python")
    out = tmp_path / "out"
    out.mkdir()
    (out / "program.py").write_text("import json, threading\nassert json.loads('[1]') == [1]\n")
    pid = str(program.pid)
    other = subprocess.Popen(["sleep", "60"])  # has no pfs
    request.addfinalizer(other.wait)
    request.addfinalizer(other.kill)
    pids = {"PID": pid, "OTHER": str(other.pid)}
    command = [str(pfs_command), *(pids.get(word) or word.replace("OUT", str(out)) for word in COMMANDS[name])]
    env = clean_environment(program.path.parent)
    if name == "diff":
        subprocess.run([pfs_command, "snapshot", pid, out / "before.zip"], env=env, timeout=60, check=True)
    with subprocess.Popen(command, cwd=planted, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if name == "serve":  # until it is told to end; it says when it would notice
            assert process.stderr is not None
            while "serving at" not in process.stderr.readline() and process.poll() is None:
                pass
            process.terminate()
        _, complaints = process.communicate(timeout=60)
    assert process.returncode == 0, complaints
    assert what_ran(planted) == ""


def test_every_command_is_among_them() -> None:
    done = subprocess.run([sys.executable, "-m", "pfs", "--help"], capture_output=True, text=True, timeout=60, check=True)
    known = re.findall(r"^  (\w+) +[A-Z]", done.stdout.partition("First commands:")[2], re.MULTILINE)
    others = {"ddl", "demo", "leave", "trace"}  # ddl is as describe, leave as join; demo and trace read no process
    assert len(known) > 15
    assert set(known) == {name.split()[0] for name in COMMANDS} | others


@pytest.mark.parametrize("way", ["directory", "script"])
def test_planted_modules_run_where_python_looks_for_them(planted: Path, way: str) -> None:
    """Negative control: `python -m` looks in the current directory, and a script finds the modules beside it."""
    if way == "script":
        (planted / "program.py").write_text("import datetime\n")
    command = ["-m", "datetime"] if way == "directory" else [str(planted / "program.py")]
    subprocess.run([sys.executable, *command], cwd=planted, capture_output=True, timeout=60, check=False)
    assert "datetime" in what_ran(planted)


@ROOT_ONLY
def test_root_changes_the_segment_of_another_user_as_that_user(program: Subject, open_folder: Path) -> None:
    """Whatever is in a segment can only be turned against who owns it."""
    mine = open_folder / "mine"
    mine.mkdir()
    script = (
        f"import os, pfs, sys; os.setgid({NOBODY}); os.setuid({NOBODY}); pfs.Lock('a/b')\n"
        "print(pfs._core.segment_path(), flush=True); sys.stdin.read()"
    )
    os.chown(mine, NOBODY, NOBODY)
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environment(mine), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        path = process.stdout.readline().strip()
        with Remote(path) as remote:
            remote.call("truncate", TABLE)
            assert remote._process is not None
            status = Path(f"/proc/{remote._process.pid}/status").read_text().splitlines()
            users = {line.split(":")[0]: set(line.split()[1:]) for line in status if line.startswith(("Uid", "Gid", "Groups"))}
            assert users == {"Uid": {str(NOBODY)}, "Gid": {str(NOBODY)}, "Groups": set()}
        process.communicate("\n", timeout=60)


# ---- The environment ----------------------------------------------------------------------------------------------------------


@ROOT_ONLY
def test_a_program_with_anothers_rights_takes_nothing_from_the_environment(build: Build, open_folder: Path) -> None:
    """setuid root, run by nobody: no option, no folder, no mode of his holds. Root's own do."""
    program = open_folder / "waits"
    shutil.copy(build("first_mutex"), program)
    private = open_folder / "private"
    private.mkdir(mode=0o700)
    library = open_folder / "lib"
    shutil.copytree(installed.library_dir(), library)
    library.chmod(0o755)
    options = f"performance_schema_trace_enabled=ON,performance_schema_trace_directory={private}/trace"

    def files(uid: int, mode: int) -> list[str]:
        shutil.rmtree(private)
        private.mkdir(mode=0o700)
        program.chmod(mode)
        subprocess.run(
            [program], user=uid, group=uid, extra_groups=[], cwd=open_folder, timeout=60, check=True,
            env={**environment(private), "PFS_MODE": "0644", "PFS_KEEP": "1", "PFS_OPTIONS": options},
        )  # fmt: skip
        return sorted(path.name for path in private.rglob("*"))

    if subprocess.run(["findmnt", "-no", "OPTIONS", "-T", open_folder], capture_output=True, text=True, check=False).stdout.count(
        "nosuid"
    ):
        pytest.skip("no program has another's rights there")
    assert any(name.endswith(".sql") for name in files(0, 0o755))  # they are options that hold
    assert files(NOBODY, 0o4755) == []


# ---- Segments of others -------------------------------------------------------------------------------------------------------


@pytest.fixture
def squatted(program: Subject, tmp_path: Path) -> Path:
    """What nobody puts where our segments are expected: all that it says is that it is the segment of a program of ours."""
    folder = tmp_path / "squatted"
    folder.mkdir(mode=0o755)
    path = folder / program.path.name
    os.link(program.path, path)  # what it says of its process is true: the process has it mapped under this name
    return path


def own(path: Path, uid: int) -> None:
    os.chown(path, uid, uid, follow_symlinks=False)


@ROOT_ONLY
@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_file_of_another_user_is_nobodys_segment(
    program: Subject, squatted: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("PFS_DIR", str(squatted.parent))
    assert list(pfs.processes()["STATE"]) == ["alive"]
    assert pfs.attach(program.pid).is_alive
    own(squatted.parent if what == "folder" else squatted, NOBODY)
    its = r"its folder belongs to nobody" if what == "folder" else r"it belongs to nobody"
    assert list(pfs.processes()["STATE"]) == ["unknown"]
    with pytest.raises(pfs.AttachError, match=its):
        pfs.attach(program.pid)
    with pytest.raises(pfs.AttachError, match=rf"is not changed: {its}"), Remote(str(squatted)) as remote:
        remote.call("truncate", TABLE)
    with pfs.attach(squatted) as schema:  # by its path anything can be read
        assert schema.is_alive is None
        assert len(schema.table("threads")) > 0
    program.kill()
    assert list(pfs.processes()["STATE"]) == ["unknown"]  # now it is the folder's owner and the file's that differ
    assert len(pfs.gc()) == 0


@ROOT_ONLY
def test_a_folder_that_everybody_can_write_to_holds_nobodys_segments(
    program: Subject, squatted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PFS_DIR", str(squatted.parent))
    squatted.parent.chmod(0o777)
    with pytest.raises(pfs.AttachError, match="everybody can write to its folder"):
        pfs.attach(program.pid)
    squatted.parent.chmod(0o755)
    squatted.chmod(0o666)
    with pytest.raises(pfs.AttachError, match="everybody can write to it"):
        pfs.attach(program.pid)


@ROOT_ONLY
def test_the_folder_of_a_user_is_that_users() -> None:
    """/dev/shm/pfs-UID was made by somebody else first: what is there of the dead is nobody's either."""
    folder = Path(f"/dev/shm/pfs-{SOMEBODY}")
    if folder.exists():
        pytest.skip("a user with this number has been here")
    folder.mkdir(mode=0o755)
    try:
        own(folder, NOBODY)
        with subject(folder.parent / f"pfs-test-own-{os.getpid()}") as program:
            program.kill()
            taken = folder / program.path.name
            os.rename(program.path, taken)
            program.path.parent.rmdir()
            own(taken, NOBODY)
            (found,) = processes.scan(str(folder))
            assert found.state == "unknown"
            assert found.doubt == "its folder belongs to nobody, and not to the user that the folder is named after"
            own(folder, SOMEBODY)
            own(taken, SOMEBODY)
            (found,) = processes.scan(str(folder))
            assert (found.state, found.doubt) == ("dead", "")
    finally:
        shutil.rmtree(folder)


@ROOT_ONLY
def test_who_is_not_the_owner_changes_only_a_process_that_he_sees(program: Subject, open_folder: Path) -> None:
    """A segment of a container, or of a forger: its owner may do with it what he likes, others do not adopt it."""
    from tests.python._programs.subject import PID_NAMESPACE, copy_header, forge

    mine = open_folder / "mine"
    mine.mkdir(mode=0o755)
    path = mine / "1.pfs"
    copy_header(program.path, path)
    forge(path, PID_NAMESPACE, 1)
    path.chmod(0o666 & ~0o002)
    script = f"""
        import os, pfs
        from pfs._process.remote import Remote, _refuse_doubtful
        os.setgid(0); os.setuid({SOMEBODY})
        try:
            _refuse_doubtful({str(path)!r})
        except pfs.AttachError as error:
            print(error)
    """
    own(path, NOBODY)
    own(mine, NOBODY)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=environment(mine),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (
        "its process cannot be found from here, and it belongs to nobody: only that user, or root, may change it" in done.stdout
    )


def test_two_copies_of_the_library_have_a_segment_each(tmp_path: Path) -> None:
    """A wheel that brings its own copy, say: neither removes the live segment of the other, and both are found."""
    (tmp_path / "segments").mkdir(mode=0o700)
    copy = tmp_path / "libperfschema-copy.so"
    shutil.copy(next(Path(installed.library_dir()).glob("libperfschema.so.*")), copy)
    with subject(tmp_path / "segments") as program:
        program.do(
            f"""
            import ctypes
            other = ctypes.CDLL({str(copy)!r})
            other.pfs_segment_path.restype = ctypes.c_char_p
            other.pfs_init.argtypes = [ctypes.c_char_p]
            assert other.pfs_init(None) == 0
            assert other.pfs_segment_path().decode().endswith(f"{{os.getpid()}}-2.pfs"), other.pfs_segment_path()
            lock = pfs.Lock("app/LOCK_a")
            with lock: pass
            """
        )
        folder = program.path.parent
        names = [f"{program.pid}-2.pfs", f"{program.pid}.pfs"]
        assert sorted(path.name for path in folder.iterdir()) == names
        assert [(found.state, found.identity.pid) for found in processes.scan(str(folder))] == [("alive", program.pid)] * 2
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PFS_DIR", str(folder))
            with pytest.raises(
                pfs.AttachError, match=f"process {program.pid} has 2 segments, one for each copy of the library in it"
            ):
                pfs.attach(program.pid)
        counts = dict(_core.rows(TABLE, ("EVENT_NAME", "COUNT_STAR"), _core.Segment(str(program.path))))
        assert counts["wait/synch/mutex/app/LOCK_a"] == 1
        program.kill()
        assert [found.state for found in processes.scan(str(folder))] == ["dead"] * 2


def test_a_program_that_a_process_becomes_takes_the_place_of_what_it_was(tmp_path: Path) -> None:
    """exec: the same pid and the same start, but nobody has the old segment mapped."""
    (tmp_path / "segments").mkdir(mode=0o700)
    last = "import pfs; pfs.Lock('b/c'); print(pfs._core.segment_path())"
    first = (
        "import os, sys, pfs; pfs.Lock('a/b'); print(pfs._core.segment_path(), flush=True)\n"
        f"os.execv(sys.executable, [sys.executable, '-c', {last!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", first],
        env=clean_environment(tmp_path / "segments"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    before, after = done.stdout.split()
    assert before == after
