"""The site builds from the tree as it is, and a broken link fails the build."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pfs

pytestmark = pytest.mark.needs("mkdocs")


@pytest.fixture
def tree(root: Path, tmp_path: Path) -> Path:
    """A copy of all that the site is made of."""
    for name in ("docs", "python", "cpp"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for path in (*root.glob("*.md"), *root.glob("*.yml"), root / "pyproject.toml"):
        shutil.copy(path, tmp_path)
    for name in ("lab", "notebooks", "tests"):  # links lead there
        (tmp_path / name).symlink_to(root / name)
    return tmp_path


def test_it_builds_with_each_table_and_broken_links_fail(tree: Path) -> None:
    """One build for both: with two links that lead nowhere it fails, because of these alone, when all pages are written."""
    with (tree / "docs/howto/attach.md").open("a") as page:
        page.write("\n[nowhere](nowhere.md) and [no such file](../../cpp/src/shm/nowhere.h)\n")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert "'nowhere.md'" in done.stderr
    assert "nowhere.h'" in done.stderr
    assert "Aborted with 2 warnings in strict mode" in done.stdout + done.stderr, done.stderr
    site = tree / "build/site"
    assert [name for name in pfs.tables() if not (site / f"reference/tables/{name}/index.html").exists()] == []
    page_of_module = (site / "reference/python/index.html").read_text()
    names = [name for name in pfs.__all__ if name != "__version__"]
    assert [name for name in names if f'id="pfs.{name}"' not in page_of_module] == []
