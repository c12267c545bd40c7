"""Threads: what they do."""

from __future__ import annotations

import pfs
from tests.python._recomputed.base import ORDER, Row, account, base, newest, rounded, threads
from tests.python._recomputed.waits import memory_by_thread


def processlist(taken: pfs.Snapshot) -> list[Row]:
    current = {kind: newest(taken, kind) for kind in ("waits", "stages", "statements", "transactions")}
    attributes = {(row["PROCESSLIST_ID"], row["ATTR_NAME"]): row["ATTR_VALUE"] for row in base(taken, "session_connect_attrs")}
    used = {row["thread_id"]: row["current_allocated"] for row in memory_by_thread(taken)}
    made = []
    for id, thread in threads(taken).items():
        wait, stage, query, work = (its.get(id) for its in current.values())
        runs = query is not None and query["END_EVENT_ID"] is None
        query = query or {}
        row: Row = {
            "thd_id": id,
            "conn_id": thread["PROCESSLIST_ID"],
            "user": account(thread) if thread["PROCESSLIST_USER"] is not None else thread["NAME"].removeprefix("thread/"),
            "current_statement": query.get("SQL_TEXT") if runs else None,
            "statement_latency": query.get("TIMER_WAIT") if runs else None,
            "last_statement": None if runs else query.get("SQL_TEXT"),
            "last_statement_latency": None if runs else query.get("TIMER_WAIT"),
            "progress": None,
            "tmp_tables": query.get("CREATED_TMP_TABLES"),
            "tmp_disk_tables": query.get("CREATED_TMP_DISK_TABLES"),
            "lock_latency": query.get("LOCK_TIME"),
            "cpu_latency": query.get("CPU_TIME"),
            "execution_engine": query.get("EXECUTION_ENGINE"),
            "full_scan": "YES" if query.get("NO_INDEX_USED") or query.get("NO_GOOD_INDEX_USED") else "NO",
            "current_memory": used.get(id),
            "last_wait": wait and wait["EVENT_NAME"],
            "last_wait_latency": None,
            "source": wait and wait["SOURCE"],
            "pid": attributes.get((thread["PROCESSLIST_ID"], "_pid")),
            "program_name": attributes.get((thread["PROCESSLIST_ID"], "program_name")),
            "trx_latency": work and work["TIMER_WAIT"],
            "trx_state": work and work["STATE"],
            "trx_autocommit": work and work["AUTOCOMMIT"],
        }
        row |= {name: query.get(name.upper()) for name in ("rows_examined", "rows_sent", "rows_affected")}
        row |= {name: thread[f"PROCESSLIST_{name.upper()}"] for name in ("db", "command", "state", "time")}
        if wait and wait["END_EVENT_ID"] is None:
            row["last_wait_latency"] = "Still Waiting"
        elif wait and wait["TIMER_WAIT"] is not None:
            row["last_wait_latency"] = str(wait["TIMER_WAIT"])
        if stage and stage["END_EVENT_ID"] is None and stage["WORK_ESTIMATED"]:
            row["progress"] = rounded(100 * stage["WORK_COMPLETED"], stage["WORK_ESTIMATED"], 2)
        waited = wait and wait["TIMER_WAIT"]
        row[ORDER] = tuple((value is None, -(value or 0)) for value in (row["time"], waited))
        made.append(row)
    return made


def session(taken: pfs.Snapshot) -> list[Row]:
    return [row for row in processlist(taken) if row["conn_id"] is not None and row["command"] != "Daemon"]
