"""docs/contribute/add_a_table.md, carried out to the letter on a scratch copy of the tree; what other pages of docs/contribute
quote stands in the tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import pfs

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/contribute/add_a_table.md"
TABLE = "memory_use_of_segment"
MOST_LINES = 30


@dataclass
class Edit:
    path: str
    after: str | None  # None = a whole new file
    text: str


def edits(page: str) -> list[Edit]:
    """The `<!-- file: -->` and `<!-- insert: -->` blocks of a page."""
    found = re.finditer(r"^<!-- (file|insert): (\S+)(?: after: (.+?))? -->\n```\w*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [Edit(match[2], match[3] if match[1] == "insert" else None, match[4]) for match in found]


def apply(edit: Edit, root: Path) -> None:
    path = root / edit.path
    if edit.after is None:
        assert not path.exists(), f"{edit.path} exists already"
        path.write_text(edit.text)
        return
    lines = path.read_text().splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if line.strip().startswith(edit.after)]
    assert len(places) == 1, f"{len(places)} lines of {edit.path} begin with {edit.after!r}"
    path.write_text("".join([*lines[: places[0] + 1], edit.text, *lines[places[0] + 1 :]]))


def code_lines(text: str) -> int:
    """Lines that a person must write: neither blank nor comment."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


def scratch_copy(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    keep = ("CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", "cpp", "python")
    for name in keep:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__", "bench"))
        else:
            root.mkdir(exist_ok=True)
            shutil.copy(source, root / name)
    return root


def test_page_takes_one_line_of_the_list_and_at_most_30_lines() -> None:
    """The budget of a table."""
    page = edits(PAGE.read_text())
    inserted = [edit for edit in page if edit.after is not None]
    assert [edit.path for edit in inserted] == ["cpp/src/tables/tables.h"]
    assert inserted[0].text.count("\n") == 1
    assert sum(code_lines(edit.text) for edit in page if edit.after is None) <= MOST_LINES
    assert all(edit.path.startswith("cpp/src/tables/") for edit in page)


def test_reader_of_the_page_reads_what_is_there_and_refuses_what_does_not_fit(tmp_path: Path) -> None:
    """The applier is no rubber stamp: an anchor that is missing or not unique fails."""
    page = "x\n<!-- file: a/b.c -->\n```cpp\none\ntwo\n```\n<!-- insert: l.h after: X(a) -->\n```cpp\n  X(b)\n```\n"
    assert edits(page) == [Edit("a/b.c", None, "one\ntwo\n"), Edit("l.h", "X(a)", "  X(b)\n")]
    (tmp_path / "l.h").write_text("  X(a) \\\n  X(c)\n")
    apply(edits(page)[1], tmp_path)
    assert (tmp_path / "l.h").read_text() == "  X(a) \\\n  X(b)\n  X(c)\n"
    with pytest.raises(AssertionError, match="0 lines"):
        apply(Edit("l.h", "X(none)", ""), tmp_path)
    with pytest.raises(AssertionError, match="3 lines"):
        apply(Edit("l.h", "X(", ""), tmp_path)


def quotes(page: str) -> list[tuple[str, list[str]]]:
    """The `<!-- quote: -->` blocks of a page: the file, and its lines."""
    found = re.finditer(r"^<!-- quote: (\S+) -->\n```\w*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [(match[1], match[2].splitlines()) for match in found]


def lines_not_there(lines: list[str], text: str) -> list[str]:
    """Returns the lines that do not stand in a text in this order, other lines between them."""
    rest = iter(text.splitlines())
    return [line for line in lines if line not in rest]


@pytest.mark.parametrize("page", [PAGE.parent / "add_a_value.md", PAGE.parent / "add_a_call.md"], ids=lambda page: page.stem)
def test_what_a_page_quotes_is_in_the_tree(page: Path) -> None:
    quoted = quotes(page.read_text())
    assert quoted
    for path, lines in quoted:
        assert lines_not_there(lines, (ROOT / path).read_text()) == [], path


def test_a_quote_that_is_not_there_is_seen() -> None:
    ((path, lines),) = quotes("x\n<!-- quote: a/b.h -->\n```cpp\none\nthree\ntwo\n```\n")
    assert path == "a/b.h"
    assert lines_not_there(lines, "one\ntwo\nthree\n") == ["two"]


def tool(name: str) -> str:
    found = shutil.which(name, path=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    assert found is not None, f"{name} is needed: pip install '.[test]'"
    return found


def carried_out(*command: str | Path) -> str:
    # A cache of compilations finds nothing in a new folder, and takes the precompiled header away.
    env = {name: value for name, value in os.environ.items() if not name.endswith("_COMPILER_LAUNCHER")}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def library_of(root: Path, build: Path) -> Path:
    """The shared library of the scratch copy; CMake says what belongs to it.

    PFS_BUILD_DIR (tests/run.sh) has the objects of files that do not include tables.h: they are the same, and only the others are
    compiled. Without it, all are.
    """
    ninja = (tool("ninja"), "-C", build)
    flags = ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0"]  # grouped as the given tree is
    carried_out(tool("cmake"), "-S", root, "-B", build, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja[0]}", *flags)
    given = Path(os.environ.get("PFS_BUILD_DIR", build)) / "release"
    if not (given / "libperfschema.so").exists():
        carried_out(*ninja, "-j2", "perfschema")
        return (build / "libperfschema.so").resolve()
    link = next(line for line in carried_out(*ninja, "-t", "commands", "perfschema").splitlines() if " -shared " in line)
    objects = re.findall(r"CMakeFiles/perfschema_objects\.dir/\S+\.o\b", link)
    users = {path.parent.name for path in (root / "cpp/src").rglob("*.cpp") if '#include "tables/tables.h"' in path.read_text()}
    assert "tables" in users
    ours = [name for name in objects if re.search(rf"\bunity_({'|'.join(users)})_\d+_cxx\.cxx\.o$", name)]
    assert len(ours) < len(objects) / 4
    carried_out(*ninja, "-j2", *ours)
    for name in set(objects) - set(ours):
        assert (given / name).exists(), name
        link = re.sub(rf"{re.escape(name)}(?=\s)", str(given / name), link)
    carried_out("sh", "-c", f"cd {build} && {link}")
    (library,) = build.glob("libperfschema.so.*")
    return library


def test_page_gives_a_table(tmp_path: Path) -> None:
    """The page alone gives a frame, its DDL, its docs; the library is the only thing that is built again."""
    root = scratch_copy(tmp_path)
    for edit in edits(PAGE.read_text()):
        apply(edit, root)
    library_built = library_of(root, tmp_path / "build")
    # The package as it is installed, with the new library in it.
    package = tmp_path / "site" / "pfs"
    shutil.copytree(Path(pfs.__file__).parent, package, symlinks=True)
    library = next((package / "lib").glob("libperfschema.so.*"))
    library.unlink()
    shutil.copy(library_built, library)
    script = f"""
import json, pfs
with pfs.Lock("scratch/LOCK_one"):
    pass
frame = pfs.table({TABLE!r})
print(json.dumps([pfs.__file__, pfs.tables(), frame["ARRAY_NAME"].tolist(), [int(n) for n in frame["ELEMENTS_USED"]],
                  [str(t) for t in frame.dtypes], pfs.ddl({TABLE!r}), pfs.describe({TABLE!r})["DESCRIPTION"].tolist()]))
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    env.update(PYTHONPATH=str(package.parent), PFS_DIR=str(tmp_path), LD_LIBRARY_PATH=str(library.parent))
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    file, tables, names, used, dtypes, ddl, docs = json.loads(done.stdout)
    assert file.startswith(str(package))
    assert set(tables) == {*pfs.tables(), TABLE}
    assert len(names) == len(set(names)) > 5
    assert sum(used) > 0
    assert [dtype.partition("[")[0] for dtype in dtypes] == ["string", "int64", "int64", "int64"]
    assert ddl.startswith(f"CREATE TABLE `{TABLE}`") or TABLE in ddl.splitlines()[0]
    assert all(doc.endswith(".") for doc in docs)
