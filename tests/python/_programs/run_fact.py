"""Runs one test function of a test file in this process: run_fact.py FILE FUNCTION ARGUMENTS_AS_JSON.

Of the file it takes imports (not those that only pytest needs), constants and helpers, so that nothing slow is imported. If an
assertion fails, the variables of the frame are shown.
"""

from __future__ import annotations

import ast
import json
import sys
import traceback


def main(path: str, function: str, arguments: str) -> int:
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    kept: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.Import) and any(name.name == "pytest" for name in node.names):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith((".fresh_process", ".conftest")):
            continue
        if isinstance(node, ast.FunctionDef):
            if node.name == function:
                node.decorator_list = []
            elif node.decorator_list or node.name.startswith("test_"):
                continue
        kept.append(node)
    tree.body = kept
    names: dict[str, object] = {"__name__": "fact", "__file__": path}
    exec(compile(tree, path, "exec"), names)
    try:
        names[function](**json.loads(arguments))  # type: ignore[operator]
    except BaseException as error:
        traceback.print_exc()
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None and trace.tb_next.tb_frame.f_code.co_filename == path:
            trace = trace.tb_next
        if trace is not None:
            for name, value in trace.tb_frame.f_locals.items():
                print(f"  {name} = {value!r:.2000}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
