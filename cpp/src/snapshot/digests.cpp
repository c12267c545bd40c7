// snapshot/digests.cpp: reads digests, stored programs, prepared statements (objects that statements count for), and histograms.
#include "base/digest.h"
#include "snapshot/mend.h"
#include "snapshot/snapshot.h"
#include "snapshot/try_read.h"

namespace perfschema {

// Adds up the counts of all threads for one generation of an object. Returns false if they are torn.
bool Snapshot::AddUpStatements(const ShmStatementObject& object, uint32_t generation, Numbers* sum) const {
  *sum = {};
  uint64_t longest = threads_.capacity() + 1;
  for (uint32_t at = object.cells.load(kAcquire); at != 0;) {  // pairs with FindStatementCell
    const ShmStatementCell* cell = statement_cells_.at(at);
    if (cell == nullptr || longest-- == 0 || steps_left_ == 0) return false;
    --steps_left_;
    Numbers numbers;
    const bool whole = TryRead(
        cell->seq,
        [&] {
          numbers = {};
          if (cell->gen.load(kAcquire) == generation) LoadObject(*cell, statement_rests_.at(cell->rest.load(kAcquire)), &numbers);
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
Histogram Snapshot::ReadHistogram(const HalfWord& generation, AddUp add_up) const {
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    Histogram sum{};
    const uint32_t before = generation.load(kAcquire);  // pairs with the TRUNCATE
    add_up(before, &sum);
    if (generation.load(kRelaxed) == before) return sum;
  }
  return {};  // as it was when the last of these TRUNCATEs took effect
}

namespace {

constexpr uint64_t kMostTextBytes = uint64_t{1} << 21;  // no option allows longer ones

void AddBuckets(const Buckets& buckets, uint32_t generation, Histogram* sum) {
  for (uint32_t i = 0; i < kHistogramBuckets; ++i) {
    const uint64_t count = CountInBucket(buckets[i].load(kAcquire), generation);
    sum->counts[i] += count;
    sum->total += count;
  }
}

}  // namespace

// Adds up the blocks of a digest that are of this generation.
void Snapshot::AddBlocks(const ShmDigest& digest, uint32_t generation, Histogram* sum) const {
  if (digest.histogram_generation.load(kAcquire) != generation) return;  // pairs with MakeBucket
  for (const HalfWord& list : digest.blocks) {
    uint32_t most = kBucketGroups;  // a list that changes meanwhile, or is damaged, may be a circle
    for (uint32_t at = list.load(kAcquire); at != 0 && most-- != 0;) {
      const ShmHistogramBlock* const block = histogram_blocks_.at(at);
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
void Snapshot::CopyDigestText(uint32_t first, uint64_t bytes, std::vector<char>* to) const {
  to->clear();
  if (bytes == 0 || bytes > kMostTextBytes) return;
  const ShmDigestText* const text = digest_texts_.at(first, (bytes + sizeof(ShmDigestText) - 1) / sizeof(ShmDigestText));
  if (text == nullptr) return;
  to->resize(bytes);
  CopyFromShared(to->data(), text, bytes);
}

Histogram Snapshot::StatementHistogram() const {
  if (!ok_) return {};
  return ReadHistogram(header().histogram_generation, [&](uint32_t generation, Histogram* sum) {
    AddBuckets(header().histogram.buckets, generation, sum);
    const uint64_t used = std::min(view_.used(ArrayId::kHistograms), histogram_parts_.capacity());
    for (uint64_t i = 1; i < used; ++i) {
      if (const ShmHistogramPart* part = histogram_parts_.at(i); part != nullptr) AddBuckets(part->buckets, generation, sum);
    }
  });
}

DigestRow Snapshot::DescribeTokens(std::string_view tokens) const {
  DigestRow row{};
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(tokens.data()), tokens.size());
  char hex[64];
  DigestHash(bytes, hex);
  row.digest = Keep({hex, sizeof hex});
  row.text = LongText(Keep(DigestText(bytes)));
  return row;
}

void Snapshot::DescribeProgram(uint64_t type, uint64_t name, std::optional<Text<64>>* shown_type, std::optional<Text<64>>* schema,
                               std::optional<Text<64>>* shown_name) const {
  std::string_view full;
  if (type == 0 || type >= std::size(kObjectTypeNames) || !CopyName(static_cast<uint32_t>(name >> 32), static_cast<uint32_t>(name), &full))
    return;
  const size_t end = std::min(full.find('\0'), full.size());
  *shown_type = kObjectTypeNames[type];
  *schema = full.substr(0, end);
  *shown_name = full.substr(std::min(end + 1, full.size()));
}

Snapshot::Found Snapshot::ReadDigest(uint32_t index, DigestRow* row) const {
  const ShmDigest* shm = digests_.at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint32_t generation = shm->object.generation.load(kAcquire);  // pairs with the creation
    if (!IsLive(generation)) return Found::kFree;
    *row = {};
    std::vector<char>& buffer = text_buffer_;
    const uint64_t schema_bytes = std::min<uint64_t>(shm->schema_bytes.load(kAcquire), kDigestSchemaBytes);
    const uint64_t before_tokens = TextCapacity(schema_bytes);
    CopyDigestText(shm->text.load(kAcquire), before_tokens + shm->token_bytes.load(kAcquire), &buffer);
    const std::string texts(buffer.data(), buffer.size());
    if (!AddUpStatements(shm->object, generation, &row->numbers)) return Found::kTorn;
    const Histogram histogram =
        ReadHistogram(header().digest_histogram_generation, [&](uint32_t of, Histogram* sum) { AddBlocks(*shm, of, sum); });
    uint32_t sample_generation = 0;
    const bool whole = TryRead(shm->sample_seq, [&] {
      sample_generation = shm->sample_generation.load(kAcquire);
      CopyDigestText(shm->sample_text.load(kAcquire), shm->sample_bytes.load(kAcquire), &buffer);
      row->sample_seen = shm->sample_seen.load(kAcquire);
      row->sample_wait = shm->sample_wait.load(kAcquire);
    });
    if (shm->object.generation.load(kRelaxed) != generation) continue;
    if (!whole) return Found::kTorn;
    if (texts.size() > before_tokens) {
      const DigestRow described = DescribeTokens(std::string_view(texts).substr(before_tokens));
      row->digest = described.digest;
      row->text = described.text;
    }
    if (schema_bytes != 0 && texts.size() >= schema_bytes) row->schema = Keep(std::string_view(texts).substr(0, schema_bytes));
    if (sample_generation == generation) {
      row->sample = LongText(Keep({buffer.data(), buffer.size()}));
    } else {
      row->sample_seen = row->sample_wait = 0;
    }
    row->histogram = histogram;
    return Found::kRead;
  }
  return Found::kTorn;
}

Snapshot::Found Snapshot::ReadProgram(uint32_t index, ProgramRow* row) const {
  const ShmStoredProgram* shm = programs_.at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint32_t generation = shm->object.generation.load(kAcquire);  // pairs with the creation
    if (!IsLive(generation) || (shm->flags.load(kAcquire) & kTableEnabled) == 0) return Found::kFree;
    *row = {};
    std::optional<Text<64>> type, schema, name;
    row->type = static_cast<ObjectType>(shm->type.load(kAcquire));
    DescribeProgram(shm->type.load(kAcquire), uint64_t{shm->name.load(kAcquire)} << 32 | shm->name_version.load(kAcquire), &type, &schema,
                    &name);
    const bool whole = AddUpStatements(shm->object, generation, &row->numbers);
    if (shm->object.generation.load(kRelaxed) != generation) continue;
    if (!whole || row->type < ObjectType::kEvent || row->type > ObjectType::kTrigger) return Found::kTorn;
    row->schema = schema.value_or("");
    row->name = name.value_or("");
    return Found::kRead;
  }
  return Found::kTorn;
}

Snapshot::Found Snapshot::ReadPrepared(uint32_t index, PreparedRow* row) const {
  const ShmPrepared* shm = prepared_.at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint32_t generation = shm->object.generation.load(kAcquire);  // pairs with the creation
    if (!IsLive(generation)) return Found::kFree;
    *row = {};
    uint64_t name[8], program = 0, program_type = 0;
    std::vector<char>& buffer = text_buffer_;
    const bool whole = TryRead(shm->seq, [&] {
      row->identity = shm->identity.load(kAcquire);
      row->statement_id = shm->statement_id.load(kAcquire);
      row->owner_thread_id = shm->owner_thread_id.load(kAcquire);
      row->owner_event_id = shm->owner_event_id.load(kAcquire);
      row->prepare = shm->prepare_ps.load(kAcquire);
      program_type = shm->program_type.load(kAcquire);
      program = uint64_t{shm->program_name.load(kAcquire)} << 32 | shm->program_name_version.load(kAcquire);
      LoadWords(shm->name, name);
      buffer.resize(std::min<uint64_t>(shm->text_bytes.load(kAcquire), prepared_.stride() - sizeof(ShmPrepared)));
      CopyFromShared(buffer.data(), shm + 1, buffer.size());
    });
    row->reprepared = shm->reprepared.load(kAcquire);
    row->engine = shm->is_secondary.load(kAcquire) != 0 ? Engine::kSecondary : Engine::kPrimary;
    const bool counted = AddUpStatements(shm->object, generation, &row->numbers);
    if (shm->object.generation.load(kRelaxed) != generation) continue;
    if (!whole || !counted) return Found::kTorn;
    row->text = LongText(Keep({buffer.data(), buffer.size()}));
    if (const auto text = KeepWords(name); !text.empty()) row->name = text;
    std::optional<Text<64>> type;
    DescribeProgram(program_type, program, &type, &row->owner_schema, &row->owner_name);
    if (type && program_type <= static_cast<uint64_t>(ObjectType::kTrigger)) row->owner_type = static_cast<ObjectType>(program_type);
    return Found::kRead;
  }
  return Found::kTorn;
}

void Snapshot::ForEachDigest(const std::function<void(const DigestRow&)>& use) const { ForEachSlot(digests_, &Snapshot::ReadDigest, use); }
void Snapshot::ForEachProgram(const std::function<void(const ProgramRow&)>& use) const {
  ForEachSlot(programs_, &Snapshot::ReadProgram, use);
}
void Snapshot::ForEachPrepared(const std::function<void(const PreparedRow&)>& use) const {
  ForEachSlot(prepared_, &Snapshot::ReadPrepared, use);
}

}  // namespace perfschema
