"""The folder that ``pfs run`` puts on the path of Python programs. pfs itself imports nothing of it.

It runs in the program's interpreter, which may be older than that of pfs and may have no pfs: it imports nothing but the module
_pfs_run_native, which is inside libperfschema-run.so, and what the program has imported itself.
"""
