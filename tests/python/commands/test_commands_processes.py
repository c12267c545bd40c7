"""pfs ps, show, set, truncate, gc, snapshot, diff: what they print, how they end."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click
import pandas as pd
import pytest

import pfs
import pfs._ui.cli.commands
from pfs._process import by_name
from pfs._ui.cli.processes import ps
from tests.python._programs import witnessed
from tests.python._programs.subject import BOOT_ID, COMMAND, Subject, forge, subject

GLOBAL = "events_waits_summary_global_by_event_name"
COMMANDS = ("ps", "show", "set", "truncate", "gc", "snapshot", "diff")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """A process with three mutexes that were locked once, twice, and three times."""
    folder = tmp_path_factory.mktemp("segments")
    folder.chmod(0o700)
    with subject(folder) as running:
        running.do(
            """
            locks = [pfs.Lock(f"app/LOCK_{i}") for i in (1, 2, 3)]
            for i, lock in enumerate(locks):
                for _ in range(i + 1):
                    with lock: pass
            """
        )
        yield running


def command(program: Subject, *arguments: str, status: int = 0) -> str:
    """Standard output; of a failure standard error. The command runs in this process, which has imported pandas already."""
    output, errors = io.BytesIO(), io.BytesIO()
    printed, complained = (io.TextIOWrapper(bytes_, encoding="utf-8", write_through=True) for bytes_ in (output, errors))
    assert pfs.status  # it starts pfs, whose own file must not be beside that of the program
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(complained):
        patch.setenv("PFS_DIR", str(program.path.parent))
        code = pfs._ui.cli.commands.main(list(arguments))
    assert code == status, output.getvalue() + errors.getvalue()
    return (output if status == 0 else errors).getvalue().decode()


def on_a_terminal(program: Subject, width: int, *arguments: str) -> str:
    """The same on a terminal so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {**os.environ, "PFS_DIR": str(program.path.parent), "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen([sys.executable, "-m", "pfs", *arguments], env=environment, stdout=theirs, stdin=theirs) as running:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            text += part
            if not part:
                break
        running.wait(60)
    os.close(ours)
    assert running.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).replace("\r\n", "\n")


MUTEXES = ("--where", "EVENT_NAME like 'wait/synch/mutex/app/%'")
NAME_AND_COUNT = ("--columns", "EVENT_NAME,COUNT_STAR")


def test_help_has_examples(program: Subject) -> None:
    overview = command(program, "--help")
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", overview, re.MULTILINE)
        assert re.search(rf"^  pfs {name}\b", command(program, name, "--help"), re.MULTILINE), name


def test_ps(program: Subject) -> None:
    lines = command(program, "ps").splitlines()
    assert lines[0].split() == ["PID", "COMMAND", "USER", "STARTED", "STATE", "VERSION", "SIZE", "PATH"]
    assert lines[1].lstrip().startswith(str(program.pid))
    assert str(program.path) in lines[1]
    (row,) = json.loads(command(program, "ps", "--format", "json"))
    assert row["PID"] == program.pid
    assert row["STATE"] == "alive"
    assert command(program, "ps", "--dir", "/nowhere").splitlines()[1:] == []


def test_ps_fits_a_terminal(program: Subject) -> None:
    text = on_a_terminal(program, 80, "ps")
    assert max(map(len, text.splitlines())) <= 80
    assert str(program.pid) in text
    assert "alive" in text


