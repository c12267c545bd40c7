// record/probe/cells.h: statistics of objects that no lock protects: one cell for each (object, lane, thread), found
// without a lock.
//
// Each lane of an object has a list of cells. A cell belongs to a thread slot, and the next thread in the slot
// continues it. A thread finds its own cell at the head of the list, in a small private cache, or by walking the
// list; else it makes one (cold).
//
// The first two ways touch no line that another thread stores to. The head is one word, which names the first cell and
// its owner (ShmCellList). It changes under the cold lock only, and at any time:
//
//   the word names a cell together with the slot that owns the cell.
//
// A thread that finds its own slot in the word may therefore store to that cell, however old the word is that it
// loaded. Cells of a slot change their owner in two ways: the thread in the slot gives them away itself, or another
// thread adopts or folds them under the cold lock while the slot is free. The next thread of the slot takes the cold
// lock after that, so it sees the newer word. Who gives a cell away takes it out of the word first. Two loads, one of
// the owner and one of the cell, would not do: another thread's cell could become the first one in between.
// tests/cpp/first_cells_stress.cpp checks this rule.
//
// When an object dies, its statistics move to its class (ShmClass.dead, under fold_seq). Cells that belong to other
// live threads cannot be taken from them. They go to a deferred-fold list of retired cells. From there a cell counts
// for the class if its gen is the list's object_gen (or an earlier one that counts, KeepsTotals) and the class
// domain's gen is the list's class_gen. The owner folds them, or any thread that finds the owner's slot free.
//
// A process may die while it moves numbers, so each step of the move is one store, and readers of a dead process find the numbers in one
// place (ShmMove):
//
//   the lists of an object    in the object; from the store on that hides it, or empties its list, in ShmMove.object
//   the numbers of a cell     in the cell; from the store on that gives its gen kMovedGen, in the class
//   what is left of the lists in ShmMove.object; from the store on that publishes it, in its entry of kRetired
//
// The total of a class is its dead cells, its own lists, the cells of its live objects, and its retired cells. While
// numbers move, fold_seq of the class is odd; a reader rereads a class whose fold_seq was odd or changed (bounded).
// The wait total of an object is the sum of its lanes.
#pragma once

#include <span>

#include "record/context/threads.h"
#include "shm/unsampled.h"

