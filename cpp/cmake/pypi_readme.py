"""Gives the package README.md for PyPI, where links into the tree lead nowhere: they become plain text there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["dynamic_metadata"]

INTO_THE_TREE = re.compile(r"\[([^\]]+)\]\((?!https?:|#)[^)]*\)")


def dynamic_metadata(field: str, settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, str]:
    """Returns the field `readme`. scikit-build-core calls it when it makes the metadata."""
    return {"content-type": "text/markdown", "text": INTO_THE_TREE.sub(r"\1", Path("README.md").read_text())}
