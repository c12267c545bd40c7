// base/sql_dialect.h: the languages of statement texts, and one table of the properties of the SQL of each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace perfschema {

// X(identifier, name). The order is that of PFS_DIALECT_... (perfschema/statement.h).
#define PFS_FOR_EACH_DIALECT(X) \
  X(kSql, "sql")                \
  X(kMysql, "mysql")            \
  X(kPostgresql, "postgresql")  \
  X(kSqlite, "sqlite")          \
  X(kTsql, "tsql")              \
  X(kOracle, "oracle")          \
  X(kDuckdb, "duckdb")          \
  X(kAnsi, "ansi")              \
  X(kRedis, "redis")            \
  X(kHttp, "http")              \
  X(kPython, "python")

// The language of a text. kSql: a dialect that nobody has named.
enum class Dialect : uint8_t {
#define X(identifier, name) identifier,
  PFS_FOR_EACH_DIALECT(X)
#undef X
};
inline constexpr std::array kDialectNames = {
#define X(identifier, name) std::string_view(name),
    PFS_FOR_EACH_DIALECT(X)
#undef X
};

// Returns the dialect of that name, in small letters; false if there is none.
constexpr bool FindDialect(std::string_view name, Dialect* dialect) {
  for (size_t i = 0; i < kDialectNames.size(); ++i) {
    if (kDialectNames[i] == name) {
      *dialect = static_cast<Dialect>(i);
      return true;
    }
  }
  return false;
}

enum class Backslash : uint8_t { kIsPlain, kEscapes, kEscapesAfterE };  // in strings; kEscapesAfterE: in E'text' only
enum class Dashes : uint8_t { kComment, kCommentBeforeBlank, kCommentUnlessOperand };

// What differs between the dialects of SQL.
struct SqlRules {
  bool is_mysql = false;        // words and folds are those of MySQL's server
  bool quotes_names = true;     // "text" is a name, else a string
  bool brackets_names = false;  // [text] is a name
  Backslash backslash = Backslash::kIsPlain;
  Dashes dashes = Dashes::kComment;
  bool has_hash_comments = false;
  bool has_hash_names = false;      // # is a part of names
  bool nests_comments = false;      // /* /* */ */
  bool has_code_comments = false;   // /*! code */
  bool has_dollar_strings = false;  // $tag$text$tag$
  bool has_q_strings = false;       // q'[text]'
  bool has_at_operators = false;    // @@, @> and <@
  bool has_money = false;           // $1.50
  bool has_prepared_names = false;  // PREPARE and EXECUTE are followed by the name of a prepared statement
  bool names_begin_with_digits = false;
};

inline constexpr SqlRules kSqlRules{.quotes_names = false,
                                    .backslash = Backslash::kEscapes,
                                    .dashes = Dashes::kCommentUnlessOperand,
                                    .has_hash_comments = true,
                                    .has_code_comments = true,
                                    .has_dollar_strings = true,
                                    .has_prepared_names = true,
                                    .names_begin_with_digits = true};
inline constexpr SqlRules kMysqlRules{.is_mysql = true,
                                      .quotes_names = false,
                                      .backslash = Backslash::kEscapes,
                                      .dashes = Dashes::kCommentBeforeBlank,
                                      .has_hash_comments = true,
                                      .has_code_comments = true,
                                      .has_dollar_strings = true,
                                      .names_begin_with_digits = true};
// Those of DuckDB, too, whose parser is PostgreSQL's, and of databases that are not known better.
inline constexpr SqlRules kPostgresqlRules{.backslash = Backslash::kEscapesAfterE,
                                           .nests_comments = true,
                                           .has_dollar_strings = true,
                                           .has_at_operators = true,
                                           .has_prepared_names = true};
inline constexpr SqlRules kSqliteRules{.brackets_names = true};
inline constexpr SqlRules kTsqlRules{.brackets_names = true, .has_hash_names = true, .nests_comments = true, .has_money = true};
inline constexpr SqlRules kOracleRules{.has_hash_names = true, .has_q_strings = true};

}  // namespace perfschema
