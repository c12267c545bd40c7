#include "record/family/digests.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/digest.h"
#include "base/hash.h"
#include "base/private_memory.h"
#include "base/request_digest.h"
#include "base/text.h"
#include "shm/budget.h"

namespace perfschema {
namespace {

// Hash table of digests by key. Private: a key means nothing to a reader. The heads and `next` are followed without
// the lock. A chain that changes meanwhile can lead to a wrong digest, but never out of the array: each find is
// compared, and a miss is searched again under the lock.
HalfWord* digest_buckets = nullptr;
uint32_t digest_bucket_count = 0;  // a power of two
size_t BytesOfBuckets() { return digest_bucket_count * sizeof *digest_buckets; }
// Elements that hold digests, [2, next_digest). Guarded by the cold lock.
uint32_t next_digest = 2;
constexpr uint32_t kForOthers = 1;

ShmDigest& DigestAt(uint32_t index) { return *g_runtime.segment.element<ShmDigest>(ArrayId::kDigests, index); }
// Of `text` and `sample_text`.
char* TextAt(uint32_t part) { return reinterpret_cast<char*>(g_runtime.digest_texts + part); }
char* TokensOf(const ShmDigest& digest) { return TextAt(digest.text.load(kRelaxed)) + TextCapacity(digest.schema_bytes.load(kRelaxed)); }

// Parts [1, next_text) belong to digests. Guarded by the cold lock.
uint32_t next_text = 1;

constinit Normalizer normalizer{};  // made at start, constant afterwards
constinit PathNames path_names{};   // untouched memory in a program without requests

struct Wanted {
  uint64_t key;
  std::string_view schema;
  std::span<const uint8_t> tokens;
};
[[gnu::noinline]] bool BeginsWith(const ShmDigest& digest, std::string_view schema) {
  return EqualsShared(TextAt(digest.text.load(kRelaxed)), schema.data(), schema.size());
}
inline bool HasSchema(const ShmDigest& digest, std::string_view schema) {
  return digest.schema_bytes.load(kRelaxed) == schema.size() && (__builtin_expect(schema.empty(), 1) || BeginsWith(digest, schema));
}

struct Found {
  ShmDigest* digest = nullptr;
  uint32_t generation = 0;
};

// Tells the digests of a forked child from its parent's, which had the same places and generations. Threads: constant, except at fork().
uint32_t times_forgotten = 0;
uint64_t LifeOf(uint32_t generation) { return uint64_t{times_forgotten} << 32 | generation; }

// Returns the digest that a statement with this entry's tokens was counted in last, if it lives and is of the text's schema.
Found Remembered(const DigestedText& text) {
  ShmDigest* const digest = text.entry == nullptr ? nullptr : text.entry->digest;
  // A parent's digest has no memory in its child.
  if (digest == nullptr || text.entry->digest_life >> 32 != times_forgotten) return {};
  const uint32_t generation = digest->object.generation.load(kAcquire);
  if (generation != static_cast<uint32_t>(text.entry->digest_life)) return {};
  return HasSchema(*digest, {text.schema, text.schema_bytes}) ? Found{digest, generation} : Found{};
}

Found Search(const Wanted& wanted) {
  uint32_t at = digest_buckets[wanted.key & (digest_bucket_count - 1)].load(kAcquire);  // pairs with MakeDigest
  for (uint32_t steps = digest_bucket_count; at != 0 && steps > 0; --steps) {
    ShmDigest& digest = DigestAt(at);
    const uint32_t generation = digest.object.generation.load(kAcquire);
    if (IsLive(generation) && digest.key.load(kRelaxed) == wanted.key && digest.token_bytes.load(kRelaxed) == wanted.tokens.size() &&
        HasSchema(digest, wanted.schema) && EqualsShared(TokensOf(digest), wanted.tokens.data(), wanted.tokens.size()) &&
        digest.object.generation.load(kRelaxed) ==
            generation) {  // the compared words belong to this generation: all loads above are acquire
      return {&digest, generation};
    }
    at = digest.next.load(kAcquire);
  }
  return {};
}

// Takes parts for a text. Returns the first one; 0: the segment is full. REQUIRES: cold lock.
uint32_t TakeText(uint64_t bytes) {
  const uint64_t parts = (bytes + sizeof(ShmDigestText) - 1) / sizeof(ShmDigestText);
  const uint64_t used = g_runtime.segment.array(ArrayId::kDigestTexts).used.load(kRelaxed), end = next_text + parts;
  if (end > used && g_runtime.segment.AllocateFresh(ArrayId::kDigestTexts, end - used, kPartsOfStatementCells) < 0) return 0;
  return std::exchange(next_text, static_cast<uint32_t>(end));
}

// Gives all texts back when no digest lives. A thread may still write the sample of a digest that has died: then its text, and all others,
// stay where they are until the next time. REQUIRES: cold lock.
void FreeTextsOfTheDead() {
  if (next_digest != 2 || next_text == 1) return;
  const uint64_t used = g_runtime.segment.array(ArrayId::kDigests).used.load(kRelaxed);
  if (used > kForOthers && IsLive(DigestAt(kForOthers).object.generation.load(kRelaxed))) return;
  bool is_free = true;
  for (uint32_t i = 1; i < used; ++i) {
    ShmDigest& digest = DigestAt(i);
    uint32_t seq = digest.sample_seq.load(kRelaxed);
    if ((seq & 1) != 0 || !digest.sample_seq.compare_exchange_strong(seq, seq + 1, kAcquire, kRelaxed)) {
      is_free = false;
      continue;
    }
    digest.sample_capacity.store(0, kRelease);
    digest.sample_seq.store(seq + 2, kRelease);  // pairs with KeepSample and ReadDigest
  }
  if (is_free) next_text = 1;
}

// Makes a digest in an unused element. Returns none if the segment has no memory for its texts. REQUIRES: cold lock.
Found Bear(uint32_t index, const Wanted& wanted) {
  ShmDigest& digest = DigestAt(index);
  const uint64_t before_tokens = TextCapacity(wanted.schema.size());
  uint32_t text = 0;
  if (!wanted.schema.empty() || !wanted.tokens.empty()) {
    text = TakeText(before_tokens + wanted.tokens.size());
    if (text == 0) return {};
    CopyToShared(TextAt(text), wanted.schema.data(), wanted.schema.size());
    CopyToShared(TextAt(text) + before_tokens, wanted.tokens.data(), wanted.tokens.size());
  }
  digest.key.store(wanted.key, kRelease);
  digest.text.store(text, kRelease);
  digest.schema_bytes.store(static_cast<uint32_t>(wanted.schema.size()), kRelease);
  digest.token_bytes.store(static_cast<uint32_t>(wanted.tokens.size()), kRelease);
  const uint32_t generation = digest.object.generation.load(kRelaxed) + 1;
  digest.object.generation.store(generation, kRelease);  // pairs with Search and Snapshot
  return {&digest, generation};
}

// Makes element `index` safe to store to.
bool Reserve(uint32_t index) {
  const uint64_t spare = index == kForOthers ? 0 : kPartsOfStatementCells;
  ShmArray& array = g_runtime.segment.array(ArrayId::kDigests);
  while (array.used.load(kRelaxed) <= index) {
    if (g_runtime.segment.AllocateFresh(ArrayId::kDigests, 1, spare) < 0) return false;
  }
  return true;
}

// Returns the digest that stands for all digests that do not fit. REQUIRES: cold lock.
Found TakeForOthers() {
  CountLoss(Loss::kDigests);
  if (!Reserve(kForOthers)) return {};
  const uint32_t generation = DigestAt(kForOthers).object.generation.load(kRelaxed);
  return IsLive(generation) ? Found{&DigestAt(kForOthers), generation} : Bear(kForOthers, {});
}

// REQUIRES: cold lock.
Found MakeDigest(const Wanted& wanted) {
  if (const Found found = Search(wanted); found.digest != nullptr) return found;
  if (next_digest > static_cast<uint64_t>(StartOptionsLocked().Get(OptionId::digests_size)) || !Reserve(next_digest))
    return TakeForOthers();
  FreeTextsOfTheDead();
  const Found made = Bear(next_digest, wanted);
  if (made.digest == nullptr) return TakeForOthers();
  const uint32_t index = next_digest++;
  HalfWord& head = digest_buckets[wanted.key & (digest_bucket_count - 1)];
  made.digest->next.store(head.load(kRelaxed), kRelaxed);
  head.store(index, kRelease);  // pairs with Search
  return made;
}

// The digest whose sample this thread replaces now.
thread_local constinit ShmDigest* t_sampled __attribute__((tls_model("initial-exec"))) = nullptr;

// Gives a sample a longer place. Returns the bytes that it has now, fewer if the segment is full, which counts as lost; 0 if the
// digest has died meanwhile. REQUIRES: the calling thread has claimed the sample.
[[gnu::noinline]] size_t LengthenSample(Found found, size_t bytes) {
  ShmDigest& digest = *found.digest;
  const size_t before = digest.sample_capacity.load(kRelaxed);
  // A sample that outgrows its place may do so again.
  const size_t capacity =
      RoundUp(before == 0 ? bytes : std::max(bytes, std::min<size_t>(before * 2, g_runtime.text_sizes.sql_limit)), sizeof(ShmDigestText));
  const int error = errno;
  size_t got = 0;
  if (const ColdLock lock; lock) {
    if (digest.object.generation.load(kRelaxed) == found.generation) {
      const uint32_t text = TakeText(capacity);
      if (text != 0) {
        digest.sample_text.store(text, kRelease);
        digest.sample_capacity.store(static_cast<uint32_t>(capacity), kRelease);
      } else {
        CountLoss(Loss::kNames);
      }
      got = digest.sample_capacity.load(kRelaxed);
    }
  } else {
    CountLoss(Loss::kNames);
    got = before;
  }
  errno = error;
  return got;
}

// Replaces the sample. If another thread is replacing it, that thread wins.
[[gnu::noinline]] void ReplaceSample(Found found, std::string_view sql, uint64_t wait_ps, uint64_t now_micros) {
  ShmDigest& digest = *found.digest;
  uint32_t seq = digest.sample_seq.load(kRelaxed);
  if ((seq & 1) != 0 || !digest.sample_seq.compare_exchange_strong(seq, seq + 1, kAcquire, kRelaxed)) return;
  t_sampled = &digest;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (__builtin_expect(digest.sample_capacity.load(kRelaxed) < sql.size(), 0)) sql = CutText(sql, LengthenSample(found, sql.size()));
  CopyToShared(TextAt(digest.sample_text.load(kRelaxed)), sql.data(), sql.size());
  digest.sample_bytes.store(static_cast<uint32_t>(sql.size()), kRelease);
  digest.sample_seen.store(now_micros, kRelease);
  digest.sample_wait.store(wait_ps, kRelease);
  digest.sample_generation.store(found.generation, kRelease);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_sampled = nullptr;
  digest.sample_seq.store(seq + 2, kRelease);  // pairs with ReadDigest
}

// Replaces the sample if this statement is slower, if the sample is too old, or if there is none (semantics.md I8).
inline void KeepSample(Found found, std::string_view sql, uint64_t wait_ps, uint64_t now_micros) {
  const ShmDigest& digest = *found.digest;
  const auto max_age =
      static_cast<uint64_t>(g_runtime.header->options[static_cast<uint32_t>(OptionId::max_digest_sample_age)]) * 1'000'000u;
  const bool is_first = digest.sample_generation.load(kRelaxed) != found.generation;
  const bool is_old = max_age != 0 && now_micros > digest.sample_seen.load(kRelaxed) + max_age;
  if (is_first || is_old || wait_ps > digest.sample_wait.load(kRelaxed)) [[unlikely]]
    ReplaceSample(found, sql, wait_ps, now_micros);
}

// Returns the digest of a statement, made if it is new. Remembers it in the text's entry, unless it stands for others.
[[gnu::noinline]] Found FindDigest(const DigestedText& text) {
  const std::string_view schema(text.schema, text.schema_bytes);
  const uint64_t hash = Hash(text.key).Add(schema).value();
  const Wanted wanted{hash ^ hash >> 32, schema, text.tokens};
  const Found found = Search(wanted);
  if (__builtin_expect(found.digest != nullptr, 1)) {
    if (text.entry != nullptr) {
      text.entry->digest = found.digest;
      text.entry->digest_life = LifeOf(found.generation);
    }
    return found;
  }
  const int error = errno;
  Found made;
  if (const ColdLock lock; lock) {
    made = MakeDigest(wanted);
  } else {
    CountLoss(Loss::kDigests);
  }
  errno = error;
  return made;
}

}  // namespace

bool StartDigests() {
  digest_bucket_count = 64;
  while (digest_bucket_count < static_cast<uint64_t>(StartOptionsLocked().Get(OptionId::digests_size)) * 2) digest_bucket_count *= 2;
  void* const memory = MapPrivate(BytesOfBuckets());
  if (memory == nullptr) return false;
  digest_buckets = static_cast<HalfWord*>(memory);
  return Normalizer::Make(StartOptionsLocked().Get(TextOptionId::digest_normalizer), &normalizer).ok();
}

size_t TokensForDigest(std::string_view text, Dialect dialect, std::span<uint8_t> out) {
  return normalizer.Tokens(text, dialect, out, &path_names);
}

bool TokensKeepLiterals() { return normalizer.keeps_literals(); }

void CountDigest(ThreadState& thread, const DigestedText& text, const StatementNumbers& numbers, uint64_t now_micros) {
  if (g_runtime.header->options[static_cast<uint32_t>(OptionId::digests_size)] == 0) return;
  Found found = Remembered(text);
  if (found.digest == nullptr) [[unlikely]] {
    found = FindDigest(text);
    if (found.digest == nullptr) return;
  }
  ShmDigest& digest = *found.digest;
  const uint32_t histogram_generation = g_runtime.header->digest_histogram_generation.load(kAcquire);  // pairs with EmptyDigestHistograms
  AddToObject(thread, digest.object, found.generation, NeedsRest(numbers), [&](ShmStatementCell& cell) {
    AddStatement(cell, numbers);
    if (cell.first_seen.load(kRelaxed) == 0) [[unlikely]]
      cell.first_seen.store(now_micros, kRelease);
    cell.last_seen.store(now_micros, kRelease);
  });
  // A TRUNCATE since the digest was found would have changed its generation before that of the histogram.
  if (numbers.time.timed && digest.object.generation.load(kRelaxed) == found.generation) [[likely]]
    CountInDigestHistogram(digest, histogram_generation, numbers.bucket);
  KeepSample(found, text.sql, numbers.time.wait_ps, now_micros);
}

void ForgetDigests() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kDigests).used.load(kRelaxed);
  for (uint32_t i = 0; i < digest_bucket_count; ++i) {
    if (digest_buckets[i].load(kRelaxed) != 0) digest_buckets[i].store(0, kRelease);
  }
  for (uint32_t i = 1; i < used; ++i) {
    ShmDigest& digest = DigestAt(i);
    if (IsLive(digest.object.generation.load(kRelaxed))) digest.object.generation.fetch_add(1, kRelease);  // pairs with Search and Snapshot
  }
  EmptyDigestHistograms();  // after that: see CountDigest
  next_digest = 2;
}

