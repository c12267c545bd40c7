"""Every source file is built, and the maps of the tree name what there is."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest


def test_every_source_file_is_in_cmake(root: Path) -> None:
    text = (root / "CMakeLists.txt").read_text()
    assert "GLOB_RECURSE PFS_SOURCES CONFIGURE_DEPENDS cpp/src/*.cpp" in text
    assert "GLOB PFS_BINDINGS CONFIGURE_DEPENDS *.cpp" in (root / "cpp/bindings/CMakeLists.txt").read_text()
    assert "add_subdirectory(cpp/run)" in text
    assert "GLOB PFS_RUN_SOURCES CONFIGURE_DEPENDS */*.cpp" in (root / "cpp/run/CMakeLists.txt").read_text()
    for path in sorted((root / "cpp").rglob("*.cpp")):
        name = path.relative_to(root).as_posix()
        if name.startswith(("cpp/src/", "cpp/bindings/", "cpp/run/")):
            continue  # found by pattern; have a list of their own
        assert name in text, f"{name} is not built"


@pytest.mark.needs("git")
def test_the_top_of_the_tree_has_what_was_agreed(root: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    folders = {name.partition("/")[0] for name in listed if "/" in name and not name.startswith(".")}
    assert folders == {"cpp", "docs", "lab", "notebooks", "python", "tests"}


def test_the_map_stays_short(root: Path) -> None:
    assert len((root / "docs/explanation/architecture.md").read_text().split()) <= 1000


def test_the_map_of_the_writer_has_every_header_in_its_group(root: Path) -> None:
    folder = root / "cpp/src/record"
    groups = re.split(r"^## (\w+)/", (folder / "README.md").read_text(), flags=re.MULTILINE)
    listed = {
        f"{group}/{name}"
        for group, text in zip(groups[1::2], groups[2::2], strict=True)
        for name in re.findall(r"^\| `([\w.]+)`", text, re.MULTILINE)
    }
    there = {path.relative_to(folder).as_posix() for path in folder.glob("*/*.h")}
    assert listed == there, {"not in the map": sorted(there - listed), "not in the tree": sorted(listed - there)}


def test_the_map_of_the_python_package_has_every_part(root: Path) -> None:
    text = (root / "python/README.md").read_text()
    listed = [name for cell in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)]
    there = {
        path.stem for path in (root / "python/pfs").iterdir() if path.suffix in (".py", ".pyi") or (path / "__init__.py").exists()
    }
    assert sorted(listed) == sorted(there - {"__init__"} | {"pfs"})


def test_each_folder_of_tests_is_in_the_map_and_none_is_crowded(root: Path) -> None:
    folder = root / "tests/python"
    table = (root / "tests/README.md").read_text().partition("| folder |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\|(.+?)\|", table, re.MULTILINE))))
    files = [path.relative_to(folder).parent.as_posix() for path in folder.rglob("test_*.py")]
    assert {*files} - {"."} == named
    assert {name for name, count in Counter(files).items() if count > (12 if name == "." else 30)} == set()


# A file below a folder, as comments and pages name it. A path that begins with a blank place ("FOLDER/", "~", "/") is an example.
NAMED = re.compile(
    r"(?<![\w/.~$<>{}*-])((?:\.\./)*[A-Za-z_][\w.-]*(?:/[\w.-]+)+\.(?:h|hpp|cpp|c|py|pyi|md|json|sh|toml|txt|cmake|svg|yml))\b(?![\w/*])"
)
FROM = (".", "cpp", "cpp/src", "cpp/src/record", "cpp/include", "python", "python/pfs", "tests", "tests/python")
MADE_BY_A_PAGE = {"cpp/src/tables/scratch.cpp"}


def prose(path: Path) -> str:
    """Returns the comments of a source file, or all of a page."""
    text = path.read_text()
    if path.suffix in (".h", ".hpp", ".cpp", ".c"):
        return "\n".join(re.findall(r"//[^\n]*|/\*.*?\*/", text, re.DOTALL))
    if path.suffix in (".py", ".pyi"):
        return "\n".join(re.findall(r'#[^\n]*|""".*?"""', text, re.DOTALL))
    return text


def paths_that_lead_nowhere(root: Path, path: Path) -> list[str]:
    named = {match[1] for match in NAMED.finditer(prose(path))} - MADE_BY_A_PAGE
    return sorted(
        name for name in named if not any((base / name).exists() for base in (path.parent, *(root / one for one in FROM)))
    )


def test_each_path_in_a_comment_or_a_page_is_there(root: Path) -> None:
    suffixes = {".h", ".hpp", ".cpp", ".c", ".py", ".pyi", ".md"}
    files = [path for folder in ("cpp", "python", "docs") for path in (root / folder).rglob("*") if path.suffix in suffixes]
    files += root.glob("*.md")
    assert len(files) > 400
    wrong = {path.relative_to(root).as_posix(): found for path in files if (found := paths_that_lead_nowhere(root, path))}
    assert wrong == {}


def test_a_path_that_leads_nowhere_is_seen(root: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.h"
    page.write_text("// shm/layout.h, schema/gone.json and /dev/shm/pfs-0/x.json\nint schema_none; // see ../gone/x.md\n")
    assert paths_that_lead_nowhere(root, page) == ["../gone/x.md", "schema/gone.json"]


def test_the_c_api_stays_small(root: Path) -> None:
    """What a program may call, beyond server.h. Names that end in _ are of the headers, and name_at is name with a call site."""
    folder = root / "cpp/include/perfschema"
    headers = ["pfs.h", "abi.h", *re.findall(r'#include "perfschema/(\w+\.h)"', (folder / "pfs.h").read_text()), "socket_calls.h"]
    code = re.sub(r"/\*.*?\*/", "", "".join((folder / name).read_text() for name in headers), flags=re.DOTALL)
    names = {name.removesuffix("_at") for name in re.findall(r"\b(pfs_[a-z0-9_]+)\(", code) if not name.endswith("_")}
    assert {"pfs_mutex_lock", "pfs_read", "pfs_recv"} < names
    assert len(names) <= 220
