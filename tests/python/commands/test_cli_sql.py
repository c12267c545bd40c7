"""pfs sql and pfs show sys.x: processes, folders and files; dialects; the prompt on a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._sql.views.declared import VIEWS
from tests.python._programs.subject import Subject, clean_environment, subject, until
from tests.python._programs.terminal import Terminal
from tests.python.commands.test_commands_processes import command

WAITS = "events_waits_summary_global_by_event_name"
QUESTION = f"select EVENT_NAME, COUNT_STAR from {WAITS} where EVENT_NAME like '%app/LOCK%' order by 1"
ROWS = [{"EVENT_NAME": f"wait/synch/mutex/app/LOCK_{n}", "COUNT_STAR": n} for n in (1, 2, 3)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    folder = tmp_path_factory.mktemp("segments")
    folder.chmod(0o700)
    with subject(folder) as running:
        running.do("for n in (1, 2, 3):\n    lock = pfs.Lock(f'app/LOCK_{n}')\n    for _ in range(n):\n        with lock: pass")
        yield running


def asked(program: Subject, *arguments: str) -> Any:
    return json.loads(command(program, "sql", *arguments, "--json"))


def test_a_process_a_folder_and_a_file(program: Subject, tmp_path: Path) -> None:
    with pfs.attach(str(program.path)) as schema:
        taken = schema.snapshot(tmp_path / "saved")
    taken.to_file(tmp_path / "saved.pfs.zip")
    for source in (str(program.pid), str(program.path), str(tmp_path / "saved"), str(tmp_path / "saved.pfs.zip")):
        assert asked(program, source, QUESTION) == ROWS, source
        assert asked(program, source, "select sys_version from sys.version") == [{"sys_version": pfs.__version__}]
        said = command(program, "sql", source, "select COUNT_STA from " + WAITS, status=1)
        assert f"{WAITS} has no column 'COUNT_STA': the nearest is 'COUNT_STAR'" in said
    assert "holds no snapshot" in command(program, "sql", str(tmp_path), "select 1", status=1)
    assert "holds no snapshot" in command(program, "sql", str(tmp_path / "none.zip"), "select 1", status=1)


@pytest.mark.parametrize(
    "much", ["len(range(900000000))", "list_resize([1], 900000000)[1]", "len(string_split(repeat('a,', 200000000), ','))"]
)
def test_a_statement_has_a_limit_of_memory(program: Subject, much: str) -> None:
    """DuckDB counts neither lists nor texts that a function makes. The kernel does."""
    script = """
        import resource, subprocess, sys
        done = subprocess.run([sys.executable, "-m", "pfs", "sql", *sys.argv[1:]], capture_output=True, text=True)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(done.returncode, done.stderr.splitlines()[0][:40], most >> 20, sep="|")
    """
    arguments = [sys.executable, "-c", textwrap.dedent(script), str(program.path), f"select {much}"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=clean_environment(program.path.parent))
    status, said, gigabytes = done.stdout.split("|")
    assert (status, said.startswith("pfs: Out of Memory Error")) == ("1", True), done.stdout
    assert int(gigabytes) < 4


def test_the_dialect_of_mysql(program: Subject) -> None:
    pytest.importorskip("sqlglot")
    statement = (
        f"select substring_index(`EVENT_NAME`, '/', -1) as `name` from `performance_schema`.`{WAITS}`"
        " where event_name like '%APP/LOCK%' order by 1 limit 1, 2"
    )
    assert asked(program, str(program.pid), statement, "--dialect", "mysql") == [{"name": "LOCK_2"}, {"name": "LOCK_3"}]
    assert "no SQL" in command(program, "sql", str(program.pid), statement, status=1)
    assert "no SQL of MySQL" in command(program, "sql", str(program.pid), "selec '", "--dialect", "mysql", status=1)


@pytest.mark.parametrize(
    "name", ["x$waits_global_by_latency", "waits_global_by_latency", "version", "x$io_global_by_file_by_bytes"]
)
def test_show_prints_a_view(program: Subject, name: str) -> None:
    shown = json.loads(command(program, "show", str(program.pid), f"sys.{name}", "--json"))
    wanted = pfs.view(name, str(program.path))
    assert [list(row) for row in shown] == [list(VIEWS[name].columns)] * len(wanted)
    assert shown == json.loads(wanted.to_json(orient="records"))
    limited = json.loads(command(program, "show", str(program.pid), f"sys.{name}", "--limit", "1", "--json"))
    assert limited == shown[:1]
    assert "the nearest is 'version'" in command(program, "show", str(program.pid), "sys.versio", status=1)


def test_statements_from_a_pipe(program: Subject) -> None:
    """Each ends with a semicolon. An error does not end the others."""
    text = f"select 1 as a;\nselect nothing\nfrom threads;\n{QUESTION} limit 1;\n\nselect 2 as b"
    done = subprocess.run(
        [sys.executable, "-m", "pfs", "sql", str(program.path), "--csv"],
        input=text, capture_output=True, text=True, timeout=120, check=False, env=clean_environment(program.path.parent),
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.split() == ["a", "1", "EVENT_NAME,COUNT_STAR", "wait/synch/mutex/app/LOCK_1,1", "b", "2"]
    assert done.stderr.count("pfs: ") == 1
    assert "has no column 'nothing'" in done.stderr


@pytest.fixture
def prompt(program: Subject, tmp_path: Path) -> Iterator[Terminal]:
    with_prompt = Terminal(program.path.parent, "sql", str(program.pid), HOME=str(tmp_path), INPUTRC=os.devnull)
    yield with_prompt
    with_prompt.close()


def user_time(stat: Path) -> float:
    """Returns the seconds of /proc/PID/stat in which the process has computed."""
    return int(stat.read_text().rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")


def test_the_prompt_answers_and_completes(program: Subject, prompt: Terminal, tmp_path: Path) -> None:
    prompt.wait_for("help shows more, quit ends.")
    prompt.wait_for("pfs> ")
    prompt.press("help\r")
    prompt.wait_for("tables and views, those with PART in their name")
    prompt.press(".tables locks\r")
    prompt.wait_for("data_locks")
    prompt.press(".tables io_global_by_fil\r")
    prompt.wait_for("sys.io_global_by_file_by_latency")
    prompt.press(".tables nosuc\r")
    prompt.wait_for("no table is like 'nosuc'")
    prompt.press(".schema blocked\r")
    prompt.wait_for("HOLDER_THREAD_ID")
    prompt.press("describe mutex_instances;\r")
    prompt.wait_for("LOCKED_BY_THREAD_ID")
    prompt.press("show tables;\r")
    prompt.wait_for("variables_info")
    prompt.wait_for("pfs> ")
    prompt.press("select COUNT_STAR from events_waits_summary_global_by_ev\t where EVENT_NA\t like '%app/LOCK_3';\r")
    prompt.wait_for("         3 ")
    prompt.wait_for("1 row")
    prompt.wait_for("pfs> ")
    prompt.press("select\r")
    prompt.wait_for("...> ")
    prompt.press("sys_version from sys.versio\t;\r")
    prompt.wait_for(pfs.__version__)
    prompt.wait_for("pfs> ")
    prompt.press("select t.PROCESSLIST_US\t from performance_schema.threa\t as t;\r")
    prompt.wait_for("PROCESSLIST_USER")
    prompt.wait_for("pfs> ")
    prompt.press("select x from hosts;\r")
    prompt.wait_for("has no column 'x'")
    prompt.wait_for("pfs> ")
    prompt.press("select 1 as a, 2 as b\\G\r")
    prompt.wait_for("1. row")
    prompt.wait_for("b: 2")
    prompt.wait_for("pfs> ")
    state = Path(f"/proc/{prompt.process.pid}/stat")
    worked = user_time(state)
    prompt.press("select count(*) from range(100000000000000);\r")
    until(lambda: user_time(state) > worked + 0.5)  # the statement runs; before, Ctrl+C would only leave the line
    prompt.process.send_signal(signal.SIGINT)
    prompt.wait_for("pfs: interrupted")
    prompt.wait_for("pfs> ")
    prompt.press("select x from hosts;\r")
    prompt.wait_for("has no column 'x'")
    prompt.wait_for("pfs> ")
    prompt.press("select 'not sent'")
    prompt.wait_for("select 'not sent'")
    prompt.seen = ""
    until(lambda: state.read_text().rpartition(")")[2].split()[0] == "S")  # Python's prompt loses a signal while it shows a key
    prompt.process.send_signal(signal.SIGINT)  # Ctrl+C leaves the statement
    prompt.wait_for("pfs> ")
    prompt.press("\x1b[A")  # the statement before
    prompt.wait_for("select x from hosts;")
    prompt.press("\x15quit\r")
    assert prompt.process.wait(60) == 0
    kept = (tmp_path / ".pfs_sql_history").read_text().splitlines()
    assert kept[0] == "help"
    assert any(line.endswith("'%app/LOCK_3';") for line in kept)
    assert kept[-1] == "quit"


def test_the_prompt_remembers(program: Subject, prompt: Terminal, tmp_path: Path) -> None:
    prompt.wait_for("pfs> ")
    prompt.press("select 1234 as a;\r")
    prompt.wait_for("1 row")
    prompt.wait_for("pfs> ")
    prompt.press("\x04")  # the end of input
    assert prompt.process.wait(60) == 0
    again = Terminal(program.path.parent, "sql", str(program.pid), HOME=str(tmp_path), INPUTRC=os.devnull)
    try:
        again.wait_for("pfs> ")
        again.press("\x1b[A")
        again.wait_for("select 1234 as a;")
        again.press("\r")
        again.wait_for("1 row")
        again.wait_for("pfs> ")
        again.press("\x04")
        assert again.process.wait(60) == 0
    finally:
        again.close()
