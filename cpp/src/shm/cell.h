// shm/cell.h: statistics with one writer and any number of readers.
//
//   seq   odd while the writer is inside; a reader that saw it even and unchanged around its copy has a whole row
//   gen   generation of the reset domain (ShmHeader.resets) that the numbers belong to
//
// TRUNCATE never writes a cell. It bumps the domain's generation: readers take a cell of an older generation as zero,
// and the writer starts from zero at its next update. So only the owner ever stores to the owner's cache line, and no
// update is lost. All words are atomics, so that `seq` alone decides whether a copy is torn, never the compiler.
//
// Count and sum are one 16-byte store, always. A new minimum or maximum, a reset and a merge change the cell inside a section with `seq`
// odd. Readers copy and check `seq`; after many failures they skip the row and count it in Performance_schema_rows_skipped. If the writer
// is dead or stopped (shm/writer.h), the reader mends the copy (snapshot/mend.h), shows it and counts it in
// Performance_schema_rows_repaired. The minimum is stored inverted, so that zero bytes are the empty statistic.
//
// Intel and AMD guarantee an atomic 16-byte store only on processors with AVX. On others every event takes the
// section: the writer stores the inverted minimum without its top bit, and the comparison that finds new minima and
// maxima then finds every event. The same mark puts a cell whose sum is above 106 days on the slow path, where the
// sum saturates. The fast path has no instruction for either.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <emmintrin.h>

#include "base/processor.h"
#endif

namespace perfschema {

// Marks variables that nothing outside of the library uses: code reaches them without a table of addresses. Under a sanitizer the C++ tests
// share a library that hides nothing (tests/cpp).
#if defined(PFS_SANITIZED)
#define PFS_HIDDEN
#else
#define PFS_HIDDEN __attribute__((visibility("hidden")))
#endif

// Marks functions of the hot path. A struct on the stack stays in registers only if all functions that use it are
// inlined into one. Under a sanitizer that costs half a minute of compiling and proves nothing more. A lambda that is
// compiled twice into one function (read() of a file, and of a socket) is a function, too: it has a mark of its own.
#if defined(PFS_SANITIZED)
#define PFS_ALWAYS_INLINE inline
#define PFS_INLINE_LAMBDA
#else
#define PFS_ALWAYS_INLINE [[gnu::always_inline]] inline
#define PFS_INLINE_LAMBDA __attribute__((always_inline))
#endif

using Word = std::atomic<uint64_t>;
using HalfWord = std::atomic<uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8 && sizeof(HalfWord) == 4);

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

// Loads a word that only the calling thread stores to. The load is plain, so the compiler may fold it into the
// instruction that uses the value. It never does so with atomic loads.
template <typename T>
PFS_ALWAYS_INLINE T LoadOwn(const std::atomic<T>& word) {
  using Plain [[gnu::may_alias]] = T;
  return *reinterpret_cast<const Plain*>(&word);
}

// Holds count, sum, minimum and maximum of a duration. The minimum is stored inverted, so that zero bytes are the
// empty statistic. The maximum is stored as its distance from the minimum. One comparison then recognizes a duration
// between the two, as nearly all are.
//
// An inverted minimum without its top bit (kTopBit) makes that comparison find every duration, so each event takes
// the slow path. Statistics with a large sum are stored so, in order to saturate. On a processor that cannot store
// two words at once, all of them are. No duration is 2^63 ps, 106 days, so readers put the bit back (InvertedMin).
// Threads: owner thread writes, any reads (see AddTimed and ReadCell).
struct alignas(16) ShmStat {
  Word count;
  Word sum_ps;
  Word inverted_min_ps;
  Word range_ps;
};
static_assert(sizeof(ShmStat) == 32);

