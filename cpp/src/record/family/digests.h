// record/family/digests.h: statistics of the statements of one digest in one schema.
#pragma once

#include <span>
#include <string_view>

#include "base/sql_dialect.h"
#include "record/family/digest_histograms.h"
#include "record/family/statement_cells.h"
#include "record/family/token_cache.h"

namespace perfschema {

// Makes the private tables. Called once under the cold lock.
bool StartDigests();
// Rebuilds the tables from the segment. REQUIRES: cold lock.
void ReindexDigests();

// Writes the tokens of a text, by the normalizer that performance_schema_digest_normalizer names. Inside a probe.
size_t TokensForDigest(std::string_view text, Dialect dialect, std::span<uint8_t> out);
// Returns whether literals may stay in the tokens: the user has chosen another normalizer than SQL's.
bool TokensKeepLiterals();

// A statement that ends, as its digest needs it.
struct DigestedText {
  const char* schema;  // 64 bytes, zero padded
  uint32_t schema_bytes;
  std::span<const uint8_t> tokens;
  uint64_t key;              // of the tokens
  std::string_view sql;      // the text as it was kept
  TokenCache::Entry* entry;  // the entry with these tokens, which remembers the digest; may be nullptr
};
// Counts a statement in its digest, and makes the digest if it is new.
// Threads: the calling thread's, inside a probe. Preserves errno.
void CountDigest(ThreadState& thread, const DigestedText& text, const StatementNumbers& numbers, uint64_t now_micros);

// TRUNCATE of events_statements_summary_by_digest. REQUIRES: cold lock.
void ForgetDigests();
// Forgets all digests in a forked child.
void ForgetDigestsInChild();
// Drops the sample that the calling thread was replacing when a longjmp left its probe. The digest has no sample
// until the next one.
void EndLeftSample();

}  // namespace perfschema
