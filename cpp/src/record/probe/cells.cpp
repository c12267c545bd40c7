#include "record/probe/cells.h"

#include <algorithm>
#include <cerrno>
#include <type_traits>
#include <utility>

#include "base/private_memory.h"
#include "record/engine/free_lists.h"
#include "record/engine/slots.h"
#include "shm/budget.h"

namespace perfschema {
namespace {

// Cells of objects that were ever taken; those of classes do not count for the limit. Guarded by the cold lock.
uint64_t object_cells = 0;
// Retired lists that begin with a cell of a thread that has ended: any thread may fold it. The others are with the thread that owns their
// first cell (ThreadSlot). Guarded by the cold lock.
uint32_t orphans = 0;

// Keys of lane 0 of retired objects, by the index of the entry: a thread that gives a cell away need not search its cache. Private: the
// keys mean nothing to other processes. nullptr: there was no memory. Guarded by the cold lock.
uint64_t* retired_keys = nullptr;

void NoteRetiredKey(uint32_t index, uint64_t key) {
  if (retired_keys == nullptr) {
    const size_t bytes = g_runtime.segment.array(ArrayId::kRetired).capacity * sizeof *retired_keys;
    void* const memory = MapPrivate(bytes);
    if (memory == nullptr) return;
    retired_keys = static_cast<uint64_t*>(memory);
  }
  retired_keys[index] = key;
}

uint32_t IndexOf(const ShmCell* cell) { return static_cast<uint32_t>(cell - g_runtime.cells); }

// Returns true if the calling thread may store to a cell of this slot: its own slot, or a free one.
bool MayTake(uint32_t owner) {
  const ThreadState* self = t_locals.state;
  return (self != nullptr && owner == self->slot) || owner == 0 || SlotIsFree(owner);
}

// Returns the instance that the key of a cell names, nullptr if it names another kind of object.
ShmInstance* InstanceOf(uint64_t key) { return KindOfKey(key) == CellKind::kInstance ? &g_runtime.instances[IndexOfKey(key)] : nullptr; }

// Returns true if the object of the key has died. Its slot may be free, or belong to another object. REQUIRES: cold
// lock.
bool IsGone(uint64_t key) {
  const uint32_t index = IndexOfKey(key);
  const auto is_of_key = [=](const auto& object, uint32_t version) {
    return object.class_index.load(kRelaxed) != 0 && version == VersionOfKey(key);
  };
  switch (KindOfKey(key)) {
    case CellKind::kInstance:
      // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): the arrays are there since the start
      return !is_of_key(g_runtime.instances[index], VersionOf(g_runtime.instances[index]));
    case CellKind::kFile:
      return !is_of_key(g_runtime.files[index], g_runtime.files[index].version.load(kRelaxed));
    default:
      return false;
  }
}

// `for_class`: cells of classes have no limit but memory, and a part of it for themselves. So totals of instruments stay exact when
// objects find no cell any more.
ShmCell* TakeCell(bool for_class) {
  ShmArray& array = g_runtime.segment.array(ArrayId::kCells);
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    ShmCell& cell = g_runtime.cells[free];
    array.free_head.store(cell.next.load(kRelaxed), kRelaxed);
    return &cell;
  }
  if (!for_class && object_cells >= static_cast<uint64_t>(StartOptionsLocked().Get(OptionId::max_object_cells))) return nullptr;
  const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kCells, 1, for_class ? 0 : kPartsOfClassCells);
  if (fresh < 0) return nullptr;
  if (!for_class) ++object_cells;
  return &g_runtime.cells[fresh];
}

// Makes `cell`, which belongs to the slot, the first of a list. Release: pairs with AddLanes and OwnCellAtHead, the cell is whole
// before it is in the list.
void SetFirst(ShmCellList& list, uint32_t cell, uint32_t slot) { list.first.store(FirstCell(cell, slot), kRelease); }
void SetFirst(ShmCellChain& chain, uint32_t cell, uint32_t) { chain.head.store(cell, kRelease); }

