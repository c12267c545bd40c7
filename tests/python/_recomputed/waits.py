"""Waits, files, memory, counters."""

from __future__ import annotations

import pfs
from pfs._sql.views.declared import VIEWS
from tests.python._recomputed.base import (
    FILE,
    ORDER,
    Model,
    Row,
    base,
    floor,
    grouped,
    rounded,
    session_or_name,
    threads,
    times,
    total,
    who,
)


def waited(taken: pfs.Snapshot, principal: str | None = None) -> list[Row]:
    by = f"by_{principal}" if principal else "global"
    rows = base(taken, f"events_waits_summary_{by}_by_event_name")
    return [row for row in rows if row["EVENT_NAME"] != "idle" and row["SUM_TIMER_WAIT"] > 0]


def waits_global(taken: pfs.Snapshot) -> list[Row]:
    return [{"events": row["EVENT_NAME"], **times(row), ORDER: -row["SUM_TIMER_WAIT"]} for row in waited(taken)]


def waits_by(principal: str) -> Model:
    def model(taken: pfs.Snapshot) -> list[Row]:
        """MySQL leaves out the waits without a user, but not those without a host."""
        rows = [row for row in waited(taken, principal) if principal == "host" or row["USER"] is not None]
        return [
            {principal: who(row, principal), "event": row["EVENT_NAME"], **times(row), ORDER: by_name_and_time(row, principal)}
            for row in rows
        ]

    return model


def by_name_and_time(row: Row, principal: str) -> tuple[str, int]:
    return who(row, principal), -row["SUM_TIMER_WAIT"]


def classes(order: str) -> Model:
    def model(taken: pfs.Snapshot) -> list[Row]:
        made = []
        for name, rows in grouped(waited(taken), lambda row: "/".join(row["EVENT_NAME"].split("/")[:3])).items():
            latency, count = total(rows, "SUM_TIMER_WAIT"), total(rows, "COUNT_STAR")
            made.append(
                {
                    "event_class": name,
                    "total": count,
                    "total_latency": latency,
                    "min_latency": min(row["MIN_TIMER_WAIT"] for row in rows),
                    "avg_latency": latency // count,
                    "max_latency": max(row["MAX_TIMER_WAIT"] for row in rows),
                    ORDER: -latency if order == "total" else -latency / count,
                }
            )
        return made

    return model


def io_by_thread(taken: pfs.Snapshot) -> list[Row]:
    rows = base(taken, "events_waits_summary_by_thread_by_event_name")
    rows = [row for row in rows if row["EVENT_NAME"].startswith(FILE) and row["SUM_TIMER_WAIT"]]
    known, made = threads(taken), []
    for thread, those in grouped(rows, lambda row: row["THREAD_ID"]).items():
        latency = total(those, "SUM_TIMER_WAIT")
        made.append(
            {
                "user": session_or_name(known[thread]),
                "total": total(those, "COUNT_STAR"),
                "total_latency": latency,
                "min_latency": min(row["MIN_TIMER_WAIT"] for row in those),
                "avg_latency": latency // total(those, "COUNT_STAR"),
                "max_latency": max(row["MAX_TIMER_WAIT"] for row in those),
                "thread_id": thread,
                "processlist_id": known[thread]["PROCESSLIST_ID"],
                ORDER: -latency,
            }
        )
    return made


def transferred(row: Row, written: str = "avg_written") -> Row:
    read, wrote = row["SUM_NUMBER_OF_BYTES_READ"], row["SUM_NUMBER_OF_BYTES_WRITE"]
    return {
        "count_read": row["COUNT_READ"],
        "total_read": read,
        "avg_read": floor(read, row["COUNT_READ"]),
        "count_write": row["COUNT_WRITE"],
        "total_written": wrote,
        written: floor(wrote, row["COUNT_WRITE"]),
    }


def files_by_bytes(taken: pfs.Snapshot) -> list[Row]:
    made = []
    for row in base(taken, "file_summary_by_instance"):
        part = transferred(row, "avg_write")
        both = part["total_read"] + part["total_written"]
        share = rounded(100 * part["total_written"], both, 2)
        made.append({"file": row["FILE_NAME"], **part, "total": both, "write_pct": share, ORDER: -both})
    return made


