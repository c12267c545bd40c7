import sys

# Options of a Python whose script forks beside threads, behind "-W error". From Python 3.15 on, os.fork() raises its warning in
# the parent, after the child exists.
MAY_FORK = ["-W", "ignore:This process (pid=:DeprecationWarning"] if sys.version_info >= (3, 15) else []
