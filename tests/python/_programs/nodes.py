"""Hosts for tests of fleets: network namespaces with hostnames, addresses and links of their own, or only folders. The clock of a
host may be wrong, by libfaketime."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.python._programs.subject import clean_environment

TOOLS = ("ip", "unshare", "nsenter", "hostname")
_SHIFTED = "import sys, time; real = time.time; realns = time.time_ns; s = int(sys.argv.pop(1)); time.time = lambda: real() + s; \
time.time_ns = lambda: realns() + s * 10**9; from pfs._ui.cli.commands import main; sys.exit(main())"


def faketime() -> str | None:
    """Returns the library that makes a clock wrong."""
    found = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")  # of Debian's package faketime
    return found[0] if found else None


def why_not() -> str:
    """Returns why this machine can have no namespaces for tests, or ""."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"there is no {missing[0]}"
    tried = subprocess.run(["unshare", "-n", "-u", "ip", "link", "add", "ve0", "type", "veth"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else f"no veth in a namespace: {tried.stderr.strip()}"


@dataclass
class Node:
    name: str
    folder: Path  # of its segments
    holder: int | None  # the process that keeps its namespaces
    hub: str = ""  # the address of the first node, seen from here
    wrong: int = 0  # seconds that the clock of all of its programs is ahead

    def environment(self) -> dict[str, str]:
        """Returns the environment of a program of this node."""
        library = faketime() if self.wrong else None
        if library is None:
            return clean_environment(self.folder)
        # The time since the boot is right, as it is where only the date is wrong.
        return clean_environment(self.folder, LD_PRELOAD=library, FAKETIME=f"+{self.wrong}", DONT_FAKE_MONOTONIC="1")

    def inside(self, command: Sequence[str]) -> list[str]:
        """Returns a command line that runs in this node."""
        return list(command) if self.holder is None else ["nsenter", "-t", str(self.holder), "-n", "-u", "--", *command]

    def collect(self, to: Path, *options: str, shift: int = 0) -> subprocess.CompletedProcess[str]:
        """Runs ``pfs collect --once``. `shift`: seconds that the clock of the collector alone is wrong."""
        name = [] if self.holder is not None else ["--node", self.name]  # a namespace has a hostname
        command = [sys.executable, "-c", _SHIFTED, str(shift), "collect", "--to", str(to), "--once", *name, *options]
        return subprocess.run(self.inside(command), env=self.environment(), capture_output=True, text=True, timeout=60)


@contextmanager
def nodes(folder: Path, count: int, are_namespaces: bool) -> Iterator[list[Node]]:
    """Yields nodes. All namespaces have a link to the first one."""
    made = []
    with ExitStack() as stack:
        for number in range(count):
            name = f"node{number}"
            segments = folder / "segments" / name
            segments.mkdir(parents=True, mode=0o700)
            holder = None
            if are_namespaces:
                process = stack.enter_context(subprocess.Popen(["unshare", "-n", "-u", "sleep", "600"]))
                stack.callback(process.kill)
                holder = process.pid
                while os.readlink(f"/proc/{holder}/ns/uts") == os.readlink("/proc/self/ns/uts"):
                    time.sleep(0.01)
            made.append(Node(name, segments, holder))
        for number, node in enumerate(made if are_namespaces else []):
            _run(["nsenter", "-t", str(node.holder), "-u", "hostname", node.name])
            _run(node.inside(["ip", "link", "set", "lo", "up"]))
            node.hub = "127.0.0.1"
            if number:
                node.hub = f"10.77.{number}.1"
                ends = [(f"to{number}", str(made[0].holder)), ("eth0", str(node.holder))]
                here, there = ([link, "netns", keeper] for link, keeper in ends)
                _run(["ip", "link", "add", *here, "type", "veth", "peer", *there])
                for (link, keeper), address in zip(ends, (node.hub, f"10.77.{number}.2"), strict=True):
                    inside = ["nsenter", "-t", keeper, "-n", "ip"]
                    _run([*inside, "address", "add", f"{address}/24", "dev", link])
                    _run([*inside, "link", "set", link, "up"])
        yield made


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=20)
