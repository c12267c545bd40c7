#include "record/family/statement_cells.h"

#include <cerrno>

namespace perfschema {
namespace {

ShmStatementCell& CellAt(uint32_t index) { return *g_runtime.segment.element<ShmStatementCell>(ArrayId::kStatementCells, index); }

// Returns the thread's own cell in the list, else one whose thread has ended, else a new one. 0: the segment is full.
// REQUIRES: cold lock.
uint32_t FindOrMakeCell(const ThreadState& thread, ShmStatementObject& object) {
  uint32_t adoptable = 0;
  for (uint32_t at = object.cells.load(kRelaxed); at != 0; at = CellAt(at).next.load(kRelaxed)) {
    const uint32_t owner = CellAt(at).owner.load(kRelaxed);
    if (owner == thread.slot) return at;
    if (adoptable == 0 && SlotIsFree(owner)) adoptable = at;
  }
  if (adoptable != 0) {
    CellAt(adoptable).owner.store(thread.slot, kRelaxed);
    return adoptable;
  }
  const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kStatementCells);
  if (fresh < 0) return 0;
  const auto index = static_cast<uint32_t>(fresh);
  CellAt(index).owner.store(thread.slot, kRelaxed);
  CellAt(index).next.store(object.cells.load(kRelaxed), kRelaxed);
  object.cells.store(index, kRelease);  // pairs with Snapshot: the cell is whole before it is in the list
  return index;
}

}  // namespace

ShmStatementCell* SearchStatementCell(ThreadState& thread, ShmStatementObject& object) {
  const int error = errno;
  uint32_t index = 0;
  if (const ColdLock lock; lock) index = FindOrMakeCell(thread, object);
  errno = error;
  if (index == 0) {
    CountLoss(Loss::kStatistics);
    return nullptr;
  }
  auto& entry = StatementCellEntry(thread, object);
  ShmStatementCell& cell = CellAt(index);
  ChangeEntry<const ShmStatementObject*>(entry.object, nullptr, &object, [&] { entry.cell = &cell; });
  return &cell;
}

void MakeRest(ShmStatementCell& cell) {
  const int error = errno;
  int64_t fresh = -1;
  if (const ColdLock lock; lock) fresh = g_runtime.segment.AllocateFresh(ArrayId::kStatementRests);
  errno = error;
  if (fresh > 0) {
    cell.rest.store(static_cast<uint32_t>(fresh), kRelease);  // pairs with Snapshot
  } else {
    CountLoss(Loss::kStatistics);
  }
}

bool HasNumbersForRest(const StatementNumbers& numbers) {
  if (numbers.secondary != 0) return true;
  for (uint32_t set = numbers.set & ~kOwnCounters; set != 0; set &= set - 1) {
    if (numbers.counters[std::countr_zero(set)] != 0) return true;
  }
  return false;
}

void AddToRest(const ShmStatementCell& cell, const StatementNumbers& numbers) {
  ShmStatementRest* const rest = RestOf(cell);
  if (rest == nullptr) return;
  for (uint32_t set = numbers.set & ~kOwnCounters; set != 0; set &= set - 1) {
    const auto i = static_cast<uint32_t>(std::countr_zero(set));
    Word& word = rest->words[kCounterWords + i - kRestBegin];
    if (numbers.counters[i] != 0) word.store(word.load(kRelaxed) + numbers.counters[i], kRelease);
  }
  Word& secondary = rest->words[kSecondaryWord - kRestBegin];
  if (numbers.secondary != 0) secondary.store(secondary.load(kRelaxed) + numbers.secondary, kRelease);
}

void ClearNumbers(ShmStatementCell& cell) { ClearObject(cell, RestOf(cell)); }

void ForgetStatementCells() {
  Segment& segment = g_runtime.segment;
  const auto forget = [&](auto* kind, ArrayId id) {
    const uint64_t used = segment.array(id).used.load(kRelaxed);
    const uint64_t stride = segment.array(id).stride;
    char* const first = segment.element<char>(id, 0);
    for (uint64_t i = 1; i < used; ++i) reinterpret_cast<decltype(kind)>(first + i * stride)->object.cells.store(0, kRelaxed);
  };
  forget(static_cast<ShmStoredProgram*>(nullptr), ArrayId::kPrograms);
  forget(static_cast<ShmPrepared*>(nullptr), ArrayId::kPrepared);
}

}  // namespace perfschema
