"""What a test may need beyond the package, its extra `dev` and a C++ compiler: one table.

A test says @pytest.mark.needs("strace"), and is skipped where that is absent. The quick tier holds no test that needs what
tests/run.sh installs only with --all.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Need:
    there: Callable[[], bool]
    mend: str  # what to do if it is absent
    quick: bool = False  # whether the quick tier may need it


def postgresql_folders() -> list[str]:
    """Where Debian puts the programs of PostgreSQL's server, the oldest version first."""
    return sorted(glob.glob("/usr/lib/postgresql/*/bin"))


def modules(*names: str) -> Callable[[], bool]:
    return lambda: all(importlib.util.find_spec(name) for name in names)


def tools(*names: str) -> Callable[[], bool]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin", *postgresql_folders()])
    return lambda: all(shutil.which(name, path=path) for name in names)


NEEDS = {
    "root": Need(lambda: os.geteuid() == 0, "run the tests as root", quick=True),
    "unshare": Need(tools("unshare"), "apt-get install util-linux", quick=True),
    "git": Need(tools("git"), "apt-get install git", quick=True),
    "gcc": Need(tools("gcc"), "apt-get install g++", quick=True),
    "strace": Need(tools("strace"), "apt-get install strace", quick=True),
    "check-jsonschema": Need(tools("check-jsonschema", "kubernetes-validate"), "pip install '.[test]'"),
    "clang-format": Need(tools("clang-format"), "pip install '.[test]'"),
    "mypy": Need(tools("mypy"), "pip install '.[test]'"),
    "celery": Need(modules("celery"), "pip install '.[web]'"),
    "django": Need(modules("django"), "pip install '.[web]'"),
    "redis-py": Need(modules("redis"), "pip install '.[web]'"),
    "php": Need(tools("php"), "apt-get install php-cli"),
    "rust": Need(tools("rustc"), "apt-get install rustc"),
    "arm64": Need(tools("aarch64-linux-gnu-g++"), "apt-get install g++-aarch64-linux-gnu"),
    "clang": Need(tools("clang++"), "apt-get install clang"),
    "libomp": Need(
        lambda: bool(glob.glob("/usr/lib/llvm-*/lib/libomp.so")) and tools("clang")(), "apt-get install clang libomp-dev"
    ),
    "debuginfod": Need(tools("debuginfod-find"), "apt-get install debuginfod"),
    "fakeroot": Need(tools("fakeroot"), "apt-get install fakeroot"),
    "gdb": Need(tools("gdb"), "apt-get install gdb"),
    "meson": Need(tools("meson", "pkg-config"), "pip install '.[test]'"),
    "mariadb": Need(tools("mariadbd"), "apt-get install mariadb-server-core"),
    "mkdocs": Need(modules("material", "mkdocstrings"), "pip install '.[docs]'"),
    "nanoarrow": Need(modules("nanoarrow"), "pip install '.[test]'"),
    "nginx": Need(tools("nginx"), "apt-get install nginx-light"),
    "postgresql": Need(tools("postgres"), "apt-get install postgresql"),
    "python3.14t": Need(tools("python3.14t"), "build CPython 3.14 with --disable-gil: docs/contribute/platforms.md"),
    "qemu": Need(lambda: os.uname().machine == "x86_64" and tools("qemu-x86_64")(), "on x86-64, apt-get install qemu-user"),
    "redis": Need(tools("redis-server"), "apt-get install redis-server"),
    "rsync": Need(tools("rsync"), "apt-get install rsync"),
    "sqlite3": Need(tools("sqlite3"), "apt-get install sqlite3"),
    "trees": Need(tools("cmake", "ninja", "ctest"), "pip install '.[test]'"),  # of the C++ tests: each compiles for minutes
    "valgrind": Need(tools("valgrind"), "apt-get install valgrind"),
    "xz": Need(tools("xz"), "apt-get install xz-utils"),
    # Not in the gate: tests/README.md.
    "chromium": Need(tools("chromium"), "apt-get install chromium"),
    "bwrap": Need(tools("bwrap"), "apt-get install bubblewrap"),
    "promtool": Need(tools("promtool"), "apt-get install prometheus"),
    "systemd-analyze": Need(tools("systemd-analyze"), "apt-get install systemd"),
}
# What a test needs that has one of these fixtures.
FIXTURES = {
    "databases": ("mariadb", "postgresql"),
    "mariadb": ("mariadb",),
    "postgresql": ("postgresql",),
    "redis_server": ("redis",),
    "server": ("mariadb",),
}


@cache
def is_there(name: str) -> bool:
    return NEEDS[name].there()


def needs_of(item: pytest.Item) -> Iterator[str]:
    for fixture in getattr(item, "fixturenames", ()):
        yield from FIXTURES.get(fixture, ())
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            assert name in NEEDS, f"{item.nodeid} needs {name!r}: legal are {', '.join(NEEDS)} (tests/needs.py)"
            yield name


def skip_what_cannot_run(items: list[pytest.Item]) -> None:
    for item in items:
        absent = [name for name in needs_of(item) if not is_there(name)]
        if absent:
            item.add_marker(pytest.mark.skip(reason=f"needs {absent[0]}: {NEEDS[absent[0]].mend}"))


def fits_quick(item: pytest.Item) -> bool:
    """Whether the quick tier may run the test at all. One that measures needs an idle machine."""
    return item.get_closest_marker("alone") is None and all(NEEDS[name].quick for name in needs_of(item))
