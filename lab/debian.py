"""Fetches sources of Debian's packages, with lists and a cache of apt's own: the machine's configuration is not touched."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


class NoSourceError(Exception):
    """The sources cannot be had here: the message says why."""


def _suite() -> str:
    try:
        words = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    except OSError:
        words = {}
    if words.get("ID", "").strip('"') != "debian" or "VERSION_CODENAME" not in words:
        raise NoSourceError("the sources come from Debian, and this system is none")
    return words["VERSION_CODENAME"].strip('"')


def source(package: str, work: Path) -> Path:
    """Returns the sources of a package, in a folder below `work`; those that are there already are taken.

    Raises:
        NoSourceError: they cannot be had.
    """

    def unpacked() -> Path | None:
        return next((one for one in sorted(work.glob(f"{package}-*")) if one.is_dir()), None)

    if (there := unpacked()) is not None:
        return there
    missing = [tool for tool in ("apt-get", "dpkg-source") if shutil.which(tool) is None]
    if missing:
        raise NoSourceError(f"{' and '.join(missing)} not found (apt-get install dpkg-dev)")
    apt = work / "apt"
    for folder in ("lists/partial", "cache/archives/partial", "parts"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    signed = f"[signed-by={keyring}] " if keyring.exists() else ""
    (apt / "sources.list").write_text(f"deb-src {signed}http://deb.debian.org/debian {_suite()} main\n")
    settings = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": apt / "parts",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
    }
    options = [f"-o{name}={value}" for name, value in settings.items() if value != ""]
    for command in (["apt-get", *options, "-q", "update"], ["apt-get", *options, "-q", "source", package]):
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoSourceError(f"{command[-1]} failed:\n{done.stdout}{done.stderr}")
    if (there := unpacked()) is not None:
        return there
    raise NoSourceError(f"apt-get source {package} left no folder {package}-* in {work}")
