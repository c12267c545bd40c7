"""Where a segment may be made, and who may read it.

Whatever is wrong with the place: nothing there is touched, the program runs on with a private segment, and pfs.status says why.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from pfs import _core
from tests.python.programs.test_programs import environment, segments_in

NOBODY = 65534
ROOT_ONLY = pytest.mark.needs("root")

# Says how pfs stands, and that it counts.
PROGRAM = """
    import os, sys
    exec(os.environ.get("BEFORE", ""))
    import pfs
    from pfs import _core

    lock = pfs.Lock("test/mine")
    with lock:
        pass
    counts = dict(_core.rows("events_waits_summary_global_by_event_name", ["EVENT_NAME", "COUNT_STAR"], None))
    assert counts["wait/synch/mutex/test/mine"] == 1, counts
    print(pfs.status["Performance_schema_status_reason"] or "")
    print(_core.segment_path())
    sys.stdout.flush()
    if os.environ.get("WAITS"):
        sys.stdin.readline()
"""


def start(place: Path | str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM)],
        env=environment(place, **more), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(place: Path | str, **more: str) -> tuple[str, str]:
    """Reason, and path of the segment."""
    with start(place, **more) as process:
        out, _ = process.communicate("\n", timeout=60)
    assert process.returncode == 0, out
    reason, path = out.split("\n")[:2]
    return reason, path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "place"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    path = Path(f"/dev/shm/pfs-test-security-{os.getpid()}")
    path.mkdir()
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


# ---- The directory -----------------------------------------------------------------------------------------------------------


def test_a_link_in_place_of_the_directory(place: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(place)
    for name in (link, f"{link}/", f"{link}//"):
        reason, path = run(name)
        assert path == ""
        assert re.search(r"the directory .*link is a symbolic link", reason)
    assert segments_in(place) == []


@ROOT_ONLY
def test_a_directory_of_another_user(place: Path) -> None:
    os.chown(place, NOBODY, NOBODY)
    reason, path = run(place)
    assert path == ""
    assert f"the directory {place} belongs to another user" in reason
    assert everything(place) == {}


# Python itself may be where only root can read it.
BECOME = f"""import pfs, pandas, pfs._read.frame, pfs._record.locks, pfs.setup, pfs._record.blocks, pfs._record.instrument
os.setgroups([4242]); os.setgid({NOBODY}); os.setuid({NOBODY})"""


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_directory_that_others_can_write_to(place: Path, mode: int) -> None:
    """Each user has a directory of their own in it."""
    place.chmod(mode)
    reason, path = run(place)
    assert reason == ""
    own = place / f"pfs-{os.geteuid()}"
    assert Path(path).parent == own
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert segments_in(own) == []
    assert stat.S_IMODE(place.stat().st_mode) == mode


@ROOT_ONLY
@pytest.mark.parametrize(
    ("mode", "group", "pfs_mode", "own"),
    [(0o777, 0, "", 0o700), (0o1777, 0, "0644", 0o755), (0o2777, 4242, "0640", 0o2750), (0o2770, NOBODY, "", 0o2700)],
)
def test_a_directory_of_root_that_all_may_use(open_folder: Path, mode: int, group: int, pfs_mode: str, own: int) -> None:
    """As volumes of containers are: emptyDir of Kubernetes, with fsGroup or without."""
    shared = open_folder / "shared"
    shared.mkdir()
    os.chown(shared, 0, group)
    shared.chmod(mode)
    with start(shared, WAITS="1", BEFORE=BECOME, **({"PFS_MODE": pfs_mode} if pfs_mode else {})) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        path = Path(process.stdout.readline().strip())
        assert path.parent == shared / f"pfs-{NOBODY}"
        info = path.parent.stat()
        assert (info.st_uid, stat.S_IMODE(info.st_mode)) == (NOBODY, own)
        assert (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) == (NOBODY, int(pfs_mode or "600", 8))
        # Readers find it by its pid, and below the folder.
        pid = str(process.pid)
        for command in (["show", pid, "threads", "--json"], ["ps", "--json"], ["metrics"]):
            done = subprocess.run(
                [sys.executable, "-m", "pfs", *command],
                env=environment(shared),
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
            assert {"show": "PROCESSLIST", "ps": path.name, "metrics": 'pfs_processes{state="alive"} 1'}[
                command[0]
            ] in done.stdout
        process.communicate("\n", timeout=60)
    assert segments_in(path.parent) == []


@ROOT_ONLY
def test_a_directory_that_somebody_else_took_first(open_folder: Path) -> None:
    """Another user has made the directory of this one: nothing goes there, and one line says so."""
    shared = open_folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    taken = shared / f"pfs-{NOBODY}"
    for what in ("directory", "link"):
        if what == "directory":
            taken.mkdir()
            os.chown(taken, 4242, 4242)
            taken.chmod(0o777)
        else:
            taken.rmdir()
            taken.symlink_to("/tmp")
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)],
            env=environment(shared, BEFORE=BECOME), capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        reason, path = done.stdout.split("\n")[:2]
        assert path == ""
        assert f"the directory {taken} " + ("belongs to another user" if what == "directory" else "is a symbolic link") in reason
        assert done.stderr.count(f"pfs: PFS_DIR: the directory {taken} ") == done.stderr.count("\n") == 1


@ROOT_ONLY
def test_a_chosen_directory_without_a_right_to_write_is_told_once(open_folder: Path) -> None:
    """The program itself may fork: its children say nothing more. An option silences the line; without PFS_DIR there is none."""
    before = (
        BECOME
        + """
