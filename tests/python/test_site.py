"""The site builds from the tree as it is, and a broken link fails the build."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pfs

pytest.importorskip("material", reason="mkdocs-material is not installed: pip install '.[docs]'")
pytest.importorskip("mkdocstrings_handlers.python", reason="mkdocstrings is not installed: pip install '.[docs]'")

pytestmark = pytest.mark.slow


@pytest.fixture
def tree(root: Path, tmp_path: Path) -> Path:
    """A copy of all that the site is made of."""
    for name in ("docs", "python", "cpp"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for path in (*root.glob("*.md"), *root.glob("*.yml"), root / "pyproject.toml"):
        shutil.copy(path, tmp_path)
    for name in ("tests", "notebooks"):  # links lead there
        (tmp_path / name).symlink_to(root / name)
    return tmp_path


def build(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"], cwd=tree, capture_output=True, text=True, timeout=300, check=False
    )


def test_it_builds_and_has_each_table(tree: Path) -> None:
    done = build(tree)
    assert done.returncode == 0, done.stderr
    site = tree / "build/site"
    assert [name for name in pfs.tables() if not (site / f"reference/tables/{name}/index.html").exists()] == []
    page = (site / "reference/python/index.html").read_text()
    names = [name for name in pfs.__all__ if name not in ("errors", "__version__")]
    assert [name for name in names if f'id="pfs.{name}"' not in page] == []


def test_a_broken_link_fails(tree: Path) -> None:
    with (tree / "docs/attach.md").open("a") as page:
        page.write("\n[nowhere](nowhere.md) and [no such file](../cpp/src/shm/nowhere.h)\n")
    done = build(tree)
    assert done.returncode != 0
    assert "'nowhere.md'" in done.stderr
    assert "nowhere.h'" in done.stderr
