"""The C++ tests of tests/cpp under ThreadSanitizer."""

from __future__ import annotations

import pytest

from tests import budgets
from tests.python._programs.native import built, passed

pytestmark = pytest.mark.needs("trees")


def test_native_tests_compile() -> None:
    built("tsan")


def test_native_tests_pass() -> None:
    passed("tsan", budgets.STRESS_SECONDS_SANITIZED)
