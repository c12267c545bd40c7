"""The shape of python/pfs: imports run one way, without circles; few modules import pandas. Each check rejects a bad sample."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 500
# A unit is a private package or a module beside it; "pfs" is __init__.py. A unit may import the units of the lines above it, and
# of its own line only itself. This holds for imports inside functions and for type checkers, too.
ORDER = [
    ("_auto", "_core", "_installed", "_names", "_namesake", "_paths", "errors"),
    ("_blocks", "_green", "_source"),
    ("_places",),
    ("_tables",),
    ("_arrow", "_views"),
    ("_sql",),
    ("_setup",),
    (
        "blocks", "counted", "error_log", "files", "instrument", "locks", "program", "queues", "setup", "sockets", "thread",
    ),
    ("_dbapi", "_snapshots", "_trace", "server"),
    ("_outside", "sqlalchemy"),
    ("_plot", "_run"),
    ("_dask", "_fleet", "_metrics", "_notebook", "_serve", "_testing"),
    ("_otel", "dask", "fleet", "metrics", "plot"),
    ("otel",),
    ("reading",),
    ("pfs",),
    ("demo",),
    ("_cli",),
    ("_generate_calls",),
    ("_generate", "cli"),
    ("__main__",),
]  # fmt: skip
LINE = {unit: number for number, line in enumerate(ORDER) for unit in line}
# Modules that import numpy or pandas when they are imported themselves. `import pfs` imports none of them.
SLOW = {
    "demo",
    "_dask.frames",
    "_arrow.frames",
    "_fleet.collector",
    "_sql.columns",
    "_snapshots.archive",
    "_snapshots.averages",
    "_snapshots.columns",
    "_snapshots.diff",
    "_snapshots.merge",
    "_snapshots.parquet",
    "_tables.frame",
    "_tables.readable",
    "_tables.columns",
    "_tables.dtypes",
    "_testing.view",
    "_trace.frames",
}


def modules(root: Path) -> dict[str, Path]:
    """Returns the modules of pfs by their names, without the "pfs." in front."""
    package = root / "python/pfs"
    found = {}
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):
        parts = path.relative_to(package).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "pfs"] = path
    return found


def unit_of(module: str) -> str:
    return module.split(".")[0]


def imports(path: Path, known: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """Yields the line and the module of each import of a module of pfs, wherever it stands."""

    def module_named(name: str) -> str:
        inside = name.removeprefix("pfs").removeprefix(".")
        while inside and inside not in known:
            inside = inside.rpartition(".")[0]
        return inside or "pfs"

    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if unit_of(alias.name) == "pfs":
                    yield node.lineno, module_named(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and unit_of(node.module) == "pfs":
            for alias in node.names:
                yield node.lineno, module_named(f"{node.module}.{alias.name}")


def wrong_imports(root: Path) -> list[str]:
    """Imports that run against ORDER, and those that are relative."""
    known = modules(root)
    wrong = []
    for module, path in known.items():
        for line, imported in imports(path, known):
            here, there = unit_of(module), unit_of(imported)
            if here != there and LINE.get(there, 99) >= LINE.get(here, -1):
                wrong.append(f"{path.relative_to(root)}:{line}: {imported}")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                wrong.append(f"{path.relative_to(root)}:{node.lineno}: a relative import")
    return wrong


def circles(root: Path) -> list[str]:
    """Circles of imports between the modules of a package."""
    known = modules(root)
    graph = {
        module: {imported for _, imported in imports(path, known) if unit_of(imported) == unit_of(module) != imported}
        for module, path in known.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" -> ".join(error.args[1]) + " in python/pfs/" + unit_of(error.args[1][0])]
    return []


def at_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields the statements that run when a module is imported."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            is_for_checkers = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            yield from at_top(node.orelse if is_for_checkers else [*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from at_top([*node.body, *(each for handler in node.handlers for each in handler.body), *node.orelse])


def slow_imports(root: Path) -> list[str]:
    """Modules that import numpy or pandas at the top and are not named in SLOW."""
    wrong = []
    for module, path in modules(root).items():
        if module in SLOW or path.suffix == ".pyi":
            continue
        for node in at_top(ast.parse(path.read_text()).body):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if {name.split(".")[0] for name in names} & {"numpy", "pandas"}:
                wrong.append(f"{path.relative_to(root)}:{node.lineno}")
    return wrong


def long_files(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in modules(root).values() if path.read_text().count("\n") > MOST_LINES]


CHECKS = {check.__name__: check for check in (wrong_imports, circles, slow_imports, long_files)}


@pytest.mark.parametrize("name", CHECKS)
def test_package_is_in_order(name: str) -> None:
    assert len(modules(ROOT)) > 50
    assert CHECKS[name](ROOT) == []


def test_every_module_has_its_place_in_the_order() -> None:
    assert {unit_of(module) for module in modules(ROOT)} == set(LINE)


def test_slow_modules_are_slow() -> None:
    """SLOW names no module that could be taken off the list."""
    heavy = re.compile(r"^(import|from) (numpy|pandas)\b", re.MULTILINE)
    assert {module for module, path in modules(ROOT).items() if path.suffix == ".py" and heavy.search(path.read_text())} == SLOW


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        ("wrong_imports", "_tables/bad.py", "from pfs import setup\n"),
        ("wrong_imports", "_tables/bad.py", "def read():\n    from pfs._outside import attach\n"),
        ("wrong_imports", "_tables/bad.py", "if TYPE_CHECKING:\n    from pfs._outside.attach import Schema\n"),
        ("wrong_imports", "locks.py", "import pfs.queues\n"),
        ("wrong_imports", "_trace/bad.py", "import pfs\n"),
        ("wrong_imports", "_trace/bad.py", "from pfs import table\n"),
        ("wrong_imports", "_cli/bad.py", "from pfs.cli import main\n"),
        ("wrong_imports", "_trace/bad.py", "from . import good\n"),
        ("wrong_imports", "_unknown/bad.py", "from pfs import errors\n"),
        ("circles", "_tables/good.py", "from pfs._tables import other\n"),
        ("circles", "_tables/good.py", "def read():\n    from pfs._tables.other import read\n"),
        ("slow_imports", "files.py", "import pandas as pd\n"),
        ("slow_imports", "files.py", "if TYPE_CHECKING:\n    import pandas\nelse:\n    from numpy import array\n"),
        ("slow_imports", "files.py", "try:\n    import numpy.linalg\nexcept ImportError:\n    pass\n"),
        ("long_files", "files.py", "#\n" * (MOST_LINES + 1)),
    ],
)
def test_checks_reject_a_bad_sample(tmp_path: Path, check: str, path: str, text: str) -> None:
    """Each check accepts the good package and rejects one bad file in it."""
    good = {
        "__init__.py": "import os\nif TYPE_CHECKING:\n    import pandas\n    from pfs._outside.attach import attach\n",
        "errors.py": "",
        "_tables/__init__.py": "",
        "_tables/good.py": "from pfs.errors import Error\ndef read():\n    import pandas\n",
        "_tables/other.py": "from pfs._tables import good\n",
        "_outside/attach.py": "from pfs._tables.good import read\n",
        "_cli/commands.py": "import pfs\n",
        "_trace/good.py": "",
        "cli.py": "from pfs._cli import commands\n",
        "queues.py": "",
        "setup.py": "",
    }
    for name, content in good.items():
        file = tmp_path / "python/pfs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert CHECKS[check](tmp_path) == []
    bad = tmp_path / "python/pfs" / path
    bad.parent.mkdir(parents=True, exist_ok=True)
    bad.write_text(text)
    found = CHECKS[check](tmp_path)
    assert len(found) == 1, found
    assert f"python/pfs/{path.split('/')[0]}" in found[0]
