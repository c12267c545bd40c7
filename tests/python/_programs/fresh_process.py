"""``@fresh_process()``: a test function whose body runs in a process of its own, with a segment of its own.

Its arguments come from pytest.mark.parametrize: numbers, texts, and lists of them. Warnings are errors there too. The working
directory is an empty folder.
"""

from __future__ import annotations

import ast
import inspect
import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import CodeType
from typing import Any

from pfs._base import installed
from tests import MAY_FORK

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent


@cache
def own_folder() -> str:
    """A folder of this process for what it compiles. It goes with the process."""
    folder = mkdtemp(prefix="pfs-driver-")
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def compile_library(source: str) -> str:
    """A C file of this folder, compiled against the installed package."""
    folder = own_folder()
    library, include = installed.library_dir(), installed.include_dir()
    output = f"{folder}/{source}.so"
    command = [
        "gcc",
        "-std=c11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Werror",
        "-O1",
        "-g",
        "-fPIC",
        "-shared",
        str(HERE / source),
        "-o",
        output,
    ]
    subprocess.run([*command, f"-I{include}", f"-L{library}", f"-Wl,-rpath,{library}", "-lperfschema", "-lpthread"], check=True)
    return output


def code_of(kept: list[ast.stmt], path: str) -> CodeType:
    return compile(ast.Module(kept, []), path, "exec")  # with the future of this file: annotations are texts


def written(name: str, what: CodeType | tuple[CodeType, str, dict[str, Any]]) -> str:
    """The file of a value that run_fact.py reads."""
    output = Path(own_folder(), name)
    output.write_bytes(marshal.dumps(what))
    return str(output)


@cache
def codes_of(path: str) -> tuple[str, dict[str, ast.FunctionDef]]:
    """The compiled part of a test file that its tests share, and its tests. A process for each test would compile it each time.

    Imports that only pytest needs stay away, so that nothing slow is imported."""
    shared: list[ast.stmt] = []
    tests = {}
    for node in ast.parse(Path(path).read_bytes(), path).body:
        if isinstance(node, ast.Import) and any(name.name == "pytest" for name in node.names):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith((".fresh_process", ".conftest")):
            continue
        if isinstance(node, ast.FunctionDef) and (node.decorator_list or node.name.startswith("test_")):
            node.decorator_list = []
            tests[node.name] = node
            continue
        shared.append(node)
    return written(f"{Path(path).stem}.code", code_of(shared, path)), tests


def environment(folder: Path, options: str = "", **more: str) -> dict[str, str]:
    """Of a process that uses driver.py and has its segment in a folder."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
    env.update(
        PFS_DIR=str(folder),
        PFS_TEST_DRIVER=compile_library("driver.c"),
        PYTHONPATH=str(ROOT),
        PYTHONDONTWRITEBYTECODE="1",
        **more,
    )
    if options:
        env["PFS_OPTIONS"] = options
    return env


def fresh_process(options: str = "", **more: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`options` are PFS_OPTIONS; "{name}" in them is the argument of that name. `more` are variables of the environment."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def test(tmp_path: Path, **arguments: Any) -> None:
            work = tmp_path / "work"
            work.mkdir()
            path, name = inspect.getfile(function), function.__name__
            shared, tests = codes_of(path)
            fact = written("fact", (code_of([tests[name]], path), name, arguments))
            done = subprocess.run(
                [sys.executable, "-W", "error", *MAY_FORK, HERE / "run_fact.py", shared, fact],
                env=environment(tmp_path, options.format(**arguments), **more),
                cwd=work,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"

        own = list(inspect.signature(function).parameters.values())
        path = inspect.Parameter("tmp_path", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__name__, test.__doc__, test.__module__ = function.__name__, function.__doc__, function.__module__
        test.__qualname__ = function.__qualname__
        test.__signature__ = inspect.Signature([path, *own])  # type: ignore[attr-defined]
        test.pytestmark = list(getattr(function, "pytestmark", []))  # type: ignore[attr-defined]
        return test

    return decorate
