"""Gives the package README.md for PyPI. A link into the tree leads to the repository there, or is plain text without one."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["dynamic_metadata"]

INTO_THE_TREE = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]*)\)")


def dynamic_metadata(field: str, settings: Mapping[str, Any], project: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Returns the field `readme`. scikit-build-core calls it when it makes the metadata, and knows no URLs then (`project`).

    Version 0.11 leaves `project` away.
    """
    source = tomllib.loads(Path("pyproject.toml").read_text())["project"].get("urls", {}).get("Source")
    link = rf"[\1]({source}/blob/main/\2)" if source else r"\1"
    return {"content-type": "text/markdown", "text": INTO_THE_TREE.sub(link, Path("README.md").read_text())}
