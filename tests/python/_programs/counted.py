"""Errors and status variables by the C API for facts, by ctypes."""

from __future__ import annotations

import ctypes

from tests.python._programs.driver import perfschema

GLOBAL = 4

_LIBRARY = perfschema()
_add = _LIBRARY.pfs_status_add
_add.argtypes = [ctypes.c_uint32, ctypes.c_int64]
_add.restype = None
_number = _LIBRARY.pfs_error_number
_number.argtypes = [ctypes.c_char_p]
_number.restype = ctypes.c_int32


def register(number: int, name: str | None, sqlstate: str | None = None, flags: int = 0) -> int:
    """Result of pfs_register_error()."""
    texts = [None if text is None else text.encode() for text in (name, sqlstate)]
    result: int = _LIBRARY.pfs_register_error(number, *texts, flags)
    return result


def number_of(name: str) -> int:
    number: int = _number(name.encode())
    return number


def raised(number: int, times: int = 1) -> None:
    for _ in range(times):
        _LIBRARY.pfs_error_raised(number)


def handled(number: int, times: int = 1) -> None:
    for _ in range(times):
        _LIBRARY.pfs_error_handled(number)


def status_key(name: str, documentation: str | None = None) -> int:
    key = ctypes.c_uint32(12345)
    text = None if documentation is None else documentation.encode()
    assert _LIBRARY.pfs_register_status(name.encode(), text, ctypes.byref(key)) == 0, _LIBRARY.pfs_last_error()
    return key.value


def add(key: int, n: int = 1) -> None:
    _add(key, n)


def status(name: str, n: int = 1) -> None:
    add(status_key(name), n)


def last_error() -> str:
    text: bytes = _LIBRARY.pfs_last_error()
    return text.decode()
