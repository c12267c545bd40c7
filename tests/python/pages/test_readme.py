"""README is short, its links lead somewhere, and its figures were measured; docs/reference/coverage.md names what is there."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pfs
from tests.bench import reading


@pytest.fixture(scope="module")
def readme(root: Path) -> str:
    return (root / "README.md").read_text()


@pytest.fixture(scope="module")
def coverage(root: Path) -> str:
    return (root / "docs/reference/coverage.md").read_text()


@pytest.fixture(scope="module")
def rows(coverage: str) -> list[list[str]]:
    """The cells of the table, a list a row."""
    table = coverage.partition("| what | C | C++ | Python |\n| --- | --- | --- | --- |\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([\w*]+)`", cell)


def headers(root: Path, ending: str) -> str:
    return "".join(path.read_text() for path in sorted((root / "cpp/include/perfschema").glob(f"*.{ending}")))


def test_every_name_is_in_the_library(root: Path, rows: list[list[str]]) -> None:
    c, cpp = headers(root, "h"), headers(root, "hpp")
    assert len(rows) > 10
    for what, of_c, of_cpp, of_python in rows:
        for name in names_in(of_c):
            assert re.search(rf"\b{name.replace('*', '[a-z_]+')}(_at)?\(", c), f"{what}: no {name} in C"
        for name in names_in(of_cpp):
            assert re.search(rf"\b(class|struct|using)( \[\[nodiscard\]\])? {name}\b", cpp), f"{what}: no {name} in C++"
        for name in names_in(of_python):
            assert hasattr(pfs, name), f"{what}: no pfs.{name}"


# Attributes of spans, and a file.
NO_NAMES = {"h", "hpp", "operation", "parent", "timer_wait", "unfinished", "json"}


def names_that_are_not_there(text: str) -> list[str]:
    """Returns the names in `pfs.name` that neither the module nor a submodule has."""
    named = set(re.findall(r"(?<![\w/.-])pfs\.([A-Za-z_]\w*)", text)) - NO_NAMES
    return sorted(name for name in named if importlib.util.find_spec(f"pfs.{name}") is None and not hasattr(pfs, name))


def test_each_name_of_pfs_in_the_manual_is_there(root: Path) -> None:
    pages = [*(root / "docs").rglob("*.md"), *root.glob("*.md")]
    assert len(pages) > 30
    wrong = {page.name: names for page in pages if (names := names_that_are_not_there(page.read_text()))}
    assert wrong == {}


def test_a_name_that_is_not_there_is_seen() -> None:
    assert names_that_are_not_there("pfs.table(1), pfs.tabel, `pfs.gone.x`, /a.pfs.x, pfs.plot") == ["gone", "tabel"]


def test_the_number_of_tables(coverage: str) -> None:
    assert re.findall(r"All (\d+) tables", coverage) == [str(len(pfs.tables()))]


def test_readme_fits_three_screens(readme: str) -> None:
    assert len(readme.splitlines()) <= 120


def measured(root: Path, processor: str) -> dict[str, dict[str, Any]]:
    figures: dict[str, dict[str, Any]] = json.loads((root / f"lab/pages/performance/{processor}.json").read_text())["figures"]
    return figures


def test_the_figures_of_the_costs_are_those_that_were_measured(root: Path) -> None:
    page = (root / "docs/explanation/costs.md").read_text()
    both = [measured(root, "amd-25-17"), measured(root, "intel-6-207")]
    rows = re.findall(r"^\| (.+?) \| (\S+ (?:ns|x).*?) \| (\S+ (?:ns|x).*?) \|$", page, re.MULTILINE)
    assert len(rows) >= 12
    for event, *cells in rows:
        for cell, figures in zip(cells, both, strict=True):
            one = figures[event]
            digits = 1 if one["unit"].startswith("ns") else 2
            assert cell == f"{one['value']:.{digits}f} {one['unit']}", event


def test_the_memory_of_the_costs_is_that_of_a_segment(root: Path, tmp_path: Path) -> None:
    """The history has 1,000 to 10,000 rows, by the cache of the processor."""
    page = (root / "docs/explanation/costs.md").read_text()
    said = re.search(r"\| the memory of a segment after 100,000 events \| ([\d.]+) to ([\d.]+) MiB", page)
    assert said is not None
    program = reading.driver(tmp_path)
    for megabytes, rows in zip(said.groups(), (1_000, 10_000), strict=True):
        used = reading.resident(program, 100_000, f"performance_schema_events_waits_history_long_size={rows}")
        assert f"{used / (1 << 20):.1f}" == megabytes, rows


def test_the_figures_of_readme_are_those_that_were_measured(root: Path, readme: str) -> None:
    said = re.search(r"costs (\d+) ns more under `pfs run`, and (\d+) ns more in a program\s+built with pfs", readme)
    assert said is not None
    rows = dict(re.findall(r"^\| ([^|]+) \| ([\d.]+) \|", (root / "lab/pages/run_price.md").read_text(), re.MULTILINE))
    assert int(said[1]) == round(float(rows["`--contended`, the default"]) - float(rows["without `pfs run`"]))
    assert int(said[2]) == round(measured(root, "amd-25-17")["TIMED = CONTENDED, a lock that is free"]["value"])


def test_its_links_lead_somewhere(root: Path, readme: str) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", readme) if "://" not in link]
    assert len(links) > 10
    assert [link for link in links if not (root / link).exists()] == []


FUNCTION = """#include <fcntl.h>
{top}int main(void) {{ char buffer[8]; const char* path = "app.c";
{body}return n < 0; }}
"""


def test_the_program_in_c_compiles_with_its_line_and_runs(root: Path, tmp_path: Path) -> None:
    page = (root / "docs/start/cpp_program.md").read_text()
    block = re.search(r"^```c\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    line = re.search(r"`gcc app\.c \$\(pfs config (.*)\)`", page)
    assert block is not None
    assert line is not None
    at_top = re.compile(r"^(#include|static) .*\n", flags=re.MULTILINE)  # the rest is what a function does
    top = "".join(found.group() for found in at_top.finditer(block[1]))
    (tmp_path / "app.c").write_text(FUNCTION.format(top=top, body=at_top.sub("", block[1])))
    config = subprocess.run([sys.executable, "-m", "pfs", "config", *line[1].split()], capture_output=True, text=True, check=True)
    subprocess.run(["gcc", "app.c", *shlex.split(config.stdout), "-o", "app"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "app"], cwd=tmp_path, env={"PFS_DIR": str(tmp_path)}, check=True)
