"""Every source file is built, and the includes of the C++ rooms run one way."""

from __future__ import annotations

import re
from pathlib import Path

ROOMS = ["base", "shm", "record", "setup", "aggregate", "snapshot", "table", "tables", "capi"]


def test_every_source_file_is_in_cmake(root: Path) -> None:
    text = (root / "CMakeLists.txt").read_text()
    assert "cpp/src/*/*.cpp" in text
    for path in sorted((root / "cpp").rglob("*.cpp")):
        name = path.relative_to(root).as_posix()
        if re.fullmatch(r"cpp/src/[a-z]+/[a-z_]+\.cpp", name) or name.startswith("cpp/bench/"):
            continue  # found by pattern; have a list of their own
        assert name in text, f"{name} is not built"


def backward_includes(room: str, text: str) -> list[str]:
    """Includes of rooms that come later than `room`."""
    found = re.findall(r'^#include "([a-z]+)/', text, re.MULTILINE)
    return [other for other in found if other in ROOMS and ROOMS.index(other) > ROOMS.index(room)]


def test_includes_run_one_way(root: Path) -> None:
    for room in ROOMS:
        for path in (root / "cpp/src" / room).iterdir():
            wrong = backward_includes(room, path.read_text())
            assert not wrong, f"{path.name} of {room} includes {wrong}"


def test_the_check_of_includes_finds_a_wrong_one() -> None:
    assert backward_includes("shm", '#include "base/clock.h"\n#include "record/wait.h"\n') == ["record"]
    assert backward_includes("table", '#include "snapshot/snapshot.h"\n') == []
