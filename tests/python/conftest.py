"""Fixtures of tests that look at another process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python._programs.subject import Subject, subject


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where segments are, for this process as well."""
    monkeypatch.setenv("PFS_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.fixture
def program(folder: Path) -> Iterator[Subject]:
    with subject(folder) as running:
        yield running
