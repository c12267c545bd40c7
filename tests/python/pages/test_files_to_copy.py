"""Files that users copy: of CI, containers, systemd and Prometheus. The tools of each say whether they are valid."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pfs._ui.cli.commands import COMMANDS
from tests.python._programs.subject import clean_environment

FILES = Path(__file__).parents[3] / "docs/examples/production"
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": TOOLS}
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, timeout=120)


SCHEMAS = {
    "vendor.compose-spec": ["docs/examples/production/compose.yaml"],
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
    (tmp_path / "bad.yml").write_text(
        files[0].read_text().replace("uses", "use").replace("using", "use").replace("read_only", "red")
    )
    assert run("check-jsonschema", "--builtin-schema", schema, tmp_path / "bad.yml").returncode == 1


def documents(name: str) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((FILES / name).read_text()))


@pytest.mark.needs("check-jsonschema")
@pytest.mark.parametrize("name", ["sidecar.yaml", "daemonset.yaml"])
def test_manifests_follow_the_schema_of_kubernetes(tmp_path: Path, name: str) -> None:
    done = run("kubernetes-validate", "--strict", FILES / name)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / name).write_text((FILES / name).read_text().replace("readOnlyRootFilesystem", "readOnlyRoot"))
    assert run("kubernetes-validate", "--strict", tmp_path / name).returncode != 0


@pytest.mark.needs("promtool")
def test_prometheus_takes_the_job_and_the_rules(tmp_path: Path) -> None:
    done = run("promtool", "check", "config", FILES / "prometheus.yml")
    assert done.returncode == 0, done.stderr
    # A program whose statements begin to fail, and a node whose only process has ended.
    (tmp_path / "alerts.yml").write_text((FILES / "alerts.yml").read_text())
    (tmp_path / "test.yml").write_text("""
rule_files: [alerts.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'pfs_statements_total{instance="a",event_name="statement/x/y"}', values: '0+100x60'}
      - {series: 'pfs_statements_errors_total{instance="a",event_name="statement/x/y"}', values: '0x10 0+20x50'}
      - {series: 'pfs_processes{instance="a",state="alive"}', values: '1x20 0x40'}
    alert_rule_test:
      - eval_time: 40m
        alertname: PfsStatementErrors
        exp_alerts:
          - exp_labels: {severity: warning, instance: a, event_name: statement/x/y}
            exp_annotations: {summary: 20% of statement/x/y fail}
      - eval_time: 15m
        alertname: PfsNoProcess
        exp_alerts: []
      - eval_time: 40m
        alertname: PfsNoProcess
        exp_alerts:
          - exp_labels: {severity: warning, instance: a}
            exp_annotations: {summary: no process on a is recorded}
""")
    done = run("promtool", "test", "rules", tmp_path / "test.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_ask_for_metrics_that_there_are() -> None:
    import pfs
    import pfs.metrics

    with pfs.Lock("app/LOCK"), pfs.statement("app/query", "select 1"), pfs.open(os.devnull, name="app/data"):
        pass
    known = set(re.findall(r"^# TYPE (\w+)", pfs.metrics.text(os.getpid()), re.MULTILINE))
    asked = set(re.findall(r"pfs_[a-z_]+", " ".join(rule["expr"] for rule in documents("alerts.yml")[0]["groups"][0]["rules"])))
    assert len(asked) > 5
    assert {re.sub("_(total|bucket)$", "", name) for name in asked} <= known


@pytest.mark.needs("systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """With the drop-in on a unit, as systemd reads both."""
    here = shutil.which("true")
    units = {"pfs-metrics.service": "pfs-metrics.service", "shop.service.d/pfs.conf": "shop.service.d-pfs.conf"}
    for target, name in units.items():
        (tmp_path / target).parent.mkdir(exist_ok=True)
        text = (FILES / name).read_text().replace("/usr/local/bin/pfs", str(here)).replace("/usr/local/bin/shop", str(here))
        (tmp_path / target).write_text(text)
    (tmp_path / "shop.service").write_text("[Service]\nExecStart=/none\n")
    for unit in ("pfs-metrics.service", "shop.service"):
        done = subprocess.run(
            ["systemd-analyze", "verify", tmp_path / unit],
            env=os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_commands_of_the_files_have_these_options() -> None:
    """Each command line of pfs in the files names a command and options of it."""
    lines = []
    for file in sorted(FILES.iterdir()):
        text = re.sub(r'[\[\]",]', " ", file.read_text())
        lines += re.findall(r"(?:/usr/local/bin/|ENTRYPOINT +|command: +|entrypoint: +|`)pfs +(\w+)([^\n`]*)", text)
    assert {command for command, _ in lines} >= {"run", "metrics", "collect", "otel"}
    for command, rest in lines:
        assert command in COMMANDS
        options = set(re.findall(r"--[a-z][a-z-]*", rest.partition(" -- ")[0]))
        done = run(sys.executable, "-m", "pfs", command, "--help")
        assert options <= set(re.findall(r"--[a-z][a-z-]*", done.stdout)), (command, options)


@pytest.mark.needs("root")
@pytest.mark.needs("unshare")
def test_the_sidecar_reads_the_service(tmp_path: Path) -> None:
    """In namespaces of their own, with the users, the folder and the read-only root of the manifest."""
    pod = documents("sidecar.yaml")[0]["spec"]["template"]["spec"]
    user, group = str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["runAsGroup"])
    volume = Path(f"/dev/shm/pfs-test-pod-{os.getpid()}")
    volume.mkdir()
    os.chown(volume, 0, pod["securityContext"]["fsGroup"])
    volume.chmod(0o2777)  # as kubelet makes an emptyDir
    folders = {container["name"]: variable["value"] for container in pod["containers"] for variable in container["env"]}
    # pfs itself may be installed where only root can read.
    caps = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]

    def container(name: str, *command: str) -> subprocess.Popen[str]:
        closed = 'mount --bind "$1" /mnt && mount -o remount,ro,bind / && shift && exec "$@"'
        inside = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", *caps, sys.executable, "-m", "pfs", *command]
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", closed, "sh", str(volume), *inside],
            env=clean_environment(Path(folders[name].replace("/pfs", "/mnt", 1)), HOME="/"),
            stdout=subprocess.PIPE,
            text=True,
        )

    try:
        with container(
            "app", "run", "--no-report", "--", "/bin/sh", "-c", "/bin/cat /etc/hostname; echo up; exec sleep 100"
        ) as app:
            assert app.stdout is not None
            while app.stdout.readline() not in ("up\n", ""):
                pass
            with container("metrics", "metrics") as sidecar:
                text, _ = sidecar.communicate(timeout=60)
            app.kill()
        assert re.search(r'^pfs_processes\{state="alive"\} [1-9]', text, re.MULTILINE)
        assert "unknown" not in text
    finally:
        shutil.rmtree(volume)