void ReindexDigests() {
  // All digests die at once, so live digests are at the front.
  const uint64_t used = g_runtime.segment.array(ArrayId::kDigests).used.load(kRelaxed);
  for (uint32_t i = 0; i < digest_bucket_count; ++i) digest_buckets[i].store(0, kRelaxed);
  next_digest = 2;
  for (uint32_t i = 2; i < used && IsLive(DigestAt(i).object.generation.load(kRelaxed)); ++i) {
    HalfWord& head = digest_buckets[DigestAt(i).key.load(kRelaxed) & (digest_bucket_count - 1)];
    DigestAt(i).next.store(head.load(kRelaxed), kRelaxed);
    head.store(i, kRelease);  // pairs with Search
    next_digest = i + 1;
  }
}

void EndLeftSample() {
  if (t_sampled == nullptr) return;
  t_sampled->sample_generation.store(0, kRelease);
  EndWriting(t_sampled->sample_seq);
  t_sampled = nullptr;
}

void ForgetDigestsInChild() {
  ++times_forgotten;
  // Most programs have few digests, or none: a store to each bucket would give the child each page of them.
  ClearPrivate(digest_buckets, BytesOfBuckets());
  next_digest = 2;
  next_text = 1;
  ForgetDigestHistogramsInChild();
}

}  // namespace perfschema
