"""Implements ``pfs run``: checks a program, runs it with libperfschema-run.so, and reports what it waited for."""