// Heads a list of cells of one lane: of a live object. The owner of the first cell is in the same word, so a thread sees whether that cell
// is its own without loading the cell's line, to which the owner stores at each event. The word changes only when a cell is born, is
// adopted or leaves the list, so all cores keep copies of its line. See record/probe/cells.h.
struct ShmCellList {
  Word first;  // index of the first cell | its owner << 32; 0 = no cell
};
constexpr uint64_t FirstCell(uint32_t cell, uint32_t owner) { return uint64_t{owner} << 32 | cell; }
constexpr uint32_t CellOfFirst(uint64_t first) { return static_cast<uint32_t>(first); }
constexpr uint32_t OwnerOfFirst(uint64_t first) { return static_cast<uint32_t>(first >> 32); }

// The same of a class, or of a dead object: nobody looks for the cell at its head.
struct ShmCellChain {
  HalfWord head;
};

inline uint32_t HeadOf(const ShmCellList& list, std::memory_order order = kRelaxed) { return CellOfFirst(list.first.load(order)); }
inline uint32_t HeadOf(const ShmCellChain& chain, std::memory_order order = kRelaxed) { return chain.head.load(order); }

inline constexpr uint64_t kTopBit = uint64_t{1} << 63;
constexpr uint64_t InvertedMin(uint64_t stored) { return stored == 0 ? 0 : stored | kTopBit; }

// Sums of times stop at the largest number, 213 days. Without that, 2^64 picoseconds would be 0 again: many waiting
// threads get there in hours.
inline constexpr uint64_t kMostPicos = ~uint64_t{0};
constexpr uint64_t AddTimes(uint64_t one, uint64_t other) {
  const uint64_t sum = one + other;
  return sum < one ? kMostPicos : sum;
}
// A statistic with this sum or more takes the slow path, which saturates. Each new minimum or maximum checks the sum.
// Where waits of many threads add up (locks), each long wait off the fast path checks it, too. Only shorter waits could pass the limit
// unseen, after 106 days of waiting.
inline constexpr uint64_t kLargeSum = kTopBit;
inline constexpr uint64_t kLongWait = uint64_t{1} << 20;  // 1 us: a lock that is free takes some nanoseconds

// A local copy of a ShmStat. An empty statistic, or one that was never timed, shows zeros (semantics.md C12).
struct Stat {
  uint64_t count = 0;
  uint64_t sum_ps = 0;
  uint64_t inverted_min_ps = 0;
  uint64_t max_ps = 0;
  uint64_t unsampled = 0;  // of the count: events that TIMED = 'SAMPLED' did not time

  PFS_ALWAYS_INLINE uint64_t min_ps() const { return inverted_min_ps == 0 ? 0 : ~inverted_min_ps; }
  bool is_empty() const { return count == 0 && inverted_min_ps == 0; }  // a wait for no row at all has a time, but no count
  PFS_ALWAYS_INLINE uint64_t avg_ps() const { return count <= unsampled ? 0 : sum_ps / (count - unsampled); }
  PFS_ALWAYS_INLINE void Merge(const Stat& other) {
    count += other.count;
    sum_ps = AddTimes(sum_ps, other.sum_ps);
    if (other.inverted_min_ps > inverted_min_ps) inverted_min_ps = other.inverted_min_ps;
    if (other.max_ps > max_ps) max_ps = other.max_ps;
    unsampled += other.unsampled;
  }
};

// Returns whether this processor can load and store 16 aligned bytes at once. Intel and AMD guarantee it where there
// is AVX. Elsewhere, and where a sanitizer must see all accesses, a section surrounds all words that belong together.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define PFS_WIDE_STAT 1
enum class Pairs : uint8_t { kNotAsked, kStored, kAvoided };
inline constinit std::atomic<Pairs> g_pairs{Pairs::kNotAsked};  // tests set it to act as if there were no AVX
[[gnu::noinline, gnu::cold]] inline bool AskForPairs() {
  const bool has_avx = HasAvx();
  g_pairs.store(has_avx ? Pairs::kStored : Pairs::kAvoided, kRelaxed);
  return has_avx;
}
inline bool StoresPairs() {
  const Pairs known = g_pairs.load(kRelaxed);
  return __builtin_expect(known != Pairs::kNotAsked, 1) ? known == Pairs::kStored : AskForPairs();
}
#else
inline bool StoresPairs() { return true; }  // no pair is ever stored here, so none must be avoided
#endif

