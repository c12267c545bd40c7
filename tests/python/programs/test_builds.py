"""The ways to build that docs/howto/build.md shows, each as the page has it, and the objects in gdb."""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pfs._base import installed
from tests.conftest import ROOT
from tests.python.programs.test_cpp_programs import PROGRAM, linker_flags, shell
from tests.python.programs.test_programs import run

PAGE = (ROOT / "docs/howto/build.md").read_text()
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def of_page(name: str) -> str:
    return PAGE.split(f"<!-- build: {name} -->\n")[1].split("```")[1].partition("\n")[2]


@pytest.mark.needs("trees")
def test_cmake_takes_the_page(tmp_path: Path) -> None:
    (tmp_path / "app.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(of_page("cmake"))
    shell("cmake", "-S", ".", "-B", "build", "-G", "Ninja", f"-DPerfSchema_DIR={installed.cmake_dir()}", cwd=tmp_path, PATH=TOOLS)
    shell("cmake", "--build", "build", cwd=tmp_path, PATH=TOOLS)
    assert run(tmp_path / "build/app", cwd=tmp_path) == "on\n"


@pytest.mark.needs("meson")
@pytest.mark.parametrize("package", ["perfschema", "perfschema-static"])
def test_meson_takes_the_page(package: str, tmp_path: Path) -> None:
    (tmp_path / "app.cpp").write_text(PROGRAM)
    (tmp_path / "meson.build").write_text(of_page("meson").replace("dependency('perfschema')", f"dependency('{package}')"))
    environment = {"PATH": TOOLS, "PKG_CONFIG_PATH": f"{installed.library_dir()}/pkgconfig"}
    shell("meson", "setup", "build", cwd=tmp_path, **environment)
    shell("meson", "compile", "-C", "build", cwd=tmp_path, **environment)
    assert run(tmp_path / "build/app", cwd=tmp_path) == "on\n"


def test_the_file_for_bazel_names_what_a_program_needs(tmp_path: Path) -> None:
    """Bazel is not here: the file is read, and its flags are given to the compiler as Bazel gives them."""
    prefix = Path(installed.library_dir()).parent
    (rule,) = ast.parse((ROOT / "cpp/packaging/bazel/perfschema.BUILD").read_text()).body
    assert isinstance(rule, ast.Expr)
    assert isinstance(rule.value, ast.Call)
    words: dict[str | None, Any] = {}
    for word in rule.value.keywords:
        is_glob = isinstance(word.value, ast.Call)
        words[word.arg] = ast.literal_eval(word.value.args[0] if isinstance(word.value, ast.Call) else word.value)
        assert is_glob == (word.arg == "hdrs")
    assert all(list(prefix.glob(pattern)) for pattern in words["hdrs"])
    (tmp_path / "app.cpp").write_text(PROGRAM)
    includes = [f"-I{prefix / folder}" for folder in words["includes"]]
    libraries = [prefix / name for name in words["srcs"]]
    shell("g++", "-std=c++17", "app.cpp", *includes, *libraries, *words["linkopts"], "-o", "app", cwd=tmp_path)
    assert run(tmp_path / "app", cwd=tmp_path) == "on\n"


def test_recipes_have_the_version_of_the_tree() -> None:
    version = re.search('#define PFS_VERSION "(.+)"', (ROOT / "cpp/include/perfschema/pfs.h").read_text())
    assert version is not None
    assert f'"version": "{version[1]}"' in (ROOT / "cpp/packaging/vcpkg/perfschema/vcpkg.json").read_text()
    assert f"perfschema/{version[1]}" in PAGE
    conda = (ROOT / "cpp/packaging/conda/recipe.yaml").read_text()
    assert f"  version: {version[1]}\n" in conda
    debian = (ROOT / "cpp/packaging/debian/changelog").read_text()
    assert debian.startswith(f"perfschema ({version[1]}) ")
    # conda's recipe needs what the package needs.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {name.replace(">=", " >=") for name in (*project["dependencies"], f"python{project['requires-python']}")}
    assert set(re.findall("    - (.*)", conda.partition("  run:\n")[2].partition("tests:")[0])) == needed


SEEN_BY_GDB = """
#include <perfschema/pfs.hpp>
#include <fcntl.h>
#include <unistd.h>
perfschema::mutex queue{"jobs/LOCK_queue"};
perfschema::timed_mutex timed{"jobs/LOCK_timed"};
perfschema::shared_mutex tree{"jobs/tree"}, leaf{"jobs/leaf"};
perfschema::condition_variable ready{"jobs/ready"};
perfschema::file input{"jobs/input", "/dev/null", O_RDONLY};
perfschema::file closed;
pfs_mutex_t plain = PFS_MUTEX_INITIALIZER;
void stop_here() {}
int main() {
  tree.lock_shared();
  leaf.lock();
  perfschema::thread other("jobs/other", [] { queue.lock(); stop_here(); _exit(0); });
  pause();
}
"""


@pytest.mark.needs("gdb")
def test_gdb_shows_names_and_holders(tmp_path: Path) -> None:
    (tmp_path / "seen.cpp").write_text(SEEN_BY_GDB)
    flags = [f"-I{installed.include_dir()}", *linker_flags()]
    shell("g++", "-std=c++17", "-g", "-O0", "seen.cpp", *flags, "-o", "seen", cwd=tmp_path)
    names = ["queue", "timed", "tree", "leaf", "ready", "input", "closed", "plain", "queue.mutex_"]
    commands = ["set debuginfod enabled off", "break stop_here", "run", *(f"print {name}" for name in names), "kill"]
    words = [word for command in commands for word in ("-ex", command)]
    printers = ["-x", installed.gdb_file()]
    said = shell("gdb", "-nx", "-batch", *printers, *words, "seen", cwd=tmp_path, PFS_DIR=str(tmp_path), HOME=str(tmp_path))
    values = dict(zip(names, re.findall(r"^\$\d+ = (.*)", said, re.MULTILINE), strict=True))
    mutex, rwlock = "wait/synch/mutex/jobs", "wait/synch/rwlock/jobs"
    assert values == {
        "queue": f"{mutex}/LOCK_queue, held by thread 2, THREAD_ID 2",
        "timed": f"{mutex}/LOCK_timed, free",
        "tree": f"{rwlock}/tree, read by 1",
        "leaf": f"{rwlock}/leaf, written by thread 1, THREAD_ID 1",
        "ready": "wait/synch/cond/jobs/ready",
        "input": f"descriptor {re.findall(r'descriptor ([0-9]+)', values['input'])[0]}",
        "closed": "closed",
        "plain": "not instrumented, free",
        "queue.mutex_": values["queue"],
    }
    plain = shell("gdb", "-nx", "-batch", *words, "seen", cwd=tmp_path, PFS_DIR=str(tmp_path), HOME=str(tmp_path))
    assert "LOCK_queue" not in plain
