// base/digest.h: treats statements as one if they differ only in their literals, blanks and comments (semantics.md I2-I4).
//
// A text becomes a stream of tokens (base/sql_tokens.h), which is short enough to be kept. Its hash is the key of the statement, and
// readers compute DIGEST and DIGEST_TEXT from it. Pure functions: no state; only functions marked so allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/sql_dialect.h"
#include "base/status.h"
#include "perfschema/abi.h"

namespace perfschema {

// Writes the tokens of `sql` into `out` and returns their length in bytes. `sql` may hold any bytes: nothing is rejected. The result is
// the longest beginning of the whole stream that fits, so two texts of one normal form have one stream, whatever the size of `out`; a
// list of a million literals needs one byte. One pass, one to two nanoseconds per byte; for probes. Dialect::kMysql has the rules of
// MySQL 8.4 (base/mysql_words.h), so that DIGEST_TEXT is that of a server. `names`: of the paths of requests, or nullptr.
class PathNames;
PFS_API size_t DigestTokens(std::string_view sql, std::span<uint8_t> out, Dialect dialect = Dialect::kSql, PathNames* names = nullptr);

// Writes the tokens of a text that is no SQL: the text itself, as much of it as fits, without half a character. For probes.
PFS_API size_t VerbatimTokens(std::string_view text, std::span<uint8_t> out);

// Turns a text into its tokens: chosen once, at start.
// Threads: immutable once made.
class Normalizer {
 public:
  // Makes a normalizer. `name`: a dialect, which is that of the texts that have none themselves; or identity: every text as it is.
  PFS_API static Status Make(std::string_view name, Normalizer* made);

  // For probes.
  PFS_API size_t Tokens(std::string_view text, Dialect dialect, std::span<uint8_t> out, PathNames* names = nullptr) const;
  // Returns whether literals may stay in the tokens.
  bool keeps_literals() const { return is_identity_; }

 private:
  bool is_identity_ = false;
  Dialect dialect_ = Dialect::kSql;
};

// Writes DIGEST_TEXT: the text of `tokens`, one blank between two of them. `tokens` may hold any bytes; the text ends where they are
// invalid. Returns the bytes written: at most `out.size()`, the last character whole.
PFS_API size_t DigestText(std::span<const uint8_t> tokens, std::span<char> out);
PFS_API std::string DigestText(std::span<const uint8_t> tokens);  // allocates: for readers

// Computes DIGEST: SHA-256 of `tokens` as 64 hexadecimal digits, without a NUL. For readers.
PFS_API void DigestHash(std::span<const uint8_t> tokens, char (&hex)[64]);

// Returns a key for hash tables: equal streams have equal keys. For probes.
PFS_API uint64_t DigestKey(std::span<const uint8_t> tokens);

}  // namespace perfschema