with pfs.Lock('test/first'): pass
if os.fork() == 0:
    with pfs.Lock('test/child'): pass
    os._exit(0)
os.wait()"""
    )
    for options, lines in (("", 1), ("performance_schema_print_bad_options=OFF", 0)):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM)],
            env=environment(open_folder, BEFORE=before, PFS_OPTIONS=options),
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        words = f"the directory {open_folder} belongs to another user, and pfs-{NOBODY} cannot be made in it: Permission denied"
        assert words in done.stdout
        assert [words in line for line in done.stderr.splitlines()] == [True] * lines, done.stderr


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    reason, path = run(tmp_path / "file")
    assert path == ""
    assert "Not a directory" in reason
    assert (tmp_path / "file").read_text() == "mine"


@ROOT_ONLY
def test_a_directory_that_cannot_be_made(open_folder: Path) -> None:
    reason, path = run(open_folder / "new", BEFORE=BECOME)
    assert path == ""
    assert "cannot make the directory" in reason
    assert "Permission denied" in reason


def test_a_relative_directory_stays_where_it_was(tmp_path: Path) -> None:
    reason, path = run("here", BEFORE=f"os.chdir({str(tmp_path)!r})")
    assert reason == ""
    assert Path(path).parent == tmp_path / "here"
    assert segments_in(tmp_path / "here") == []  # removed at the end, wherever the program was then


# ---- The file ----------------------------------------------------------------------------------------------------------------


def plant(what: str) -> str:
    """Code that puts something where the segment will be."""
    return {
        "link": 'open(P + ".target", "w").write("theirs"); os.symlink(P + ".target", P)',
        "dangling": 'os.symlink(P + ".nothing", P)',
        "pipe": "os.mkfifo(P)",
        "directory": "os.mkdir(P)",
        "second name": 'open(P + ".target", "w").write("theirs"); os.link(P + ".target", P)',
        "text": 'open(P, "w").write("a text of the user that is longer than 64 bytes, and begins with no magic number at all")',
        "stranger": f'open(P, "w").write("theirs"); os.chown(P, {NOBODY}, {NOBODY})',
    }[what]


PLANTED = {
    "link": "a symbolic link",
    "dangling": "a symbolic link",
    "pipe": "not a plain file",
    "directory": "not a plain file",
    "second name": "a file with a second name",
    "text": "not a segment",
    "stranger": "a file of another user",
}


@pytest.mark.parametrize("what", [pytest.param(what, marks=ROOT_ONLY if what == "stranger" else []) for what in PLANTED])
def test_what_was_planted_under_the_expected_name(place: Path, what: str) -> None:
    """Never followed, opened, removed or written to."""
    before = f"P = {str(place)!r} + '/' + str(os.getpid()) + '.pfs'; {plant(what)}; kept = os.lstat(P)"
    reason, path = run(place, BEFORE=before)
    assert path == ""
    assert re.search(rf"the file .*\.pfs is there already, and is {PLANTED[what]}", reason), reason
    found = everything(place)
    assert len(found) == (2 if what in ("link", "second name") else 1)
    assert {content for _, content in found.values()} <= {
        b"",
        b"theirs",
        *(c for _, c in found.values() if c.startswith(b"a text")),
    }


def test_a_segment_of_a_dead_process_of_the_same_pid_is_replaced(place: Path) -> None:
    """A pid comes round again: the leftover goes, the new segment takes its name."""
    with start(place, WAITS="1") as first:
        assert first.stdout is not None
        first.stdout.readline()
        old = Path(first.stdout.readline().strip())
        first.kill()
    assert segments_in(place) == [old.name]
    before = f"import shutil; os.rename({str(old)!r}, {str(place)!r} + '/' + str(os.getpid()) + '.pfs')"
    reason, path = run(place, BEFORE=before)
    assert reason == ""
    assert path != ""
    assert segments_in(place) == []  # a clean end


def test_a_segment_of_another_container_with_our_pid_is_kept(place: Path) -> None:
    """The directory is shared, the pids are not: another name is taken."""
    if subprocess.run(["unshare", "-p", "-f", "--mount-proc", "true"], check=False).returncode != 0:
        pytest.skip("needs rights to make namespaces")
    env = environment(place)
    script = textwrap.dedent(PROGRAM)
    command = ["unshare", "-p", "-f", "--mount-proc", sys.executable, "-c", script]
    with subprocess.Popen(command, env={**env, "WAITS": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        one.stdout.readline()
        first = Path(one.stdout.readline().strip())
        with subprocess.Popen(
            command, env={**env, "WAITS": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as two:
            assert two.stdout is not None
            reason = two.stdout.readline().strip()
            second = Path(two.stdout.readline().strip())
            assert reason == ""
            assert first.name == "1.pfs"
            assert re.fullmatch(r"1-\d+\.pfs", second.name)
            for path in (first, second):  # read from a third namespace: their pids mean nothing here
                assert _core.Segment(str(path)).pid == 1
                assert _core.read("threads", None, _core.Segment(str(path)))[0] >= 1
            two.communicate("\n", timeout=60)
        assert segments_in(place) == ["1.pfs"]
        one.communicate("\n", timeout=60)
    assert segments_in(place) == []


# ---- PFS_MODE ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["0600", "0640", "0644", "0660", "0664", "640"])
@pytest.mark.parametrize("mask", ["0o022", "0o077"])
def test_the_file_has_the_mode_that_was_asked_for(tmp_path: Path, mode: str, mask: str) -> None:
    """Whatever the umask; a directory that is made for it can be entered by whoever may read the file."""
    with start(tmp_path / "new", WAITS="1", PFS_MODE=mode, BEFORE=f"os.umask({mask})") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        path = Path(process.stdout.readline().strip())
        bits = int(mode, 8)
        assert stat.S_IMODE(path.stat().st_mode) == bits
        readers = bits & 0o044
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700 | readers | readers >> 2
        process.communicate("\n", timeout=60)


@pytest.mark.parametrize("mode", ["0777", "0400", "abc", "0666", "-0600", "06000", "0640 ", "9"])
def test_a_bad_mode_is_told_and_the_default_used(place: Path, mode: str) -> None:
    with start(place, WAITS="1", PFS_MODE=mode) as process:
        assert process.stdout is not None
        reason = process.stdout.readline()
        path = Path(process.stdout.readline().strip())
        assert f"bad PFS_MODE '{mode}': legal are 0600, 0640, 0644, 0660 and 0664; 0600 is used" in reason
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        process.communicate("\n", timeout=60)


def test_a_directory_with_a_group_gives_it_to_its_segments(place: Path) -> None:
    """setgid: how a group shares."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    os.chown(place, -1, NOBODY)
    place.chmod(0o2750)
    with start(place, WAITS="1", PFS_MODE="0640") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
        path = Path(process.stdout.readline().strip())
        assert path.stat().st_gid == NOBODY
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        process.communicate("\n", timeout=60)


