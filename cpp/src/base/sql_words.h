// base/sql_words.h: the words of SQL: reserved words of the standard, and the words of the common statements of MySQL, SQLite and
// PostgreSQL. Every other word is a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace perfschema {

// Traits of a word besides being a keyword.
inline constexpr uint8_t kPlainWord = 0;
inline constexpr uint8_t kBeforeExpression = 1;   // a sign behind it belongs to a literal, NULL behind it is a value
inline constexpr uint8_t kOnlyCalled = 2;         // a keyword before '(' only: `count` and `max` are names of columns too
inline constexpr uint8_t kBeforePassingName = 4;  // a name behind it may differ each time: of a savepoint, a cursor
inline constexpr uint8_t kTemporarySchema = 8;    // a schema of tables whose names may differ each time

struct SqlWord {
  std::string_view text;
  uint8_t traits = kPlainWord;
  std::string_view shown = {};  // the main spelling of this word
};

// The position of a word is its code in token streams: add new words at the end of a list, so that digests do not change. The first list
// has codes of one byte; it must not grow beyond the codes that SqlToken leaves free.
// clang-format off
inline constexpr SqlWord kShortSqlWords[] = {
    {"IN"}, {"NULL"}, {"NOT", kBeforeExpression}, {"IS", kBeforeExpression}, {"SELECT", kBeforeExpression}, {"FROM", kBeforeExpression},
    {"WHERE", kBeforeExpression}, {"AND", kBeforeExpression}, {"OR", kBeforeExpression}, {"INSERT"}, {"INTO"}, {"VALUES"}, {"UPDATE"},
    {"SET"}, {"DELETE"}, {"JOIN"}, {"ON", kBeforeExpression}, {"AS"}, {"BY", kBeforeExpression}, {"ORDER"}, {"GROUP"},
    {"HAVING", kBeforeExpression}, {"LIMIT", kBeforeExpression}, {"OFFSET", kBeforeExpression}, {"DISTINCT", kBeforeExpression},
    {"COUNT", kOnlyCalled}, {"LEFT"}, {"INNER"}, {"DESC"}, {"ASC"}, {"BETWEEN", kBeforeExpression}, {"LIKE", kBeforeExpression}, {"EXISTS"},
    {"CASE", kBeforeExpression}, {"WHEN", kBeforeExpression}, {"THEN", kBeforeExpression}, {"ELSE", kBeforeExpression}, {"END"}, {"UNION"},
    {"ALL", kBeforeExpression}, {"CREATE"}, {"TABLE"}, {"INDEX"}, {"KEY"}, {"PRIMARY"}, {"DEFAULT", kBeforeExpression}, {"INTEGER"},
    {"TEXT"}, {"BEGIN"}, {"COMMIT"}, {"FOR", kBeforeExpression}, {"USING"}, {"WITH", kBeforeExpression},
};

