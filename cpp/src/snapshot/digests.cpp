#include "snapshot/digests.h"

#include "base/digest.h"
#include "snapshot/mend.h"
#include "snapshot/slots.h"

namespace perfschema {
namespace {

constexpr uint64_t kMostTextBytes = uint64_t{1} << 21;  // no option allows longer ones

// Adds up the counts of all threads for one generation of an object. Returns false if they are torn.
bool AddUpStatements(const Snapshot& snapshot, const ShmStatementObject& object, uint32_t generation, Numbers* sum) {
  *sum = {};
  uint64_t longest = snapshot.array<ArrayId::kThreads>().capacity() + 1;
  for (uint32_t at = object.cells.load(kAcquire); at != 0;) {  // pairs with FindStatementCell
    const ShmStatementCell* cell = snapshot.array<ArrayId::kStatementCells>().at(at);
    if (cell == nullptr || longest-- == 0 || !snapshot.TakeStep()) return false;
    Numbers numbers;
    const bool whole = snapshot.TryRead(
        cell->seq,
        [&] {
          numbers = {};
          if (cell->gen.load(kAcquire) == generation)
            LoadObject(*cell, snapshot.array<ArrayId::kStatementRests>().at(cell->rest.load(kAcquire)), &numbers);
        },
        [&] { MendNumbers(kObjectShape, &numbers); });
    if (!whole) return false;
    MergeNumbers(kObjectShape, numbers, sum);
    at = cell->next.load(kAcquire);
  }
  return true;
}

// Calls add_up(generation, *sum) until no TRUNCATE runs meanwhile: buckets of two epochs do not belong together.
template <typename AddUp>
Histogram ReadHistogram(const HalfWord& generation, AddUp add_up) {
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    Histogram sum{};
    const uint32_t before = generation.load(kAcquire);  // pairs with the TRUNCATE
    add_up(before, &sum);
    if (generation.load(kRelaxed) == before) return sum;
  }
  return {};  // as it was when the last of these TRUNCATEs took effect
}

void AddBuckets(const Buckets& buckets, uint32_t generation, Histogram* sum) {
  for (uint32_t i = 0; i < kHistogramBuckets; ++i) {
    const uint64_t count = CountInBucket(buckets[i].load(kAcquire), generation);
    sum->counts[i] += count;
    sum->total += count;
  }
}

// Adds up the blocks of a digest that are of this generation.
void AddBlocks(const Snapshot& snapshot, const ShmDigest& digest, uint32_t generation, Histogram* sum) {
  if (digest.histogram_generation.load(kAcquire) != generation) return;  // pairs with MakeBucket
  for (const HalfWord& list : digest.blocks) {
    uint32_t most = kBucketGroups;  // a list that changes meanwhile, or is damaged, may be a circle
    for (uint32_t at = list.load(kAcquire); at != 0 && most-- != 0;) {
      const ShmHistogramBlock* const block = snapshot.array<ArrayId::kHistogramBlocks>().at(at);
      if (block == nullptr) break;
      const uint32_t first = std::min(block->group.load(kAcquire), kBucketGroups) * kBucketsInBlock;
      for (uint32_t i = 0; i < kBucketsInBlock && first + i < kHistogramBuckets; ++i) {
        const uint64_t count = CountInBucket(block->counts[i].load(kAcquire), generation);
        sum->counts[first + i] += count;
        sum->total += count;
      }
      at = block->next.load(kAcquire);
    }
  }
}

// Copies a text of a digest; an empty one if it lies outside of their array. The caller finds out whether the copy is whole.
void CopyDigestText(const Snapshot& snapshot, uint32_t first, uint64_t bytes, std::vector<char>* to) {
  to->clear();
  if (bytes == 0 || bytes > kMostTextBytes) return;
  const ShmDigestText* const text =
      snapshot.array<ArrayId::kDigestTexts>().at(first, (bytes + sizeof(ShmDigestText) - 1) / sizeof(ShmDigestText));
  if (text == nullptr) return;
  to->resize(bytes);
  CopyFromShared(to->data(), text, bytes);
}

Found ReadDigest(const Snapshot& snapshot, uint32_t index, DigestRow* row) {
  const ShmDigest* shm = snapshot.array<ArrayId::kDigests>().at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint32_t generation = shm->object.generation.load(kAcquire);  // pairs with the creation
    if (!IsLive(generation)) return Found::kFree;
    *row = {};
    std::vector<char>& buffer = snapshot.buffer();
    const uint64_t schema_bytes = std::min<uint64_t>(shm->schema_bytes.load(kAcquire), kDigestSchemaBytes);
    const uint64_t before_tokens = TextCapacity(schema_bytes);
    CopyDigestText(snapshot, shm->text.load(kAcquire), before_tokens + shm->token_bytes.load(kAcquire), &buffer);
    const std::string texts(buffer.data(), buffer.size());
    if (!AddUpStatements(snapshot, shm->object, generation, &row->numbers)) return Found::kTorn;
    const Histogram histogram = ReadHistogram(snapshot.header().digest_histogram_generation,
                                              [&](uint32_t of, Histogram* sum) { AddBlocks(snapshot, *shm, of, sum); });
    uint32_t sample_generation = 0;
    const bool whole = snapshot.TryRead(shm->sample_seq, [&] {
      sample_generation = shm->sample_generation.load(kAcquire);
      CopyDigestText(snapshot, shm->sample_text.load(kAcquire), shm->sample_bytes.load(kAcquire), &buffer);
      row->sample_seen = shm->sample_seen.load(kAcquire);
      row->sample_wait = shm->sample_wait.load(kAcquire);
    });
    if (shm->object.generation.load(kRelaxed) != generation) continue;
    if (!whole) return Found::kTorn;
    if (texts.size() > before_tokens) DescribeTokens(snapshot, std::string_view(texts).substr(before_tokens), &row->digest, &row->text);
    if (schema_bytes != 0 && texts.size() >= schema_bytes) row->schema = snapshot.Keep(std::string_view(texts).substr(0, schema_bytes));
    if (sample_generation == generation) {
      row->sample = LongText(snapshot.Keep({buffer.data(), buffer.size()}));
    } else {
      row->sample_seen = row->sample_wait = 0;
    }
    row->histogram = histogram;
    return Found::kRead;
  }
  return Found::kTorn;
}