namespace perfschema {

// The owner of a cell, as the thread's cache stores it: version << 32 | kind << 29 | lane << 25 | index.
enum class CellKind : uint32_t { kClass = 1, kInstance, kFile, kTable, kIndex };
inline constexpr int kKeyLaneShift = kKeyIndexBits, kKeyKindShift = kKeyLaneShift + 4;
static_assert(kMostLanes <= 16 && kKeyKindShift + 3 == 32);
constexpr uint64_t CellKey(CellKind kind, uint32_t index, uint32_t version, uint8_t lane) {
  return static_cast<uint64_t>(version) << 32 | static_cast<uint32_t>(kind) << kKeyKindShift | uint32_t{lane} << kKeyLaneShift | index;
}
constexpr uint64_t KeyOfLane(uint64_t first_key, size_t lane) { return first_key | static_cast<uint64_t>(lane) << kKeyLaneShift; }
constexpr CellKind KindOfKey(uint64_t key) { return static_cast<CellKind>(static_cast<uint32_t>(key) >> kKeyKindShift); }
constexpr size_t LaneOfKey(uint64_t key) {
  return static_cast<uint32_t>(key) >> kKeyLaneShift & ((1u << (kKeyKindShift - kKeyLaneShift)) - 1);
}
constexpr uint32_t IndexOfKey(uint64_t key) { return static_cast<uint32_t>(key) & ((1u << kKeyIndexBits) - 1); }
constexpr uint32_t VersionOfKey(uint64_t key) { return static_cast<uint32_t>(key >> 32); }
inline uint32_t VersionOf(const ShmInstance& object) { return ListOf(object).version.load(kRelaxed); }

inline void ClearCell(ShmCell& cell) {
  ClearStat(cell.stat);
  cell.amount.store(0, kRelease);
  if (HasUnsampledWord(cell)) StoreUnsampledWord(cell, kUnsampledMark);
}

inline uint32_t Generation(ResetDomain domain) { return g_runtime.header->resets[domain].load(kRelaxed); }
// Returns which cells of objects count for their class, if the objects have generation `now`. REQUIRES: cold lock.
inline Generations GenerationsOfClass(Family family, uint32_t now) { return OfClass(now, Generation(KeptSince(TraitsOf(family).group))); }

// Makes or adopts the calling thread's cell of a lane. `flags`: the object's flag word; nullptr if the object cannot
// die in use. Returns nullptr if the object has died (kFlagDead; or its version is not the key's), or if the segment is
// full, which is counted as a loss. The event then counts for its class (AddToClass), whose cells have memory of their own.
// Preserves errno. Cold. List: ShmCellList, or ShmCellChain for a class.
template <typename List>
[[gnu::noinline]] ShmCell* FindCellSlow(ThreadState& thread, uint64_t key, List& list, const HalfWord* flags);

// Returns nullptr if the cell is not in the cache.
PFS_ALWAYS_INLINE ShmCell* CachedCell(const ThreadState& thread, uint64_t key) {
  const CellCache::Entry& entry = thread.found_cells.entries[CellCache::Place(key)];
  return __builtin_expect(entry.key == key, 1) ? &g_runtime.cells[entry.cell] : nullptr;
}

template <typename List>
PFS_ALWAYS_INLINE ShmCell* FindCell(ThreadState& thread, uint64_t key, List& list, const HalfWord* flags = nullptr) {
  ShmCell* const cell = CachedCell(thread, key);
  return __builtin_expect(cell != nullptr, 1) ? cell : FindCellSlow(thread, key, list, flags);
}

// Returns FirstCell(0, thread.slot).
PFS_ALWAYS_INLINE uint64_t OwnMark(const ThreadState& thread) {
  using Both [[gnu::may_alias]] = uint64_t;
  static_assert(offsetof(HotThreadState, slot) == offsetof(HotThreadState, before_slot) + 4 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return *reinterpret_cast<const Both*>(&thread.before_slot);
}

// If one thread uses the lane, the head of the list is that thread's cell. Returns nullptr otherwise.
PFS_ALWAYS_INLINE ShmCell* OwnCellAtHead(const ThreadState& thread, const ShmCellList& list) {
  // The cell alone, if the thread owns it: no thread has slot 0. Pairs with FindCellSlow.
  const uint64_t cell = list.first.load(kAcquire) ^ OwnMark(thread);
  return __builtin_expect(OwnerOfFirst(cell) == 0, 1) ? &g_runtime.cells[cell] : nullptr;
}

// Returns the thread's cell if it is at the head or in the cache, else nullptr. `key()` is asked only if it is not at the head.
template <typename Key>
PFS_ALWAYS_INLINE ShmCell* KnownCell(const ThreadState& thread, const ShmCellList& list, Key key) {
  ShmCell* const own = OwnCellAtHead(thread, list);
  return __builtin_expect(own != nullptr, 1) ? own : CachedCell(thread, key());
}

// Does what FindCell() does, but checks the head first. `generation`: the version of the object, if another object
// may take its slot; else nullptr.
PFS_ALWAYS_INLINE ShmCell* FindCellAtHead(ThreadState& thread, CellKind kind, uint32_t index, const HalfWord& version, uint8_t lane,
                                          ShmCellList& list, const HalfWord* flags = nullptr, const uint32_t* generation = nullptr) {
  if (ShmCell* const own = OwnCellAtHead(thread, list); __builtin_expect(own != nullptr, 1)) return own;
  const uint32_t wanted = generation == nullptr ? version.load(kRelaxed) : *generation;
  return FindCell(thread, CellKey(kind, index, wanted, lane), list, flags);
}

// Returns the thread's cell if it exists, else nullptr. Makes none.
[[gnu::noinline]] ShmCell* SearchCell(const ThreadState& thread, uint64_t key, const ShmCellList& list);

// Adds `count` events that moved `amount` to a cell of the calling thread.
PFS_ALWAYS_INLINE void AddToCell(ShmCell& cell, uint32_t gen, bool timed, uint64_t wait_ps, uint64_t amount = 0, uint64_t count = 1) {
  const CellWriter writer(cell.seq);
  StartGeneration(cell.gen, gen, [&] { ClearCell(cell); });
  AddToStat(cell.stat, timed, wait_ps, count);
  if (__builtin_expect(IsUnsampled(timed, wait_ps), 0)) CountUnsampled(cell, count);
  if (amount != 0) cell.amount.store(cell.amount.load(kRelaxed) + amount, kRelease);
}

// Does the same for a cell of an earlier generation: moves its numbers to the class first, if they still count there. Preserves errno.
// Cold.
[[gnu::noinline]] void AddToStaleCell(ThreadState& thread, ShmCell& cell, uint32_t class_index, uint8_t lane, bool timed, uint64_t wait_ps,
                                      uint64_t count);

// Counts an event without a (live) object, or whose object found no cell, on its class.
[[gnu::noinline]] void AddToClass(ThreadState& thread, uint32_t class_index, uint8_t lane, bool timed, uint64_t wait_ps, uint64_t amount,
                                  uint64_t count);

// Gives the thread its cells in the lanes of an object that will need them; fewer if half of all cells are taken. REQUIRES: cold lock.
void AddCells(const ThreadState& thread, std::span<ShmCellList> lanes);

// Retires an object, whose lane 0 has `first_key`: `hide` hides it from readers. The numbers in `lanes` and `own`
// (may be nullptr; a cell that the caller alone writes) move to the class in the same fold section. Cells of other
// live threads go to the list of retired cells.
// REQUIRES: cold lock; no new event of the object will begin.
void RetireObject(uint32_t class_index, uint64_t first_key, std::span<ShmCellList> lanes, ShmInstance* own, void (*hide)(void* object),
                  void* object);

// Moves retired cells of the calling thread to their classes, and those of threads that have ended: of this many objects each at most.
// A retired object waits for one owner of its cells after the other, so no thread looks at those of others. REQUIRES: cold lock.
void FoldRetired(uint32_t at_most);
// Leaves the retired cells of a thread that ends to all others. REQUIRES: cold lock.
void LeaveRetired(uint32_t slot);

// Gives a new class the cells for the numbers of its dead objects. Returns false if the segment is full. REQUIRES:
// cold lock.
bool MakeClassCells(ShmClass& entry);

// Count the read locks that the calling thread holds on an instance, and carry them into a forked child. REQUIRES:
// cold lock.
uint32_t HeldByThisThread(uint32_t instance_index);
void HoldInChild(const ThreadState& thread, uint32_t instance_index, uint32_t held);

// Forgets the parent's cells in a forked child. REQUIRES: cold lock.
void ForgetCells();

}  // namespace perfschema
