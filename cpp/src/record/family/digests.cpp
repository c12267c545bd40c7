#include "record/family/digests.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/digest.h"
#include "base/hash.h"
#include "base/text_rules.h"

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

uint64_t Stride() { return g_runtime.segment.array(ArrayId::kDigests).stride; }
ShmDigest& DigestAt(uint32_t index) {
  return *reinterpret_cast<ShmDigest*>(g_runtime.segment.element<char>(ArrayId::kDigests, 0) + index * Stride());
}
char* TokensOf(ShmDigest& digest) { return reinterpret_cast<char*>(&digest + 1); }
char* SampleOf(ShmDigest& digest) {
  return TokensOf(digest) + TextCapacity(static_cast<uint64_t>(StartOptionsLocked().Get(OptionId::max_digest_length)));
}

// Made at start, constant afterwards. Never destroyed: threads may outlive main().
const Normalizer* normalizer = nullptr;

struct Wanted {
  uint64_t key;
  char schema[64];
  std::span<const uint8_t> tokens;
};

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
  if (LifeOf(generation) != text.entry->digest_life) return {};
  const bool is_of_schema =
      text.schema_bytes == 0 ? digest->schema[0].load(kRelaxed) == 0 : EqualsShared(digest->schema, text.schema, sizeof digest->schema);
  return is_of_schema ? Found{digest, generation} : Found{};
}

Found Search(const Wanted& wanted) {
  uint32_t at = digest_buckets[wanted.key & (digest_bucket_count - 1)].load(kAcquire);  // pairs with MakeDigest
  for (uint32_t steps = digest_bucket_count; at != 0 && steps > 0; --steps) {
    ShmDigest& digest = DigestAt(at);
    const uint32_t generation = digest.object.generation.load(kAcquire);
    if (IsLive(generation) && digest.key.load(kRelaxed) == wanted.key && digest.token_bytes.load(kRelaxed) == wanted.tokens.size() &&
        EqualsShared(TokensOf(digest), wanted.tokens.data(), wanted.tokens.size()) &&
        EqualsShared(digest.schema, wanted.schema, sizeof wanted.schema) &&
        digest.object.generation.load(kRelaxed) ==
            generation) {  // the compared words belong to this generation: all loads above are acquire
      return {&digest, generation};
    }
    at = digest.next.load(kAcquire);
  }
  return {};
}

// Makes a digest in an unused element. REQUIRES: cold lock.
Found Bear(uint32_t index, const Wanted& wanted) {
  ShmDigest& digest = DigestAt(index);
  digest.key.store(wanted.key, kRelease);
  digest.token_bytes.store(static_cast<uint32_t>(wanted.tokens.size()), kRelease);
  CopyToShared(TokensOf(digest), wanted.tokens.data(), wanted.tokens.size());
  CopyToShared(digest.schema, wanted.schema, sizeof wanted.schema);
  digest.histogram.generation.fetch_add(1, kRelaxed);
  const uint32_t generation = digest.object.generation.load(kRelaxed) + 1;
  digest.object.generation.store(generation, kRelease);  // pairs with Search and Snapshot
  return {&digest, generation};
}

