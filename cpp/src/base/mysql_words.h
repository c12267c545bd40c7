// base/mysql_words.h: the words of MySQL 8.4, as differences from those of sql_words.h. Its manual lists them as keywords; a keyword need
// not be reserved. DIGEST_TEXT of a server shows the last spelling of a token in its list of words.
#pragma once

#include <cstddef>
#include <string_view>

namespace perfschema {

struct Spelling {
  std::string_view text, shown;
};

// clang-format off
// Keywords that are names to the other dialects. The place of a word is its code: new words go to the end. Eight words of more than 24
// letters are left out (SOURCE_SSL_VERIFY_SERVER_CERT ...): they are options of CHANGE REPLICATION.
inline constexpr std::string_view kMysqlWords[] = {
    "ACCESSIBLE", "ACCOUNT", "ACTIVE", "ADMIN", "AGAINST", "AGGREGATE", "ALGORITHM", "ASCII", "ASENSITIVE", "AT", "ATTRIBUTE",
    "AUTHENTICATION", "AUTO", "AUTOEXTEND_SIZE", "AVG_ROW_LENGTH", "BACKUP", "BERNOULLI", "BINLOG", "BLOCK", "BOTH", "BTREE", "BUCKETS",
    "BULK", "BYTE", "CACHE", "CATALOG_NAME", "CHAIN", "CHALLENGE_RESPONSE", "CHANGED", "CHANNEL", "CIPHER", "CLASS_ORIGIN", "CLIENT",
    "CLONE", "CODE", "COLLATION", "COLUMN_FORMAT", "COLUMN_NAME", "COMPACT", "COMPLETION", "COMPONENT", "COMPRESSION", "COMPRESSED",
    "ENCRYPTION", "CONCURRENT", "CONNECTION", "CONSTRAINT_CATALOG", "CONSTRAINT_NAME", "CONSTRAINT_SCHEMA", "CONTAINS", "CONTEXT", "CPU",
    "CURSOR_NAME", "DATA", "DATAFILE", "DEFAULT_AUTH", "DEFINER", "DEFINITION", "DELAY_KEY_WRITE", "DESCRIPTION", "DIAGNOSTICS",
    "DIRECTORY", "DISK", "DUMPFILE", "DYNAMIC", "EMPTY", "ENDS", "ENFORCED", "ENGINE_ATTRIBUTE", "ENGINES", "ERROR", "EVENTS", "EVERY",
    "EXCHANGE", "EXPANSION", "EXPORT", "EXPIRE", "EXTENT_SIZE", "FACTOR", "FAILED_LOGIN_ATTEMPTS", "FAST", "FAULTS", "FILE",
    "FILE_BLOCK_SIZE", "FINISH", "FOLLOWS", "FORMAT", "FOUND", "GENERAL", "GROUP_REPLICATION", "GEOMCOLLECTION", "GEOMETRYCOLLECTION",
    "GET_FORMAT", "GET_SOURCE_PUBLIC_KEY", "GET", "GENERATE", "GTIDS", "GTID_ONLY", "HASH", "HELP", "HISTOGRAM", "HISTORY", "HOST", "HOSTS",
    "IGNORE_SERVER_IDS", "IMPORT", "INACTIVE", "INFILE", "INITIAL", "INITIAL_SIZE", "INITIATE", "INSENSITIVE", "INSERT_METHOD", "INSTALL",
    "INSTANCE", "IO", "IO_AFTER_GTIDS", "IO_BEFORE_GTIDS", "IO_THREAD", "IPC", "ISSUER", "INVISIBLE", "INVOKER", "JSON_TABLE", "JSON_VALUE",
    "KEYRING", "KEY_BLOCK_SIZE", "LEAVES", "LESS", "LINEAR", "LINESTRING", "LIST", "LOCKS", "LOGFILE", "LOGS", "LOG", "MANUAL", "MASTER",
    "MAX_CONNECTIONS_PER_HOUR", "MAX_QUERIES_PER_HOUR", "MAX_ROWS", "MAX_SIZE", "MAX_UPDATES_PER_HOUR", "MAX_USER_CONNECTIONS", "MEDIUM",
    "MEMBER", "MEMORY", "MESSAGE_TEXT", "MIDDLEINT", "MIGRATE", "MIN_ROWS", "MODIFIES", "MULTILINESTRING", "MULTIPOINT", "MULTIPOLYGON",
    "MUTEX", "MYSQL_ERRNO", "NAME", "NDB", "NDBCLUSTER", "NESTED", "NETWORK_NAMESPACE", "NEVER", "NEW", "NEXT", "NO_WAIT", "NODEGROUP",
    "NONE", "NO_WRITE_TO_BINLOG", "NUMBER", "OFF", "OJ", "OLD", "ONE", "OPTIMIZER_COSTS", "OPTIONS", "OPTIONAL", "ORGANIZATION",
    "ORDINALITY", "OWNER", "PACK_KEYS", "PATH", "PARSE_TREE", "PARSER", "PAGE", "PARALLEL", "PARTIAL", "PARTITIONING", "PARTITIONS",
    "PASSWORD", "PASSWORD_LOCK_TIME", "PHASE", "PLUGIN", "PLUGINS", "PLUGIN_DIR", "POINT", "POLYGON", "PORT", "PRECEDES", "PRESERVE",
    "PREV", "PRIVILEGE_CHECKS_USER", "PROCESS", "PROFILE", "PROFILES", "PROXY", "QUALIFY", "RANDOM", "READ_ONLY", "READ_WRITE", "READS",
    "REBUILD", "RECOVER", "REDO_BUFFER_SIZE", "REDUNDANT", "REFERENCE", "REGISTRATION", "RELAY", "RELAYLOG", "RELAY_LOG_FILE",
    "RELAY_LOG_POS", "RELAY_THREAD", "RELOAD", "REMOVE", "REORGANIZE", "REPLICA", "REPLICAS",
    "REPLICATION", "REPLICATE_DO_DB", "REPLICATE_IGNORE_DB", "REPLICATE_DO_TABLE", "REPLICATE_IGNORE_TABLE", "REPLICATE_WILD_DO_TABLE",
    "REPLICATE_REWRITE_DB", "REQUIRE", "REQUIRE_ROW_FORMAT", "RESPECT",
    "RESOURCE", "RESTART", "RESTORE", "RESUME", "RETAIN", "RETURNED_SQLSTATE", "REUSE", "REVERSE", "ROTATE", "ROW_COUNT", "ROW_FORMAT",
    "RTREE", "S3", "SCHEDULE", "SCHEMA_NAME", "SECONDARY", "SECONDARY_ENGINE", "SECONDARY_LOAD",
    "SECONDARY_UNLOAD", "SECURITY", "SENSITIVE", "SERVER", "SHUTDOWN", "SIMPLE", "SLAVE", "SLOW", "SOCKET", "SONAME", "SOUNDS", "SOURCE",
    "SOURCE_AUTO_POSITION", "SOURCE_BIND", "SOURCE_CONNECT_RETRY",     "SOURCE_DELAY", "SOURCE_HEARTBEAT_PERIOD", "SOURCE_HOST", "SOURCE_LOG_FILE", "SOURCE_LOG_POS", "SOURCE_PASSWORD", "SOURCE_PORT",
    "SOURCE_PUBLIC_KEY_PATH", "SOURCE_RETRY_COUNT", "SOURCE_SSL_CAPATH", "SOURCE_SSL_CA", "SOURCE_SSL_CERT", "SOURCE_SSL_CIPHER",
    "SOURCE_SSL_CRL", "SOURCE_SSL_CRLPATH", "SOURCE_SSL_KEY", "SOURCE_SSL", "SOURCE_TLS_CIPHERSUITES",
    "SOURCE_TLS_VERSION", "SOURCE_USER", "SPECIFIC", "SQL", "SQLEXCEPTION", "SQLWARNING",
    "SQL_AFTER_GTIDS", "SQL_AFTER_MTS_GAPS", "SQL_BEFORE_GTIDS", "SQL_BUFFER_RESULT", "SQL_THREAD", "SQL_TSI_SECOND", "SQL_TSI_MINUTE",
    "SQL_TSI_HOUR", "SQL_TSI_DAY", "SQL_TSI_WEEK", "SQL_TSI_MONTH", "SQL_TSI_QUARTER", "SQL_TSI_YEAR", "SRID", "SSL", "STACKED", "STARTS",
    "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "STOP", "STORAGE", "STREAM", "STRING", "SUBCLASS_ORIGIN", "SUBJECT",
    "SUBPARTITION", "SUBPARTITIONS", "SUPER", "SUSPEND", "SWAPS", "SWITCHES", "TABLE_NAME", "TABLESPACE", "TABLE_CHECKSUM", "TEMPTABLE",
    "THAN", "THREAD_PRIORITY", "TIMESTAMPADD", "TIMESTAMPDIFF", "TLS", "TRIGGERS", "TYPE", "TYPES", "UNDEFINED", "UNDO_BUFFER_SIZE",
    "UNDOFILE", "UNICODE", "UNINSTALL", "UNREGISTER", "UPGRADE", "URL", "USER", "USER_RESOURCES", "USE_FRM", "VALIDATION", "WAIT",
    "WEIGHT_STRING", "VCPU", "VISIBLE", "WRAPPER", "X509", "XID", "XML", "ADDDATE", "MID", "SESSION_USER", "STD", "ST_COLLECT", "SUBDATE",
    "SYSTEM_USER",
};

// Keywords of the other dialects that are names to MySQL.
inline constexpr std::string_view kNotOfMysql[] = {
    "ABORT", "ATTACH", "AUTOINCREMENT", "CLUSTER", "CONCURRENTLY", "CONFLICT", "COPY", "CURRENT_ROLE", "DEFERRABLE", "DEFERRED", "DETACH",
    "EXCLUSIVE", "EXTENSION", "GLOB", "ILIKE", "IMMEDIATE", "INDEXED", "INHERITS", "INITIALLY", "INSTEAD", "ISNULL", "LISTEN",
    "MATERIALIZED", "MINVALUE", "NOTHING", "NOTIFY", "NOTNULL", "OVERWRITE", "PLAN", "PRAGMA", "RAISE", "REFRESH", "REINDEX", "ROWID",
    "SEQUENCE", "SHARED", "SIMILAR", "STRICT", "TEMP", "UNLISTEN", "UNLOGGED", "VACUUM", "WITHIN", "BYTEA", "JSONB", "TIMESTAMPTZ", "UUID",
    "ABS", "LOWER", "NULLIF", "ROUND", "UPPER",
};

// Keywords only where '(' follows at once. All other words are keywords everywhere but beside a '.'.
inline constexpr std::string_view kMysqlFunctions[] = {
    "ADDDATE", "BIT_AND", "BIT_OR", "BIT_XOR", "CAST", "COUNT", "CURDATE", "CURTIME", "DATE_ADD", "DATE_SUB", "EXTRACT", "GROUP_CONCAT",
    "JSON_OBJECTAGG", "JSON_ARRAYAGG", "MAX", "MID", "MIN", "NOW", "POSITION", "SESSION_USER", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP",
    "ST_COLLECT", "SUBDATE", "SUBSTR", "SUBSTRING", "SUM", "SYSDATE", "SYSTEM_USER", "TRIM", "VARIANCE", "VAR_POP", "VAR_SAMP",
};

// Spellings of one token, and the spelling that a digest shows.
inline constexpr Spelling kMysqlSpellings[] = {
    {"DISTINCT", "DISTINCTROW"}, {"INT", "INTEGER"}, {"INT4", "INTEGER"}, {"BIGINT", "INT8"}, {"INT1", "TINYINT"}, {"INT2", "SMALLINT"},
    {"INT3", "MIDDLEINT"}, {"MEDIUMINT", "MIDDLEINT"}, {"FLOAT", "FLOAT4"}, {"DOUBLE", "FLOAT8"}, {"CHAR", "CHARACTER"}, {"DEC", "DECIMAL"},
    {"VARCHAR", "VARCHARACTER"}, {"COLUMNS", "FIELDS"}, {"DATABASE", "SCHEMA"}, {"DATABASES", "SCHEMAS"}, {"DESCRIBE", "EXPLAIN"},
    {"CURRENT_TIMESTAMP", "NOW"}, {"LOCALTIME", "NOW"}, {"LOCALTIMESTAMP", "NOW"}, {"CURRENT_DATE", "CURDATE"}, {"CURRENT_TIME", "CURTIME"},
    {"ANY", "SOME"}, {"REGEXP", "RLIKE"}, {"NDB", "NDBCLUSTER"}, {"IO_THREAD", "RELAY_THREAD"}, {"SECOND", "SQL_TSI_SECOND"},
    {"MINUTE", "SQL_TSI_MINUTE"}, {"HOUR", "SQL_TSI_HOUR"}, {"DAY", "SQL_TSI_DAY"}, {"MONTH", "SQL_TSI_MONTH"},
    {"QUARTER", "SQL_TSI_QUARTER"}, {"SQL_TSI_WEEK", "WEEK"}, {"SQL_TSI_YEAR", "YEAR"}, {"USER", "SYSTEM_USER"},
    {"SESSION_USER", "SYSTEM_USER"}, {"MID", "SUBSTRING"}, {"SUBSTR", "SUBSTRING"}, {"STD", "STDDEV_POP"}, {"STDDEV", "STDDEV_POP"},
    {"VARIANCE", "VAR_POP"}, {"GEOMCOLLECTION", "GEOMETRYCOLLECTION"},
};

// A sign behind one of these belongs to a number. Comparisons and assignments are not among them: `a = -1` is "`a` = - ?".
inline constexpr std::string_view kMysqlBeforeNumber[] = {
    "(", ",", "|", "||", "&", "&&", "<<", ">>", "+", "-", "*", "/", "%", "^",
    "EVERY", "AT", "STARTS", "ENDS", "DEFAULT", "RETURN", "IF", "ELSEIF", "CASE", "WHEN", "WHILE", "UNTIL", "SELECT", "OR", "XOR", "AND",
    "NOT", "BETWEEN", "LIKE", "RLIKE", "INTERVAL", "DIV", "MOD",
};

// Names of character sets: `_utf8mb4'text'`.
inline constexpr std::string_view kMysqlCharacterSets[] = {
    "ARMSCII8", "ASCII", "BIG5", "BINARY", "CP1250", "CP1251", "CP1256", "CP1257", "CP850", "CP852", "CP866", "CP932", "DEC8", "EUCJPMS",
    "EUCKR", "GB18030", "GB2312", "GBK", "GEOSTD8", "GREEK", "HEBREW", "HP8", "KEYBCS2", "KOI8R", "KOI8U", "LATIN1", "LATIN2", "LATIN5",
    "LATIN7", "MACCE", "MACROMAN", "SJIS", "SWE7", "TIS620", "UCS2", "UJIS", "UTF16", "UTF16LE", "UTF32", "UTF8", "UTF8MB3", "UTF8MB4",
};
// clang-format on

// Returns whether a name, in any case, is one of these.
constexpr bool IsMysqlCharacterSet(std::string_view name) {
  for (const std::string_view known : kMysqlCharacterSets) {
    size_t same = 0;
    while (same < name.size() && same < known.size()) {
      const char c = name[same];
      if ((c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c) != known[same]) break;
      ++same;
    }
    if (same == known.size() && same == name.size()) return true;
  }
  return false;
}

inline constexpr size_t kMysqlWordCount = sizeof(kMysqlWords) / sizeof(kMysqlWords[0]);

}  // namespace perfschema
