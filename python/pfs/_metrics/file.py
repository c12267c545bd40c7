"""Writes metrics to a file that another program reads, such as node_exporter."""

from __future__ import annotations

import os
import secrets

__all__ = ["write_whole"]


def write_whole(path: str, text: str) -> None:
    """Replaces a file. A reader sees the old text or the new text, never a part."""
    new = f"{path}.{secrets.token_hex(6)}.tmp"  # node_exporter reads *.prom only
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
