"""Nine processes compute one after the other; mended, all at a time."""

import subprocess
import sys

command = [sys.executable, "-S", "-c", "sum(range(4_000_000))"]
if "mended" in sys.argv:
    children = [subprocess.Popen(command) for _ in range(9)]
    assert [child.wait() for child in children] == [0] * 9
else:
    for _ in range(9):
        subprocess.run(command, check=True)  # FAULT
