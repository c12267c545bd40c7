"""PyPI's distribution ``pfs`` is another project with a command of our name. pip lets one replace the other's files."""

from __future__ import annotations

__all__ = ["namesake"]


def namesake() -> str | None:
    """Returns a sentence that says what to do about the distribution ``pfs``, or None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        other = distribution("pfs")
    except PackageNotFoundError:
        return None
    has_module = "\npfs/" in "\n" + (other.read_text("RECORD") or "")
    shared = "the command 'pfs' and the module pfs" if has_module else "the command 'pfs'"
    return (
        f"the distribution 'pfs' {other.version} is installed, too. It is another project and brings {shared}; the one that came "
        "last has replaced the other's files. To keep perfschema: pip uninstall pfs perfschema, then pip install perfschema."
    )
