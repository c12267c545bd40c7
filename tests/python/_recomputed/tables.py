"""Tables of the program and metadata locks."""

from __future__ import annotations

from pathlib import PurePosixPath

import pfs
from tests.python._recomputed.base import ORDER, Row, account, base, grouped, threads, total


def changes(row: Row) -> Row:
    made: Row = {}
    for word, past in (("insert", "inserted"), ("update", "updated"), ("delete", "deleted")):
        made[f"rows_{past}"], made[f"{word}_latency"] = row[f"COUNT_{word.upper()}"], row[f"SUM_TIMER_{word.upper()}"]
    return made


def indexes(taken: pfs.Snapshot) -> list[Row]:
    rows = base(taken, "table_io_waits_summary_by_index_usage")
    return [
        {
            "table_schema": row["OBJECT_SCHEMA"],
            "table_name": row["OBJECT_NAME"],
            "index_name": row["INDEX_NAME"],
            "rows_selected": row["COUNT_FETCH"],
            "select_latency": row["SUM_TIMER_FETCH"],
            **changes(row),
            ORDER: -row["SUM_TIMER_WAIT"],
        }
        for row in rows
        if row["INDEX_NAME"] is not None
    ]


def full_scans(taken: pfs.Snapshot) -> list[Row]:
    rows = base(taken, "table_io_waits_summary_by_index_usage")
    return [
        {
            "object_schema": row["OBJECT_SCHEMA"],
            "object_name": row["OBJECT_NAME"],
            "rows_full_scanned": row["COUNT_FETCH"],
            "latency": row["SUM_TIMER_WAIT"],
            ORDER: -row["COUNT_FETCH"],
        }
        for row in rows
        if row["INDEX_NAME"] is None and row["COUNT_FETCH"]
    ]


def unused_indexes(taken: pfs.Snapshot) -> list[Row]:
    """Unused means: no operation took time or rows. A primary key and the schema mysql do not count."""
    made = []
    for row in base(taken, "table_io_waits_summary_by_index_usage"):
        schema, name, index = row["OBJECT_SCHEMA"], row["OBJECT_NAME"], row["INDEX_NAME"]
        used = any(row[f"COUNT_{word}"] for word in ("FETCH", "INSERT", "UPDATE", "DELETE"))
        if not used and schema != "mysql" and index not in (None, "PRIMARY"):
            made.append({"object_schema": schema, "object_name": name, "index_name": index, ORDER: (schema or "", name)})
    return made


def table_statistics(taken: pfs.Snapshot) -> list[Row]:
    """A file is a table's if its name without extension is the table's and its folder's name is the schema's."""

    def owner(row: Row) -> tuple[str, str]:
        path = PurePosixPath(row["FILE_NAME"])
        return path.parent.name, path.stem

    files, made = grouped(base(taken, "file_summary_by_instance"), owner), []
    for row in base(taken, "table_io_waits_summary_by_table"):
        its = files.get((row["OBJECT_SCHEMA"], row["OBJECT_NAME"]))
        parts: Row = {}
        for kind in ("read", "write", "misc"):
            upper = kind.upper()
            parts[f"io_{kind}_requests"] = total(its, f"COUNT_{upper}") if its else None
            parts[f"io_{kind}_latency"] = total(its, f"SUM_TIMER_{upper}") if its else None
            if kind != "misc":
                parts[f"io_{kind}"] = total(its, f"SUM_NUMBER_OF_BYTES_{upper}") if its else None
        made.append(
            {
                "table_schema": row["OBJECT_SCHEMA"],
                "table_name": row["OBJECT_NAME"],
                "total_latency": row["SUM_TIMER_WAIT"],
                "rows_fetched": row["COUNT_FETCH"],
                "fetch_latency": row["SUM_TIMER_FETCH"],
                **changes(row),
                **parts,
                ORDER: -row["SUM_TIMER_WAIT"],
            }
        )
    return made


def metadata_waits(taken: pfs.Snapshot) -> list[Row]:
    known, made = threads(taken), []
    running = {
        row["THREAD_ID"]: row
        for row in base(taken, "events_statements_current")
        if row["END_EVENT_ID"] is None and row["NESTING_EVENT_LEVEL"] == 0
    }
    objects = grouped(base(taken, "metadata_locks"), lambda row: (row["OBJECT_TYPE"], row["OBJECT_SCHEMA"], row["OBJECT_NAME"]))
    for (_, schema, name), locks in objects.items():
        for waiting in (lock for lock in locks if lock["LOCK_STATUS"] == "PENDING"):
            for blocking in (lock for lock in locks if lock["LOCK_STATUS"] == "GRANTED"):
                waits, blocks = known[waiting["OWNER_THREAD_ID"]], known[blocking["OWNER_THREAD_ID"]]
                query = running.get(waits["THREAD_ID"], {})
                row = {
                    "object_schema": schema,
                    "object_name": name,
                    "waiting_query": waits["PROCESSLIST_INFO"],
                    "waiting_query_secs": waits["PROCESSLIST_TIME"],
                    "waiting_query_rows_affected": query.get("ROWS_AFFECTED"),
                    "waiting_query_rows_examined": query.get("ROWS_EXAMINED"),
                    "sql_kill_blocking_query": f"KILL QUERY {blocks['PROCESSLIST_ID']}",
                    "sql_kill_blocking_connection": f"KILL {blocks['PROCESSLIST_ID']}",
                    ORDER: 0,
                }
                for word, lock, thread in (("waiting", waiting, waits), ("blocking", blocking, blocks)):
                    row[f"{word}_thread_id"], row[f"{word}_pid"] = thread["THREAD_ID"], thread["PROCESSLIST_ID"]
                    row[f"{word}_account"] = account(thread)
                    row[f"{word}_lock_type"], row[f"{word}_lock_duration"] = lock["LOCK_TYPE"], lock["LOCK_DURATION"]
                made.append(row)
    return made