Found ReadProgram(const Snapshot& snapshot, uint32_t index, ProgramRow* row) {
  const ShmStoredProgram* shm = snapshot.array<ArrayId::kPrograms>().at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint32_t generation = shm->object.generation.load(kAcquire);  // pairs with the creation
    if (!IsLive(generation) || (shm->flags.load(kAcquire) & kTableEnabled) == 0) return Found::kFree;
    *row = {};
    std::optional<Text<64>> type, schema, name;
    row->type = static_cast<ObjectType>(shm->type.load(kAcquire));
    DescribeProgram(snapshot, shm->type.load(kAcquire), uint64_t{shm->name.load(kAcquire)} << 32 | shm->name_version.load(kAcquire), &type,
                    &schema, &name);
    const bool whole = AddUpStatements(snapshot, shm->object, generation, &row->numbers);
    if (shm->object.generation.load(kRelaxed) != generation) continue;
    if (!whole || row->type < ObjectType::kEvent || row->type > ObjectType::kTrigger) return Found::kTorn;
    row->schema = schema.value_or("");
    row->name = name.value_or("");
    return Found::kRead;
  }
  return Found::kTorn;
}

Found ReadPrepared(const Snapshot& snapshot, uint32_t index, PreparedRow* row) {
  const ShmPrepared* shm = snapshot.array<ArrayId::kPrepared>().at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint32_t generation = shm->object.generation.load(kAcquire);  // pairs with the creation
    if (!IsLive(generation)) return Found::kFree;
    *row = {};
    uint64_t name[8], program = 0, program_type = 0;
    std::vector<char>& buffer = snapshot.buffer();
    const bool whole = snapshot.TryRead(shm->seq, [&] {
      row->identity = shm->identity.load(kAcquire);
      row->statement_id = shm->statement_id.load(kAcquire);
      row->owner_thread_id = shm->owner_thread_id.load(kAcquire);
      row->owner_event_id = shm->owner_event_id.load(kAcquire);
      row->prepare = shm->prepare_ps.load(kAcquire);
      program_type = shm->program_type.load(kAcquire);
      program = uint64_t{shm->program_name.load(kAcquire)} << 32 | shm->program_name_version.load(kAcquire);
      LoadWords(shm->name, name);
      buffer.resize(
          std::min<uint64_t>(shm->text_bytes.load(kAcquire), snapshot.array<ArrayId::kPrepared>().stride() - sizeof(ShmPrepared)));
      CopyFromShared(buffer.data(), shm + 1, buffer.size());
    });
    row->reprepared = shm->reprepared.load(kAcquire);
    row->engine = shm->is_secondary.load(kAcquire) != 0 ? Engine::kSecondary : Engine::kPrimary;
    const bool counted = AddUpStatements(snapshot, shm->object, generation, &row->numbers);
    if (shm->object.generation.load(kRelaxed) != generation) continue;
    if (!whole || !counted) return Found::kTorn;
    row->text = LongText(snapshot.Keep({buffer.data(), buffer.size()}));
    if (const auto text = snapshot.KeepWords(name); !text.empty()) row->name = text;
    std::optional<Text<64>> type;
    DescribeProgram(snapshot, program_type, program, &type, &row->owner_schema, &row->owner_name);
    if (type && program_type <= static_cast<uint64_t>(ObjectType::kTrigger)) row->owner_type = static_cast<ObjectType>(program_type);
    return Found::kRead;
  }
  return Found::kTorn;
}

}  // namespace

