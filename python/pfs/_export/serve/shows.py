"""Translates SHOW and DESCRIBE to SELECTs, so that LIKE and WHERE mean what they mean elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["select_of"]

_COLUMNS = "Field=COLUMN_NAME Type=COLUMN_TYPE Null=IS_NULLABLE Key=COLUMN_KEY Default=COLUMN_DEFAULT Extra"
_FULL_COLUMNS = (
    "Field=COLUMN_NAME Type=COLUMN_TYPE Collation=COLLATION_NAME Null=IS_NULLABLE Key=COLUMN_KEY Default=COLUMN_DEFAULT Extra"
    " Privileges Comment=COLUMN_COMMENT"
)
_PAIRS = 'SELECT VARIABLE_NAME AS "Variable_name", VARIABLE_VALUE AS "Value" FROM performance_schema.'
# By what follows SHOW: the SELECT, and the column that LIKE is about.
_PLAIN: dict[str, tuple[str, str]] = {
    "STATUS": (_PAIRS + "global_status ORDER BY 1", "Variable_name"),
    "VARIABLES": (_PAIRS + "session_variables ORDER BY 1", "Variable_name"),
    "DATABASES": ('SELECT SCHEMA_NAME AS "Database" FROM information_schema.schemata ORDER BY 1', "Database"),
    "ENGINES": (
        'SELECT ENGINE AS "Engine", SUPPORT AS "Support", COMMENT AS "Comment", TRANSACTIONS AS "Transactions", XA, '
        'SAVEPOINTS AS "Savepoints" FROM information_schema.engines',
        "Engine",
    ),
    "CHARACTER SET": (
        'SELECT CHARACTER_SET_NAME AS "Charset", DESCRIPTION AS "Description", DEFAULT_COLLATE_NAME AS "Default collation", '
        'MAXLEN AS "Maxlen" FROM information_schema.character_sets',
        "Charset",
    ),
    "COLLATION": (
        'SELECT COLLATION_NAME AS "Collation", CHARACTER_SET_NAME AS "Charset", ID AS "Id", IS_DEFAULT AS "Default", '
        'IS_COMPILED AS "Compiled", SORTLEN AS "Sortlen", PAD_ATTRIBUTE AS "Pad_attribute" FROM information_schema.collations',
        "Collation",
    ),
    "PROCESSLIST": (
        'SELECT ID AS "Id", USER AS "User", HOST AS "Host", DB AS "db", COMMAND AS "Command", TIME AS "Time", STATE AS "State", '
        'INFO AS "Info" FROM information_schema.processlist',
        "User",
    ),
    "GRANTS": (
        "SELECT 'GRANT SELECT, PROCESS, REPLICATION CLIENT, SHOW VIEW ON *.* TO `pfs`' AS \"Grants for pfs\"",
        "Grants for pfs",
    ),
}
# Titles, with the column of information_schema where it has another name.
_TABLE_STATUS = (
    "Name=TABLE_NAME Engine Version Row_format Rows=TABLE_ROWS Avg_row_length Data_length Max_data_length Index_length Data_free"
    " Auto_increment Create_time Update_time Check_time Collation=TABLE_COLLATION Checksum Create_options Comment=TABLE_COMMENT"
)
_INDEX = (
    "Table=TABLE_NAME Non_unique Key_name=INDEX_NAME Seq_in_index Column_name Collation Cardinality Sub_part Packed Null=NULLABLE"
    " Index_type Comment Index_comment Visible=IS_VISIBLE Expression"
)
_OF_SETS = "character_set_client collation_connection Database_Collation"
_ROUTINE = f"Db Name Type Definer Modified Created Security_type Comment {_OF_SETS}"
# These are empty: there is nothing of the kind. A title with a blank has an underline here, those of _SPACED.
_SPACED = ("Database_Collation", "Time_zone", "Execute_at", "Interval_value", "Interval_field")
_NOTHING = {
    "PLUGINS": "Name Status Type Library License",
    "TRIGGERS": f"Trigger Event Table Statement Timing Created sql_mode Definer {_OF_SETS}",
    "EVENTS": "Db Name Definer Time_zone Type Execute_at Interval_value Interval_field Starts Ends Status Originator " + _OF_SETS,
    "PROCEDURE STATUS": _ROUTINE,
    "FUNCTION STATUS": _ROUTINE,
    "PROFILES": "Query_ID Duration Query",
    "PROFILE": "Status Duration",
    "ENGINE": "Type Name Status",
    "OPEN TABLES": "Database Table In_use Name_locked",
    "MASTER STATUS": "File Position Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set",
    "BINARY LOG STATUS": "File Position Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set",
    "REPLICA STATUS": "Replica_IO_State Source_Host",
    "REPLICAS": "Server_Id Host Port Source_Id Replica_UUID",
    "BINARY LOGS": "Log_name File_size",
    "PRIVILEGES": "Privilege Context Comment",
}


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _titled(names: str) -> str:
    pairs = (name.partition("=") for name in names.split())
    return ", ".join(f'"{column or title.upper()}" AS "{title}"' for title, _, column in pairs)


def select_of(show: exp.Show, database: str) -> str | None:
    """Returns the SELECT, in the dialect of DuckDB, or None if there is none."""
    kind = show.name.upper()
    schema = (show.text("db") or database).lower().replace("\0", "")  # DuckDB 1.5 cannot have it in a title
    if kind in _PLAIN:
        inner, about = _PLAIN[kind]
        if show.args.get("global_"):
            inner = inner.replace("session_variables", "global_variables")
    elif kind in _NOTHING:
        names = [name.replace("_", " ") if name in _SPACED else name for name in _NOTHING[kind].split()]
        inner, about = "SELECT " + ", ".join(f"'' AS \"{name}\"" for name in names) + " WHERE false", names[0]
    elif kind == "TABLES":
        about = f"Tables_in_{schema}"
        more = ', TABLE_TYPE AS "Table_type"' if show.args.get("full") else ""
        inner = (
            f'SELECT TABLE_NAME AS "{_name(about)}"{more} FROM information_schema.tables '
            f"WHERE TABLE_SCHEMA = {_text(schema)} ORDER BY 1"
        )
    elif kind == "TABLE STATUS":
        about = "Name"
        inner = f"SELECT {_titled(_TABLE_STATUS)} FROM information_schema.tables WHERE TABLE_SCHEMA = {_text(schema)} ORDER BY 1"
    elif kind == "INDEX":
        about = "Key_name"
        inner = (
            f"SELECT {_titled(_INDEX)} FROM information_schema.statistics WHERE TABLE_SCHEMA = {_text(schema)} "
            f"AND TABLE_NAME = {_text(show.text('target').lower())} ORDER BY 3, 4"
        )
    elif kind == "COLUMNS":
        about = "Field"
        chosen = _FULL_COLUMNS if show.args.get("full") else _COLUMNS
        inner = (
            f"SELECT {_titled(chosen)} FROM information_schema.columns WHERE TABLE_SCHEMA = {_text(schema)} "
            f"AND TABLE_NAME = {_text(show.text('target').lower())} ORDER BY ORDINAL_POSITION"
        )
    else:
        return None
    like, where = show.args.get("like"), show.args.get("where")
    if like is not None:
        title = f"{about} ({like.name})".replace("\0", "") if kind in ("TABLES", "DATABASES") else about  # as in MySQL
        renamed = "" if title == about else f' RENAME ("{_name(about)}" AS "{_name(title)}")'
        return f'SELECT *{renamed} FROM ({inner}) AS shown WHERE "{_name(about)}" LIKE {_text(like.name)}'
    if where is not None:
        return f"SELECT * FROM ({inner}) AS shown {where.sql(dialect='duckdb')}"
    return inner


def _name(text: str) -> str:
    return text.replace('"', '""')
