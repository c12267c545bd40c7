"""The command pfs, and the demo."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import pfs
from pfs import demo
from pfs._base import installed
from pfs._read import show
from pfs._ui.cli import commands


def pfs_command(*arguments: str, status: int = 0, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pfs", *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few files to index."""
    root = tmp_path_factory.mktemp("library")
    for i in range(40):
        (root / f"module_{i}.py").write_text("def function(argument):\n    return argument\n" * (i * 37))
    (root / "empty.py").touch()
    (root / "other.txt").write_text("not read")
    return root


def test_installed_command_is_the_same_as_the_module() -> None:
    command = Path(sys.executable).with_name("pfs")
    assert subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout == f"pfs {pfs.__version__}\n"
    done = pfs_command("--version")
    assert (done.stdout, done.stderr) == (f"pfs {pfs.__version__}\n", "")


def test_help_has_every_command() -> None:
    text = pfs_command("--help").stdout
    for name in ("config", "ddl", "demo", "describe"):
        assert re.search(rf"^  {name} ", text, re.MULTILINE)
        assert "Usage:" in pfs_command(name, "--help").stdout


def test_a_command_is_found_by_its_name() -> None:
    context = click.Context(commands.pfs_command)
    found = {name: commands.pfs_command.get_command(context, name) for name in commands.pfs_command.list_commands(context)}
    assert list(found) == sorted(found)
    assert {name: command.name if command is not None else None for name, command in found.items()} == {n: n for n in found}
    assert commands.pfs_command.get_command(context, "tabels") is None


def test_a_program_does_not_wait_for_what_other_commands_import() -> None:
    """What draws and what reads segments is imported when it is needed: for a report, when the program has ended."""
    shows = "import sys; from pfs._ui.cli.commands import main; main(sys.argv[1:]); print(*sys.modules)"
    late = {"rich", "pandas", "pfs._process.attach", "pfs._process.run.report", "pfs._ui.cli.processes"}
    for options, expected in (["--no-report"], set()), ([], late & {"pfs._process.attach", "pfs._process.run.report"}):
        command = [sys.executable, "-c", shows, "run", *options, "--", "/bin/true"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        assert late & set(done.stdout.split()) == expected


def test_tables_and_ddl() -> None:
    text = pfs_command("describe").stdout
    assert all(name in text for name in pfs.tables())
    assert pfs_command("ddl", "threads").stdout.strip() == pfs.ddl("threads").strip()
    done = pfs_command("ddl", "thread", status=1)
    assert done.stderr.startswith("pfs: ")
    assert "threads" in done.stderr


def test_config() -> None:
    text = pfs_command("config", "--libs", "--cflags").stdout
    assert text == f"-I{installed.include_dir()} -L{installed.library_dir()} -Wl,-rpath,{installed.library_dir()} -lperfschema\n"
    assert pfs_command("config", "--cmakedir").stdout.strip() == installed.cmake_dir()
    assert "--cflags" in pfs_command("config", status=2).stderr
    pfs_command("config", "--nothing", status=2)


@pytest.mark.parametrize("files", ["../../bin/pfs,,\nother/main.py,,\n", "pfs/__init__.py,,\n"])
def test_version_warns_of_another_distribution_called_pfs(tmp_path: Path, files: str) -> None:
    other = tmp_path / "pfs-0.6.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: pfs\nVersion: 0.6.1\n")
    (other / "RECORD").write_text(files)
    done = pfs_command("--version", environment={"PYTHONPATH": str(tmp_path)})
    assert done.stdout == f"pfs {pfs.__version__}\n"
    assert "the distribution 'pfs' 0.6.1 is installed, too" in done.stderr
    assert ("the module pfs" in done.stderr) == files.startswith("pfs/")
    assert done.stderr.count("\n") == 1


def test_help_shows_first_what_most_users_need() -> None:
    lines = pfs_command("--help", environment={"COLUMNS": "100"}).stdout.splitlines()
    first, more = lines.index("First commands:"), lines.index("More commands:")
    names = [line.split()[0] for line in lines[first + 1 : more - 1] if re.match(r"  \w", line)]
    assert names == ["run", "top", "ps", "show", "sql"]
    assert len(lines[more + 1 :]) > 10
    assert not [line for line in lines[first:] if line.endswith("...")]  # no sentence is cut


