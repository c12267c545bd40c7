// record/family/digests.h: what statements of one digest in one schema have done.
#pragma once

#include <span>
#include <string_view>

#include "record/family/statement_cells.h"

namespace perfschema {

// Private tables. Under the cold lock, once.
bool StartDigests();
// The tables anew from the segment. REQUIRES: cold lock.
void ReindexDigests();

// The tokens of a text, by the normaliser that the options name (performance_schema_digest_normalizer). Inside a probe.
size_t TokensForDigest(std::string_view text, std::span<uint8_t> out);

// A statement that ends: its digest is found, or made where it is the first of its kind, and counts it. `sql`: the text as it was kept.
// Threads: the calling thread's, inside a probe. Preserves errno.
void CountDigest(ThreadState& thread, std::string_view schema, std::span<const uint8_t> tokens, uint64_t key, std::string_view sql,
                 const StatementNumbers& numbers, uint64_t now_micros);

// TRUNCATE of events_statements_summary_by_digest and of events_statements_histogram_by_digest. REQUIRES: cold lock.
void ForgetDigests();
void EmptyDigestHistograms();
// In a forked child.
void ForgetDigestsInChild();
// A longjmp has left the calling thread's probe, which may have been replacing a sample: the digest has none then, until the next one.
void EndLeftSample();

}  // namespace perfschema