// Makes element `index` safe to store to.
bool Reserve(uint32_t index) {
  ShmArray& array = g_runtime.segment.array(ArrayId::kDigests);
  while (array.used.load(kRelaxed) <= index) {
    if (g_runtime.segment.AllocateFresh(ArrayId::kDigests) < 0) return false;
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
  const uint32_t index = next_digest++;
  const Found made = Bear(index, wanted);
  HalfWord& head = digest_buckets[wanted.key & (digest_bucket_count - 1)];
  made.digest->next.store(head.load(kRelaxed), kRelaxed);
  head.store(index, kRelease);  // pairs with Search
  return made;
}

// The digest whose sample this thread replaces now.
thread_local constinit ShmDigest* t_sampled __attribute__((tls_model("initial-exec"))) = nullptr;

// Replaces the sample if this statement is slower, if the sample is too old, or if there is none (semantics.md I8). If
// another thread is replacing it, that thread wins.
void KeepSample(const Found& found, std::string_view sql, uint64_t wait_ps, uint64_t now_micros) {
  ShmDigest& digest = *found.digest;
  const auto max_age =
      static_cast<uint64_t>(g_runtime.header->options[static_cast<uint32_t>(OptionId::max_digest_sample_age)]) * 1'000'000u;
  const bool is_first = digest.sample_generation.load(kRelaxed) != found.generation;
  const bool is_old = max_age != 0 && now_micros > digest.sample_seen.load(kRelaxed) + max_age;
  if (!is_first && !is_old && wait_ps <= digest.sample_wait.load(kRelaxed)) return;
  uint32_t seq = digest.sample_seq.load(kRelaxed);
  if ((seq & 1) != 0 || !digest.sample_seq.compare_exchange_strong(seq, seq + 1, kAcquire, kRelaxed)) return;
  t_sampled = &digest;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  CopyToShared(SampleOf(digest), sql.data(), sql.size());
  digest.sample_bytes.store(static_cast<uint32_t>(sql.size()), kRelease);
  digest.sample_seen.store(now_micros, kRelease);
  digest.sample_wait.store(wait_ps, kRelease);
  digest.sample_generation.store(found.generation, kRelease);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_sampled = nullptr;
  digest.sample_seq.store(seq + 2, kRelease);  // pairs with Snapshot::ReadDigest
}

// Returns the digest of a statement, made if it is new. Remembers it in the text's entry, unless it stands for others.
Found FindDigest(const DigestedText& text) {
  const std::string_view schema(text.schema, text.schema_bytes);
  Wanted wanted{0, {}, text.tokens};
  schema.copy(wanted.schema, sizeof wanted.schema);
  const uint64_t hash = Hash(text.key).Add(schema).value();
  wanted.key = hash ^ hash >> 32;
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
  void* memory = mmap(nullptr, BytesOfBuckets(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  digest_buckets = static_cast<HalfWord*>(memory);
  const Options& options = StartOptionsLocked();
  auto* const made = new Normalizer;
  normalizer = made;
  return Normalizer::Make(options.Get(TextOptionId::digest_normalizer), options.Get(TextOptionId::digest_rules), made).ok();
}

size_t TokensForDigest(std::string_view text, Dialect dialect, std::span<uint8_t> out) { return normalizer->Tokens(text, dialect, out); }

bool TokensKeepLiterals() { return normalizer->keeps_literals(); }

void CountDigest(ThreadState& thread, const DigestedText& text, const StatementNumbers& numbers, uint64_t now_micros) {
  if (g_runtime.header->options[static_cast<uint32_t>(OptionId::digests_size)] == 0) return;
  Found found = Remembered(text);
  if (found.digest == nullptr) found = FindDigest(text);
  if (__builtin_expect(found.digest == nullptr, 0)) return;
  ShmDigest& digest = *found.digest;
  const uint32_t histogram_generation = digest.histogram.generation.load(kAcquire);
  AddToObject(thread, digest.object, found.generation, [&](ShmCell& cell) {
    AddStatement(cell, numbers);
    Word* const words = CellWords(cell);
    if (words[kFirstSeenWord].load(kRelaxed) == 0) words[kFirstSeenWord].store(now_micros, kRelease);
    words[kLastSeenWord].store(now_micros, kRelease);
  });
  // A TRUNCATE since the digest was found would have changed its generation before that of the histogram.
  if (numbers.time.timed && digest.object.generation.load(kRelaxed) == found.generation)
    AddToHistogram(digest.histogram.buckets, histogram_generation, numbers.bucket);
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
    digest.histogram.generation.fetch_add(1, kRelease);
  }
  next_digest = 2;
}

void EmptyDigestHistograms() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kDigests).used.load(kRelaxed);
  for (uint32_t i = 1; i < used; ++i) DigestAt(i).histogram.generation.fetch_add(1, kRelease);
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
  if (madvise(digest_buckets, BytesOfBuckets(), MADV_DONTNEED) != 0) {
    for (uint32_t i = 0; i < digest_bucket_count; ++i) digest_buckets[i].store(0, kRelaxed);
  }
  next_digest = 2;
}

}  // namespace perfschema