Histogram StatementHistogram(const Snapshot& snapshot) {
  if (!snapshot.ok()) return {};
  return ReadHistogram(snapshot.header().histogram_generation, [&](uint32_t generation, Histogram* sum) {
    AddBuckets(snapshot.header().histogram.buckets, generation, sum);
    const uint64_t used = std::min(snapshot.view().used(ArrayId::kHistograms), snapshot.array<ArrayId::kHistograms>().capacity());
    for (uint64_t i = 1; i < used; ++i) {
      if (const ShmHistogramPart* part = snapshot.array<ArrayId::kHistograms>().at(i); part != nullptr)
        AddBuckets(part->buckets, generation, sum);
    }
  });
}

void DescribeTokens(const Snapshot& snapshot, std::string_view tokens, std::optional<Text<64>>* digest, std::optional<LongText>* text) {
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(tokens.data()), tokens.size());
  char hex[64];
  DigestHash(bytes, hex);
  *digest = snapshot.Keep({hex, sizeof hex});
  *text = LongText(snapshot.Keep(DigestText(bytes)));
}

void DescribeProgram(const Snapshot& snapshot, uint64_t type, uint64_t name, std::optional<Text<64>>* shown_type,
                     std::optional<Text<64>>* schema, std::optional<Text<64>>* shown_name) {
  std::string_view full;
  if (type == 0 || type >= std::size(kObjectTypeNames) ||
      !snapshot.CopyName(static_cast<uint32_t>(name >> 32), static_cast<uint32_t>(name), &full))
    return;
  const size_t end = std::min(full.find('\0'), full.size());
  *shown_type = kObjectTypeNames[type];
  *schema = full.substr(0, end);
  *shown_name = full.substr(std::min(end + 1, full.size()));
}

void ForEachDigest(const Snapshot& snapshot, const std::function<void(const DigestRow&)>& use) {
  ForEachSlot(snapshot, snapshot.array<ArrayId::kDigests>(), ReadDigest, use);
}
void ForEachProgram(const Snapshot& snapshot, const std::function<void(const ProgramRow&)>& use) {
  ForEachSlot(snapshot, snapshot.array<ArrayId::kPrograms>(), ReadProgram, use);
}
void ForEachPrepared(const Snapshot& snapshot, const std::function<void(const PreparedRow&)>& use) {
  ForEachSlot(snapshot, snapshot.array<ArrayId::kPrepared>(), ReadPrepared, use);
}

}  // namespace perfschema
