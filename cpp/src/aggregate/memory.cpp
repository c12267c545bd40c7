// aggregate/memory.cpp: TRUNCATE of summaries of memory. record/family/memory.h describes the words of a row.
#include "record/family/memory.h"

#include <algorithm>
#include <vector>

#include "aggregate/resets.h"
#include "record/context/principals.h"

namespace perfschema {
namespace {

int64_t SignedOf(uint64_t word) { return static_cast<int64_t>(word); }

// Holds the numbers of one instrument, by level and member.
struct Sums {
  std::vector<Numbers> members[kLevelCount];  // those of Level::kThread stay empty

  Sums() {
    for (uint32_t level = 1; level + 1 < kLevelCount; ++level) {
      members[level].resize(g_runtime.segment.array(kPrincipalsOf[level]).used.load(kRelaxed));
    }
    members[static_cast<uint32_t>(Level::kGlobal)].resize(1);
  }
  void Clear() {
    for (std::vector<Numbers>& level : members) std::fill(level.begin(), level.end(), Numbers{});
  }
  // Index 0 = no member.
  void Add(Level level, uint32_t index, const Numbers& numbers) {
    std::vector<Numbers>& of_level = members[static_cast<uint32_t>(level)];
    if (index >= of_level.size() || (index == 0 && level != Level::kGlobal)) return;
    MergeNumbers(ShapeOf(Kind::kMemory), numbers, &of_level[index]);
  }
};

// Copies a cell at one time. TRUNCATE in a signal handler may have stopped the owner in the middle of a change: then the copy has the
// part done so far.
Numbers Read(const ShmCell& cell) {
  Numbers numbers{};
  uint32_t gen = 0;
  const auto copy = [&] {
    numbers = {};
    gen = cell.gen.load(kAcquire);
    return LoadNumbers(ShapeOf(Kind::kMemory), cell, &numbers);
  };
  if (!ReadWhole(cell.seq, copy)) copy();
  // The interval has already ended, and owners begin the next one under the cold lock, which this thread holds. So the last interval is
  // the one before.
  const uint32_t last = g_runtime.header->EpochsOf(Kind::kMemory).now.load(kRelaxed) - 1;
  if (gen != last) BeginMemoryInterval(&numbers);
  return numbers;
}

// Subtracts from both counts the amount that was allocated and freed. The cancelled amount only ever grows.
void Cancel(ShmCell& cell, const Numbers& numbers) {
  for (uint32_t i = 0; i < 2; ++i)
    CellWords(cell)[kCancelledWord + i].store(std::min(numbers[kAllocWord + i], numbers[kFreeWord + i]), kRelease);
}

// Restarts the watermarks of a member: from the memory in use, or from the watermarks so far.
void KeepWatermarks(ShmCell& cell, const Numbers& numbers, bool is_emptied) {
  Word* const words = CellWords(cell);
  const auto load = [&](uint32_t at) { return SignedOf(words[at].load(kRelaxed)); };
  for (uint32_t i = 0; i < 2; ++i) {
    const int64_t used = SignedOf(numbers[kAllocWord + i] - numbers[kFreeWord + i]);
    int64_t high = used, low = used;
    if (!is_emptied) {
      high = std::max({used, load(kKeptHighWord + i), std::min(load(kMaxTopWord + i), SignedOf(numbers[kHighWord + i]))});
      low = std::min({used, load(kKeptLowWord + i), std::max(load(kMinBottomWord + i), SignedOf(numbers[kLowWord + i]))});
    }
    words[kKeptHighWord + i].store(static_cast<uint64_t>(high), kRelease);
    words[kKeptLowWord + i].store(static_cast<uint64_t>(low), kRelease);
    // Threads go on publishing bands: the second pass loads a band that was published between a load and a store of the first.
    for (int pass = 0; pass < 2; ++pass) {
      words[kMaxTopWord + i].store(words[kTopsWord + i].load());
      words[kMinBottomWord + i].store(words[kBottomsWord + i].load());
    }
  }
}

// Begins an interval of the row's own watermarks, in a row that only the cold path writes.
void BeginInterval(ShmCell& cell) {
  Numbers numbers{};
  LoadNumbers(ShapeOf(Kind::kMemory), cell, &numbers);
  BeginMemoryInterval(&numbers);
  const CellWriter writer(cell.seq);
  StoreNumbers(ShapeOf(Kind::kMemory), numbers, cell);
  cell.gen.store(g_runtime.header->EpochsOf(Kind::kMemory).now.load(kRelaxed), kRelease);
}

void RebaseClass(uint32_t class_index, Level truncated, Sums* sums) {
  sums->Clear();
  const uint32_t end = class_index + ColumnsOf(Kind::kMemory);
  const auto cell_at = [&](Level level, uint32_t index, uint32_t ready) {
    return end <= ready ? RowOf(level, index) + class_index : nullptr;
  };
  const uint64_t threads = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  for (uint32_t slot = 1; slot < threads; ++slot) {
    const ShmThread& thread = g_runtime.threads[slot];
    if (const ShmCell* cell = cell_at(Level::kGlobal, slot, thread.global_cells.load(kRelaxed)); cell != nullptr)
      sums->Add(Level::kGlobal, 0, Read(*cell));
    ShmCell* const cell = cell_at(Level::kThread, slot, thread.cells.load(kRelaxed));
    if (cell == nullptr || SlotIsFree(slot)) continue;
    const Numbers numbers = Read(*cell);
    Cancel(*cell, numbers);
    sums->Add(Level::kAccount, thread.account.load(kRelaxed), numbers);
    sums->Add(Level::kUser, thread.user.load(kRelaxed), numbers);
    sums->Add(Level::kHost, thread.host.load(kRelaxed), numbers);
    sums->Add(Level::kGlobal, 0, numbers);
  }
  const auto for_each_member = [&](auto use) {
    for (const Level level : {Level::kAccount, Level::kUser, Level::kHost, Level::kGlobal}) {
      const size_t count = sums->members[static_cast<uint32_t>(level)].size();
      for (uint32_t index = level == Level::kGlobal ? 0 : 1; index < count; ++index) use(level, index);
    }
  };
  for_each_member([&](Level level, uint32_t index) {
    const ShmCell* cell = cell_at(level, index, ReadyColumns(level, index).load(kRelaxed));
    if (cell == nullptr) return;
    const Numbers numbers = Read(*cell);
    sums->Add(level, index, numbers);
    if (level == Level::kAccount) {
      const ShmPrincipal& account = *g_runtime.segment.element<ShmPrincipal>(ArrayId::kAccounts, index);
      sums->Add(Level::kUser, account.user.load(kRelaxed), numbers);
      sums->Add(Level::kHost, account.host.load(kRelaxed), numbers);
    }
    if (level == Level::kAccount || level == Level::kHost) sums->Add(Level::kGlobal, 0, numbers);
  });
  for_each_member([&](Level level, uint32_t index) {
    const Numbers& numbers = sums->members[static_cast<uint32_t>(level)][index];
    ShmCell* cell = cell_at(level, index, ReadyColumns(level, index).load(kRelaxed));
    if (cell == nullptr && numbers == Numbers{}) return;
    if (cell == nullptr) cell = ColumnOf(level, index, class_index, Kind::kMemory);
    if (cell == nullptr) return CountLoss(Loss::kThreadStatistics);
    if (Empties(truncated, level)) Cancel(*cell, numbers);
    KeepWatermarks(*cell, numbers, Empties(truncated, level));
    BeginInterval(*cell);
  });
}

}  // namespace

void RebaseMemory(Level truncated) {
  Sums sums;  // all sums, before anything changes
  ShmHeader& header = *g_runtime.header;
  header.rebase_seq.fetch_add(1);                   // pairs with ForEachMemory, as the second one does
  header.EpochsOf(Kind::kMemory).now.fetch_add(1);  // pairs with the owners' next changes
  ForEachMemoryClass(1, [&](uint32_t class_index) { RebaseClass(class_index, truncated, &sums); });
  header.rebase_seq.fetch_add(1);
}

}  // namespace perfschema