// Returns the form in which an inverted minimum is stored beside `sum_ps`.
inline uint64_t StoredMin(uint64_t inverted_min, uint64_t sum_ps) {
  return sum_ps < kLargeSum && StoresPairs() ? inverted_min : inverted_min & ~kTopBit;
}

// Counts one event. There is one writer: load and store, never a locked instruction. Release: pairs with the reader's
// acquire loads in ReadCell.
PFS_ALWAYS_INLINE void AddCount(ShmStat& stat) { stat.count.store(stat.count.load(kRelaxed) + 1, kRelease); }
// Returns whether the duration is outside minimum..maximum: wait - min > range, where -min is inverted_min + 1. True
// for every first duration.
PFS_ALWAYS_INLINE bool WidensRange(const ShmStat& stat, uint64_t wait_ps) {
  return wait_ps + LoadOwn(stat.inverted_min_ps) + 1 > LoadOwn(stat.range_ps);
}
PFS_ALWAYS_INLINE bool WidensEither(const ShmStat& stat, const ShmStat& other, uint64_t wait_ps) {
  return WidensRange(stat, wait_ps) || WidensRange(other, wait_ps);
}
inline bool IsEmpty(const ShmStat& stat) { return (stat.count.load(kRelaxed) | stat.inverted_min_ps.load(kRelaxed)) == 0; }
inline void ClearStat(ShmStat& stat) {
  stat.count.store(0, kRelease);
  stat.sum_ps.store(0, kRelease);
  stat.inverted_min_ps.store(0, kRelease);
  stat.range_ps.store(0, kRelease);
}

// Stores count and sum, the two words that every event changes, at once. A reader never sees the count of one event
// with the sum of another, and the common event needs no seq section. REQUIRES: StoresPairs(). A statistic that must
// not be stored at once sends each event to the slow path; for memory, the empty slack band does that
// (record/family/memory.cpp). So no caller has to ask here.
#if defined(PFS_WIDE_STAT)
PFS_ALWAYS_INLINE void StorePair(Word* pair, uint64_t first, uint64_t second) {
  const __m128i both = _mm_set_epi64x(static_cast<long long>(second), static_cast<long long>(first));
  asm volatile("movdqa %1, %0" : "=m"(*reinterpret_cast<__m128i*>(pair)) : "x"(both) : "memory");
}
// Returns the pair that one event adds. AddToPair() is only reached on processors with AVX.
PFS_ALWAYS_INLINE __m128i OneEvent(uint64_t wait_ps) {
  __m128i event;
  asm("vpinsrq $1, %1, %2, %0" : "=x"(event) : "r"(wait_ps), "x"(_mm_set_epi64x(0, 1)));
  return event;
}
PFS_ALWAYS_INLINE void AddToPair(ShmStat& stat, __m128i event) {
  auto* pair = reinterpret_cast<__m128i*>(&stat.count);
  __m128i now;
  asm("vpaddq %1, %2, %0" : "=x"(now) : "m"(*pair), "x"(event));
  asm volatile("vmovdqa %1, %0" : "=m"(*pair) : "x"(now) : "memory");
}
#endif

// Stores count and sum inside a seq section. They are one store there, too, so that a process that dies in the section leaves both of the
// same event. Where processors cannot do that at once, readers rely on `seq` and on nothing else.
PFS_ALWAYS_INLINE void StoreCountAndSum(ShmStat& stat, uint64_t count, uint64_t sum_ps) {
#if defined(PFS_WIDE_STAT)
  StorePair(&stat.count, count, sum_ps);
#else
  stat.count.store(count, kRelease);
  stat.sum_ps.store(sum_ps, kRelease);
#endif
}

