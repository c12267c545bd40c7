"""A server: each line of its input is a program (a list of steps in JSON); each is run in a fork of its own, which starts pfs
anew; the answer is a line, "" if all went well."""

from __future__ import annotations

import json
import os
import shutil
import sys
import traceback
from typing import Any

from tests.python._programs.world import World


def run(program: list[list[Any]], folder: str) -> str:
    """Empty, or what went wrong."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    os.chdir(folder)
    step: Any = "start"
    try:
        world = World()
        for step in program:
            getattr(world, step[0])(*step[1:])
            world.compare()
    except BaseException:
        return f"step {step}:\n{traceback.format_exc()}"
    return ""


def main(folder: str) -> None:
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                out.write(run(json.loads(line), folder))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            text = answer.read()
        _, status = os.waitpid(child, 0)
        print(json.dumps(text if status == 0 else f"{text}\nended with status {status}"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
