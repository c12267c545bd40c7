"""The C++ tests of tests/cpp under ThreadSanitizer."""

from __future__ import annotations

import pytest

from tests.python._programs.native import built, passed

pytestmark = [pytest.mark.native, pytest.mark.early]


def test_native_tests_compile() -> None:
    built("tsan")


def test_native_tests_pass() -> None:
    passed("tsan", seconds="0.4")  # few turns: it looks at what could happen, and finds a race without threads at once
