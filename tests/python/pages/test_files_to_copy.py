"""Files that users copy: of CI, containers, systemd and Prometheus. The tools of each say whether they are valid."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": TOOLS}
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=120)


SCHEMAS = {
    "vendor.github-actions": [".github/actions/pytest/action.yml"],
    "vendor.github-workflows": [".github/workflows/*.yml"],
}


@pytest.mark.needs("check-jsonschema")
@pytest.mark.parametrize("schema", SCHEMAS)
def test_yaml_follows_its_schema(root: Path, tmp_path: Path, schema: str) -> None:
    files = [file for pattern in SCHEMAS[schema] for file in sorted(root.glob(pattern))]
    assert files
    done = run("check-jsonschema", "--builtin-schema", schema, *files)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "bad.yml").write_text(files[0].read_text().replace("uses", "use").replace("using", "use"))
    assert run("check-jsonschema", "--builtin-schema", schema, tmp_path / "bad.yml").returncode == 1
