"""The pages add_a_... of docs/contribute, carried out to the letter on a scratch copy of the tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pfs

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/contribute/add_a_table.md"
VALUE, CALL = PAGE.with_name("add_a_value.md"), PAGE.with_name("add_a_call.md")
TABLE = "memory_use_of_segment"
MOST_LINES = 30


@dataclass
class Edit:
    path: str
    place: str | None  # the line begins so; None = a whole new file
    text: str
    replaces: bool = False  # the line; else it goes behind the line


def edits(page: str) -> list[Edit]:
    """The `<!-- file: -->`, `<!-- insert: -->` and `<!-- change: -->` blocks of a page."""
    blocks = r"^<!-- (file|insert|change): (\S+)(?: (?:after|line): (.+?))? -->\n```\w*\n(.*?)^```$"
    return [
        Edit(match[2], match[3], match[4], match[1] == "change") for match in re.finditer(blocks, page, re.MULTILINE | re.DOTALL)
    ]


def apply(edit: Edit, root: Path) -> None:
    path = root / edit.path
    if edit.place is None:
        assert not path.exists(), f"{edit.path} exists already"
        path.write_text(edit.text)
        return
    lines = path.read_text().splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if line.strip().startswith(edit.place)]
    assert len(places) == 1, f"{len(places)} lines of {edit.path} begin with {edit.place!r}"
    path.write_text("".join([*lines[: places[0] + (not edit.replaces)], edit.text, *lines[places[0] + 1 :]]))


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
    inserted = [edit for edit in page if edit.place is not None]
    assert [edit.path for edit in inserted] == ["cpp/src/tables/tables.h"]
    assert inserted[0].text.count("\n") == 1
    assert sum(code_lines(edit.text) for edit in page if edit.place is None) <= MOST_LINES
    assert all(edit.path.startswith("cpp/src/tables/") for edit in page)


def test_reader_of_the_page_reads_what_is_there_and_refuses_what_does_not_fit(tmp_path: Path) -> None:
    """The applier is no rubber stamp: an anchor that is missing or not unique fails."""
    page = "x\n<!-- file: a/b.c -->\n```cpp\none\ntwo\n```\n<!-- insert: l.h after: X(a) -->\n```cpp\n  X(b)\n```\n"
    assert edits(page) == [Edit("a/b.c", None, "one\ntwo\n"), Edit("l.h", "X(a)", "  X(b)\n")]
    (tmp_path / "l.h").write_text("  X(a) \\\n  X(c)\n")
    apply(edits(page)[1], tmp_path)
    assert (tmp_path / "l.h").read_text() == "  X(a) \\\n  X(b)\n  X(c)\n"
    (changed,) = edits("x\n<!-- change: l.h line: X(b) -->\n```\n  X(d)\n```\n")
    apply(changed, tmp_path)
    assert (tmp_path / "l.h").read_text() == "  X(a) \\\n  X(d)\n  X(c)\n"
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


def test_what_a_page_quotes_is_in_the_tree() -> None:
    quoted = quotes(VALUE.read_text())
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


def configured(root: Path, build: Path) -> tuple[str | Path, ...]:
    """Returns the command of ninja for the scratch copy."""
    ninja = tool("ninja")
    flags = ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0"]  # grouped as the given tree is
    carried_out(tool("cmake"), "-S", root, "-B", build, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *flags)
    return (ninja, "-C", build)


def library_of(root: Path, build: Path, *touched: str) -> Path:
    """The shared library of the scratch copy; CMake says what belongs to it.

    PFS_BUILD_DIR (tests/run.sh) has the objects of all files. Only those of files that are `touched`, or that include a header
    that is, are compiled. Without it, all are.
    """
    ninja = configured(root, build)
    given = Path(os.environ.get("PFS_BUILD_DIR", build)) / "release"
    if not (given / "libperfschema.so").exists():
        carried_out(*ninja, "-j2", "perfschema")
        return (build / "libperfschema.so").resolve()
    link = next(line for line in carried_out(*ninja, "-t", "commands", "perfschema").splitlines() if " -shared " in line)
    objects = re.findall(r"CMakeFiles/perfschema_objects\.dir/\S+\.o\b", link)
    users = [
        path.relative_to(root / "cpp/src")
        for path in (root / "cpp/src").rglob("*.cpp")
        if any(path.match(name) or f'#include "{name}"' in path.read_text() for name in touched)
    ]
    groups = "|".join({str(path.parent).replace("/", "_") for path in users})
    alone = tuple(f"/cpp/src/{path}.o" for path in users)
    ours = [name for name in objects if name.endswith(alone) or re.search(rf"\bunity_({groups})_\d+_cxx\.cxx\.o$", name)]
    assert ours
    assert len(ours) < len(objects) / 3
    carried_out(*ninja, "-j2", *ours)
    for name in set(objects) - set(ours):
        assert (given / name).exists(), name
        link = re.sub(rf"{re.escape(name)}(?=\s)", str(given / name), link)
    carried_out("sh", "-c", f"cd {build} && {link}")
    (library,) = build.glob("libperfschema.so.*")
    return library


def carry_out_page(page: Path, tmp_path: Path) -> Path:
    root = scratch_copy(tmp_path)
    for edit in edits(page.read_text()):
        apply(edit, root)
    return root


def answer_of(library_built: Path, script: str, tmp_path: Path) -> Any:
    """Returns what a script prints in the package as it is installed, with a new library in it."""
    package = tmp_path / "site" / "pfs"
    shutil.copytree(Path(pfs.__file__).parent, package, symlinks=True)
    library = next((package / "lib").glob("libperfschema.so.*"))
    library.unlink()
    shutil.copy(library_built, library)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    env.update(PYTHONPATH=str(package.parent), PFS_DIR=str(tmp_path), LD_LIBRARY_PATH=str(library.parent))
    done = subprocess.run([sys.executable, "-c", script, library], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer[0].startswith(str(package))
    return answer


def test_page_gives_a_table(tmp_path: Path) -> None:
    """The page alone gives a frame, its DDL, its docs; the library is the only thing that is built again."""
    root = carry_out_page(PAGE, tmp_path)
    script = f"""