def test_ps_where_sort_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*options: str) -> tuple[str, str]:
        """What `pfs ps` writes, to both outputs. Without a process of its own for each call."""
        ps.main(["--dir", str(tmp_path), *options], standalone_mode=False)
        return capsys.readouterr()

    def pids(*options: str) -> list[int]:
        """The processes that it lists: the same in the same order as JSON and as a table."""
        found = [row["PID"] for row in json.loads(said("--json", *options)[0])]
        assert [int(line.split()[0]) for line in said(*options)[0].splitlines()[1:]] == found
        return found

    assert pids("--sort", "SIZE") == pids("--where", "PID > 1") == []
    with subject(tmp_path) as large, subject(tmp_path) as small, subject(tmp_path) as dead:
        large.do("locks = [pfs.Lock(f'app/LOCK_{i}') for i in range(20_000)]")
        dead.kill()
        assert pids() == [small.pid, large.pid, dead.pid]
        assert pids("--limit", "1") == [small.pid]
        assert pids("--sort", "STARTED") == [large.pid, small.pid, dead.pid]
        assert pids("--sort", "SIZE desc", "--limit", "1") == [large.pid]  # as text 1 MiB is less than 200 KiB
        assert pids("--where", "STATE = 'dead'") == [dead.pid]
        assert pids("-w", f"COMMAND like '%python%' and PID <> {large.pid}", "-s", "started desc") == [dead.pid, small.pid]
        assert pids("-w", "PID < 0") == []
        assert len(pids("-w", "STARTED > '2026-01-01 00:00'")) == 3
        assert pids("-w", "STARTED < '2026-01-01'") == []
        for option in ("--where", "--sort"):
            with pytest.raises(click.BadParameter, match=r"no column 'COLOR'.*legal are PID, COMMAND, USER, STARTED, STATE"):
                said(option, "COLOR = 1")
        with pytest.raises(click.BadParameter, match="STARTED is a time in UTC: write it as '2026-12-31'"):
            said("--where", "STARTED > 5")
        # pfs gc removes all of the dead, whatever is shown.
        assert said("-w", "STATE = 'alive'")[1].startswith("1 dead, ")


def test_show_where_sort_columns_limit(program: Subject) -> None:
    text = command(
        program, "show", str(program.pid), GLOBAL, *MUTEXES, *NAME_AND_COUNT, "--sort", "COUNT_STAR desc", "--limit", "2"
    )
    assert text == (
        "EVENT_NAME                   COUNT_STAR\n"
        "wait/synch/mutex/app/LOCK_3           3\n"
        "wait/synch/mutex/app/LOCK_2           2\n"
    )
    # Columns that are not shown can be looked at, in any case; an empty answer is an answer.
    shown = command(program, "show", str(program.pid), GLOBAL, "-w", "count_star = 2 and sum_timer_wait > 0", "-c", "event_name")
    assert shown.split() == ["EVENT_NAME", "wait/synch/mutex/app/LOCK_2"]
    assert (
        command(program, "show", str(program.pid), GLOBAL, "-w", "COUNT_STAR < 0", *NAME_AND_COUNT) == "EVENT_NAME  COUNT_STAR\n"
    )
    assert len(command(program, "show", str(program.path), "setup_consumers", "-n", "1").splitlines()) == 2


def test_the_language_of_conditions_is_that_of_tables(program: Subject, tmp_path: Path) -> None:
    """One question for a frame, for the commands, for a snapshot and in both dialects of SQL: the answers are the same."""
    where = "MAX_TIMER_WAIT > 1ns and MAX_TIMER_WAIT <= 1min and not EVENT_NAME like '%/LOCK_1' and COUNT_STAR in (1, 2, 3)"
    pid, saved = str(program.pid), str(tmp_path / "a")
    with pfs.attach(program.path) as schema:
        asked = schema.table(GLOBAL, ["EVENT_NAME"], where=where, order="COUNT_STAR DESC, EVENT_NAME")["EVENT_NAME"].tolist()
    command(program, "snapshot", pid, saved)
    chosen = ("-w", where, "-s", "count_star DESC, event_name", "-c", "EVENT_NAME", "--json")
    statement = f"select EVENT_NAME from {GLOBAL} where {where} order by COUNT_STAR DESC, EVENT_NAME"
    assert len(asked) >= 2
    for form in (
        ("show", pid, GLOBAL, *chosen),
        ("show", pid, GLOBAL, *chosen, "--elapsed"),
        ("sql", pid, statement, "--json"),
        ("sql", saved, statement, "--json", "--dialect", "mysql"),
    ):
        found = [row["EVENT_NAME"] for row in json.loads(command(program, *form))]
        assert found == asked, form


def test_show_formats_have_the_same_rows(program: Subject, tmp_path: Path) -> None:
    arguments = ["show", str(program.pid), GLOBAL, *MUTEXES]
    with pfs.attach(program.path) as schema:
        frame = schema.table(GLOBAL)
    frame = frame[frame["EVENT_NAME"].str.startswith("wait/synch/mutex/app/")].reset_index(drop=True)
    csv = pd.read_csv(io.StringIO(command(program, *arguments, "--format", "csv")))
    assert csv.astype(str).equals(frame.astype(str)) or csv.to_dict("records") == frame.to_dict("records")
    assert json.loads(command(program, *arguments, "--format", "json")) == frame.to_dict("records")
    output = tmp_path / "out.parquet"
    assert command(program, *arguments, "--format", "parquet", "--output", str(output)) == ""
    assert pd.read_parquet(output).to_dict("records") == frame.to_dict("records")
    piped = subprocess.run(
        [sys.executable, "-m", "pfs", *arguments, "--format", "parquet"],
        env={**os.environ, "PFS_DIR": str(program.path.parent)},
        capture_output=True,
        check=True,
    )
    assert pd.read_parquet(io.BytesIO(piped.stdout)).to_dict("records") == frame.to_dict("records")
    for form in ("table", "csv", "json"):
        file = tmp_path / form
        command(program, *arguments, "--format", form, "--output", str(file))
        assert file.read_text().split() == command(program, *arguments, "--format", form).split()


