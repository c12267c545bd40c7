"""Has the variables of the server and of a session: one place for @@name, SHOW VARIABLES and the tables of variables."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pfs import _core
from pfs._export.serve.stream import MOST_BYTES
from pfs._export.serve.wire import Refusal
from pfs._sql.functions import MYSQL

if TYPE_CHECKING:
    import socket

    from pfs._export.serve.sources import Source

__all__ = ["CHARSETS", "VERSION", "Session", "charset_of", "codec_of", "of_server", "text_of"]

Value = str | int | bool | float
VERSION = f"{'.'.join(map(str, MYSQL))}-pfs-{_core.__version__}"  # clients decide by the first numbers what they may ask
MOST_CLIENTS = 64
MOST_STATEMENTS = 1000  # prepared ones of a client
_NO_LIMIT = 2**64 - 1
_MOST_LENGTH = 1000
_COLLATION = "utf8mb4_0900_ai_ci"
# What a client may set for itself. All that it sets changes what it reads here; only some change an answer.
_SESSION: dict[str, Value] = {
    "auto_increment_increment": 1,
    "auto_increment_offset": 1,
    "autocommit": True,
    "character_set_client": "utf8mb4",
    "character_set_connection": "utf8mb4",
    "character_set_results": "utf8mb4",
    "collation_connection": _COLLATION,
    "default_storage_engine": "PERFORMANCE_SCHEMA",
    "default_tmp_storage_engine": "PERFORMANCE_SCHEMA",
    "div_precision_increment": 4,
    "foreign_key_checks": True,
    "group_concat_max_len": 1024,
    "innodb_lock_wait_timeout": 50,
    "interactive_timeout": 28800,
    "lc_messages": "en_US",
    "lc_time_names": "en_US",
    "lock_wait_timeout": 31536000,
    "long_query_time": 10.0,
    "max_execution_time": 0,
    "max_heap_table_size": 16777216,
    "net_buffer_length": 16384,
    "net_read_timeout": 30,
    "net_write_timeout": 60,
    "profiling": False,
    "sql_auto_is_null": False,
    "sql_big_selects": True,
    "sql_mode": "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES",
    "sql_notes": True,
    "sql_quote_show_create": True,
    "sql_safe_updates": False,
    "sql_select_limit": _NO_LIMIT,
    "sql_warnings": False,
    "time_zone": "UTC",
    "tmp_table_size": 16777216,
    "transaction_isolation": "REPEATABLE-READ",
    "transaction_read_only": False,
    "unique_checks": True,
    "wait_timeout": 28800,
}
# Sizes of what a program has none of: tools add them up.
_SIZES = (
    "innodb_buffer_pool_size innodb_log_buffer_size join_buffer_size key_buffer_size query_cache_size read_buffer_size"
    " read_rnd_buffer_size sort_buffer_size thread_stack"
)
_SERVER: dict[str, Value] = {
    **dict.fromkeys(_SIZES.split(), 0),
    "basedir": "",
    "back_log": 100,
    "character_set_database": "utf8mb4",
    "character_set_filesystem": "binary",
    "character_set_server": "utf8mb4",
    "character_set_system": "utf8mb3",
    "collation_database": _COLLATION,
    "collation_server": _COLLATION,
    "connect_timeout": 10,
    "error_count": 0,
    "event_scheduler": "OFF",
    "general_log": False,
    "gtid_mode": "OFF",
    "have_profiling": "NO",
    "have_ssl": "YES",
    "identity": 0,
    "init_connect": "",
    "last_insert_id": 0,
    "license": "Apache-2.0",
    "log_bin": False,
    "log_error": "stderr",
    "lower_case_file_system": "OFF",
    "lower_case_table_names": 0,
    "max_allowed_packet": MOST_BYTES,
    "max_connections": MOST_CLIENTS,
    "max_prepared_stmt_count": MOST_STATEMENTS,
    "max_user_connections": 0,
    "open_files_limit": 1024,
    "performance_schema": True,
    "pid_file": "",
    "protocol_version": 10,
    "read_only": True,
    "secure_file_priv": "",
    "server_id": 0,
    "skip_name_resolve": True,
    "skip_networking": False,
    "slow_query_log": False,
    "super_read_only": True,
    "system_time_zone": "UTC",
    "table_open_cache": 0,
    "thread_cache_size": 0,
    "tmpdir": "",
    "version": VERSION,
    "version_comment": "pfs",
    "version_compile_os": "Linux",
    "warning_count": 0,
}
# By number of the collation; all others are UTF-8. Each has one number for comparing by bytes.
_CHARSETS = {
    **dict.fromkeys((5, 8, 15, 31, 47, 48, 49, 94), "latin1"),
    **dict.fromkeys((11, 65), "ascii"),
    **dict.fromkeys((33, 83, *range(192, 216)), "utf8mb3"),
    1: "big5", 84: "big5", 9: "latin2", 77: "latin2", 13: "sjis", 88: "sjis", 19: "euckr", 85: "euckr",
    24: "gb2312", 86: "gb2312",
    26: "cp1250", 66: "cp1250", 28: "gbk", 87: "gbk", 30: "latin5", 78: "latin5", 51: "cp1251", 50: "cp1251", 63: "binary",
    248: "gb18030", 249: "gb18030",
}  # fmt: skip
CHARSETS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "binary": "utf-8", "latin1": "cp1252", "ascii": "ascii",
    "latin2": "iso8859-2", "latin5": "iso8859-9", "big5": "big5", "sjis": "shift_jis", "euckr": "euc_kr", "gb2312": "gb2312",
    "gbk": "gbk", "gb18030": "gb18030", "cp1250": "cp1250", "cp1251": "cp1251",
}  # fmt: skip
_UNKNOWN_VARIABLE, _UNKNOWN_CHARSET, _UNKNOWN_ZONE, _WRONG_TYPE, _WRONG_VALUE, _READ_ONLY = 1193, 1115, 1298, 1232, 1231, 1238


def of_server(source: Source, listening: socket.socket | None) -> dict[str, Value]:
    """Returns the variables that the server itself has, with their values."""
    name = listening.getsockname() if listening is not None else ""
    return {
        **_SERVER,
        **_SESSION,
        "bind_address": "" if isinstance(name, str) else name[0],
        "datadir": "" if not isinstance(name, str) else name.rpartition("/")[0] + "/",
        "hostname": source.hostname(),
        "port": 0 if isinstance(name, str) else name[1],
        "server_uuid": str(uuid.uuid4()),
        "socket": name if isinstance(name, str) else "",
        "version_compile_machine": platform.machine(),
    }


def text_of(value: Value) -> str:
    """Returns a value as SHOW VARIABLES has it."""
    if isinstance(value, bool):
        return ("OFF", "ON")[value]
    return f"{value:.6f}" if isinstance(value, float) else str(value)


def charset_of(collation: int) -> str:
    return _CHARSETS.get(collation, "utf8mb4")


def codec_of(charset: str) -> str:
    """Returns Python's name.

    Raises:
        Refusal: there is no such character set.
    """
    try:
        return CHARSETS[charset.lower()]
    except KeyError:
        raise Refusal(_UNKNOWN_CHARSET, f"Unknown character set: '{charset}'") from None


class Session(Mapping[str, Value]):
    """Has the variables as one client sees them, and what it has set."""

    def __init__(self, server: Mapping[str, Value], source: Source) -> None:
        self._server = server
        self._source = source
        self.own: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        return self.own[name] if name in self.own else self._server[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._server)

    def __len__(self) -> int:
        return len(self._server)

    def read(self, name: str, is_global: bool) -> Value:
        """Returns the value of @@name.

        Raises:
            Refusal: there is none.
        """
        key = name.lower()
        if key in self._server:
            return self._server[key] if is_global else self[key]
        for found, value in (
            self._source.rows("global_variables", ["VARIABLE_NAME", "VARIABLE_VALUE"]) if self._has_table() else ()
        ):
            if found.lower() == key:  # of the program
                return int(value) if value.isdecimal() else str(value)
        raise Refusal(_UNKNOWN_VARIABLE, f"Unknown system variable '{name}'")

    def _has_table(self) -> bool:
        return "global_variables" in self._source.names()

    def write(self, name: str, value: Value | None) -> None:
        """Sets a variable of the session. None is its default.

        Raises:
            Refusal: there is no such variable, it is not the client's, or it cannot have the value.
        """
        key = name.lower()
        if key not in _SESSION:
            if key in self._server:
                raise Refusal(_READ_ONLY, f"Variable '{name}' is a read only variable")
            raise Refusal(_UNKNOWN_VARIABLE, f"Unknown system variable '{name}'")
        if len(str(value)) > _MOST_LENGTH:
            raise Refusal(_WRONG_VALUE, f"Variable '{name}' can't be set to a text of {len(str(value))} characters")
        before = self._server[key]
        if value is None and key == "character_set_results":
            value = "binary"
        if value is None:
            self.own.pop(key, None)
            return
        if isinstance(before, bool):
            known = {"on": True, "off": False, "1": True, "0": False, "true": True, "false": False}
            if str(value).lower() not in known:
                raise Refusal(_WRONG_VALUE, f"Variable '{name}' can't be set to the value of '{value}'")
            value = known[str(value).lower()]
        elif isinstance(before, float):
            try:
                value = max(0.0, float(value))
            except ValueError:
                raise Refusal(_WRONG_TYPE, f"Incorrect argument type to variable '{name}'") from None
        elif isinstance(before, int):
            if not str(value).isdecimal():
                raise Refusal(_WRONG_TYPE, f"Incorrect argument type to variable '{name}'")
            value = min(int(value), _NO_LIMIT)
        elif key.startswith("character_set"):
            codec_of(str(value))
            value = str(value).lower()
        elif key == "time_zone":
            _zone(str(value))
        self.own[key] = value if isinstance(value, int | float) else str(value)

    def set_charset(self, charset: str | None) -> None:
        """Sets the character set of statements and answers; None is the server's."""
        for name in ("character_set_client", "character_set_results", "character_set_connection"):
            self.write(name, charset)

    def now(self) -> datetime:
        return datetime.now(_zone(str(self["time_zone"]))).replace(tzinfo=None)


def _zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "SYSTEM"):  # @@system_time_zone is UTC: the times of all tables are
        return UTC
    try:
        if name[:1] in ("+", "-"):
            hours, _, minutes = name[1:].partition(":")
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            return timezone(-offset if name[0] == "-" else offset)
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise Refusal(_UNKNOWN_ZONE, f"Unknown or incorrect time zone: '{name}'") from None