def files_by_latency(taken: pfs.Snapshot) -> list[Row]:
    made = []
    for row in base(taken, "file_summary_by_instance"):
        parts: Row = {}
        for kind in ("read", "write", "misc"):
            parts[f"count_{kind}"], parts[f"{kind}_latency"] = row[f"COUNT_{kind.upper()}"], row[f"SUM_TIMER_{kind.upper()}"]
        latency = sum(parts[f"{kind}_latency"] for kind in ("read", "write", "misc"))
        count = sum(parts[f"count_{kind}"] for kind in ("read", "write", "misc"))
        made.append({"file": row["FILE_NAME"], "total": count, "total_latency": latency, **parts, ORDER: -latency})
    return made


def file_instruments(taken: pfs.Snapshot) -> list[tuple[Row, Row]]:
    rows = [row for row in base(taken, "file_summary_by_event_name") if row["COUNT_STAR"]]
    return [
        (row, {"event_name": row["EVENT_NAME"].removeprefix("wait/io/file/"), **times(row), **transferred(row)}) for row in rows
    ]


def file_instruments_by_bytes(taken: pfs.Snapshot) -> list[Row]:
    made = []
    for row, part in file_instruments(taken):
        both = part["total_read"] + part["total_written"]
        made.append({**part, "min_latency": row["MIN_TIMER_WAIT"], "total_requested": both, ORDER: -both})
    return made


def file_instruments_by_latency(taken: pfs.Snapshot) -> list[Row]:
    return [
        {**part, **{f"{kind}_latency": row[f"SUM_TIMER_{kind.upper()}"] for kind in ("read", "write", "misc")}}
        | {ORDER: -row["SUM_TIMER_WAIT"]}
        for row, part in file_instruments(taken)
    ]


def file_events(taken: pfs.Snapshot) -> list[Row]:
    return [row for row in base(taken, "events_waits_history_long") if row["EVENT_NAME"].startswith(FILE)]


def latest_file_io(taken: pfs.Snapshot) -> list[Row]:
    known, made = threads(taken), []
    for row in file_events(taken):
        shown, thread = None, known.get(row["THREAD_ID"])
        if thread is not None:  # it has not ended
            number = thread["THREAD_ID"] if thread["PROCESSLIST_ID"] is None else thread["PROCESSLIST_ID"]
            shown = f"{session_or_name(thread)}:{number}"
        made.append(
            {
                "thread": shown,
                "file": row["OBJECT_NAME"],
                "latency": row["TIMER_WAIT"],
                "operation": row["OPERATION"],
                "requested": row["NUMBER_OF_BYTES"],
                ORDER: -row["TIMER_START"],
            }
        )
    return [row for row in made if row["file"] is not None]


def memory(rows: list[Row]) -> Row:
    used = total(rows, "CURRENT_NUMBER_OF_BYTES_USED")
    return {
        "current_count_used": total(rows, "CURRENT_COUNT_USED"),
        "current_allocated": used,
        "current_avg_alloc": floor(used, total(rows, "CURRENT_COUNT_USED")),
        "current_max_alloc": max(row["CURRENT_NUMBER_OF_BYTES_USED"] for row in rows),
        "total_allocated": total(rows, "SUM_NUMBER_OF_BYTES_ALLOC"),
        ORDER: -used,
    }


def memory_by(principal: str) -> Model:
    def model(taken: pfs.Snapshot) -> list[Row]:
        rows = base(taken, f"memory_summary_by_{principal}_by_event_name")
        return [{principal: name, **memory(its)} for name, its in grouped(rows, lambda row: who(row, principal)).items()]

    return model


def memory_by_thread(taken: pfs.Snapshot) -> list[Row]:
    found = grouped(base(taken, "memory_summary_by_thread_by_event_name"), lambda row: row["THREAD_ID"])
    return [
        {"thread_id": id, "user": session_or_name(it), **memory(found[id])} for id, it in threads(taken).items() if id in found
    ]


