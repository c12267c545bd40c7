"""CPython's own tests of locks and files, run on ours. Skipped where Python came without its test package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("test.lock_tests", reason="Python without its test package")

SCRIPT = """
import sys, unittest
from test import lock_tests, test_fileio
import pfs

class Locks(lock_tests.LockTests):
    locktype = staticmethod(lambda: pfs.Lock("test/LOCK_cpython"))

class Files(test_fileio.AutoFileTests, unittest.TestCase):
    FileIO = staticmethod(pfs.files.File)
    modulename = "pfs"
    # They look for the text "FileIO".
    testRepr = testReprNoCloseFD = None

class OtherFiles(test_fileio.OtherFileTests, unittest.TestCase):
    FileIO = staticmethod(pfs.files.File)
    modulename = "pfs"

unittest.main(argv=["x"])
"""


def test_lock_and_raw_file_pass_the_tests_of_the_standard_ones(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
