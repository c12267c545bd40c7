// base/digest.h: statements that differ in their literals, blanks and comments only are one statement (SEMANTICS I2-I4).
//
// A text becomes a stream of tokens (base/sql_tokens.h), which is short enough to be kept; its hash is the key of the statement, and readers
// make DIGEST and DIGEST_TEXT of it. Pure functions: no state, no allocation unless said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "perfschema/abi.h"

namespace perfschema {

// Writes the tokens of `sql` into `out` and returns how many bytes they have. Any bytes will do for `sql`: nothing is rejected.
// What is written is the longest beginning of the whole stream that fits, so two texts of one normal form have one stream, whatever the size
// of `out`; a list of a million literals needs one byte. One pass, one to two nanoseconds per byte; for probes.
PFS_API size_t DigestTokens(std::string_view sql, std::span<uint8_t> out);

// The tokens of a text that is no SQL: the text as it is, as much of it as fits, without half a character. For probes.
PFS_API size_t VerbatimTokens(std::string_view text, std::span<uint8_t> out);

// DIGEST_TEXT: what `tokens` mean, one blank between two of them. Any bytes will do; the text ends where they make no sense. Returns the bytes
// written: at most `out.size()`, the last character whole.
PFS_API size_t DigestText(std::span<const uint8_t> tokens, std::span<char> out);
PFS_API std::string DigestText(std::span<const uint8_t> tokens);  // allocates: for readers

// DIGEST: SHA-256 of `tokens` as 64 hexadecimal digits, without a NUL. For readers.
PFS_API void DigestHash(std::span<const uint8_t> tokens, char (&hex)[64]);

// A key for hash tables: equal streams, equal keys. For probes.
PFS_API uint64_t DigestKey(std::span<const uint8_t> tokens);

}  // namespace perfschema
