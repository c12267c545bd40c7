"""Options that make a segment as small as it goes, with all instruments and histories on: it is read and damaged often.

Prints them as PFS_OPTIONS, for tests/fuzz/segment.sh: python3 -m tests.python._programs.small
"""

from __future__ import annotations

_CLASSES = ("cond", "file", "memory", "mutex", "rwlock", "socket", "stage", "statement", "thread")
_SIZES = ("accounts", "hosts", "users", "digests", "setup_actors", "setup_objects", "error")
_OBJECTS = ("table_instances", "index_stat", "metadata_locks", "table_handles", "cond_instances", "socket_instances")
_OTHERS = ("program_instances", "prepared_statements_instances", "status_variables")
_SIXTEEN = ("max_file_instances", "max_mutex_instances", "max_rwlock_instances", "max_thread_instances")
_HISTORIES = [f"events_{kind}_history_long" for kind in ("waits", "stages", "statements", "transactions")]

SMALL = ",".join(
    f"performance_schema_{option}"
    for option in (
        *(f"max_{name}_classes=8" for name in _CLASSES),
        *(f"{name}_size=8" for name in _SIZES),
        *(f"max_{name}=8" for name in (*_OBJECTS, *_OTHERS)),
        *(f"{name}=16" for name in _SIXTEEN),
        *(f"{name}_size=64" for name in _HISTORIES),
        *(f"consumer_{name}=ON" for name in _HISTORIES),
        "max_object_cells=256",
        "max_program_rows=64",
        "max_source_locations=64",
        "max_sql_text_length=128",
        "max_digest_length=128",
        "instrument='%=ON'",
    )
)

if __name__ == "__main__":
    print(SMALL)
