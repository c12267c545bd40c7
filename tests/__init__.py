import _thread
import sys

# Options of a Python whose script forks beside threads, behind "-W error". From Python 3.15 on, os.fork() raises its warning in
# the parent, after the child exists.
MAY_FORK = ["-W", "ignore:This process (pid=:DeprecationWarning"] if sys.version_info >= (3, 15) else []

# Whether `pfs run` sees every acquisition of a lock of `threading`: it is a semaphore of the C library. In CPython 3.14, and in
# the 3.13.5 of Debian 13, it is a word, and only a thread that must wait calls a function.
LOCKS_ARE_SEMAPHORES = _thread.LockType.__basicsize__ > object.__basicsize__ + 8