@pytest.mark.parametrize("form", ["json", "csv"])
def test_short_forms_of_format(program: Subject, tmp_path: Path, form: str) -> None:
    command(program, "snapshot", str(program.pid), str(tmp_path / "s"))
    for arguments in (
        ["ps"],
        ["show", str(program.pid), GLOBAL, *MUTEXES],
        ["describe", "threads"],
        ["diff", str(tmp_path / "s"), str(tmp_path / "s")],
        ["sql", str(program.pid), "select NAME from setup_consumers order by NAME"],
    ):
        assert command(program, *arguments, f"--{form}") == command(program, *arguments, "--format", form) != ""


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("/usr/sbin/nginx -g daemon", {"nginx"}),
        ("nginx: master process /usr/sbin/nginx", {"nginx"}),
        ("/venv/bin/python3.11 -W error /srv/shop.py --port 80", {"python3.11"}),
        ("python -u /srv/shop.py", {"python", "shop", "shop.py"}),
        ("python -I -m http.server 80", {"python", "http.server"}),
        ("python -c pass shop.py", {"python"}),
        ("/usr/bin/python3 /usr/bin/gunicorn app:x", {"python3", "gunicorn"}),
        ("sqlite3 shop.db", {"sqlite3"}),
        ("", set()),
    ],
)
def test_names_of_processes(line: str, names: set[str]) -> None:
    found = by_name.names_of(line)
    assert names <= found
    assert not found & {"shop.db", "80", "daemon", "pass"}


def test_a_name_stands_for_the_process_that_has_it_alone(tmp_path: Path) -> None:
    python = Path(sys.executable).name
    with subject(tmp_path) as first, subject(tmp_path) as dead:
        dead.kill()
        answer = command(first, "show", python, "global_status", "--csv", "-w", "VARIABLE_NAME = 'uptime'")
        assert answer.startswith("VARIABLE_NAME")
        assert f"of process {first.pid} in" in command(first, "snapshot", python, str(tmp_path / "s"))
        with subject(tmp_path) as second:
            text = command(first, "show", python, "threads", status=1)
            assert text.startswith(f"pfs: 2 processes are called '{python}': give the pid of one, or its path\n")
            assert {line.split()[0] for line in text.splitlines()[1:]} == {str(first.pid), str(second.pid)}
        first.kill()
        dead.path.unlink()
        second.path.unlink(missing_ok=True)
        assert "LOCK" not in command(first, "show", python, "threads")  # the only one that is left is dead


def test_snapshot_does_not_replace_that_of_another_process(program: Subject, tmp_path: Path) -> None:
    with subject(tmp_path) as other:
        for name in ("folder", "file.zip"):
            path = tmp_path / name
            arguments = ["snapshot", str(program.path), str(path)]
            command(other, *arguments)
            command(other, *arguments)  # its own may be replaced
            refused = ["snapshot", str(other.path), str(path)]
            text = command(other, *refused, status=1)
            assert text.startswith(f"pfs: {path} holds a snapshot of process {program.pid} (")
            assert text.endswith(": give another name, or --force to replace it\n")
            assert pfs.read_snapshot(path).pid == program.pid
            command(other, *refused, "--force")
            assert pfs.read_snapshot(path).pid == other.pid
        (tmp_path / "photos.zip").write_text("photos")
        assert "is no snapshot" in command(other, "snapshot", str(other.path), str(tmp_path / "photos.zip"), status=1)
        assert (tmp_path / "photos.zip").read_text() == "photos"