def test_the_command_has_the_name_of_the_distribution_too() -> None:
    command = str(Path(sys.executable).with_name("perfschema"))
    assert subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout == f"pfs {pfs.__version__}\n"


def test_demo_shows_its_tables(library: Path) -> None:
    text = pfs_command("demo", "--root", str(library), environment={"COLUMNS": "100"}).stdout
    assert "read 41 files" in text
    for part in (
        "file_summary_by_instance",
        "demo/LOCK_words",
        "demo/LOCK_queue",
        "index.cpp:",
        "pfs.demo.run()",
    ):
        assert part in text
    assert len(re.findall(r"module_\d+\.py", text)) >= 5  # most of the ten
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    "terminal", [{"TERM": "dumb"}, {"PYTHONIOENCODING": "ascii"}, {"COLUMNS": "40"}, {"NO_COLOR": "1"}], ids=str
)
def test_demo_behaves_on_poor_terminals(library: Path, terminal: dict[str, str]) -> None:
    text = pfs_command("demo", "--root", str(library), environment=terminal).stdout
    assert "\x1b" not in text
    assert "41 files" in text.replace("\n", " ")


def test_demo_with_nothing_to_read(tmp_path: Path) -> None:
    assert "read 0 files" in pfs_command("demo", "--root", str(tmp_path)).stdout
    assert "no '/nowhere'" in pfs_command("demo", "--root", "/nowhere", status=2).stderr


def test_demo_of_the_standard_library_agrees_with_the_files(tmp_path: Path) -> None:
    done = json.loads(pfs_command("demo", "--json", "--keep-dir", str(tmp_path), "--limit", "1000").stdout)
    files = demo.python_files()
    sizes = {path: os.stat(path).st_size for path in files}
    assert done["files"] == len(files) > 100
    assert done["bytes"] == sum(sizes.values())
    assert Path(done["segment"]).exists()
    for row in done["busiest_files"]:
        if row["FILE_NAME"] in sizes:
            assert row["SUM_NUMBER_OF_BYTES_READ"] == sizes[row["FILE_NAME"]]
    index = (tmp_path / "index.txt").read_text().splitlines()
    assert len(index) == done["distinct"]
    assert index == sorted(index, key=lambda line: line.split(" ")[0])
    assert sum(int(line.split(" ")[1]) for line in index) == done["words"]


def test_demo_frames(library: Path) -> None:
    seen: list[tuple[int, int]] = []
    done = demo.run(library, threads=2, progress=lambda n, total: seen.append((n, total)))
    assert seen[-1] == (41, 41)
    assert not Path(done.output).exists()  # the temporary folder is gone, the tables are not
    files = done.table("file_summary_by_instance").set_index("FILE_NAME")
    for path in demo.python_files(library):
        assert files.loc[path, "SUM_NUMBER_OF_BYTES_READ"] == os.stat(path).st_size
    locks = done.mutex_instruments().set_index("EVENT_NAME")["COUNT_STAR"]
    assert locks["wait/synch/mutex/demo/LOCK_words"] == 3 * 41 + 3  # every part once a file, and once at the end
    assert locks["wait/synch/mutex/demo/LOCK_queue"] == 2 * 41 + 2
    assert done.last_events(5)["OPERATION"].iloc[-1] == "close"
    names = done.table("setup_instruments")["NAME"].tolist()
    assert {"wait/io/file/demo/source", "wait/io/file/demo/index"} <= set(names)
    assert "LOCK_words" not in "".join(pfs.table("setup_instruments")["NAME"])  # this process is another one


