"""``pfs config`` prints where the C and C++ parts of the package are, ``pfs --version`` its version."""

from __future__ import annotations

import sys

from pfs import _core
from pfs._base import installed
from pfs._base.namesake import namesake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CONFIG_FLAGS", "config_text", "print_version"]

CONFIG_FLAGS = ("--cflags", "--libs", "--includedir", "--libdir", "--cmakedir", "--pkgconfigdir", "--gdb")


def config_text(flags: Sequence[str]) -> str:
    """Returns the line that ``pfs config`` prints for flags of CONFIG_FLAGS."""
    from shlex import quote

    library = installed.library_dir()
    texts = {
        "--cflags": quote(f"-I{installed.include_dir()}"),
        "--libs": f"{quote(f'-L{library}')} {quote(f'-Wl,-rpath,{library}')} -lperfschema",
        "--includedir": installed.include_dir(),
        "--libdir": library,
        "--cmakedir": installed.cmake_dir(),
        "--pkgconfigdir": f"{library}/pkgconfig",
        "--gdb": installed.gdb_file(),
    }
    return " ".join(texts[flag] for flag in flags)


def print_version() -> None:
    """Prints the version, and to stderr a warning if PyPI's ``pfs`` is installed, too."""
    print(f"pfs {_core.__version__}")
    if other := namesake():
        print(f"pfs: {other}", file=sys.stderr)