import json, pfs
with pfs.Lock("scratch/LOCK_one"):
    pass
frame = pfs.table({TABLE!r})
print(json.dumps([pfs.__file__, pfs.tables(), frame["ARRAY_NAME"].tolist(), [int(n) for n in frame["ELEMENTS_USED"]],
                  [str(t) for t in frame.dtypes], pfs.ddl({TABLE!r}), pfs.describe({TABLE!r})["DESCRIPTION"].tolist()]))
"""
    library = library_of(root, tmp_path / "build", "tables/tables.h")
    _, tables, names, used, dtypes, ddl, docs = answer_of(library, script, tmp_path)
    assert set(tables) == {*pfs.tables(), TABLE}
    assert len(names) == len(set(names)) > 5
    assert sum(used) > 0
    assert [dtype.partition("[")[0] for dtype in dtypes] == ["string", "int64", "int64", "int64"]
    assert ddl.startswith(f"CREATE TABLE `{TABLE}`") or TABLE in ddl.splitlines()[0]
    assert all(doc.endswith(".") for doc in docs)


def test_page_gives_a_value(tmp_path: Path) -> None:
    """Three edits: a word, a store and a column. A thread counts how often it was attached."""
    assert len(edits(VALUE.read_text())) == 3
    root = carry_out_page(VALUE, tmp_path)
    script = """
import ctypes, json, pfs, sys
library = ctypes.CDLL(sys.argv[1])
library.pfs_thread_own.restype = ctypes.c_uint64
library.pfs_thread_attach.argtypes = [ctypes.c_uint64]
pfs.Lock("scratch/LOCK_one").acquire()
own = library.pfs_thread_own()
for handle in (0, own, 0, own):
    assert library.pfs_thread_attach(handle) == 0
frame = pfs.table("threads").set_index("THREAD_ID")
print(json.dumps([pfs.__file__, frame["TIMES_ATTACHED"].tolist(), frame.columns[-1]]))
"""
    library = library_of(root, tmp_path / "build", "snapshot/threads.h", "record/context/attach.cpp")
    assert answer_of(library, script, tmp_path)[1:] == [[2], "TIMES_ATTACHED"]


def test_page_gives_a_call(tmp_path: Path) -> None:
    """Two edits. The objects that have all calls define the new one, or name it; its line of the test program compiles."""
    assert len(edits(CALL.read_text())) == 2
    shutil.copytree(ROOT / "tests/programs/unchanged", tmp_path / "tree/tests/programs/unchanged")
    root = carry_out_page(CALL, tmp_path)
    (tmp_path / "build").mkdir()
    ninja = configured(root, tmp_path / "build")
    objects = [f"cpp/run/CMakeFiles/perfschema-run.dir/{name}.cpp.o" for name in ("calls/calls", "calls/syscalls", "loader/real")]
    carried_out(*ninja, "-j2", *objects)
    defined = carried_out("nm", "--defined-only", tmp_path / "build" / objects[0]).split()
    assert "fchmod" in defined
    assert "fchmod" in (tmp_path / "build/cpp/run/renamed.txt").read_text().split(), "the program's calls alone are replaced"
    program = root / "tests/programs/unchanged/file_calls.c"
    carried_out("cc", "-o", tmp_path / "file_calls", program, "-lpthread")
    (tmp_path / "folder").mkdir()
    assert "data" in carried_out(tmp_path / "file_calls", tmp_path / "folder")