// Adds a new cell to a list, which belongs to `instance` (or nullptr). Returns nullptr if the segment is full.
// REQUIRES: cold lock.
template <typename List>
ShmCell* AddCell(List& list, uint32_t slot, ShmInstance* instance) {
  ShmCell* const cell = TakeCell(std::is_same_v<List, ShmCellChain>);
  if (cell == nullptr) return nullptr;
  cell->owner.store(slot, kRelaxed);
  if (instance != nullptr) {
    cell->instance.store(InstanceMark(instance), kRelaxed);
  } else {
    StoreUnsampledWord(*cell, kUnsampledMark);
  }
  cell->next.store(HeadOf(list), kRelaxed);
  SetFirst(list, IndexOf(cell), slot);
  if (instance != nullptr) instance->flags.fetch_or(kFlagShared, kRelaxed);
  return cell;
}

// Drops a cell that is about to leave its slot from the slot's cache: that of the calling thread, or one that waits for the next thread of
// a free slot. `key`: the cell's key in the cache, 0 = not known any more. REQUIRES: cold lock; MayTake(cell.owner).
void ForgetCell(const ShmCell& cell, uint64_t key) {
  ThreadState* const state = SlotAt(cell.owner.load(kRelaxed)).state;
  if (state == nullptr) return;
  if (key != 0) {
    CellCache::Entry& entry = state->found_cells.entries[CellCache::Place(key)];
    if (entry.cell == IndexOf(&cell)) entry.key = 0;
    return;
  }
  for (CellCache::Entry& entry : state->found_cells.entries) {
    if (entry.cell == IndexOf(&cell)) entry.key = 0;
  }
}

// Gives a cell of a free slot that is in the list to another slot. `key`: the cell's. REQUIRES: cold lock.
template <typename List>
void AdoptCell([[maybe_unused]] List& list, uint32_t cell, uint32_t slot, uint64_t key) {
  ForgetCell(g_runtime.cells[cell], key);
  g_runtime.cells[cell].owner.store(slot, kRelaxed);
#if !defined(PFS_BREAK_FIRST_CELL)  // negative control of the stress test: the word goes on to name the earlier owner
  if (HeadOf(list) == cell) SetFirst(list, cell, slot);
#endif
}

// Moves statistics to those that the class has of dead objects. A process that dies on the way leaves them counted once: `gen` of the
// source, one store, says where (ShmMove). The caller clears the source, and then takes kMovedGen away. REQUIRES: cold lock, inside
// fold_seq.
void MoveToDead(ShmClass& entry, size_t lane, const Stat& stat, uint64_t bytes, HalfWord& gen, uint32_t from) {
  if (stat.is_empty()) return;
  const uint32_t first = entry.dead.load(kRelaxed);
  if (first == 0) return CountLoss(Loss::kStatistics);
  ShmCell& dead = g_runtime.cells[first + lane];
  ShmMove& move = g_runtime.header->move;
  CopyNumbers(dead, move.before);
  move.of.store(MoveOf(static_cast<uint32_t>(first + lane), from), kRelease);
  {
    const CellWriter writer(dead.seq);
    StartGeneration(dead.gen, Generation(ClassDomain(static_cast<Family>(entry.family))), [&] { ClearCell(dead); });
    MergeIntoStat(dead.stat, stat);
    dead.amount.store(dead.amount.load(kRelaxed) + bytes, kRelease);
#if !defined(PFS_BREAK_UNSAMPLED)  // negative control of the stress test
    CountUnsampled(dead, stat.unsampled);
#endif
  }
  gen.store(gen.load(kRelaxed) | kMovedGen, kRelease);
  move.of.store(0, kRelease);
}
void MoveToDead(ShmClass& entry, size_t lane, ShmCell& cell) {
  const uint64_t unsampled = UnsampledIn(cell);
  Stat stat = LoadStat(cell.stat);
  stat.unsampled = unsampled;
  MoveToDead(entry, lane, stat, BytesIn(cell), cell.gen, IndexOf(&cell));
}
void EndMove(HalfWord& gen) { gen.store(gen.load(kRelaxed) & ~kMovedGen, kRelease); }

void GiveCell(ShmCell& cell) {
  {
    const CellWriter writer(cell.seq);
    ClearCell(cell);
    StoreUnsampledWord(cell, kNoInstance);  // nothing is held
  }
  EndMove(cell.gen);
  ShmArray& array = g_runtime.segment.array(ArrayId::kCells);
  cell.owner.store(0, kRelaxed);
  cell.next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelease);
  array.free_head.store(IndexOf(&cell), kRelaxed);
}

