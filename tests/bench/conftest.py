"""Benchmarks that are tests: `pytest tests/bench`. They measure the installed package."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "bench: measures time, instructions or memory")