// Stores minimum and maximum for a duration for which WidensRange() is true, and returns the sum with it. REQUIRES: a CellWriter.
[[gnu::noinline]] inline uint64_t Widen(ShmStat& stat, uint64_t wait_ps) {
  constexpr uint64_t kLongestMin = kTopBit - 2;  // StoredMin() does not turn it into 0
  const uint64_t inverted_min = InvertedMin(stat.inverted_min_ps.load(kRelaxed));
  const uint64_t min = inverted_min == 0 ? wait_ps : ~inverted_min;
  const uint64_t max = inverted_min == 0 ? wait_ps : min + stat.range_ps.load(kRelaxed);
  const uint64_t least = wait_ps < min ? wait_ps : min, new_min = least < kLongestMin ? least : kLongestMin;
  const uint64_t sum = AddTimes(stat.sum_ps.load(kRelaxed), wait_ps);
  stat.inverted_min_ps.store(StoredMin(~new_min, sum), kRelease);
  stat.range_ps.store((wait_ps > max ? wait_ps : max) - new_min, kRelease);
  return sum;
}

// Adds `count` events inside a seq section. `timed` distinguishes a measured duration of 0 from "not timed".
PFS_ALWAYS_INLINE void AddToStat(ShmStat& stat, bool timed, uint64_t wait_ps, uint64_t count = 1) {
  const uint64_t all = stat.count.load(kRelaxed) + count;
  if (!timed) return stat.count.store(all, kRelease);
  const bool widens = __builtin_expect(WidensRange(stat, wait_ps), 0);
  StoreCountAndSum(stat, all, widens ? Widen(stat, wait_ps) : stat.sum_ps.load(kRelaxed) + wait_ps);
}

struct CountAndSum {
  uint64_t count, sum_ps;
};
inline CountAndSum LoadPair(const Word* pair) {
#if defined(PFS_WIDE_STAT)
  __m128i now;
  asm volatile("movdqa %1, %0" : "=x"(now) : "m"(*reinterpret_cast<const __m128i*>(pair)) : "memory");
  return {static_cast<uint64_t>(_mm_cvtsi128_si64(now)), static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(now, now)))};
#else
  return {pair[0].load(kAcquire), pair[1].load(kAcquire)};
#endif
}

// REQUIRES: inside ReadCell's copy, or no thread writes.
inline Stat LoadStat(const ShmStat& stat) {
  // Loads the range first: a duration that is added between the two loads lies inside it, or seq reveals the change.
  const uint64_t inverted_min = InvertedMin(stat.inverted_min_ps.load(kAcquire));
  const uint64_t range = stat.range_ps.load(kAcquire);
  const CountAndSum pair = LoadPair(&stat.count);
  return {pair.count, pair.sum_ps, inverted_min, inverted_min == 0 ? 0 : ~inverted_min + range};
}

// REQUIRES: a CellWriter, as for the functions below.
inline void StoreStat(ShmStat& stat, const Stat& numbers) {
  stat.inverted_min_ps.store(StoredMin(numbers.inverted_min_ps, numbers.sum_ps), kRelease);
  stat.range_ps.store(numbers.max_ps - numbers.min_ps(), kRelease);
  StoreCountAndSum(stat, numbers.count, numbers.sum_ps);
}
inline void MergeIntoStat(ShmStat& stat, const Stat& more) {
  Stat sum = LoadStat(stat);
  sum.Merge(more);
  StoreStat(stat, sum);
}

// Moves text that may change under its readers in whole words, so that a race yields a stale text, never undefined
// behavior. The caller decides with a sequence or version whether its copy is whole. REQUIRES: `shared` 8-byte
// aligned, its capacity a multiple of 8.
//
// An x86 processor keeps the order of loads and of stores, of any width, so a fence against the compiler is enough there (PFS_WIDE_STAT).

