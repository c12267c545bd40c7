""".ci/fresh-machine ends when it is told to, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT


def commands() -> Iterator[str]:
    """The command line of each process."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield process.read_bytes().replace(b"\0", b" ").decode(errors="replace")


@pytest.mark.needs("root", "unshare", "git")
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_what_it_runs(tmp_path: Path, stop: signal.Signals) -> None:
    tools, trees = tmp_path / "tools", tmp_path / "trees"
    tools.mkdir()
    trees.mkdir()
    begun = tmp_path / "begun"
    for name, body in (("debootstrap", f"touch {begun}; exec sleep 600"), ("apt-get", "echo http://mirror")):
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(trees)}
    script = subprocess.Popen([ROOT / ".ci/fresh-machine", "--only", "install"], env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not begun.exists():
        assert script.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(list(trees.iterdir())) == 1
    script.send_signal(stop)
    assert script.wait(20) == 128 + stop
    assert list(trees.iterdir()) == []
    assert not [command for command in commands() if str(trees) in command]