// Makes readers of the class's totals wait while statistics move between an object and its class.
// Threads: external lock (cold lock).
class FoldSection {
 public:
  explicit FoldSection(ShmClass& entry) : entry_(entry), next_(entry.fold_seq.load(kRelaxed) + 2) {
    entry_.fold_seq.store(next_ - 1, kRelaxed);  // ordered before the moves by their release stores
  }
  ~FoldSection() { entry_.fold_seq.store(next_, kRelease); }  // pairs with AddUpClasses
  FoldSection(const FoldSection&) = delete;
  FoldSection& operator=(const FoldSection&) = delete;

 private:
  ShmClass& entry_;
  uint32_t next_;
};

// Folds the cells of a list that this thread may take, and leaves the others in it. `key`: that of the list's cells, 0 = not known.
void FoldList(ShmClass& entry, size_t lane, HalfWord& head, Generations counting, bool class_is_current, uint64_t key) {
  HalfWord* link = &head;  // names the next cell
  while (const uint32_t at = link->load(kRelaxed)) {
    ShmCell& cell = g_runtime.cells[at];
    if (!MayTake(cell.owner.load(kRelaxed))) {
      if (!HasUnsampledWord(cell)) cell.instance.store(kNoInstance, kRelaxed);
      link = &cell.next;
      continue;
    }
    if (class_is_current && counting.Has(cell.gen.load(kRelaxed))) MoveToDead(entry, lane, cell);
    link->store(cell.next.load(kRelaxed), kRelease);
    ForgetCell(cell, key);
    GiveCell(cell);
  }
}

ShmRetired& RetiredAt(uint32_t index) { return *g_runtime.segment.element<ShmRetired>(ArrayId::kRetired, index); }

// Folds the cells of an entry that this thread may take. Returns the owner of one that it may not, or 0: then the entry is empty.
uint32_t Fold(ShmRetired& retired) {
  const uint32_t class_index = retired.class_index.load(kRelaxed);
  ShmClass& entry = g_runtime.classes[class_index];
  const auto family = static_cast<Family>(entry.family);
  const bool current = retired.class_gen.load(kRelaxed) == Generation(ClassDomain(family));
  const Generations counting = GenerationsOfClass(family, retired.object_gen.load(kRelaxed));
  const uint64_t key = retired_keys != nullptr ? retired_keys[&retired - &RetiredAt(0)] : 0;
  const FoldSection fold(entry);
  uint32_t owner = 0;
  for (size_t lane = 0; lane < kMostLanes; ++lane) {
    HalfWord& head = retired.lanes[lane].head;
    if (head.load(kRelaxed) == 0) continue;
    FoldList(entry, lane, head, counting, current, key != 0 ? KeyOfLane(key, lane) : 0);
    if (const uint32_t rest = head.load(kRelaxed); rest != 0) owner = g_runtime.cells[rest].owner.load(kRelaxed);
  }
  if (owner == 0) retired.class_index.store(0, kRelease);
  return owner;
}

// Puts an entry in front of a list.
void Push(uint32_t index, uint32_t& list) { RetiredAt(index).next.store(std::exchange(list, index), kRelaxed); }

// Keeps what is left of an object, of which `owner` has cells, in an entry.
void KeepRetired(const ShmRetired& left, uint32_t class_index, uint32_t owner, uint64_t first_key) {
  const auto index = static_cast<uint32_t>(AllocateSlot(ArrayId::kRetired, &RetiredAt(0), &ShmRetired::next));
  if (index == 0) return CountLoss(Loss::kStatistics);  // the numbers of those threads are lost, and so are the cells until the threads end
  ShmRetired& retired = RetiredAt(index);
  for (size_t lane = 0; lane < kMostLanes; ++lane) retired.lanes[lane].head.store(left.lanes[lane].head.load(kRelaxed), kRelaxed);
  NoteRetiredKey(index, first_key);
  retired.object_gen.store(left.object_gen.load(kRelaxed), kRelaxed);
  retired.class_gen.store(left.class_gen.load(kRelaxed), kRelaxed);
  retired.class_index.store(class_index, kRelease);  // last: publishes the list of retired cells
  Push(index, SlotAt(owner).retired);
}