@pytest.mark.needs("root")
@pytest.mark.parametrize("closed", ["folder", "file"])
def test_segments_of_another_user_are_said_to_be(closed: str) -> None:
    as_nobody = (
        "import os, sys; from pfs._ui.cli import commands, processes; import pfs._process.attach, pwd; "
        "os.setgroups([]); os.setegid(65534); os.seteuid(65534); "
        "sys.exit([commands.main(['show', process, 'threads']) for process in sys.argv[1:]])"
    )
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "segments"
        folder.mkdir(mode=0o700)
        with subject(folder) as running:
            os.chmod(top, 0o755)
            os.chmod(folder, 0o700 if closed == "folder" else 0o755)
            whose = folder if closed == "folder" else running.path
            done = subprocess.run(
                [sys.executable, "-c", as_nobody, str(running.pid), str(running.path)],
                env={**os.environ, "PFS_DIR": str(folder)},
                capture_output=True,
                text=True,
            )
            refused = done.stderr.splitlines()
            assert refused[2:] == ["[1, 1]"], done.stderr
            for line in refused[:2]:
                assert f"{whose} belongs to another user, root, and you may not read it" in line
                assert "PFS_MODE" in line


def test_show_human_has_units(program: Subject) -> None:
    text = command(program, "show", str(program.pid), GLOBAL, *MUTEXES, "-c", "SUM_TIMER_WAIT", "--human")
    assert all(line.split()[1] in ("ps", "ns", "µs", "ms", "s") for line in text.splitlines()[1:])