READER = """
    import os, sys
    import pfs
    from pfs import _core
    _core.read("threads", None, None)  # all of Python that is needed is loaded as root
    os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[3]))
    try:
        print(_core.read("threads", None, _core.Segment(sys.argv[1]))[0])
    except pfs.AttachError as error:
        print(error)
    try:
        os.open(sys.argv[1], os.O_RDWR)
        print("may write")
    except PermissionError:
        print("may not write")
"""


@ROOT_ONLY
@pytest.mark.parametrize(
    ("mode", "group", "reads", "writes"),
    [
        ("0600", 0, False, False),
        ("0640", 4242, True, False),
        ("0640", NOBODY, False, False),
        ("0660", 4242, True, True),
        ("0644", NOBODY, True, False),
    ],
)
def test_who_may_read_another_users_program(open_folder: Path, mode: str, group: int, reads: bool, writes: bool) -> None:
    """Read permission is SELECT, write permission UPDATE and TRUNCATE; no more rights than those of the file are needed."""
    folder = open_folder / "shared"
    folder.mkdir()
    os.chown(folder, -1, 4242)
    folder.chmod(0o2755)
    with start(folder, WAITS="1", PFS_MODE=mode) as process:
        assert process.stdout is not None
        process.stdout.readline()
        path = process.stdout.readline().strip()
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(READER), path, str(group), str(NOBODY)],
            env=environment(open_folder / "none"), capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        first, second = done.stdout.splitlines()
        assert first.isdigit() == reads, first
        if not reads:
            assert "Permission denied" in first
            assert path in first
        assert second == ("may write" if writes else "may not write")
        process.communicate("\n", timeout=60)
