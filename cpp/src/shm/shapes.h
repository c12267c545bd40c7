// shm/shapes.h: statistics of any kind in rows of 64-byte columns: a ShmCell and, for wide kinds, the lines behind it.
//
// The numbers of a member (thread, account, user, host, all) are a row. An instrument's column is its index in
// kClasses; an instrument of a wide kind takes as many indices as it needs columns. Code that moves, adds up or reads
// numbers needs only the shape.
//
// Moving, merging, reading and TRUNCATE are implemented once, over shapes. A new kind is a line of kShapes, a probe and its columns.
#pragma once

#include <array>
#include <cstdint>

#include "base/families.h"
#include "base/statement_counters.h"
#include "shm/layout.h"

namespace perfschema {

// Holds a plain copy of a cell's words behind its 16-byte head. All zero is the empty statistic.
inline constexpr uint32_t kMostWords = 38;
using Numbers = std::array<uint64_t, kMostWords>;
constexpr uint32_t WordsOf(uint32_t columns) { return columns * 8 - 2; }

// Says how a word of two statistics becomes one. kStat: this word and the next three are a ShmStat. kTime: a sum of
// picoseconds, which stops at the largest number; kSum: a sum of anything else, modulo 2^64.
enum class Rule : uint8_t { kUnused = 0, kStat, kInStat, kSum, kTime, kMax, kFirst };

struct Shape {
  uint32_t columns;
  std::array<Rule, kMostWords> rules;
  // Words 0 and 1, and words 2 and 3, are pairs that change without a section around them. The first pair never
  // returns to an earlier value.
  bool has_pairs = false;
};

// Word of waits: events that TIMED = 'SAMPLED' did not time (ShmCell::amount).
inline constexpr uint32_t kUnsampledWord = 4;
// Words of a statement: its time, two maxima, then the counters in their order.
inline constexpr uint32_t kControlledMemoryWord = 4, kTotalMemoryWord = 5, kCounterWords = 6,
                          kSecondaryWord = kCounterWords + kStatementCounters;
// Words of a digest, program or prepared statement: the same, then the times when it was first and last seen
// (microseconds since 1970), and the time of the statements inside a program.
inline constexpr uint32_t kFirstSeenWord = kSecondaryWord + 1, kInnerWord = 28, kLastSeenWord = 32;
// Words of transactions: first those that may write, then read-only ones.
inline constexpr uint32_t kReadWriteWord = 0, kReadOnlyWord = 6;
// Words of an error: how often it was raised and handled, and when (seconds of the wall clock).
inline constexpr uint32_t kRaisedWord = 0, kHandledWord = 1, kFirstErrorWord = 2, kLastErrorWord = 3;
// Words of memory are in pairs: blocks, then bytes. See record/family/memory.h.
inline constexpr uint32_t kAllocWord = 0, kFreeWord = 2, kHighWord = 4, kLowWord = 6;  // these add up over rows
// Row-local words are neither summed nor moved. A thread row holds the range of use that changes neither a watermark
// nor the band. It also holds the pace (how many more bands the thread may publish to the levels above) and the band
// that it published last.
inline constexpr uint32_t kSlackTopWord = 8, kSlackBottomWord = 10, kPaceWord = 12, kBandTopWord = 16, kBandBottomWord = 18;
// Accounts, users, hosts and the total hold the watermarks from before the last TRUNCATE, and the watermarks of the
// bands below.
inline constexpr uint32_t kKeptHighWord = 8, kKeptLowWord = 10, kMaxTopWord = 12, kMinBottomWord = 20, kTopsWord = 16, kBottomsWord = 18;
inline constexpr uint32_t kCancelledWord = 14;  // of the total: amount that TRUNCATEs have subtracted from both allocations and releases

namespace shapes {
constexpr void PutStat(Shape* shape, uint32_t at) {
  shape->rules[at] = Rule::kStat;
  for (uint32_t i = 1; i < 4; ++i) shape->rules[at + i] = Rule::kInStat;
}
constexpr Shape Times() {
  Shape shape{1, {}};
  PutStat(&shape, 0);
  shape.rules[kUnsampledWord] = Rule::kSum;
  return shape;
}
constexpr Shape Statements() {
  Shape shape{4, {}};
  PutStat(&shape, 0);
  shape.rules[kControlledMemoryWord] = shape.rules[kTotalMemoryWord] = Rule::kMax;
  for (uint32_t i = 0; i < kStatementCounters; ++i) shape.rules[kCounterWords + i] = Rule::kSum;
  for (const StatementCounter time : {StatementCounter::kLockTime, StatementCounter::kCpuTime}) {
    shape.rules[kCounterWords + static_cast<uint32_t>(time)] = Rule::kTime;
  }
  shape.rules[kSecondaryWord] = Rule::kSum;
  return shape;
}
constexpr Shape Objects() {
  Shape shape = Statements();
  shape.columns = 5;
  shape.rules[kFirstSeenWord] = Rule::kFirst;
  shape.rules[kLastSeenWord] = Rule::kMax;
  PutStat(&shape, kInnerWord);
  return shape;
}
constexpr Shape Transactions() {
  Shape shape{2, {}};
  PutStat(&shape, kReadWriteWord);
  PutStat(&shape, kReadOnlyWord);
  return shape;
}
constexpr Shape Errors() {
  Shape shape{1, {}};
  shape.rules[kRaisedWord] = shape.rules[kHandledWord] = Rule::kSum;
  shape.rules[kFirstErrorWord] = Rule::kFirst;
  shape.rules[kLastErrorWord] = Rule::kMax;
  return shape;
}
constexpr Shape StatusValues() {
  Shape shape{1, {}};
  shape.rules[0] = Rule::kSum;  // two's complement: the sum may be negative
  return shape;
}
constexpr Shape Memory() {
  Shape shape{3, {}};
  shape.has_pairs = true;
  for (uint32_t i = kAllocWord; i < kLowWord + 2; ++i) shape.rules[i] = Rule::kSum;
  return shape;
}
}  // namespace shapes

inline constexpr Shape kShapes[kKindCount] = {shapes::Times(),  shapes::Times(),  shapes::Statements(),  shapes::Transactions(),
                                              shapes::Memory(), shapes::Errors(), shapes::StatusValues()};
inline constexpr Shape kObjectShape = shapes::Objects();
constexpr const Shape& ShapeOf(Kind kind) { return kShapes[static_cast<uint32_t>(kind)]; }
constexpr uint32_t ColumnsOf(Kind kind) { return kind == Kind::kNone ? 1 : ShapeOf(kind).columns; }
static_assert(WordsOf(5) <= kMostWords && kLastSeenWord < kRestBegin + std::extent_v<decltype(ShmStatementRest::words)> &&
              kSecondaryWord < WordsOf(4) && kReadOnlyWord + 4 <= WordsOf(2));

// Returns the words of a cell in its row. Those of a wide cell continue over its further columns.
inline Word* CellWords(ShmCell& cell) { return reinterpret_cast<Word*>(&cell.stat); }
inline const Word* CellWords(const ShmCell& cell) { return reinterpret_cast<const Word*>(&cell.stat); }
inline ShmCell& AsCell(ShmStatementCell& cell) { return reinterpret_cast<ShmCell&>(cell); }
inline const ShmCell& AsCell(const ShmStatementCell& cell) { return reinterpret_cast<const ShmCell&>(cell); }
static_assert(offsetof(ShmStatementCell, stat) == offsetof(ShmCell, stat) && offsetof(ShmStatementCell, gen) == offsetof(ShmCell, gen));
inline ShmStat& StatAt(ShmCell& cell, uint32_t word) { return reinterpret_cast<ShmStat&>(CellWords(cell)[word]); }
static_assert(offsetof(ShmCell, stat) == 16 && sizeof(ShmStat) == 32 && offsetof(ShmCell, amount) == 16 + 32);

// Reads a statistic out of plain numbers.
inline Stat StatIn(const Numbers& numbers, uint32_t word) {
  const uint64_t inverted_min = InvertedMin(numbers[word + 2]);
  return {numbers[word], numbers[word + 1], inverted_min, inverted_min == 0 ? 0 : ~inverted_min + numbers[word + 3]};
}
inline Stat WaitStatIn(const Numbers& numbers) {
  Stat stat = StatIn(numbers, 0);
  stat.unsampled = numbers[kUnsampledWord];
  return stat;
}
inline void PutStatIn(Numbers* numbers, uint32_t word, const Stat& stat) {
  (*numbers)[word] = stat.count;
  (*numbers)[word + 1] = stat.sum_ps;
  (*numbers)[word + 2] = stat.inverted_min_ps;
  (*numbers)[word + 3] = stat.max_ps - stat.min_ps();
}

// REQUIRES: inside ReadWhole's copy, or no thread writes. Returns false if a writer changed the numbers, so that they
// do not belong together.
inline bool LoadNumbers(const Shape& shape, const ShmCell& cell, Numbers* numbers) {
  const Word* words = CellWords(cell);
  const auto load_pair = [&](uint32_t at) {
    const CountAndSum pair = LoadPair(words + at);
    (*numbers)[at] = pair.count;
    (*numbers)[at + 1] = pair.sum_ps;
  };
  uint32_t first = 0;
  if (shape.has_pairs) {  // the second pair is consistent if the first has not changed
    load_pair(0);
    load_pair(2);
    if (LoadPair(words).count != (*numbers)[0]) return false;
    first = 4;
  }
  // Backwards: the events that were not sampled before all events, as UnsampledIn() wants.
  for (uint32_t i = WordsOf(shape.columns); i-- > first;) {
    if (shape.rules[i] == Rule::kStat) PutStatIn(numbers, i, LoadStat(reinterpret_cast<const ShmStat&>(words[i])));
    if (shape.rules[i] > Rule::kInStat) (*numbers)[i] = words[i].load(kAcquire);
  }
  return true;
}
inline void MergeNumbers(const Shape& shape, const Numbers& more, Numbers* sum) {
  for (uint32_t i = 0; i < WordsOf(shape.columns); ++i) {
    uint64_t& word = (*sum)[i];
    switch (shape.rules[i]) {
      case Rule::kStat: {
        Stat stat = StatIn(*sum, i);
        stat.Merge(StatIn(more, i));
        PutStatIn(sum, i, stat);
        break;
      }
      case Rule::kSum:
        word += more[i];
        break;
      case Rule::kTime:
        word = AddTimes(word, more[i]);
        break;
      case Rule::kMax:
        word = word > more[i] ? word : more[i];
        break;
      case Rule::kFirst:
        word = word == 0 || (more[i] != 0 && more[i] < word) ? more[i] : word;
        break;
      case Rule::kUnused:
      case Rule::kInStat:
        break;
    }
  }
}
// Moves watermarks of memory to a new interval. They are of an earlier one, since whose end nothing has changed
// (record/family/memory.h).
inline void BeginMemoryInterval(Numbers* numbers) {
  for (uint32_t i = 0; i < 2; ++i) {
    (*numbers)[kHighWord + i] = (*numbers)[kLowWord + i] = (*numbers)[kAllocWord + i] - (*numbers)[kFreeWord + i];
  }
}
// REQUIRES: a CellWriter of the cell.
inline void StoreNumbers(const Shape& shape, const Numbers& numbers, ShmCell& cell) {
  Word* words = CellWords(cell);
  for (uint32_t i = 0; i < WordsOf(shape.columns); ++i) {
    if (shape.rules[i] == Rule::kStat) StoreStat(StatAt(cell, i), StatIn(numbers, i));
    if (shape.rules[i] > Rule::kInStat) words[i].store(numbers[i], kRelease);
  }
}
// The same for a cell of an object; `rest` is its rest, or nullptr.
inline void LoadObject(const ShmStatementCell& cell, const ShmStatementRest* rest, Numbers* numbers) {
  const Word* const words = CellWords(AsCell(cell));
  PutStatIn(numbers, 0, LoadStat(cell.stat));
  for (uint32_t i = 4; i < kOwnWords; ++i) (*numbers)[i] = words[i].load(kAcquire);
  if (rest != nullptr) {
    for (uint32_t i = kOwnWords; i < kLastSeenWord; ++i) {
      if (kObjectShape.rules[i] == Rule::kStat) {
        PutStatIn(numbers, i, LoadStat(reinterpret_cast<const ShmStat&>(rest->words[i - kRestBegin])));
      } else if (kObjectShape.rules[i] > Rule::kInStat) {
        (*numbers)[i] = rest->words[i - kRestBegin].load(kAcquire);
      }
    }
  }
  (*numbers)[kFirstSeenWord] = cell.first_seen.load(kAcquire);
  (*numbers)[kLastSeenWord] = cell.last_seen.load(kAcquire);
}
// REQUIRES: a CellWriter of the cell.
inline void ClearObject(ShmStatementCell& cell, ShmStatementRest* rest) {
  ClearStat(cell.stat);
  for (Word& word : cell.more) word.store(0, kRelease);
  cell.first_seen.store(0, kRelease);
  cell.last_seen.store(0, kRelease);
  if (rest == nullptr) return;
  for (Word& word : rest->words) word.store(0, kRelease);
}
static_assert(offsetof(ShmStatementCell, more) + 8 * (kOwnWords - 4) == offsetof(ShmStatementCell, first_seen));
static_assert((kInnerWord - kRestBegin) % 2 == 0);  // a ShmStat is 16-byte aligned

inline bool IsEmpty(const Shape& shape, const ShmCell& cell) {
  const Word* words = CellWords(cell);
  for (uint32_t i = 0; i < WordsOf(shape.columns); ++i) {
    if (shape.rules[i] != Rule::kUnused && words[i].load(kRelaxed) != 0) return false;
  }
  return true;
}

}  // namespace perfschema
