""".ci/message takes a message that says its area, what and why, and refuses any other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

WHY = "\n\nThe tests said nothing of it.\n"
LONG = "tests: " + "x" * 65
TOO_LONG, COMMENTED = LONG + "x", "# a comment\n" + LONG


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (LONG + WHY, ""),
        (COMMENTED + WHY, ""),
        ("docs: say how\n\n# a comment\n\nA reader asked.", ""),
        ("fixup! tests: say more", ""),
        (TOO_LONG + WHY, "the subject has 73 characters"),
        ("Say more" + WHY, "the subject does not begin with its area"),
        ("tests:say more" + WHY, "the subject does not begin with its area"),
        ("tests: say more", "no line says why"),
        ("tests: say more\n\n# Changes to be committed\n", "no line says why"),
        ("tests: say more\nand why", "the second line is not empty"),
        ("", "the subject does not begin with its area"),
    ],
)
def test_a_message_is_taken_or_refused(root: Path, tmp_path: Path, message: str, wrong: str) -> None:
    (tmp_path / "message").write_text(message)
    done = subprocess.run([root / ".ci/message", tmp_path / "message"], capture_output=True, text=True, check=False)
    assert done.returncode == bool(wrong), done.stderr
    assert wrong in done.stderr
