"""Fixtures of tests that look at another process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python._programs.subject import Subject, subject


@pytest.fixture
def program(folder: Path) -> Iterator[Subject]:
    """A process whose segment is in `folder`."""
    with subject(folder) as running:
        yield running
