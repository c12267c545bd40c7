"""A file of settings is read for each task; mended, once."""

import sys

with open("settings.ini", "w") as file:
    file.writelines(f"key{i} = {i}\n" for i in range(400))


def settings() -> dict[str, str]:
    with open("settings.ini") as file:  # FAULT
        text = file.read()
    return {"size": str(len(text))}


once = settings()
for _ in range(4000):
    (once if "mended" in sys.argv else settings())["size"]
