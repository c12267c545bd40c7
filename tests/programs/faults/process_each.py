"""Each name is cut by a process; mended, by a function."""

import os
import subprocess
import sys

for i in range(60):
    name = f"folder{i}/file{i}.txt"
    if "mended" in sys.argv:
        base = os.path.basename(name)
    else:
        base = subprocess.run(["basename", name], capture_output=True, text=True, check=True).stdout.strip()  # FAULT
    assert base == f"file{i}.txt"