// Returns the last bytes of a text, fewer than eight, as a word with zeros behind them. `all`: bytes of the whole text, which ends at
// `end`.
PFS_ALWAYS_INLINE uint64_t LastWord(const char* end, size_t all) {
  uint64_t word = 0;
  if (__builtin_expect(all >= 8, 1)) {
    std::memcpy(&word, end - 8, 8);
    return word >> (8 * (8 - all % 8));
  }
  for (size_t i = 0; i < all; ++i) word |= uint64_t{static_cast<uint8_t>(end[-1 - static_cast<ptrdiff_t>(i)])} << (8 * (all - 1 - i));
  return word;
}
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// Calls no memcpy(): ThreadSanitizer of a program would see it, but not the atomic words by which this library hands the text over.
inline void CopyToShared(void* shared, const void* from, size_t bytes) {
  auto* words = static_cast<uint64_t*>(shared);
  const auto* source = static_cast<const char*>(from);
  const size_t whole = bytes / 8 * 8;
#if defined(PFS_WIDE_STAT)
  using Wide [[gnu::vector_size(16), gnu::aligned(8), gnu::may_alias]] = uint64_t;
  const auto copy = [words, source](size_t at) {
    Wide wide;
    std::memcpy(&wide, source + at, sizeof wide);
    *reinterpret_cast<volatile Wide*>(words + at / 8) = wide;
  };
  if (whole >= 64) {  // the last bytes may be copied twice
    for (size_t at = 0; at + 64 < whole; at += 64) copy(at), copy(at + 16), copy(at + 32), copy(at + 48);
    copy(whole - 64), copy(whole - 48), copy(whole - 32), copy(whole - 16);
  } else if (whole >= 16) {
    if (whole >= 32) copy(16), copy(whole - 32);
    copy(0), copy(whole - 16);
  }
  size_t at = whole >= 16 ? whole : 0;
#else
  size_t at = 0;
#endif
  for (; at < whole; at += 8) {
    uint64_t word;
    std::memcpy(&word, source + at, 8);
    __atomic_store_n(words + at / 8, word, __ATOMIC_RELEASE);
  }
  if (bytes != whole) __atomic_store_n(words + whole / 8, LastWord(source + bytes, bytes), __ATOMIC_RELEASE);
}
// Stores zero to a number of words that is known when this is compiled.
template <size_t kWords>
PFS_ALWAYS_INLINE void ClearShared(Word* words) {
#if defined(PFS_WIDE_STAT)
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memset(static_cast<void*>(words), 0, kWords * 8);
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  for (size_t i = 0; i < kWords; ++i) words[i].store(0, kRelease);
#endif
}
inline void CopyFromShared(void* to, const void* shared, size_t bytes) {
  const auto* words = static_cast<const uint64_t*>(shared);
  auto* target = static_cast<char*>(to);
  uint64_t word;
  for (const char* const end = target + bytes / 8 * 8; target != end; target += 8) {
    word = __atomic_load_n(words++, __ATOMIC_ACQUIRE);
    std::memcpy(target, &word, 8);
  }
  if (bytes % 8 == 0) return;
  word = __atomic_load_n(words, __ATOMIC_ACQUIRE);
  std::memcpy(target, &word, bytes % 8);
}

// Returns whether the bytes in shared memory equal `bytes_of`. Padding beyond them is zero.
inline bool EqualsShared(const void* shared, const void* bytes_of, size_t bytes) {
  const auto* words = static_cast<const uint64_t*>(shared);
  const auto* wanted = static_cast<const char*>(bytes_of);
  const size_t whole = bytes / 8 * 8;
#if defined(PFS_WIDE_STAT)
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const bool differs = whole != 0 && std::memcmp(words, wanted, whole) != 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (differs) return false;
#else
  for (size_t at = 0; at < whole; at += 8) {
    uint64_t word;
    std::memcpy(&word, wanted + at, 8);
    if (__atomic_load_n(words + at / 8, __ATOMIC_ACQUIRE) != word) return false;
  }
#endif
  return bytes == whole || __atomic_load_n(words + whole / 8, __ATOMIC_ACQUIRE) == LastWord(wanted + bytes, bytes);
}

