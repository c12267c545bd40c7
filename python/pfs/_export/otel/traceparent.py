"""Finds the span that called a statement: W3C's traceparent, which the program has set or a comment of the text has, as
sqlcommenter writes it."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

__all__ = ["Context", "of_statement"]

_COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
_FIELD = re.compile(r"(?:^|[\s,])traceparent\s*=\s*(?:'([^']*)'|\"([^\"]*)\"|([^\s,'\"]+))")
_VALUE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Context(NamedTuple):
    trace_id: bytes
    span_id: bytes
    flags: int


def of_statement(traceparent: str | None, text: str | None) -> Context | None:
    """Returns the context that the program has set, else that of the last comment that has a valid one, else None."""
    if traceparent is not None:
        return _context(traceparent)
    if text is None or "traceparent" not in text:
        return None
    found = None
    for comment in _COMMENT.findall(text):
        for field in _FIELD.finditer(comment):
            found = _context(unquote(next(part for part in field.groups() if part is not None))) or found
    return found


def _context(value: str) -> Context | None:
    match = _VALUE.fullmatch(value)
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
        return None
    made = Context(bytes.fromhex(match[2]), bytes.fromhex(match[3]), int(match[4], 16))
    return made if any(made.trace_id) and any(made.span_id) else None