def memory_global(taken: pfs.Snapshot) -> list[Row]:
    return [
        {
            "event_name": row["EVENT_NAME"],
            "current_count": row["CURRENT_COUNT_USED"],
            "current_alloc": row["CURRENT_NUMBER_OF_BYTES_USED"],
            "current_avg_alloc": floor(row["CURRENT_NUMBER_OF_BYTES_USED"], row["CURRENT_COUNT_USED"]),
            "high_count": row["HIGH_COUNT_USED"],
            "high_alloc": row["HIGH_NUMBER_OF_BYTES_USED"],
            "high_avg_alloc": floor(row["HIGH_NUMBER_OF_BYTES_USED"], row["HIGH_COUNT_USED"]),
            ORDER: -row["CURRENT_NUMBER_OF_BYTES_USED"],
        }
        for row in base(taken, "memory_summary_global_by_event_name")
        if row["CURRENT_NUMBER_OF_BYTES_USED"] > 0
    ]


def memory_total(taken: pfs.Snapshot) -> list[Row]:
    return [
        {"total_allocated": total(base(taken, "memory_summary_global_by_event_name"), "CURRENT_NUMBER_OF_BYTES_USED"), ORDER: 0}
    ]


def lost(taken: pfs.Snapshot) -> list[Row]:
    found = ((row["VARIABLE_NAME"], row["VARIABLE_VALUE"]) for row in base(taken, "global_status"))
    return [
        {"variable_name": name, "variable_value": value, ORDER: 0}
        for name, value in found
        if name.lower().startswith("performance_schema_") and name.endswith("lost") and int(value)
    ]


def metrics(taken: pfs.Snapshot) -> list[Row]:
    used = base(taken, "memory_summary_global_by_event_name")
    enabled = {row["ENABLED"] for row in base(taken, "setup_instruments") if row["NAME"].startswith("memory/")}
    counters = [
        (row["VARIABLE_NAME"].lower(), row["VARIABLE_VALUE"], "Global Status", "YES") for row in base(taken, "global_status")
    ]
    for name, column in (("current", "CURRENT_NUMBER_OF_BYTES_USED"), ("total", "SUM_NUMBER_OF_BYTES_ALLOC")):
        state = "PARTIAL" if len(enabled) > 1 else "".join(enabled)
        counters.append((f"memory_{name}_allocated", str(total(used, column)), "Performance Schema", state))
    return [
        {"Variable_name": name, "Variable_value": value, "Type": kind, "Enabled": state, ORDER: (kind, name)}
        for name, value, kind, state in counters
    ]


def lock_waits(taken: pfs.Snapshot) -> list[Row]:
    """Who waits for whom. A NULL stands for what only a transaction of a database has."""
    known, made = threads(taken), []
    for wait in base(taken, "blocked"):
        waits, holds = known.get(wait["THREAD_ID"], {}), known.get(wait["HOLDER_THREAD_ID"], {})
        seconds = None if wait["TIMER_WAIT"] is None else wait["TIMER_WAIT"] // 10**12
        lock, session = str(wait["OBJECT_INSTANCE_BEGIN"]), holds.get("PROCESSLIST_ID")
        minutes = divmod((seconds or 0) // 60, 60)
        held = None if wait["HOLDER_THREAD_ID"] is None else "lock"
        row: Row = dict.fromkeys(VIEWS["innodb_lock_waits"].columns)
        made.append(
            row
            | {
                "wait_age": None if seconds is None else f"{minutes[0]:02}:{minutes[1]:02}:{seconds % 60:02}",
                "wait_age_secs": seconds,
                "locked_table": wait["EVENT_NAME"],
                "locked_table_name": wait["OBJECT_NAME"],
                "locked_type": wait["EVENT_NAME"].split("/")[2],
                "waiting_pid": waits.get("PROCESSLIST_ID") or wait["THREAD_ID"],
                "waiting_query": waits.get("PROCESSLIST_INFO") or wait["SOURCE"],
                "waiting_lock_id": lock,
                "waiting_lock_mode": wait["OPERATION"],
                "blocking_pid": session or wait["HOLDER_THREAD_ID"],
                "blocking_query": holds.get("PROCESSLIST_INFO") or wait["HOLDER_EVENT_SOURCE"] or wait["HOLDER_SOURCE"],
                "blocking_lock_id": lock,
                "blocking_lock_mode": "read" if wait["READ_LOCKED_BY_COUNT"] else held,
                "sql_kill_blocking_query": session and f"KILL QUERY {session}",
                "sql_kill_blocking_connection": session and f"KILL {session}",
                ORDER: -wait["TIMER_WAIT"],
            }
        )
    return made
