"""The C++ tests of tests/cpp, built and run as released."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import budgets
from tests.python._programs.native import built, passed, sources

pytestmark = pytest.mark.needs("trees")


def test_every_cpp_file_of_tests_is_a_test_or_a_stress(root: Path) -> None:
    names = sources()
    assert len(names) >= 7
    assert all(name.endswith(("_test", "_stress")) for name in names), names
    # In the folder itself, where the pattern of CMakeLists.txt finds them; compile/ is for other drivers.
    nested = {path.parent.name for path in (root / "tests/cpp").rglob("*.cpp")} - {"cpp", "compile"}
    assert not nested, nested


def test_native_tests_compile() -> None:
    built("release")


@pytest.mark.alone  # a torn row needs threads that really run at once
def test_native_tests_pass() -> None:
    names = passed("release", budgets.STRESS_SECONDS)
    # A reader or writer without its checks is caught, else the stress tests prove nothing.
    parts = {
        "torn_rows": "cells events recycled",
        "program": "facts log",
        "births": "path cells",
        "first_cells": "words counts",
        "small_chunks": "age order",
    }
    controls = {f"{test}_broken_{part}" for test, found in parts.items() for part in found.split()}
    controls |= {
        f"{test}_broken"
        for test in [
            "principals",
            "churn",
            "sampled",
            "sessions",
            "short_threads",
            "histograms",
            "digest_histograms",
            "passing_names",
        ]
    }
    assert controls <= names, f"not run: {controls - names}"
