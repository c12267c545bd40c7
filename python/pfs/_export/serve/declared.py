"""Declares the columns of information_schema and of SHOW as MySQL 8.4 has them: the one place for titles and types.

A declaration is a list of names. Behind a colon is the kind of a column that has no texts; ``~`` is a blank.
"""

from __future__ import annotations

__all__ = ["INFORMATION", "NOTHING", "SHOWN", "SQL_TYPES", "columns", "names"]

_KINDS = {"": "text", "i": "int64", "u": "uint64", "d": "double", "n": "decimal", "t": "timestamp"}
# By the kind of a column: its type in DESCRIBE.
SQL_TYPES = {"text": "longtext", "int64": "bigint", "uint64": "bigint unsigned", "double": "double", "timestamp": "timestamp"}
_OF_SETS = "CHARACTER_SET_CLIENT COLLATION_CONNECTION"
_SIZES = "NUMERIC_PRECISION:u NUMERIC_SCALE:u DATETIME_PRECISION:u CHARACTER_SET_NAME COLLATION_NAME"
_LENGTHS = f"CHARACTER_MAXIMUM_LENGTH:i CHARACTER_OCTET_LENGTH:i {_SIZES}"
_BYTES = "TABLE_ROWS:u AVG_ROW_LENGTH:u DATA_LENGTH:u MAX_DATA_LENGTH:u INDEX_LENGTH:u DATA_FREE:u"
_TIMES = "CREATE_TIME:t UPDATE_TIME:t CHECK_TIME:t"
_TABLE = "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME"
_GRANTED = "PRIVILEGE_TYPE IS_GRANTABLE"
_ROLES = "GRANTOR GRANTOR_HOST GRANTEE GRANTEE_HOST"
_COMPRESSED = "compress_ops:i compress_ops_ok:i compress_time:i uncompress_ops:i uncompress_time:i"
_PAGE = (
    "SPACE:u PAGE_NUMBER:u PAGE_TYPE FLUSH_TYPE:u FIX_COUNT:u IS_HASHED NEWEST_MODIFICATION:u OLDEST_MODIFICATION:u ACCESS_TIME:u"
    " TABLE_NAME INDEX_NAME NUMBER_RECORDS:u DATA_SIZE:u COMPRESSED_SIZE:u"
)