// Folds the first entries of a list. One with cells of another live thread goes on to that thread, so no entry is visited in vain.
void FoldFrom(uint32_t& list, uint32_t at_most) {
  for (; list != 0 && at_most > 0; --at_most) {
    const uint32_t index = list;
    ShmRetired& retired = RetiredAt(index);
    list = retired.next.load(kRelaxed);
    if (const uint32_t owner = Fold(retired); owner != 0) {
      Push(index, SlotAt(owner).retired);
    } else {
      FreeSlot(ArrayId::kRetired, &RetiredAt(0), &ShmRetired::next, index);
    }
  }
}

// Retired objects that a thread folds when it makes a cell: more than can come meanwhile, so that they do not pile up.
constexpr uint32_t kFoldedPerCell = 4;

// Returns the slot's cell in a list, or that of a thread that has ended, which is the slot's from here on. 0: there is none. `key`: that of
// the list's cells. REQUIRES: cold lock.
template <typename List>
uint32_t FindOrAdopt(List& list, uint32_t slot, uint64_t key) {
  uint32_t adoptable = 0;
  for (uint32_t at = HeadOf(list); at != 0; at = g_runtime.cells[at].next.load(kRelaxed)) {
    const uint32_t owner = g_runtime.cells[at].owner.load(kRelaxed);
    if (owner == slot) return at;
    if (adoptable == 0 && SlotIsFree(owner)) adoptable = at;
  }
  if (adoptable != 0) AdoptCell(list, adoptable, slot, key);
  return adoptable;
}

void RememberCell(ThreadState& thread, uint64_t key, uint32_t cell) {
  CellCache::Entry& entry = thread.found_cells.entries[CellCache::Place(key)];
  ChangeEntry(entry.key, uint64_t{0}, key, [&] { entry.cell = cell; });
}

// Returns the first lane of a file, of which `list` is one.
ShmCellList* LanesOfFile(uint64_t key, ShmCellList& list) { return &list - LaneOfKey(key); }

// Returns whether a thread that makes its cell in a lane will need those in the other lanes, too. A thread that uses a socket reads it,
// writes it and closes it; one that opens a new file reads or writes it. Each would take the cold lock for its own cell later.
bool NeedsAllLanes(uint64_t key, ShmCellList& list, const HalfWord* flags) {
  if (KindOfKey(key) != CellKind::kFile) return false;
  if (flags != nullptr && (flags->load(kRelaxed) & kFlagSocket) != 0) return true;
  ShmCellList* const lanes = LanesOfFile(key, list);
  return std::all_of(lanes, lanes + kFileLanes, [](const ShmCellList& lane) { return HeadOf(lane) == 0; });
}

// Gives the thread its cells in the lanes of a file or socket besides `list`. REQUIRES: cold lock.
void AddOtherLanes(ThreadState& thread, uint64_t key, ShmCellList& list) {
  ShmCellList* const lanes = LanesOfFile(key, list);
  const uint64_t first_key = key - KeyOfLane(0, LaneOfKey(key));
  for (size_t lane = 0; lane < kFileLanes; ++lane) {
    if (lane == LaneOfKey(key)) continue;
    uint32_t index = FindOrAdopt(lanes[lane], thread.slot, KeyOfLane(first_key, lane));
    if (index == 0) {
      FoldRetired(kFoldedPerCell);
      const ShmCell* const cell = AddCell(lanes[lane], thread.slot, nullptr);
      if (cell == nullptr) return;
      index = IndexOf(cell);
    }
    RememberCell(thread, KeyOfLane(first_key, lane), index);
  }
}

}  // namespace

void AddCells(const ThreadState& thread, std::span<ShmCellList> lanes) {
  for (ShmCellList& lane : lanes) {
    FoldRetired(kFoldedPerCell);
    if (object_cells >= static_cast<uint64_t>(StartOptionsLocked().Get(OptionId::max_object_cells)) / 2) return;
    if (AddCell(lane, thread.slot, nullptr) == nullptr) return;
  }
}

ShmCell* SearchCell(const ThreadState& thread, uint64_t key, const ShmCellList& list) {
  if (ShmCell* cell = CachedCell(thread, key); cell != nullptr) return cell;
  for (uint32_t at = HeadOf(list, kAcquire); at != 0; at = g_runtime.cells[at].next.load(kAcquire)) {
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): the array is there since the start
    if (g_runtime.cells[at].owner.load(kRelaxed) == thread.slot) return &g_runtime.cells[at];
  }
  return nullptr;
}

