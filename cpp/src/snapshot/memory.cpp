// Memory by thread, account, user, host and in total: sums of rows, minus what TRUNCATEs have cancelled (record/family/memory.h).
#include <algorithm>
#include <vector>

#include "snapshot/members.h"
#include "snapshot/snapshot.h"
#include "snapshot/state.h"
#include "snapshot/sums.h"

namespace perfschema {
namespace {

int64_t SignedOf(uint64_t word) { return static_cast<int64_t>(word); }
uint64_t Less(uint64_t number, uint64_t cancelled) { return number - std::min(number, cancelled); }

struct MemorySum {
  MemoryRow row;
  PrincipalRow principal;
};

// Reads the rows once.
void ReadMemory(const Snapshot& snapshot, Level level, std::vector<MemorySum>* sums) {
  sums->clear();
  const ArrayView<ShmCell>& cells = CellsOf(snapshot, level);
  const uint64_t width = WidthOf(snapshot, level);
  constexpr uint32_t kColumns = ColumnsOf(Kind::kMemory);
  const auto columns_of = [&](uint64_t member) -> uint64_t {
    if (level == Level::kGlobal) return snapshot.header().remainder_cells.load(kAcquire);
    const ShmThread* thread = level == Level::kThread ? snapshot.array<ArrayId::kThreads>().at(member) : nullptr;
    const ShmPrincipal* principal = level != Level::kThread ? PrincipalsOf(snapshot, level).at(member) : nullptr;
    return thread != nullptr ? thread->cells.load(kAcquire) : principal != nullptr ? principal->cells.load(kAcquire) : 0;
  };
  ForEachSum(snapshot, Kind::kMemory, level, [&](const SumRow& sum) {
    const uint64_t column = sum.instrument->index;
    const uint64_t first = sum.member * width + column;
    // The row's own words. A row that has no such column yet has nothing cancelled, and no band was published to it.
    uint64_t own[WordsOf(kColumns)] = {};
    const ShmCell* cell = column + kColumns <= std::min(columns_of(sum.member), width) ? cells.at(first, kColumns) : nullptr;
    if (cell != nullptr) {
      const Word* words = CellWords(*cell);
      for (uint32_t i = kLowWord + 2; i < WordsOf(kColumns); ++i) own[i] = words[i].load(kAcquire);
    }
    const auto side = [&](uint32_t i) {
      const Numbers& n = sum.numbers;
      MemoryRow::Side of{Less(n[kAllocWord + i], own[kCancelledWord + i]), Less(n[kFreeWord + i], own[kCancelledWord + i]), 0,
                         SignedOf(n[kAllocWord + i] - n[kFreeWord + i]), 0};
      int64_t high = SignedOf(n[kHighWord + i]), low = SignedOf(n[kLowWord + i]);
      if (level != Level::kThread) {
        high = std::max(SignedOf(own[kKeptHighWord + i]), std::min(high, SignedOf(own[kMaxTopWord + i])));
        low = std::min(SignedOf(own[kKeptLowWord + i]), std::max(low, SignedOf(own[kMinBottomWord + i])));
      }
      if (level == Level::kGlobal) low = std::max<int64_t>(low, 0);  // semantics.md K3
      of.high = std::max(high, of.current);
      of.low = std::min(low, of.current);
      return of;
    };
    sums->push_back(
        {{sum.instrument, sum.thread_id, nullptr, side(0), side(1)}, sum.principal != nullptr ? *sum.principal : PrincipalRow{}});
  });
}

}  // namespace

void ForEachMemory(const Snapshot& snapshot, Level level, const std::function<void(const MemoryRow&)>& use) {
  if (!snapshot.ok()) return;
  std::vector<MemorySum> sums;
  const auto read_once = [&] {
    const uint32_t before = snapshot.header().rebase_seq.load(kAcquire);  // pairs with RebaseMemory
    if (snapshot.IsUnderWay(snapshot.header().rebase_seq, before)) return false;
    ReadMemory(snapshot, level, &sums);
    return snapshot.header().rebase_seq.load(kRelaxed) == before;  // all loads above are acquire
  };
  if (!snapshot.ReadSettled(read_once, Snapshot::Quiet::kNever)) {  // while TRUNCATEs are running
    snapshot.CountSkipped();
    return;
  }
  if (level == Level::kGlobal) {
    const std::vector<ArrayRow> arrays = Arrays(snapshot.view());
    for (const ClassRow& row : snapshot.classes()) {
      if (row.family != Family::kOwnMemory || row.key == 0 || row.key > arrays.size()) continue;
      const auto side = [](uint64_t in_use) { return MemoryRow::Side{in_use, 0, SignedOf(in_use), SignedOf(in_use), SignedOf(in_use)}; };
      const uint64_t bytes = arrays[row.key - 1].reserved_bytes;
      use({&row, 0, nullptr, side(bytes != 0 ? 1 : 0), side(bytes)});
    }
  }
  for (MemorySum& one : sums) {
    one.row.principal = &one.principal;
    use(one.row);
  }
}

}  // namespace perfschema