def test_demo_counts_equal_those_of_strace(library: Path, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    log = tmp_path / "strace.log"
    program = Path(pfs.__file__).with_name("bin") / "pfs-demo-index"
    done = subprocess.run(
        [
            "strace",
            "-f",
            "-y",
            "-o",
            log,
            "-e",
            "trace=read,write",
            program,
            "--threads",
            "4",
            "--out",
            tmp_path,
            library,
        ],
        env={**os.environ, "PFS_DIR": str(tmp_path), "PFS_KEEP": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    match = re.search(r"^segment (.*)$", done.stdout, re.MULTILINE)
    assert match is not None
    files = pfs.attach(match[1]).table("file_summary_by_instance").set_index("FILE_NAME")
    traced: dict[str, dict[str, list[int]]] = {}
    started: dict[str, tuple[str, str]] = {}
    for line in log.read_text().splitlines():
        thread, rest = line.split(None, 1)
        call = re.match(r"(read|write)\(\d+<([^>]*)>", rest)
        resumed = re.match(r"<\.\.\. (read|write) resumed>", rest)
        if call and "<unfinished" in rest:
            started[thread] = (call[1], call[2])
            continue
        if not (call or resumed):
            continue
        kind, path = (call[1], call[2]) if call else started.pop(thread)
        traced.setdefault(path, {"read": [], "write": []})[kind].append(int(rest.rsplit("= ", 1)[1].split()[0]))
    assert len(files) == 42
    for path, row in files.iterrows():
        calls = traced[str(path)]
        assert (row["COUNT_READ"], row["SUM_NUMBER_OF_BYTES_READ"]) == (len(calls["read"]), sum(calls["read"])), path
        assert (row["COUNT_WRITE"], row["SUM_NUMBER_OF_BYTES_WRITE"]) == (len(calls["write"]), sum(calls["write"])), path


def test_demo_failure_is_told(tmp_path: Path) -> None:
    with pytest.raises(pfs.Error, match="usage"):
        demo.run(tmp_path, threads=0)


def test_attach_errors_are_clear(tmp_path: Path) -> None:
    from pfs import _core

    with pytest.raises(pfs.AttachError, match="missing"):
        _core.Segment(str(tmp_path / "missing"))
    for size in (0, 10, 5000):
        (tmp_path / "junk").write_bytes(b"x" * size)
        with pytest.raises(pfs.AttachError, match="junk"):
            _core.Segment(str(tmp_path / "junk"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ps"),
        (999, "999 ps"),
        (1500, "1.5 ns"),
        (123_456_789, "123 µs"),
        (999_400, "999 ns"),
        (999_700, "1 µs"),  # the unit is that of the number as it is shown
        (999_700_000_000, "1 s"),
        (999_700_000_000_000, "1000 s"),
        (5 * 10**12, "5 s"),
        (12345 * 10**12, "12345 s"),
        (None, "-"),
    ],
)
def test_time_text(value: int | None, text: str) -> None:
    assert demo.time_text(value) == text


def test_size_and_count_text() -> None:
    assert [demo.bytes_text(n) for n in (0, 1023, 1024, (1 << 20) - 1, 5 << 20, 7 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.0 MiB",
        "5.0 MiB",
        "7168.0 GiB",
    ]
    assert demo.count_text(1234567) == "1,234,567"


def test_plurals_are_made_by_one_function() -> None:
    """ "1 nodes" was a text of every place that forgot to ask."""
    assert [show.some(n, noun) for n, noun in ((1, "row"), (0, "row"), (1, "process"), (1200, "process"))] == [
        "1 row",
        "0 rows",
        "1 process",
        "1,200 processes",
    ]
    package = Path(pfs.__file__).parent
    own = [path for path in package.rglob("*.py") if re.search(r"""else ["']e?s["']\}""", path.read_text())]
    assert own == [package / "_read/show.py"]


def test_demo_svg_is_a_picture_of_the_tables(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("word = 'word'\n")
    pfs_command("demo", "--root", str(tmp_path), "--svg", str(tmp_path / "demo.svg"))
    picture = (tmp_path / "demo.svg").read_text()
    assert picture.startswith("<svg")
    assert "events_waits_history_long" in picture


COMPLETION = """
source "$1"
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pfs "$1"; echo "${COMPREPLY[*]}"; }
ask pfs tr
ask perfschema config --g
"""


def test_bash_completes_commands_and_options(root: Path) -> None:
    """The file is installed for bash; those for zsh and fish ask the same way."""
    script = root / "cpp/packaging/completion/pfs.bash"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", COMPLETION, "bash", script], env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "trace truncate\n--gdb\n"