// The section in which a cell's only writer changes the cell.
// Threads: owner thread writes.
class CellWriter {
 public:
  // An odd seq means that a longjmp out of a signal handler has left the section; this writer ends it.
  PFS_ALWAYS_INLINE explicit CellWriter(HalfWord& seq) : seq_(seq), inside_(seq.load(kRelaxed) | 1) {
    seq_.store(inside_, kRelaxed);  // ordered before the payload by its release stores
  }
  PFS_ALWAYS_INLINE ~CellWriter() { seq_.store(inside_ + 1, kRelease); }  // pairs with ReadCell's first load
  CellWriter(const CellWriter&) = delete;
  CellWriter& operator=(const CellWriter&) = delete;

 private:
  HalfWord& seq_;
  uint32_t inside_;
};

// Ends the section of a writer that died in it.
inline void EndWriting(HalfWord& seq) {
  if ((seq.load(kRelaxed) & 1) != 0) seq.fetch_add(1, kRelease);  // pairs with ReadCell
}

// Changes two words that readers must see change together (LoadPair). REQUIRES: 16-byte aligned.
PFS_ALWAYS_INLINE void ChangePair([[maybe_unused]] HalfWord& seq, Word* pair, uint64_t first, uint64_t second) {
#if defined(PFS_WIDE_STAT)
  StorePair(pair, first, second);
#else
  const CellWriter writer(seq);
  pair[0].store(first, kRelease);
  pair[1].store(second, kRelease);
#endif
}

// AddTimed adds one event to a cell with one stat, of the current generation, without a section around it.
#if defined(PFS_WIDE_STAT)
// Adds the rare event that is a new minimum or maximum, or that may not be stored at once. Readers see it in count,
// sum and range together.
[[gnu::noinline]] inline void AddUnusual(HalfWord& seq, ShmStat& stat, uint64_t wait_ps) {
  const CellWriter writer(seq);
  AddToStat(stat, true, wait_ps);
}
PFS_ALWAYS_INLINE void AddTimed(HalfWord& seq, ShmStat& stat, uint64_t wait_ps) {
  if (__builtin_expect(WidensRange(stat, wait_ps), 0)) return AddUnusual(seq, stat, wait_ps);
  AddToPair(stat, OneEvent(wait_ps));
}
// AddCommon adds a duration that is neither. REQUIRES: !WidensRange(); AddCommonInside: a CellWriter.
PFS_ALWAYS_INLINE void AddCommon(HalfWord&, ShmStat& stat, uint64_t wait_ps) { AddToPair(stat, OneEvent(wait_ps)); }
PFS_ALWAYS_INLINE void AddCommonInside(ShmStat& stat, uint64_t wait_ps) { AddToPair(stat, OneEvent(wait_ps)); }
// Counts in one instruction: a signal handler of this thread runs before it or after it.
inline constexpr bool kCountsAtOnce = true;
PFS_ALWAYS_INLINE void AddCounted(HalfWord&, ShmStat& stat) { asm volatile("incq %0" : "+m"(stat.count) : : "memory", "cc"); }
PFS_ALWAYS_INLINE void CountUp(HalfWord& word) { asm volatile("incl %0" : "+m"(word) : : "memory", "cc"); }
PFS_ALWAYS_INLINE void CountDown(HalfWord& word) { asm volatile("decl %0" : "+m"(word) : : "memory", "cc"); }
#else
PFS_ALWAYS_INLINE void AddTimed(HalfWord& seq, ShmStat& stat, uint64_t wait_ps) {
  const CellWriter writer(seq);
  AddToStat(stat, true, wait_ps);
}
PFS_ALWAYS_INLINE void AddCommon(HalfWord& seq, ShmStat& stat, uint64_t wait_ps) { AddTimed(seq, stat, wait_ps); }
PFS_ALWAYS_INLINE void AddCommonInside(ShmStat& stat, uint64_t wait_ps) { AddToStat(stat, true, wait_ps); }
inline constexpr bool kCountsAtOnce = false;
PFS_ALWAYS_INLINE void CountUp(HalfWord& word) { word.store(word.load(kRelaxed) + 1, kRelaxed); }
PFS_ALWAYS_INLINE void CountDown(HalfWord& word) { word.store(word.load(kRelaxed) - 1, kRelaxed); }
PFS_ALWAYS_INLINE void AddCounted(HalfWord& seq, ShmStat& stat) {
  const CellWriter writer(seq);
  AddCount(stat);
}
#endif