template <typename List>
ShmCell* FindCellSlow(ThreadState& thread, uint64_t key, List& list, const HalfWord* flags) {
  const int error = errno;
  uint32_t found = 0;
  bool is_dead = false;
  if (ColdLock lock; lock) {
    // From here on an instance does not die without the cold lock. The exceptions: it is dying already
    // (record/engine/free_lists.h), or the key is of an earlier object of its slot.
    if (ShmInstance* const instance = InstanceOf(key); instance != nullptr) is_dead = !BeginSharing(*instance);
    is_dead = is_dead || (flags != nullptr && (flags->load(kRelaxed) & kFlagDead) != 0) || IsGone(key);
    if (!is_dead) found = FindOrAdopt(list, thread.slot, key);  // the list of a dead object belongs to its successor
    if (found == 0 && !is_dead) {
      FoldRetired(kFoldedPerCell);
      bool needs_all_lanes = false;
      if constexpr (std::is_same_v<List, ShmCellList>) needs_all_lanes = NeedsAllLanes(key, list, flags);
      if (ShmCell* cell = AddCell(list, thread.slot, InstanceOf(key)); cell != nullptr) found = IndexOf(cell);
      if constexpr (std::is_same_v<List, ShmCellList>) {
        if (found != 0 && needs_all_lanes) AddOtherLanes(thread, key, list);
      }
    }
  }
  errno = error;
  if (found == 0) {
    constexpr bool kOfObject = std::is_same_v<List, ShmCellList>;
    if (!is_dead && (kOfObject || !thread.has_lost_cell)) CountLoss(Loss::kStatistics);
    thread.has_lost_cell = kOfObject && !is_dead;
    return nullptr;
  }
  RememberCell(thread, key, found);
  return &g_runtime.cells[found];
}
template ShmCell* FindCellSlow(ThreadState&, uint64_t, ShmCellList&, const HalfWord*);
template ShmCell* FindCellSlow(ThreadState&, uint64_t, ShmCellChain&, const HalfWord*);

void AddToClass(ThreadState& thread, uint32_t class_index, uint8_t lane, bool timed, uint64_t wait_ps, uint64_t amount, uint64_t count) {
  ShmClass& entry = g_runtime.classes[class_index];
  ShmCell* cell = FindCell(thread, CellKey(CellKind::kClass, class_index, 0, lane), entry.lanes[lane]);
  if (cell != nullptr) AddToCell(*cell, Generation(ClassDomain(static_cast<Family>(entry.family))), timed, wait_ps, amount, count);
  thread.has_lost_cell = false;
}

void AddToStaleCell(ThreadState& thread, ShmCell& cell, uint32_t class_index, uint8_t lane, bool timed, uint64_t wait_ps, uint64_t count) {
  const int error = errno;
  bool is_added = false;
  if (ColdLock lock; lock) {  // no TRUNCATE meanwhile
    ShmClass& entry = g_runtime.classes[class_index];
    const auto family = static_cast<Family>(entry.family);
    const uint32_t now = Generation(ObjectDomain(family));
    const FoldSection fold(entry);
    if (GenerationsOfClass(family, now).Has(cell.gen.load(kRelaxed))) MoveToDead(entry, lane, cell);
    {
      const CellWriter writer(cell.seq);
      ClearCell(cell);  // before it has a generation that counts
    }
    AddToCell(cell, now, timed, wait_ps, 0, count);
    is_added = true;
  }
  errno = error;
  if (!is_added) AddToClass(thread, class_index, lane, timed, wait_ps, 0, count);  // a signal handler that interrupted pfs
}

