"""Each file is asked for three times: is it a file, how large and how old is it; mended, scandir() asks once."""

import os
import sys

mended = sys.argv[1:] == ["mended"]
os.makedirs("listed", exist_ok=True)
for number in range(200):
    with open(f"listed/{number}", "w"):
        pass


def newest_by_name() -> float:
    newest = 0.0
    for name in os.listdir("listed"):
        path = os.path.join("listed", name)
        if os.path.isfile(path) and os.path.getsize(path) == 0:  # FAULT
            newest = max(newest, os.path.getmtime(path))
    return newest


def newest_of_entries() -> float:
    newest = 0.0
    for entry in os.scandir("listed"):
        if entry.is_file() and entry.stat().st_size == 0:
            newest = max(newest, entry.stat().st_mtime)
    return newest


for _ in range(100):
    newest_of_entries() if mended else newest_by_name()
