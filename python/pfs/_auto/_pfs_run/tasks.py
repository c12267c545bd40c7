"""Makes a statement of each Celery task that this process runs: statement/celery/task. Its digest is the name of the task."""

import _pfs_run_native as native
from _pfs_run.statements import Keys, fail, identity, is_shared
from _pfs_run.wrapping import replace

_SKIPPED = "celery,kombu,billiard,vine,_pfs_run"
_key = Keys("celery")


def _tracer(original):
    def build_tracer(name, *arguments, **named):
        trace = original(name, *arguments, **named)
        text = identity(name)

        def trace_task(*arguments, **named):
            handle = native.begin(_key["task"], text, None, _SKIPPED, is_shared())
            if handle is None:
                return trace(*arguments, **named)
            try:
                result = trace(*arguments, **named)
            except BaseException as error:
                fail(handle, error)
                raise
            # A task that has failed returns; `info` has its state. A retry is no failure.
            info = getattr(result, "info", None)
            if getattr(info, "state", None) == "FAILURE":
                fail(handle, info.retval)
            else:
                native.end(handle, 0, 0, 0, "")
            return result

        return trace_task

    return build_tracer


PATCHES = {"celery.app.trace": lambda module: replace(module, "build_tracer", _tracer)}
