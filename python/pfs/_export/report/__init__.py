"""A report to send: an HTML page, Markdown for a pull request, text, or JSON."""

from __future__ import annotations

import os

__all__ = ["FORMS", "form_of"]

FORMS = {"text": (), "markdown": (".md", ".markdown"), "html": (".html", ".htm"), "json": (".json",)}


def form_of(path: str | None) -> str:
    """Returns the form that the ending of a file's name asks for."""
    endings = {ending: form for form, those in FORMS.items() for ending in those}
    return endings.get(os.path.splitext(path or "")[1].lower(), "text")