# By table of information_schema. A table that information.py does not fill is empty: a program has nothing of the kind.
INFORMATION = {
    "applicable_roles": "USER HOST GRANTEE GRANTEE_HOST ROLE_NAME ROLE_HOST IS_GRANTABLE IS_DEFAULT IS_MANDATORY",
    "character_sets": "CHARACTER_SET_NAME DEFAULT_COLLATE_NAME DESCRIPTION MAXLEN:u",
    "check_constraints": "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE",
    "collation_character_set_applicability": "COLLATION_NAME CHARACTER_SET_NAME",
    "collations": "COLLATION_NAME CHARACTER_SET_NAME ID:u IS_DEFAULT IS_COMPILED SORTLEN:u PAD_ATTRIBUTE",
    "column_privileges": f"GRANTEE {_TABLE} COLUMN_NAME {_GRANTED}",
    "column_statistics": "SCHEMA_NAME TABLE_NAME COLUMN_NAME HISTOGRAM",
    "columns": f"{_TABLE} COLUMN_NAME ORDINAL_POSITION:u COLUMN_DEFAULT IS_NULLABLE DATA_TYPE {_LENGTHS} COLUMN_TYPE COLUMN_KEY"
    " EXTRA PRIVILEGES COLUMN_COMMENT GENERATION_EXPRESSION SRS_ID:u",
    "enabled_roles": "ROLE_NAME ROLE_HOST IS_DEFAULT IS_MANDATORY",
    "engines": "ENGINE SUPPORT COMMENT TRANSACTIONS XA SAVEPOINTS",
    "events": "EVENT_CATALOG EVENT_SCHEMA EVENT_NAME DEFINER TIME_ZONE EVENT_BODY EVENT_DEFINITION EVENT_TYPE EXECUTE_AT:t"
    " INTERVAL_VALUE INTERVAL_FIELD SQL_MODE STARTS:t ENDS:t STATUS ON_COMPLETION CREATED:t LAST_ALTERED:t LAST_EXECUTED:t"
    f" EVENT_COMMENT ORIGINATOR:u {_OF_SETS} DATABASE_COLLATION",
    "files": "FILE_ID:i FILE_NAME FILE_TYPE TABLESPACE_NAME TABLE_CATALOG TABLE_SCHEMA TABLE_NAME LOGFILE_GROUP_NAME"
    " LOGFILE_GROUP_NUMBER:i ENGINE FULLTEXT_KEYS DELETED_ROWS:i UPDATE_COUNT:i FREE_EXTENTS:i TOTAL_EXTENTS:i EXTENT_SIZE:i"
    " INITIAL_SIZE:i MAXIMUM_SIZE:i AUTOEXTEND_SIZE:i CREATION_TIME:t LAST_UPDATE_TIME:t LAST_ACCESS_TIME:t RECOVER_TIME:i"
    f" TRANSACTION_COUNTER:i VERSION:i ROW_FORMAT {_BYTES} {_TIMES} CHECKSUM:i STATUS EXTRA",
    "innodb_buffer_page": f"POOL_ID:u BLOCK_ID:u {_PAGE} PAGE_STATE IO_FIX IS_OLD FREE_PAGE_CLOCK:u IS_STALE",
    "innodb_buffer_page_lru": f"POOL_ID:u LRU_POSITION:u {_PAGE} COMPRESSED IO_FIX IS_OLD FREE_PAGE_CLOCK:u",
    "innodb_buffer_pool_stats": "POOL_ID:u POOL_SIZE:u FREE_BUFFERS:u DATABASE_PAGES:u OLD_DATABASE_PAGES:u"
    " MODIFIED_DATABASE_PAGES:u PENDING_DECOMPRESS:u PENDING_READS:u PENDING_FLUSH_LRU:u PENDING_FLUSH_LIST:u"
    " PAGES_MADE_YOUNG:u PAGES_NOT_MADE_YOUNG:u PAGES_MADE_YOUNG_RATE:d PAGES_MADE_NOT_YOUNG_RATE:d NUMBER_PAGES_READ:u"
    " NUMBER_PAGES_CREATED:u NUMBER_PAGES_WRITTEN:u PAGES_READ_RATE:d PAGES_CREATE_RATE:d PAGES_WRITTEN_RATE:d"
    " NUMBER_PAGES_GET:u HIT_RATE:u YOUNG_MAKE_PER_THOUSAND_GETS:u NOT_YOUNG_MAKE_PER_THOUSAND_GETS:u"
    " NUMBER_PAGES_READ_AHEAD:u NUMBER_READ_AHEAD_EVICTED:u READ_AHEAD_RATE:d READ_AHEAD_EVICTED_RATE:d LRU_IO_TOTAL:u"
    " LRU_IO_CURRENT:u UNCOMPRESS_TOTAL:u UNCOMPRESS_CURRENT:u",
    **dict.fromkeys(("innodb_cmp", "innodb_cmp_reset"), f"page_size:i {_COMPRESSED}"),
    **dict.fromkeys(("innodb_cmp_per_index", "innodb_cmp_per_index_reset"), f"database_name table_name index_name {_COMPRESSED}"),
    **dict.fromkeys(
        ("innodb_cmpmem", "innodb_cmpmem_reset"),
        "page_size:i buffer_pool_instance:i pages_used:i pages_free:i relocation_ops:i relocation_time:i",
    ),
    "innodb_columns": "TABLE_ID:u NAME POS:u MTYPE:i PRTYPE:i LEN:i HAS_DEFAULT:i DEFAULT_VALUE",
    "innodb_datafiles": "SPACE PATH",
    "innodb_fields": "INDEX_ID NAME POS:u",
    "innodb_foreign": "ID FOR_NAME REF_NAME N_COLS:i TYPE:u",
    "innodb_foreign_cols": "ID FOR_COL_NAME REF_COL_NAME POS:u",
    **dict.fromkeys(("innodb_ft_being_deleted", "innodb_ft_deleted"), "DOC_ID:u"),
    "innodb_ft_config": "KEY VALUE",
    "innodb_ft_default_stopword": "value",
    **dict.fromkeys(
        ("innodb_ft_index_cache", "innodb_ft_index_table"),
        "WORD FIRST_DOC_ID:u LAST_DOC_ID:u DOC_COUNT:u DOC_ID:u POSITION:u",
    ),
    "innodb_indexes": "INDEX_ID:u NAME TABLE_ID:u TYPE:i N_FIELDS:i PAGE_NO:i SPACE:i MERGE_THRESHOLD:i",
    "innodb_metrics": "NAME SUBSYSTEM COUNT:i MAX_COUNT:i MIN_COUNT:i AVG_COUNT:d COUNT_RESET:i MAX_COUNT_RESET:i"
    " MIN_COUNT_RESET:i AVG_COUNT_RESET:d TIME_ENABLED:t TIME_DISABLED:t TIME_ELAPSED:i TIME_RESET:t STATUS TYPE COMMENT",
    "innodb_session_temp_tablespaces": "ID:u SPACE:u PATH SIZE:u STATE PURPOSE",
    "innodb_tables": "TABLE_ID:u NAME FLAG:i N_COLS:i SPACE:i ROW_FORMAT ZIP_PAGE_SIZE:u SPACE_TYPE INSTANT_COLS:i"
    " TOTAL_ROW_VERSIONS:i",
    "innodb_tablespaces": "SPACE:u NAME FLAG:u ROW_FORMAT PAGE_SIZE:u ZIP_PAGE_SIZE:u SPACE_TYPE FS_BLOCK_SIZE:u FILE_SIZE:u"
    " ALLOCATED_SIZE:u AUTOEXTEND_SIZE:u SERVER_VERSION SPACE_VERSION:u ENCRYPTION STATE",
    "innodb_tablespaces_brief": "SPACE NAME PATH FLAG SPACE_TYPE",
    "innodb_tablestats": "TABLE_ID:u NAME STATS_INITIALIZED NUM_ROWS:u CLUST_INDEX_SIZE:u OTHER_INDEX_SIZE:u"
    " MODIFIED_COUNTER:u AUTOINC:u REF_COUNT:i",
    "innodb_temp_table_info": "TABLE_ID:u NAME N_COLS:u SPACE:u",
    "innodb_virtual": "TABLE_ID:u POS:u BASE_POS:u",
    "innodb_trx": "trx_id:u trx_state trx_started:t trx_requested_lock_id trx_wait_started:t trx_weight:u trx_mysql_thread_id:u"
    " trx_query trx_operation_state trx_tables_in_use:u trx_tables_locked:u trx_lock_structs:u trx_lock_memory_bytes:u"
    " trx_rows_locked:u trx_rows_modified:u trx_concurrency_tickets:u trx_isolation_level trx_unique_checks:i"
    " trx_foreign_key_checks:i trx_last_foreign_key_error trx_adaptive_hash_latched:i trx_adaptive_hash_timeout:u"
    " trx_is_read_only:i trx_autocommit_non_locking:i trx_schedule_weight:u",
    "key_column_usage": f"CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME {_TABLE} COLUMN_NAME ORDINAL_POSITION:u"
    " POSITION_IN_UNIQUE_CONSTRAINT:u REFERENCED_TABLE_SCHEMA REFERENCED_TABLE_NAME REFERENCED_COLUMN_NAME",
    "keywords": "WORD RESERVED:i",
    "optimizer_trace": "QUERY TRACE MISSING_BYTES_BEYOND_MAX_MEM_SIZE:i INSUFFICIENT_PRIVILEGES:i",
    "parameters": "SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME ORDINAL_POSITION:u PARAMETER_MODE PARAMETER_NAME DATA_TYPE"
    f" {_LENGTHS} DTD_IDENTIFIER ROUTINE_TYPE",
    "partitions": f"{_TABLE} PARTITION_NAME SUBPARTITION_NAME PARTITION_ORDINAL_POSITION:u SUBPARTITION_ORDINAL_POSITION:u"
    " PARTITION_METHOD SUBPARTITION_METHOD PARTITION_EXPRESSION SUBPARTITION_EXPRESSION PARTITION_DESCRIPTION"
    f" {_BYTES} {_TIMES} CHECKSUM:i PARTITION_COMMENT NODEGROUP TABLESPACE_NAME",
    "plugins": "PLUGIN_NAME PLUGIN_VERSION PLUGIN_STATUS PLUGIN_TYPE PLUGIN_TYPE_VERSION PLUGIN_LIBRARY PLUGIN_LIBRARY_VERSION"
    " PLUGIN_AUTHOR PLUGIN_DESCRIPTION PLUGIN_LICENSE LOAD_OPTION",
    "processlist": "ID:u USER HOST DB COMMAND TIME:i STATE INFO",
    "profiling": "QUERY_ID:i SEQ:i STATE DURATION:d CPU_USER:d CPU_SYSTEM:d CONTEXT_VOLUNTARY:i CONTEXT_INVOLUNTARY:i"
    " BLOCK_OPS_IN:i BLOCK_OPS_OUT:i MESSAGES_SENT:i MESSAGES_RECEIVED:i PAGE_FAULTS_MAJOR:i PAGE_FAULTS_MINOR:i SWAPS:i"
    " SOURCE_FUNCTION SOURCE_FILE SOURCE_LINE:i",
    "referential_constraints": "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME UNIQUE_CONSTRAINT_CATALOG"
    " UNIQUE_CONSTRAINT_SCHEMA UNIQUE_CONSTRAINT_NAME MATCH_OPTION UPDATE_RULE DELETE_RULE TABLE_NAME REFERENCED_TABLE_NAME",
    "resource_groups": "RESOURCE_GROUP_NAME RESOURCE_GROUP_TYPE RESOURCE_GROUP_ENABLED:i VCPU_IDS THREAD_PRIORITY:i",
    "role_column_grants": f"{_ROLES} {_TABLE} COLUMN_NAME {_GRANTED}",
    "role_routine_grants": f"{_ROLES} SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME"
    f" {_GRANTED}",
    "role_table_grants": f"{_ROLES} {_TABLE} {_GRANTED}",
    "routines": f"SPECIFIC_NAME ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME ROUTINE_TYPE DATA_TYPE {_LENGTHS} DTD_IDENTIFIER"
    " ROUTINE_BODY ROUTINE_DEFINITION EXTERNAL_NAME EXTERNAL_LANGUAGE PARAMETER_STYLE IS_DETERMINISTIC SQL_DATA_ACCESS SQL_PATH"
    f" SECURITY_TYPE CREATED:t LAST_ALTERED:t SQL_MODE ROUTINE_COMMENT DEFINER {_OF_SETS} DATABASE_COLLATION",
    "schema_privileges": f"GRANTEE TABLE_CATALOG TABLE_SCHEMA {_GRANTED}",
    "schemata": "CATALOG_NAME SCHEMA_NAME DEFAULT_CHARACTER_SET_NAME DEFAULT_COLLATION_NAME SQL_PATH DEFAULT_ENCRYPTION",
    "st_geometry_columns": f"{_TABLE} COLUMN_NAME SRS_NAME SRS_ID:u GEOMETRY_TYPE_NAME",
    "st_spatial_reference_systems": "SRS_NAME SRS_ID:u ORGANIZATION ORGANIZATION_COORDSYS_ID:u DEFINITION DESCRIPTION",
    "st_units_of_measure": "UNIT_NAME UNIT_TYPE CONVERSION_FACTOR:d DESCRIPTION",
    "statistics": f"{_TABLE} NON_UNIQUE:i INDEX_SCHEMA INDEX_NAME SEQ_IN_INDEX:u COLUMN_NAME COLLATION CARDINALITY:i SUB_PART:i"
    " PACKED NULLABLE INDEX_TYPE COMMENT INDEX_COMMENT IS_VISIBLE EXPRESSION",
    "table_constraints": "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_SCHEMA TABLE_NAME CONSTRAINT_TYPE ENFORCED",
    "table_privileges": f"GRANTEE {_TABLE} {_GRANTED}",
    "tables": f"{_TABLE} TABLE_TYPE ENGINE VERSION:i ROW_FORMAT {_BYTES} AUTO_INCREMENT:u {_TIMES} TABLE_COLLATION CHECKSUM:i"
    " CREATE_OPTIONS TABLE_COMMENT",
    "tablespaces_extensions": "TABLESPACE_NAME ENGINE_ATTRIBUTE",
    "triggers": "TRIGGER_CATALOG TRIGGER_SCHEMA TRIGGER_NAME EVENT_MANIPULATION EVENT_OBJECT_CATALOG EVENT_OBJECT_SCHEMA"
    " EVENT_OBJECT_TABLE ACTION_ORDER:u ACTION_CONDITION ACTION_STATEMENT ACTION_ORIENTATION ACTION_TIMING"
    " ACTION_REFERENCE_OLD_TABLE ACTION_REFERENCE_NEW_TABLE ACTION_REFERENCE_OLD_ROW ACTION_REFERENCE_NEW_ROW CREATED:t SQL_MODE"
    f" DEFINER {_OF_SETS} DATABASE_COLLATION",
    "user_attributes": "USER HOST ATTRIBUTE",
    "user_privileges": f"GRANTEE TABLE_CATALOG {_GRANTED}",
    "view_routine_usage": f"{_TABLE} SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME",
    "view_table_usage": f"VIEW_CATALOG VIEW_SCHEMA VIEW_NAME {_TABLE}",
    "views": f"{_TABLE} VIEW_DEFINITION CHECK_OPTION IS_UPDATABLE DEFINER SECURITY_TYPE {_OF_SETS}",
}
_SETS = "character_set_client collation_connection Database~Collation=DATABASE_COLLATION"
_FIELDS = "Key=COLUMN_KEY Default=COLUMN_DEFAULT Extra"
_ROUTINE = (
    "Db=ROUTINE_SCHEMA Name=ROUTINE_NAME Type=ROUTINE_TYPE Definer Modified=LAST_ALTERED Created Security_type"
    f" Comment=ROUTINE_COMMENT {_SETS}"
)
# By what follows SHOW: the table of information_schema, its columns with their titles, and what else the SELECT says. LIKE is
# about the first column. SHOW INDEX and COLUMNS are of a table, others that have a place for it of a schema.
SHOWN: dict[str, tuple[str, str, str]] = {
    "CHARACTER SET": (
        "character_sets",
        "Charset=CHARACTER_SET_NAME Description Default~collation=DEFAULT_COLLATE_NAME Maxlen",
        "",
    ),
    "COLLATION": (
        "collations",
        "Collation=COLLATION_NAME Charset=CHARACTER_SET_NAME Id Default=IS_DEFAULT Compiled=IS_COMPILED Sortlen Pad_attribute",
        "",
    ),
    "COLUMNS": (
        "columns",
        f"Field=COLUMN_NAME Type=COLUMN_TYPE Null=IS_NULLABLE {_FIELDS}",
        "WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {table} ORDER BY ORDINAL_POSITION",
    ),
    "FULL COLUMNS": (
        "columns",
        f"Field=COLUMN_NAME Type=COLUMN_TYPE Collation=COLLATION_NAME Null=IS_NULLABLE {_FIELDS} Privileges"
        " Comment=COLUMN_COMMENT",
        "WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {table} ORDER BY ORDINAL_POSITION",
    ),
    "DATABASES": ("schemata", "Database=SCHEMA_NAME", "ORDER BY 1"),
    "ENGINES": ("engines", "Engine Support Comment Transactions XA Savepoints", ""),
    "EVENTS": (
        "events",
        "Db=EVENT_SCHEMA Name=EVENT_NAME Definer Time~zone=TIME_ZONE Type=EVENT_TYPE Execute~at=EXECUTE_AT"
        " Interval~value=INTERVAL_VALUE Interval~field=INTERVAL_FIELD Starts Ends Status Originator " + _SETS,
        "",
    ),
    "FUNCTION STATUS": ("routines", _ROUTINE, "WHERE ROUTINE_TYPE = 'FUNCTION'"),
    "INDEX": (
        "statistics",
        "Table=TABLE_NAME Non_unique Key_name=INDEX_NAME Seq_in_index Column_name Collation Cardinality Sub_part Packed"
        " Null=NULLABLE Index_type Comment Index_comment Visible=IS_VISIBLE Expression",
        "WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {table} ORDER BY 3, 4",
    ),
    "PLUGINS": (
        "plugins",
        "Name=PLUGIN_NAME Status=PLUGIN_STATUS Type=PLUGIN_TYPE Library=PLUGIN_LIBRARY License=PLUGIN_LICENSE",
        "",
    ),
    "PROCEDURE STATUS": ("routines", _ROUTINE, "WHERE ROUTINE_TYPE = 'PROCEDURE'"),
    "PROCESSLIST": ("processlist", "Id User Host db Command Time State Info", "ORDER BY 1"),
    "TABLE STATUS": (
        "tables",
        "Name=TABLE_NAME Engine Version Row_format Rows=TABLE_ROWS Avg_row_length Data_length Max_data_length Index_length"
        " Data_free Auto_increment Create_time Update_time Check_time Collation=TABLE_COLLATION Checksum Create_options"
        " Comment=TABLE_COMMENT",
        "WHERE TABLE_SCHEMA = {schema} ORDER BY 1",
    ),
    "TABLES": ("tables", "Tables_in_{of}=TABLE_NAME", "WHERE TABLE_SCHEMA = {schema} ORDER BY 1"),
    "FULL TABLES": ("tables", "Tables_in_{of}=TABLE_NAME Table_type", "WHERE TABLE_SCHEMA = {schema} ORDER BY 1"),
    "TRIGGERS": (
        "triggers",
        "Trigger=TRIGGER_NAME Event=EVENT_MANIPULATION Table=EVENT_OBJECT_TABLE Statement=ACTION_STATEMENT Timing=ACTION_TIMING"
        f" Created sql_mode Definer {_SETS}",
        "",
    ),
}
_REPLICA = (
    "{replica}_IO_State {source}_Host {source}_User {source}_Port:u Connect_Retry:u {source}_Log_File Read_{source}_Log_Pos:u"
    " Relay_Log_File Relay_Log_Pos:u Relay_{source}_Log_File {replica}_IO_Running {replica}_SQL_Running Replicate_Do_DB"
    " Replicate_Ignore_DB Replicate_Do_Table Replicate_Ignore_Table Replicate_Wild_Do_Table Replicate_Wild_Ignore_Table"
    " Last_Errno:i Last_Error Skip_Counter:i Exec_{source}_Log_Pos:u Relay_Log_Space:u Until_Condition Until_Log_File"
    " Until_Log_Pos:u {source}_SSL_Allowed {source}_SSL_CA_File {source}_SSL_CA_Path {source}_SSL_Cert {source}_SSL_Cipher"
    " {source}_SSL_Key Seconds_Behind_{source}:u {source}_SSL_Verify_Server_Cert Last_IO_Errno:i Last_IO_Error"
    " Last_SQL_Errno:i Last_SQL_Error Replicate_Ignore_Server_Ids {source}_Server_Id:u {source}_UUID {source}_Info_File"
    " SQL_Delay:u SQL_Remaining_Delay:u {replica}_SQL_Running_State {source}_Retry_Count:u {source}_Bind"
    " Last_IO_Error_Timestamp Last_SQL_Error_Timestamp {source}_SSL_Crl {source}_SSL_Crlpath Retrieved_Gtid_Set"
    " Executed_Gtid_Set Auto_Position:u Replicate_Rewrite_DB Channel_Name {source}_TLS_Version {source}_public_key_path"
    " Get_{source}_public_key:u Network_Namespace"
)
_SLAVE = _REPLICA.format(source="Master", replica="Slave")
_BINLOG = "File Position:u Binlog_Do_DB Binlog_Ignore_DB Executed_Gtid_Set"
_EVENTS = "Log_name Pos:u Event_type Server_id:u End_log_pos:u Info"
# By what follows SHOW: the columns of an answer that is empty, because a program has nothing of the kind.
NOTHING = {
    "ALL SLAVES STATUS": f"Connection_name Slave_SQL_State {_SLAVE}",
    "BINARY LOG STATUS": _BINLOG,
    "BINLOG EVENTS": _EVENTS,
    "BINLOG STATUS": _BINLOG,
    "ENGINE": "Type Name Status",
    "MASTER STATUS": _BINLOG,
    "OPEN TABLES": "Database Table In_use:i Name_locked:i",
    "PRIVILEGES": "Privilege Context Comment",
    "PROFILE": "Status Duration:n",
    "PROFILES": "Query_ID:u Duration:d Query",
    "RELAYLOG EVENTS": _EVENTS,
    "REPLICA STATUS": _REPLICA.format(source="Source", replica="Replica"),
    "REPLICAS": "Server_Id:u Host Port:u Source_Id:u Replica_UUID",
    "SLAVE HOSTS": "Server_id:u Host Port:u Master_id:u Slave_UUID",
    "SLAVE STATUS": _SLAVE,
}


def columns(text: str) -> list[tuple[str, str]]:
    """Returns the name and the kind of each column of a declaration."""
    pairs = (word.partition(":") for word in text.split())
    return [(name.replace("~", " "), _KINDS[kind]) for name, _, kind in pairs]


def names(text: str) -> list[str]:
    return [name for name, _ in columns(text)]
