"""Runs one test function in this process: run_fact.py HELPERS FACT.

Both files are from fresh_process.py: the compiled part of a test file that its tests share, and one test with its name and its
arguments. If an assertion fails, the variables of the frame are shown.
"""

from __future__ import annotations

import marshal
import sys


def main(helpers: str, fact: str) -> int:
    with open(helpers, "rb") as shared, open(fact, "rb") as own:
        code, (test, function, arguments) = marshal.load(shared), marshal.load(own)
    names: dict[str, object] = {"__name__": "fact", "__file__": code.co_filename}
    exec(code, names)
    exec(test, names)
    try:
        names[function](**arguments)  # type: ignore[operator]
    except BaseException as error:
        import traceback

        traceback.print_exc()
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None and trace.tb_next.tb_frame.f_code.co_filename == code.co_filename:
            trace = trace.tb_next
        if trace is not None:
            for name, value in trace.tb_frame.f_locals.items():
                print(f"  {name} = {value!r:.2000}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
