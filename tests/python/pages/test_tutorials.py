"""The pages of docs/start and README.md: their programs run with their commands, and print what the pages show.

Numbers and times differ from run to run; names, lines, texts and which columns there are do not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pfs._base import installed
from tests.conftest import ROOT

PAGES = sorted((ROOT / "docs/start").glob("*.md"))
BLOCK = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d[\d,.]*( ?(ps|ns|µs|ms|s|B|KiB|MiB)\b)?|\bNULL\b")


@dataclass
class Step:
    """A command of a page and the lines that the page shows below it."""

    command: str
    shown: list[str] = field(default_factory=list)


def files_and_steps(page: str) -> tuple[dict[str, str], list[Step]]:
    files: dict[str, str] = {}
    steps: list[Step] = []
    for name, language, text in BLOCK.findall(page):
        if name:
            files[name] = text
        elif language == "console":
            for line in text.splitlines():
                if line.startswith("$ "):
                    steps.append(Step(line[2:]))
                else:
                    steps[-1].shown.append(line)
    return files, steps


def masked(line: str) -> str:
    """Returns the line with # for each number, without the folder of a file and with one blank between two words."""
    line = re.sub(r"/\S+/(\w+\.log)", r"\1", line)
    line = re.sub(r"^(Threads lived [^:]+):.*", r"\1", line)  # their shares have another order in each run
    line = re.sub(r"^(Took [^(]+)\(.*", r"\1", line)  # the kernel may say that all was user, or system
    return " ".join(NUMBER.sub("#", line).split())


def carried_out(page: str, folder: Path) -> list[tuple[Step, str]]:
    """Carries all steps out in one shell, as a reader would, and returns each with what it printed."""
    files, steps = files_and_steps(page)
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "pfs").mkdir(mode=0o700)
    # Without a limit: which rows come first depends on times.
    script = "".join(f"echo @@{i}; {{ {re.sub(r' --limit [0-9]+', '', step.command)}\n}} 2>&1\n" for i, step in enumerate(steps))
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    env |= {"PFS_DIR": str(folder / "pfs"), "PATH": f"{Path(sys.executable).parent}:{env['PATH']}", "LC_ALL": "C.UTF-8"}
    env["LD_LIBRARY_PATH"] = installed.library_dir()
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    printed = dict(re.findall(r"^@@(\d+)\n(.*?)(?=^@@|\Z)", done.stdout, re.MULTILINE | re.DOTALL))
    return [(step, printed[str(i)]) for i, step in enumerate(steps)]


def missing(step: Step, printed: str) -> list[str]:
    """Returns the lines of the page that were not printed."""
    found = {masked(line) for line in printed.splitlines()}
    return [line for line in step.shown if line and masked(line) not in found]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_each_command_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    steps = carried_out(page.read_text(), tmp_path)
    assert len([step for step, _ in steps if step.shown]) >= 3
    for step, printed in steps:
        assert missing(step, printed) == [], f"$ {step.command}\n{printed}"


def test_a_line_that_is_not_printed_is_seen(tmp_path: Path) -> None:
    page = "```console\n$ echo 12 ms of lock; echo two\n13 s of lock\ntwo\nthree\n```\n"
    ((step, printed),) = carried_out(page, tmp_path)
    assert missing(step, printed) == ["three"]


def test_readme_shows_the_program_of_the_tutorial(root: Path) -> None:
    """README's report is that of docs/examples/orders.py, whose text the tutorial has."""
    tutorial = (root / "docs/start/any_program.md").read_text()
    files, _ = files_and_steps(tutorial)
    assert (root / "docs/examples/orders.py").read_text() == files["orders.py"]
    assert len(files["orders.py"].splitlines()) == 20


def test_readme_shows_what_is_printed(root: Path, tmp_path: Path) -> None:
    command = "pfs run --limit 1 -- python orders.py"
    readme = (root / "README.md").read_text()
    assert f"$ {command}\n" in readme
    report = re.search(r"^```text\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert report is not None
    program = (root / "docs/examples/orders.py").read_text()
    page = f"<!-- file: orders.py -->\n```python\n{program}```\n```console\n$ {command}\n{report[1]}```\n"
    ((step, printed),) = carried_out(page, tmp_path)
    assert missing(step, printed) == [], printed
    lost = re.search(r"^ *(\S+ ms) +100 .*mutex/python/__main__:3$", report[1], re.MULTILINE)
    assert lost is not None
    assert f"waited {lost[1]} at line 11" in readme
