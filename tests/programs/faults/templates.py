"""Each page looks for its template in 30 folders, of which the last has all; mended, in that one first."""

import os
import sys

for folder in range(30):
    os.makedirs(f"folder{folder}", exist_ok=True)
for page in range(20):
    with open(f"folder29/page{page}.html", "w"):
        pass


def template(name: str) -> str:
    folders = range(29, -1, -1) if "mended" in sys.argv else range(30)
    return next(path for folder in folders if os.path.exists(path := f"folder{folder}/{name}"))  # FAULT


for _ in range(60):
    for page in range(20):
        template(f"page{page}.html")