def test_show_on_terminals(program: Subject) -> None:
    wide = on_a_terminal(program, 120, "show", str(program.pid), GLOBAL, *MUTEXES, *NAME_AND_COUNT)
    assert re.search(r"EVENT_NAME +COUNT_STAR", wide)
    assert "3 rows" in wide
    narrow = on_a_terminal(program, 30, "show", str(program.pid), GLOBAL, *MUTEXES, *NAME_AND_COUNT)
    assert "2. row" in narrow
    assert "EVENT_NAME: wait/synch/mutex/app/LOCK_2\nCOUNT_STAR: 2" in narrow


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["show", "4194304", "threads"], 1, "no segment of process 4194304"),
        (["show", "/nowhere/1.pfs", "threads"], 1, "/nowhere/1.pfs"),
        (["show", "PID", "thread"], 1, "the nearest is 'threads'"),
        (["show", "PID", "threads", "-c", "NO"], 1, "no column 'NO'"),
        (["show", "PID", "threads", "-w", "NO = 1"], 2, "no column 'NO'"),
        (["show", "PID", "threads", "-w", "("], 2, "it ends too early"),
        (["show", "PID", "threads", "-w", "THREAD_ID = 1); DROP TABLE rows; --"], 2, "--where"),
        (["show", "PID", "threads", "--sort", "NO"], 2, "no column 'NO'"),
        (["show", "PID", "threads", "--limit", "-1"], 2, "--limit"),
        (["show", "PID", "threads", "--format", "xml"], 2, "--format"),
        (["show", "PID", "threads", "--json", "--csv"], 2, "Give one of --json and --csv."),
        (["show", "PID", "threads", "-f", "csv", "--json"], 2, "Give one of --format and --json."),
        (["show", "pythn", "threads"], 1, "no process and no segment is called 'pythn': the nearest is 'python"),
        (["show", "PID"], 2, "TABLE"),
        (["set", "PID", "wait/%"], 2, "--enabled"),
        (["set", "PID", "wait/%", "--enabled", "maybe"], 2, "--enabled"),
        (["set", "PID", "wait/nothing", "--enabled", "no"], 1, "legal are wait/"),
        (["set", "PID", "wait/synch/mutex/app/LOCK_", "--enabled", "no"], 1, "the nearest is 'wait/synch/mutex/app/LOCK_"),
        (["show", "PID", "xyzzy"], 1, "unknown table 'xyzzy': pfs describe lists all"),
        (["show", "PID", "mutex"], 1, "unknown table 'mutex': the nearest is 'mutex_instances'"),
        (["set", "PID", "%", "--table", "file_instances", "--enabled", "no"], 2, "setup_consumers"),
        (["truncate", "PID", "thread"], 1, "the nearest is 'threads'"),
        (["truncate", "4194304", "threads"], 1, "no segment"),
        (["snapshot", "4194304", "somewhere"], 1, "no segment"),
        (["show", "PID", "threads", "-f", "csv", "-o", "/nowhere/file"], 1, "No such file or directory: /nowhere/file"),
        (["snapshot", "PID", "/proc/nowhere"], 1, "/proc/nowhere"),
        (["diff", "/nowhere", "/nowhere"], 2, "/nowhere"),
        (["diff", "/usr", "/usr"], 1, "holds no snapshot"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors_are_one_line_and_no_traceback(program: Subject, arguments: list[str], status: int, says: str) -> None:
    text = command(program, *[str(program.pid) if word == "PID" else word for word in arguments], status=status)
    assert says in text
    if status == 1:
        assert text.startswith("pfs: ")
        assert text.count("\n") == 1


def test_nobody_reads_any_more(program: Subject) -> None:
    shell = f"{sys.executable} -W error -m pfs show {program.pid} setup_instruments | head -n 1; echo ${{PIPESTATUS[0]}}"
    rows = subprocess.run(
        ["bash", "-c", f"for i in 1 2 3; do {shell}; done"],
        env={**os.environ, "PFS_DIR": str(program.path.parent), "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert rows.stderr == ""
    assert {int(line) for line in rows.stdout.splitlines()[1::2]} <= {
        0,
        1,
        141,
    }  # not 120, with which Python ends when it cannot flush
    assert all(line.startswith("NAME") for line in rows.stdout.splitlines()[::2])


def test_texts_of_others_do_nothing_to_the_terminal(tmp_path: Path) -> None:
    with subject(tmp_path) as hostile:
        hostile.do(r"pfs.set_thread_name('a\x1b]0;title\x07b\rc')")
        hostile.kill()
        forge(hostile.path, COMMAND, b"\x1b[31mred\x07" + bytes(246))
        threads = ["show", str(hostile.path), "threads", "-c", "NAME"]
        statement = ["sql", str(hostile.path), "select NAME from threads", "--csv"]
        for arguments in (["ps"], ["ps", "--csv"], threads, [*threads, "--csv"], statement, ["gc", "--dry-run"]):
            text = command(hostile, *arguments)
            assert "\x1b" not in text
            assert "\x07" not in text
            assert "\r" not in text
            assert r"\x1b" in text


def test_blocked_is_said_in_sentences(tmp_path: Path) -> None:
    """Two for each thread that waits; options of tables make a table."""
    with subject(tmp_path) as program:
        assert command(program, "show", str(program.pid), "blocked") == "No thread waits for a lock.\n"
        program.do("""
import threading
lock = pfs.Lock("app/LOCK_blocked")
lock.acquire()
threading.Thread(target=lock.acquire, name="late", daemon=True).start()
""")
        witnessed.until(lambda: "waits" in command(program, "show", str(program.pid), "blocked"), "a thread waits")
        heading, waiter, holder = command(program, "show", str(program.pid), "blocked").splitlines()
        assert heading == "blocked now: 1 thread"
        assert re.fullmatch(r"  \d+ python/late waits .* for wait/synch/mutex/app/LOCK_blocked \(lock\) at .*", waiter)
        assert re.fullmatch(r"      held by \d+ python/MainThread for .*", holder)
        assert "HOLDER_THREAD_ID" in command(program, "show", str(program.pid), "blocked", "--human")
        assert json.loads(command(program, "show", str(program.pid), "blocked", "--json"))[0]["THREAD"] == "thread/python/late"


def test_gc(tmp_path: Path) -> None:
    with subject(tmp_path) as dead, subject(tmp_path) as alive, subject(tmp_path) as elsewhere:
        dead.kill()
        elsewhere.kill()
        forge(elsewhere.path, BOOT_ID, b"00000000")
        assert command(dead, "gc", "--dry-run").startswith(f"would remove {dead.path} (")
        assert command(dead, "gc", "--dir", str(tmp_path)).startswith(f"removed {dead.path} (")
        assert command(dead, "gc") == ""
        assert sorted(tmp_path.glob("*.pfs")) == sorted([alive.path, elsewhere.path])


def test_snapshot_and_diff(program: Subject, tmp_path: Path) -> None:
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    assert str(program.pid) in command(program, "snapshot", str(program.pid), before)
    program.do("for _ in range(4):\n    with locks[0]: pass")
    command(program, "snapshot", str(program.path), after)
    assert GLOBAL in command(program, "diff", before, after)
    text = command(program, "diff", before, after, GLOBAL, "-c", "CHANGE,EVENT_NAME,COUNT_STAR", "-w", "COUNT_STAR > 0")
    assert text.splitlines()[1:] == ["changed  wait/synch/mutex/app/LOCK_1           4"]
    rates = json.loads(command(program, "diff", before, after, GLOBAL, "--rates", "--format", "json"))
    assert rates[0]["COUNT_STAR"] > 0
    assert rates[0]["COUNT_STAR"] != 4
    assert "the earlier one" in command(program, "diff", after, before, status=1)


def test_diff_warns_of_truncate(tmp_path: Path) -> None:
    with subject(tmp_path) as program:
        program.do("lock = pfs.Lock('app/LOCK')\nfor _ in range(4):\n    with lock: pass")
        command(program, "snapshot", str(program.pid), str(tmp_path / "a"))
        program.do(f"pfs.truncate({GLOBAL!r})")
        command(program, "snapshot", str(program.pid), str(tmp_path / "b"))
        done = subprocess.run(
            [sys.executable, "-m", "pfs", "diff", str(tmp_path / "a"), str(tmp_path / "b")],
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"pfs: {GLOBAL}: TRUNCATE" in done.stderr


def test_set_where(tmp_path: Path) -> None:
    with subject(tmp_path) as program:
        program.do("locks = [pfs.Lock(f'app/LOCK_{number}') for number in range(3)]; pfs.Condition('app/COND')")
        pid = str(program.pid)
        some = ("set", pid, "wait/synch/mutex/app/%", "--where", "NAME like '%/LOCK_2' and TIMED = 'YES'")
        assert command(program, *some, "--timed", "sampled") == "1 row of setup_instruments set\n"
        assert command(program, *some, "--timed", "no") == "0 rows of setup_instruments set\n"
        with pfs.attach(program.path) as schema:
            timed = schema.table("setup_instruments", where="NAME like '%/app/LOCK_%'", order="NAME")["TIMED"].tolist()
        assert timed == ["YES", "YES", "SAMPLED"]
        assert "no column 'TIMD': the nearest is 'TIMED'" in command(
            program, "set", pid, "%", "--where", "TIMD = 'NO'", "--timed", "no", status=2
        )
        wrong = ("set", pid, "wait/%/app/%", "--where", "NAME not like '%LOCK_2'", "--timed", "contended")
        before = command(program, "show", pid, "setup_instruments")
        assert "CONTENDED" in command(program, *wrong, status=1)
        assert command(program, "show", pid, "setup_instruments") == before


def test_set_and_truncate(tmp_path: Path) -> None:
    with subject(tmp_path) as program:
        program.do("lock = pfs.Lock('app/LOCK')\nwith lock: pass")
        pid = str(program.pid)
        assert command(program, "set", pid, "wait/synch/mutex/app/%", "--enabled", "no", "--timed", "NO") == (
            "1 row of setup_instruments set, and a rule for instruments that register later\n"
        )
        with pfs.attach(program.path) as schema:
            assert schema.setup_instruments["wait/synch/mutex/app/%"].enabled is False
            assert schema.setup_instruments["wait/synch/mutex/app/%"].timed is False
            command(program, "set", pid, "wait/synch/mutex/app/%", "--timed", "contended")
            assert schema.setup_instruments["wait/synch/mutex/app/LOCK"].timed == "CONTENDED"
            command(program, "set", pid, "wait/synch/mutex/app/%", "--timed", "yes")
            command(program, "set", pid, "global_instrumentation", "--table", "setup_consumers", "--enabled", "yes")
            assert len(schema.table("events_waits_history_long")) == 1
            command(program, "truncate", pid, "events_waits_history_long")
            assert schema.table("events_waits_history_long").empty
        assert "not allowed" in command(program, "truncate", pid, "mutex_instances", status=1)


def test_completion(program: Subject) -> None:
    def complete(*words: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "pfs"],
            env={
                **os.environ,
                "PFS_DIR": str(program.path.parent),
                "_PFS_COMPLETE": "bash_complete",
                "COMP_WORDS": " ".join(words),
                "COMP_CWORD": str(len(words) - 1),
            },
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.split(",")[1] for line in done.stdout.splitlines()]

    assert "snapshot" in complete("pfs", "sn")
    assert complete("pfs", "show", str(program.pid)[:1]) == [str(program.pid)]
    assert complete("pfs", "show", str(program.pid), "threa") == ["thread_time", "threads"]
    assert complete("pfs", "show", "pyth") == [Path(sys.executable).name]
    assert complete("pfs", "show", Path(sys.executable).name, "threa") == ["thread_time", "threads"]
