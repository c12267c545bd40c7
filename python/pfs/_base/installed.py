"""Where the C and C++ parts of the installed package are."""

from __future__ import annotations

import os

__all__ = ["PACKAGE", "cmake_dir", "gdb_file", "include_dir", "library_dir"]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def include_dir() -> str:
    """Returns the folder of ``perfschema/pfs.h`` and ``perfschema/pfs.hpp``, for ``-I``."""
    return os.path.join(PACKAGE, "include")


def library_dir() -> str:
    """Returns the folder of the library, for ``-L`` and ``-Wl,-rpath``. Python itself uses the same library.

    A wheel holds no symbolic links: ``libperfschema.so`` is a linker script there, ``libperfschema.so.0.1`` the library.
    """
    return os.path.join(PACKAGE, "lib")


def cmake_dir() -> str:
    """Returns the folder for ``-DPerfSchema_DIR=``, with which ``find_package(PerfSchema)`` finds this package."""
    return os.path.join(library_dir(), "cmake", "PerfSchema")


def gdb_file() -> str:
    """Returns the file that makes gdb show locks with their names and holders, for ``gdb -x``."""
    return os.path.join(PACKAGE, "share", "perfschema", "perfschema-gdb.py")
