"""Marks of the tests that compare with a baseline."""

from __future__ import annotations

import platform

import pytest

from tests.bench import instructions

# Of a whole file: what counts instructions and lines, and where its figures hold.
CALLGRIND = [
    pytest.mark.bench,
    pytest.mark.needs("valgrind", "gcc"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the baseline is that of x86-64"),
]
# Of a test: the baseline says nothing about the code of another compiler.
of_baseline = pytest.mark.skipif(bool(instructions.other_compiler()), reason=instructions.other_compiler() or "the same compiler")
