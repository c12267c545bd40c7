import _thread
import sys

# Options of a Python whose script forks beside threads, behind "-W error". From Python 3.15 on, os.fork() raises its warning in
# the parent, after the child exists.
MAY_FORK = ["-W", "ignore:This process (pid=:DeprecationWarning"] if sys.version_info >= (3, 15) else []

# Whether locks of `threading` are bytes in objects and no semaphores, as in CPython 3.14 and Debian 13: then only the
# Python layer of `pfs run` sees one that is free, in the main interpreter.
LOCKS_ARE_BYTES = _thread.LockType.__basicsize__ == object.__basicsize__ + 8
