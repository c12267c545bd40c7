"""What README says is there is there: the table of what is in it, the number of tables, the files it points to."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pfs


@pytest.fixture(scope="module")
def readme(root: Path) -> str:
    return (root / "README.md").read_text()


@pytest.fixture(scope="module")
def rows(readme: str) -> list[list[str]]:
    """The cells of the table, a list a row."""
    table = readme.partition("| what | C | C++ | Python |\n| --- | --- | --- | --- |\n")[2].partition("\n\n")[0]
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


def test_the_number_of_tables(readme: str) -> None:
    assert re.findall(r"All (\d+) tables", readme) == [str(len(pfs.tables()))]


def test_its_links_lead_somewhere(root: Path, readme: str) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", readme) if "://" not in link]
    assert len(links) > 10
    assert [link for link in links if not (root / link).exists()] == []


FUNCTION = {
    "c": '#include <fcntl.h>\n{top}int main(void) {{ char buffer[8]; const char* path = "app.c";\n{body}return n < 0; }}\n',
    "cpp": "#include <fcntl.h>\n#include <mutex>\n#include <vector>\n{top}void work() {{}}\n"
    'int main() {{ char buffer[8]; const char* path = "app.cpp";\n{body}return n < 0; }}\n',
}


@pytest.mark.parametrize(("language", "compiler"), [("c", "gcc"), ("cpp", "g++")])
def test_its_programs_compile_with_its_line_and_run(readme: str, language: str, compiler: str, tmp_path: Path) -> None:
    block = re.search(rf"^```{language}\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    line = re.search(r"`g\+\+ (.*) app\.cpp \$\(pfs config (.*)\)`", readme)
    assert block is not None
    assert line is not None
    at_top = re.compile(r"^(#include|static) .*\n", flags=re.MULTILINE)  # the rest is what a function does
    top = "".join(found.group() for found in at_top.finditer(block[1]))
    (tmp_path / f"app.{language}").write_text(FUNCTION[language].format(top=top, body=at_top.sub("", block[1])))
    config = subprocess.run([sys.executable, "-m", "pfs", "config", *line[2].split()], capture_output=True, text=True, check=True)
    standard = line[1].split() if language == "cpp" else []
    subprocess.run([compiler, *standard, f"app.{language}", *shlex.split(config.stdout), "-o", "app"], cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "app"], cwd=tmp_path, env={"PFS_DIR": str(tmp_path)}, check=True)