void RetireObject(uint32_t class_index, uint64_t first_key, std::span<ShmCellList> lanes, ShmInstance* own, void (*hide)(void* object),
                  void* object) {
  ShmClass& entry = g_runtime.classes[class_index];
  const bool has_cells = std::any_of(lanes.begin(), lanes.end(), [](const ShmCellList& lane) { return HeadOf(lane) != 0; });
  if (!has_cells && (own == nullptr || IsEmpty(own->stat))) return hide(object);  // nothing moves: readers of totals need not know
  const auto family = static_cast<Family>(entry.family);
  const uint32_t object_gen = Generation(ObjectDomain(family));
  const FoldSection fold(entry);
  ShmRetired& leaving = g_runtime.header->move.object;
  if (has_cells) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) leaving.lanes[lane].head.store(HeadOf(lanes[lane]), kRelaxed);
    leaving.object_gen.store(object_gen, kRelaxed);
    leaving.class_gen.store(Generation(ClassDomain(family)), kRelaxed);
    leaving.class_index.store(class_index, kRelease);  // from here on the lists count when the object does not show them any more
  }
  hide(object);
  if (own != nullptr && !IsEmpty(own->stat)) {
    if (own->gen.load(kRelaxed) == object_gen) {
      MoveToDead(entry, 0, LoadStat(own->stat), 0, own->gen, static_cast<uint32_t>(own - g_runtime.instances) | kMovesInstance);
    }
    {
      const CellWriter writer(own->seq);
      ClearStat(own->stat);
    }
    EndMove(own->gen);
  }
  if (!has_cells) return;
  for (ShmCellList& lane : lanes) lane.first.store(0, kRelease);
  const Generations counting = GenerationsOfClass(family, object_gen);
  uint32_t owner = 0;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    HalfWord& head = leaving.lanes[lane].head;
    FoldList(entry, lane, head, counting, true, KeyOfLane(first_key, lane));
    if (const uint32_t rest = head.load(kRelaxed); rest != 0) owner = g_runtime.cells[rest].owner.load(kRelaxed);
  }
  if (owner != 0) KeepRetired(leaving, class_index, owner, first_key);
  leaving.class_index.store(0, kRelease);
  for (size_t lane = 0; owner != 0 && lane < lanes.size(); ++lane) leaving.lanes[lane].head.store(0, kRelease);
}

void FoldRetired(uint32_t at_most) {
  if (const ThreadState* const self = t_locals.state; self != nullptr) FoldFrom(SlotAt(self->slot).retired, at_most);
  FoldFrom(orphans, at_most);
}

void LeaveRetired(uint32_t slot) {
  uint32_t& first = SlotAt(slot).retired;
  if (first == 0) return;
  HalfWord* last = &RetiredAt(first).next;
  while (last->load(kRelaxed) != 0) last = &RetiredAt(last->load(kRelaxed)).next;
  last->store(orphans, kRelaxed);
  orphans = std::exchange(first, 0);
}

bool MakeClassCells(ShmClass& entry) {
  const uint8_t lanes = TraitsOf(static_cast<Family>(entry.family)).lanes;
  entry.dead.store(0, kRelaxed);
  if (lanes == 0) return true;
  const int64_t first = g_runtime.segment.AllocateFresh(ArrayId::kCells, lanes);
  if (first < 0) return false;
  for (uint8_t lane = 0; lane < lanes; ++lane) {
    ShmCell& cell = g_runtime.cells[first + lane];
    StoreUnsampledWord(cell, kUnsampledMark);
    cell.owner.store(kColdOwner, kRelaxed);
  }
  entry.dead.store(static_cast<uint32_t>(first), kRelease);
  return true;
}

uint32_t HeldByThisThread(uint32_t instance_index) {
  const ShmInstance& instance = g_runtime.instances[instance_index];
  const ThreadState* const self = t_locals.state;
  if (self == nullptr || (instance.flags.load(kRelaxed) & kFlagShared) == 0) return 0;
  const uint64_t key = CellKey(CellKind::kInstance, instance_index, VersionOf(instance), 0);
  const ShmCell* const cell = SearchCell(*self, key, g_runtime.instance_lists[instance_index].cells);
  return cell == nullptr ? 0 : cell->held.load(kRelaxed);
}

void HoldInChild(const ThreadState& thread, uint32_t instance_index, uint32_t held) {
  ShmCell* const cell = AddCell(g_runtime.instance_lists[instance_index].cells, thread.slot, &g_runtime.instances[instance_index]);
  if (cell != nullptr) cell->held.store(held, kRelaxed);
}

void ForgetCells() {
  object_cells = orphans = 0;
  g_runtime.header->move.of.store(0, kRelaxed);
  g_runtime.header->move.object.class_index.store(0, kRelaxed);
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    ShmClass& entry = g_runtime.classes[i];
    for (ShmCellChain& lane : entry.lanes) lane.head.store(0, kRelaxed);
    entry.fold_seq.store(0, kRelaxed);
    entry.longest_wait.store(0, kRelaxed);
    (void)MakeClassCells(entry);  // if the segment is full, numbers of dead objects will be counted as lost
  }
}

}  // namespace perfschema
