"""Threads: what they do, hold and wait for."""

from __future__ import annotations

import pfs
from tests.python._recomputed.base import ORDER, Row, account, base, grouped, newest, rounded, threads, times
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


def innermost(taken: pfs.Snapshot) -> dict[int, Row]:
    """The event of each thread that began last of those that run."""
    found: dict[int, Row] = {}
    for kind in ("wait", "stage", "statement"):
        for row in base(taken, f"events_{kind}s_current"):
            other = found.get(row["THREAD_ID"])
            if row["END_EVENT_ID"] is None and (other is None or row["TIMER_START"] > other["TIMER_START"]):
                found[row["THREAD_ID"]] = row | {"kind": kind}
    return found


def hung_threads(taken: pfs.Snapshot) -> list[Row]:
    tables = ("events_waits_current", "events_stages_current", "events_statements_current", "events_waits_history_long")
    moments = [row[column] for table in tables for row in base(taken, table) for column in ("TIMER_START", "TIMER_END")]
    now = max(moment for moment in moments if moment is not None)
    known = threads(taken)
    return [
        {
            "thread_id": id,
            "thread": known[id]["NAME"],
            "event_name": row["EVENT_NAME"],
            "kind": row["kind"],
            "source": row["SOURCE"],
            "since": row["TIMER_START"],
            "age": now - row["TIMER_START"],
            ORDER: row["TIMER_START"],
        }
        for id, row in innermost(taken).items()
    ]


def lock_holders(taken: pfs.Snapshot) -> list[Row]:
    owners = {row["OBJECT_INSTANCE_BEGIN"]: row["LOCKED_BY_THREAD_ID"] for row in base(taken, "mutex_instances")}
    owners |= {row["OBJECT_INSTANCE_BEGIN"]: row["WRITE_LOCKED_BY_THREAD_ID"] for row in base(taken, "rwlock_instances")}
    known, running, made = threads(taken), innermost(taken), []
    for wait in base(taken, "events_waits_current"):
        holder = owners.get(wait["OBJECT_INSTANCE_BEGIN"])
        if wait["END_EVENT_ID"] is None and holder not in (None, wait["THREAD_ID"]):
            doing = running.get(holder, {})
            made.append(
                {
                    "lock_name": wait["EVENT_NAME"],
                    "object_instance_begin": wait["OBJECT_INSTANCE_BEGIN"],
                    "holder_thread_id": holder,
                    "holder": known[holder]["NAME"],
                    "holder_event": doing.get("EVENT_NAME"),
                    "holder_source": doing.get("SOURCE"),
                    "waiting_thread_id": wait["THREAD_ID"],
                    "waiting": known[wait["THREAD_ID"]]["NAME"],
                    "waiting_source": wait["SOURCE"],
                    "waiting_since": wait["TIMER_START"],
                    ORDER: wait["TIMER_START"],
                }
            )
    return made


def contention(taken: pfs.Snapshot) -> list[Row]:
    history = grouped(base(taken, "events_waits_history_long"), lambda row: row["OBJECT_INSTANCE_BEGIN"])
    waits = {row["OBJECT_INSTANCE_BEGIN"]: row for row in base(taken, "events_waits_summary_by_instance") if row["COUNT_STAR"]}
    made = []
    for mutex in base(taken, "mutex_instances"):
        at = mutex["OBJECT_INSTANCE_BEGIN"]
        if at in waits:
            seen = [row for row in history.get(at, []) if row["TIMER_WAIT"] is not None]
            made.append(
                {
                    "name": mutex["NAME"],
                    "object_instance_begin": at,
                    **times(waits[at]),
                    "slowest_source": max(seen, key=lambda row: row["TIMER_WAIT"])["SOURCE"] if seen else None,
                    "locked_by_thread_id": mutex["LOCKED_BY_THREAD_ID"],
                    ORDER: (-waits[at]["SUM_TIMER_WAIT"], -waits[at]["COUNT_STAR"]),
                }
            )
    return made