inline constexpr SqlWord kSqlWords[] = {
    // Spellings of one word.
    {"INT", kPlainWord, "INTEGER"}, {"INT4", kPlainWord, "INTEGER"}, {"CHARACTER"}, {"CHAR", kPlainWord, "CHARACTER"}, {"DECIMAL"},
    {"DEC", kPlainWord, "DECIMAL"}, {"SCHEMA"}, {"DATABASE", kPlainWord, "SCHEMA"}, {"SCHEMAS"}, {"DATABASES", kPlainWord, "SCHEMAS"},
    {"DISTINCTROW", kBeforeExpression, "DISTINCT"}, {"REGEXP", kBeforeExpression}, {"RLIKE", kBeforeExpression, "REGEXP"}, {"VARCHAR"},
    {"VARCHARACTER", kPlainWord, "VARCHAR"}, {"SAVEPOINT", kBeforePassingName}, {"EXPLAIN"}, {"DESCRIBE"},
    // Statements and their clauses.
    {"ABORT"}, {"ACTION"}, {"ADD"}, {"AFTER"}, {"ALTER"}, {"ALWAYS"}, {"ANALYZE"}, {"ANY"}, {"ATTACH"}, {"AUTOINCREMENT"},
    {"AUTO_INCREMENT"}, {"BEFORE"}, {"CALL"}, {"CASCADE"}, {"CASCADED"}, {"CAST", kOnlyCalled}, {"CHANGE"}, {"CHECK"}, {"CHECKSUM"},
    {"CLOSE", kBeforePassingName}, {"CLUSTER"}, {"COLLATE"}, {"COLUMN"}, {"COLUMNS"}, {"COMMENT"}, {"COMMITTED"}, {"CONCURRENTLY"}, {"CONDITION"}, {"CONFLICT"},
    {"CONSISTENT"}, {"CONSTRAINT"}, {"CONTINUE"}, {"CONVERT", kOnlyCalled}, {"COPY"}, {"CROSS"}, {"CUBE"}, {"CURRENT"}, {"CURRENT_DATE"},
    {"CURRENT_ROLE"}, {"CURRENT_TIME"}, {"CURRENT_TIMESTAMP"}, {"CURRENT_USER"}, {"CURSOR"}, {"DEALLOCATE", kBeforePassingName}, {"DECLARE", kBeforePassingName}, {"DEFERRABLE"},
    {"DEFERRED"}, {"DELAYED"}, {"DETACH"}, {"DETERMINISTIC"}, {"DISABLE"}, {"DISCARD"}, {"DIV", kBeforeExpression}, {"DO"}, {"DROP"},
    {"DUAL"}, {"DUPLICATE"}, {"EACH"}, {"ELSEIF", kBeforeExpression}, {"ENABLE"}, {"ENCLOSED"}, {"ENGINE"}, {"ERRORS"},
    {"ESCAPE", kBeforeExpression}, {"ESCAPED"}, {"EVENT"}, {"EXCEPT"}, {"EXCLUDE"}, {"EXCLUSIVE"}, {"EXECUTE", kBeforePassingName}, {"EXIT"}, {"EXTENDED"},
    {"EXTENSION"}, {"FETCH", kBeforePassingName}, {"FIELDS"}, {"FILTER", kOnlyCalled}, {"FIRST"}, {"FLUSH"}, {"FOLLOWING"}, {"FORCE"}, {"FOREIGN"}, {"FULL"},
    {"FULLTEXT"}, {"FUNCTION"}, {"GENERATED"}, {"GLOB", kBeforeExpression}, {"GLOBAL"}, {"GRANT"}, {"GRANTS"}, {"GROUPING"}, {"GROUPS"},
    {"HANDLER"}, {"HIGH_PRIORITY"}, {"IDENTIFIED"}, {"IF", kBeforeExpression}, {"IGNORE"}, {"ILIKE", kBeforeExpression}, {"IMMEDIATE"},
    {"INDEXED"}, {"INDEXES"}, {"INHERITS"}, {"INITIALLY"}, {"INOUT"}, {"INSTEAD"}, {"INTERSECT"}, {"INTERVAL", kBeforeExpression},
    {"ISNULL"}, {"ISOLATION"}, {"ITERATE"}, {"KEYS"}, {"KILL"}, {"LANGUAGE"}, {"LAST"}, {"LATERAL"}, {"LEADING"}, {"LEAVE"}, {"LEVEL"},
    {"LINES"}, {"LISTEN"}, {"LOAD"}, {"LOCAL"}, {"LOCALTIME"}, {"LOCALTIMESTAMP"}, {"LOCK"}, {"LOCKED"}, {"LOOP"}, {"LOW_PRIORITY"},
    {"MATCH"}, {"MATERIALIZED"}, {"MAXVALUE", kBeforeExpression}, {"MERGE"}, {"MINVALUE", kBeforeExpression}, {"MOD", kBeforeExpression},
    {"MODE"}, {"MODIFY"}, {"NAMES"}, {"NATURAL"}, {"NO"}, {"NOTHING"}, {"NOTIFY"}, {"NOTNULL"}, {"NOWAIT"}, {"NULLS"}, {"OF"}, {"ONLY"},
    {"OPEN"}, {"OPTIMIZE"}, {"OPTION"}, {"OPTIONALLY"}, {"OTHERS"}, {"OUT"}, {"OUTER"}, {"OUTFILE"}, {"OVER"}, {"OVERWRITE"}, {"PARTITION"},
    {"PERSIST"}, {"PERSIST_ONLY"}, {"PLAN"}, {"PRAGMA"}, {"PRECEDING"}, {"PREPARE", kBeforePassingName}, {"PRIVILEGES"}, {"PROCEDURE"}, {"PROCESSLIST"},
    {"PURGE"}, {"QUERY"}, {"QUICK"}, {"RAISE", kOnlyCalled}, {"RANGE"}, {"READ"}, {"RECURSIVE"}, {"REFERENCES"}, {"REFRESH"}, {"REINDEX"},
    {"RELEASE", kBeforePassingName}, {"RENAME"}, {"REPAIR"}, {"REPEAT"}, {"REPEATABLE"}, {"REPLACE"}, {"RESET"}, {"RESIGNAL"}, {"RESTRICT"},
    {"RETURN", kBeforeExpression}, {"RETURNING", kBeforeExpression}, {"RETURNS"}, {"REVOKE"}, {"RIGHT"}, {"ROLE"}, {"ROLLBACK", kBeforePassingName}, {"ROLLUP"},
    {"ROUTINE"}, {"ROW"}, {"ROWID"}, {"ROWS"}, {"SEPARATOR"}, {"SEQUENCE"}, {"SERIALIZABLE"}, {"SESSION"}, {"SHARE"}, {"SHARED"}, {"SHOW"},
    {"SIGNAL"}, {"SIMILAR"}, {"SKIP"}, {"SNAPSHOT"}, {"SOME"}, {"SPATIAL"}, {"SQLSTATE"}, {"SQL_BIG_RESULT"}, {"SQL_CALC_FOUND_ROWS"},
    {"SQL_NO_CACHE"}, {"SQL_SMALL_RESULT"}, {"START"}, {"STARTING"}, {"STATUS"}, {"STORED"}, {"STRAIGHT_JOIN"}, {"STRICT"}, {"SYSTEM"},
    {"TABLES"}, {"TABLESAMPLE"}, {"TEMP", kBeforePassingName}, {"TEMPORARY", kBeforePassingName}, {"TERMINATED"}, {"TIES"}, {"TO", kBeforeExpression}, {"TRAILING"},
    {"TRANSACTION", kBeforePassingName}, {"TRIGGER"}, {"TRUNCATE"}, {"UNBOUNDED"}, {"UNCOMMITTED"}, {"UNDO"}, {"UNIQUE"}, {"UNLISTEN"}, {"UNLOCK"},
    {"UNLOGGED"}, {"UNTIL", kBeforeExpression}, {"USAGE"}, {"USE"}, {"VACUUM"}, {"VALUE"}, {"VARIABLES"}, {"VIEW"}, {"VIRTUAL"},
    {"WARNINGS"}, {"WHILE", kBeforeExpression}, {"WINDOW"}, {"WITHIN"}, {"WITHOUT"}, {"WORK"}, {"WRITE"}, {"XA"},
    {"XOR", kBeforeExpression},
    // Values and units.
    {"TRUE"}, {"FALSE"}, {"UNKNOWN"}, {"DAY"}, {"DAY_HOUR"}, {"DAY_MICROSECOND"}, {"DAY_MINUTE"}, {"DAY_SECOND"}, {"HOUR"},
    {"HOUR_MICROSECOND"}, {"HOUR_MINUTE"}, {"HOUR_SECOND"}, {"MICROSECOND"}, {"MINUTE"}, {"MINUTE_MICROSECOND"}, {"MINUTE_SECOND"},
    {"MONTH"}, {"QUARTER"}, {"SECOND"}, {"SECOND_MICROSECOND"}, {"WEEK"}, {"YEAR"}, {"YEAR_MONTH"}, {"UTC_DATE"}, {"UTC_TIME"},
    {"UTC_TIMESTAMP"},
    // Types.
    {"ARRAY"}, {"BIGINT"}, {"BINARY"}, {"BIT"}, {"BLOB"}, {"BOOL", kPlainWord, "BOOLEAN"}, {"BOOLEAN"}, {"BYTEA"}, {"CHARSET"}, {"DATE"},
    {"DATETIME"}, {"DOUBLE"}, {"ENUM"}, {"FIXED"}, {"FLOAT"}, {"FLOAT4"}, {"FLOAT8"}, {"GEOMETRY"}, {"INT1"}, {"INT2"}, {"INT3"}, {"INT8"},
    {"JSON"}, {"JSONB"}, {"LONG"}, {"LONGBLOB"}, {"LONGTEXT"}, {"MEDIUMBLOB"}, {"MEDIUMINT"}, {"MEDIUMTEXT"}, {"NATIONAL"}, {"NCHAR"},
    {"NUMERIC"}, {"NVARCHAR"}, {"PRECISION"}, {"REAL"}, {"SERIAL"}, {"SIGNED"}, {"SMALLINT"}, {"TIME"}, {"TIMESTAMP"}, {"TIMESTAMPTZ"},
    {"TINYBLOB"}, {"TINYINT"}, {"TINYTEXT"}, {"UNSIGNED"}, {"UUID"}, {"VARBINARY"}, {"VARYING"}, {"ZEROFILL"}, {"ZONE"},
    // Functions that most dialects share.
    {"ABS", kOnlyCalled}, {"AVG", kOnlyCalled}, {"BIT_AND", kOnlyCalled}, {"BIT_OR", kOnlyCalled}, {"BIT_XOR", kOnlyCalled},
    {"COALESCE", kOnlyCalled}, {"CUME_DIST", kOnlyCalled}, {"CURDATE", kOnlyCalled}, {"CURTIME", kOnlyCalled}, {"DATE_ADD", kOnlyCalled},
    {"DATE_SUB", kOnlyCalled}, {"DENSE_RANK", kOnlyCalled}, {"EXTRACT", kOnlyCalled}, {"FIRST_VALUE", kOnlyCalled},
    {"GROUP_CONCAT", kOnlyCalled}, {"JSON_ARRAYAGG", kOnlyCalled}, {"JSON_OBJECTAGG", kOnlyCalled}, {"LAG", kOnlyCalled},
    {"LAST_VALUE", kOnlyCalled}, {"LEAD", kOnlyCalled}, {"LOWER", kOnlyCalled}, {"MAX", kOnlyCalled}, {"MIN", kOnlyCalled},
    {"NOW", kOnlyCalled}, {"NTH_VALUE", kOnlyCalled}, {"NTILE", kOnlyCalled}, {"NULLIF", kOnlyCalled}, {"PERCENT_RANK", kOnlyCalled},
    {"POSITION", kOnlyCalled}, {"RANK", kOnlyCalled}, {"ROUND", kOnlyCalled}, {"ROW_NUMBER", kOnlyCalled}, {"STDDEV", kOnlyCalled},
    {"STDDEV_POP", kOnlyCalled}, {"STDDEV_SAMP", kOnlyCalled}, {"SUBSTR", kOnlyCalled}, {"SUBSTRING", kOnlyCalled}, {"SUM", kOnlyCalled},
    {"SYSDATE", kOnlyCalled}, {"TRIM", kOnlyCalled}, {"UPPER", kOnlyCalled}, {"VARIANCE", kOnlyCalled}, {"VAR_POP", kOnlyCalled},
    {"VAR_SAMP", kOnlyCalled},
};
// clang-format on
inline constexpr size_t kShortSqlWordCount = sizeof(kShortSqlWords) / sizeof(kShortSqlWords[0]);
inline constexpr size_t kSqlWordCount = kShortSqlWordCount + sizeof(kSqlWords) / sizeof(kSqlWords[0]);

constexpr const SqlWord& SqlWordAt(size_t index) {
  return index < kShortSqlWordCount ? kShortSqlWords[index] : kSqlWords[index - kShortSqlWordCount];
}

}  // namespace perfschema
