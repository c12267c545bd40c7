"""Starts the Python layer of ``pfs run``, and then runs the sitecustomize that the interpreter would have found without it."""

import sys


def _restore_environment(folder):
    """Takes the folder out of PYTHONPATH, where the library has put it. With a / at its end, PYTHONPATH was empty.

    In sys.path it has no / at its end: the module site has made all paths alike.
    """
    import os

    first, colon, rest = os.environ.get("PYTHONPATH", "").partition(":")
    if first == folder + "/" or (first == folder and colon):
        os.environ["PYTHONPATH"] = rest
    elif first == folder:
        del os.environ["PYTHONPATH"]


def _start():
    folder = __file__.rpartition("/")[0]
    _restore_environment(folder)
    try:
        import _pfs_run

        if not _pfs_run.start():
            del sys.modules["_pfs_run"]
    except Exception as error:  # the program runs without names then
        sys.modules.pop("_pfs_run", None)
        if "PFS_RUN_DEBUG" in __import__("os").environ:
            sys.stderr.write(f"pfs run: no Python layer: {error!r}\n")
    finally:
        sys.path[:] = [path for path in sys.path if path != folder]
        sys.path_importer_cache.pop(folder, None)


_start()
del sys.modules["sitecustomize"]
# As without pfs: without a sitecustomize of the user, this is the ImportError that site ignores.
import sitecustomize  # noqa: E402, F401
