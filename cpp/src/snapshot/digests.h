// snapshot/digests.h: what statements count for: digests, stored programs, prepared statements, histograms.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/histogram.h"
#include "shm/shapes.h"
#include "snapshot/events.h"
#include "snapshot/text.h"

namespace perfschema {

class Snapshot;

// A histogram of statements (base/histogram.h).
struct Histogram {
  uint64_t counts[kHistogramBuckets];
  uint64_t total;
  // Returns the upper bound of the bucket in which `per_mille` of the statements are reached; 0 if there are none (semantics.md I9).
  uint64_t Quantile(uint64_t per_mille) const {
    const uint64_t wanted = (total * per_mille + 999) / 1000;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < kHistogramBuckets && total != 0; ++i) {
      seen += counts[i];
      if (seen >= wanted) return BucketHigh(i);
    }
    return 0;
  }
};

// Holds statements of one digest in one schema. Numbers: kObjectShape.
struct DigestRow {
  std::optional<Text<64>> schema, digest;
  std::optional<LongText> text;
  Numbers numbers;
  Histogram histogram;
  std::optional<LongText> sample;
  uint64_t sample_seen;  // microseconds since 1970
  uint64_t sample_wait;
};

struct ProgramRow {
  ObjectType type;
  Text<64> schema, name;
  Numbers numbers;
};

struct PreparedRow {
  uint64_t identity, statement_id;
  std::optional<Text<64>> name;
  LongText text;
  uint64_t owner_thread_id, owner_event_id;
  std::optional<ObjectType> owner_type;
  std::optional<Text<64>> owner_schema, owner_name;
  Engine engine;
  uint64_t prepare, reprepared;
  Numbers numbers;
};

void ForEachDigest(const Snapshot& snapshot, const std::function<void(const DigestRow&)>& use);
void ForEachProgram(const Snapshot& snapshot, const std::function<void(const ProgramRow&)>& use);
void ForEachPrepared(const Snapshot& snapshot, const std::function<void(const PreparedRow&)>& use);
Histogram StatementHistogram(const Snapshot& snapshot);  // of all statements that were timed

// Sets DIGEST and DIGEST_TEXT of tokens. Both texts live as long as the Snapshot.
void DescribeTokens(const Snapshot& snapshot, std::string_view tokens, std::optional<Text<64>>* digest, std::optional<LongText>* text);
// `name`: granule << 32 | version of "SCHEMA\0NAME". Nothing is set if the name is gone.
void DescribeProgram(const Snapshot& snapshot, uint64_t type, uint64_t name, std::optional<Text<64>>* shown_type,
                     std::optional<Text<64>>* schema, std::optional<Text<64>>* shown_name);

}  // namespace perfschema