// Makes a sum saturate from now on if it is large. Callers run it before they add a long wait to the sum of many
// threads, or of a thread's lifetime.
[[gnu::noinline]] inline void WatchSum(HalfWord& seq, ShmStat& stat) {
  const uint64_t stored = stat.inverted_min_ps.load(kRelaxed);
  if (stat.sum_ps.load(kRelaxed) < kLargeSum || (stored & kTopBit) == 0) return;
  const CellWriter writer(seq);
  stat.inverted_min_ps.store(stored & ~kTopBit, kRelease);
}

// Returns whether the minimum is 0. One more event that took no time then only has to be counted.
PFS_ALWAYS_INLINE bool HasWaitOfZero(const ShmStat& stat) { return LoadOwn(stat.inverted_min_ps) == ~uint64_t{0}; }

// Adds one event to a cell of the current generation.
PFS_ALWAYS_INLINE void AddOne(HalfWord& seq, ShmStat& stat, bool timed, uint64_t wait_ps) {
  if (timed) {
    AddTimed(seq, stat, wait_ps);
  } else {
    AddCounted(seq, stat);
  }
}

// Adds `count` events that were one wait, such as rows of a table.
PFS_ALWAYS_INLINE void AddEvents(HalfWord& seq, ShmStat& stat, bool timed, uint64_t wait_ps, uint64_t count) {
  if (__builtin_expect(count == 1, 1)) return AddOne(seq, stat, timed, wait_ps);
  const CellWriter writer(seq);
  AddToStat(stat, timed, wait_ps, count);
}

// Clears numbers of another generation, and dates them `gen` then: if the process dies in between, none counts. REQUIRES: a CellWriter.
template <typename Clear>
PFS_ALWAYS_INLINE void StartGeneration(HalfWord& gen_word, uint32_t gen, Clear clear) {
  if (__builtin_expect(gen_word.load(kRelaxed) == gen, 1)) return;
  clear();
  gen_word.store(gen, kRelease);
}

// Copies a payload that may change meanwhile: calls copy() until seq was even and the same before and after. A copy()
// that recognizes by itself that it is not whole returns false. Returns false after many tries: the row must be
// skipped and counted, never shown. Inlined, so that the copy stays in registers.
template <typename Copy>
PFS_ALWAYS_INLINE bool ReadWhole(const HalfWord& seq, Copy copy) {
  for (int attempt = 0; attempt < 10'000; ++attempt) {
    const uint32_t before = seq.load(kAcquire);  // pairs with ~CellWriter
#if defined(PFS_BREAK_SEQLOCK)                   // negative control of the torn-read test: the check removed
    copy();
    (void)before;
    return true;
#else
    if ((before & 1) != 0) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      continue;
    }
    // Payload loads are acquire, so seq below is read after them.
    if constexpr (std::is_void_v<decltype(copy())>) {
      copy();
    } else if (!copy()) {
      continue;
    }
    if (seq.load(kRelaxed) == before) return true;
#endif
  }
  return false;
}

}  // namespace perfschema
