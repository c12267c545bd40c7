"""Every source file is built."""

from __future__ import annotations

from pathlib import Path


def test_every_source_file_is_in_cmake(root: Path) -> None:
    text = (root / "CMakeLists.txt").read_text()
    assert "GLOB_RECURSE PFS_SOURCES CONFIGURE_DEPENDS cpp/src/*.cpp" in text
    assert "GLOB PFS_BINDINGS CONFIGURE_DEPENDS *.cpp" in (root / "cpp/bindings/CMakeLists.txt").read_text()
    assert "add_subdirectory(cpp/run)" in text
    assert "GLOB PFS_RUN_SOURCES CONFIGURE_DEPENDS *.cpp" in (root / "cpp/run/CMakeLists.txt").read_text()
    for path in sorted((root / "cpp").rglob("*.cpp")):
        name = path.relative_to(root).as_posix()
        if name.startswith(("cpp/src/", "cpp/bindings/", "cpp/bench/", "cpp/run/")):
            continue  # found by pattern; have a list of their own
        assert name in text, f"{name} is not built"
