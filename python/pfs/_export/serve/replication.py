"""Has the tables of replication that exporters read. They are empty, as in a server that replicates nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TABLES", "columns_of", "frame", "types"]

_TYPES = {
    "CHANNEL_NAME": "char(64)",
    "LAST_CONFLICT_FREE_TRANSACTION": "text",
    "RECEIVED_TRANSACTION_SET": "longtext",
    "SERVICE_STATE": "enum('ON','OFF','CONNECTING')",
}
# The types of other columns, by the end of the name. All others are counts.
_KINDS = (
    ("_TIMESTAMP", "timestamp(6)"), ("_ERROR_NUMBER", "int"), ("_ERROR_MESSAGE", "varchar(1024)"), ("_PORT", "int"),
    ("_TRANSACTION", "char(90)"), ("_ALL_MEMBERS", "longtext"), ("_UUID", "char(36)"), ("GROUP_NAME", "char(36)"),
    ("MEMBER_HOST", "char(255)"), ("_STATE", "char(64)"), ("_ROLE", "char(64)"), ("_VERSION", "char(64)"), ("_STACK", "char(64)"),
    ("MEMBER_ID", "char(36)"), ("VIEW_ID", "char(60)"),
)  # fmt: skip


def _transaction(kind: str, *moments: str) -> str:
    """Returns the columns about a transaction: its name, and when it did what."""
    commits = ("ORIGINAL_COMMIT", "IMMEDIATE_COMMIT")
    return " ".join([f"{kind}_TRANSACTION", *(f"{kind}_TRANSACTION_{moment}_TIMESTAMP" for moment in (*commits, *moments))])


def _retries(kind: str) -> str:
    errors = (f"{kind}_TRANSACTION_LAST_TRANSIENT_ERROR_{what}" for what in ("NUMBER", "MESSAGE", "TIMESTAMP"))
    return " ".join([f"{kind}_TRANSACTION_RETRIES_COUNT", *errors])


_ERROR = "LAST_ERROR_NUMBER LAST_ERROR_MESSAGE LAST_ERROR_TIMESTAMP"
_BUFFER, _QUEUE, _APPLY = (("START_" + what, "END_" + what) for what in ("BUFFER", "QUEUE", "APPLY"))
TABLES: dict[str, str] = {
    "replication_applier_status": "CHANNEL_NAME SERVICE_STATE REMAINING_DELAY COUNT_TRANSACTIONS_RETRIES",
    "replication_applier_status_by_coordinator": f"CHANNEL_NAME THREAD_ID SERVICE_STATE {_ERROR}"
    f" {_transaction('LAST_PROCESSED', *_BUFFER)} {_transaction('PROCESSING', _BUFFER[0])}",
    "replication_applier_status_by_worker": f"CHANNEL_NAME WORKER_ID THREAD_ID SERVICE_STATE {_ERROR}"
    f" {_transaction('LAST_APPLIED', *_APPLY)} {_transaction('APPLYING', _APPLY[0])}"
    f" {_retries('LAST_APPLIED')} {_retries('APPLYING')}",
    "replication_connection_status": "CHANNEL_NAME GROUP_NAME SOURCE_UUID THREAD_ID SERVICE_STATE COUNT_RECEIVED_HEARTBEATS"
    f" LAST_HEARTBEAT_TIMESTAMP RECEIVED_TRANSACTION_SET {_ERROR}"
    f" {_transaction('LAST_QUEUED', *_QUEUE)} {_transaction('QUEUEING', _QUEUE[0])}",
    "replication_group_member_stats": "CHANNEL_NAME VIEW_ID MEMBER_ID COUNT_TRANSACTIONS_IN_QUEUE COUNT_TRANSACTIONS_CHECKED"
    " COUNT_CONFLICTS_DETECTED COUNT_TRANSACTIONS_ROWS_VALIDATING TRANSACTIONS_COMMITTED_ALL_MEMBERS"
    " LAST_CONFLICT_FREE_TRANSACTION COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE COUNT_TRANSACTIONS_REMOTE_APPLIED"
    " COUNT_TRANSACTIONS_LOCAL_PROPOSED COUNT_TRANSACTIONS_LOCAL_ROLLBACK",
    "replication_group_members": "CHANNEL_NAME MEMBER_ID MEMBER_HOST MEMBER_PORT MEMBER_STATE MEMBER_ROLE MEMBER_VERSION"
    " MEMBER_COMMUNICATION_STACK",
}


def columns_of(table: str) -> list[str]:
    return TABLES[table].split()


def _type(column: str) -> str:
    return _TYPES.get(column) or next((kind for end, kind in _KINDS if column.endswith(end)), "bigint unsigned")


def types(table: str) -> list[dict[str, Any]]:
    """Returns the columns, as the declaration of a table has them."""
    return [{"name": name, "sql_type": _type(name), "nullable": True, "doc": ""} for name in columns_of(table)]


def frame(table: str) -> pd.DataFrame:
    """Returns no rows."""
    import pandas as pd

    from pfs._read.dtypes import dtype_of

    kinds = {"timestamp(6)": "timestamp", "int": "int32", "bigint unsigned": "uint64"}
    return pd.DataFrame({name: pd.Series([], dtype=dtype_of(kinds.get(_type(name), "text"))) for name in columns_of(table)})
