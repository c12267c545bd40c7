// snapshot/object_reader.h: reads objects and their lists of cells, for the files of this folder.
#pragma once

#include "snapshot/objects.h"
#include "snapshot/slots.h"

namespace perfschema {

inline constexpr uint64_t kAhead = 16;  // objects whose parts are on their way while one is read

template <uint32_t kCount>
void PrefetchCells(const Snapshot& snapshot, const ShmCellList (&lists)[kCount]) {
  for (const ShmCellList& list : lists) {
    if (const uint32_t head = HeadOf(list); head != 0) __builtin_prefetch(snapshot.array<ArrayId::kCells>().at(head));
  }
}

// Adds up a list, whose head was loaded with acquire. It has at most one cell per thread slot. A longer list is damaged, or was taken apart
// meanwhile (then the object is gone, too). Returns false if it is torn.
bool AddLane(const Snapshot& snapshot, uint32_t first, Generations counting, Stat* sum, uint64_t* moved, uint64_t* held = nullptr);
template <typename List, uint32_t kCount>
bool AddLanes(const Snapshot& snapshot, const List (&lists)[kCount], Generations counting, LanesOf<kCount>* sum) {
  for (uint32_t lane = 0; lane < kCount; ++lane) {
    const uint32_t first = HeadOf(lists[lane], kAcquire);  // pairs with FindCellSlow
    if (!AddLane(snapshot, first, counting, &sum->stats[lane], &sum->amounts[lane])) return false;
  }
  return true;
}

// Reads an object. A total needs only its class, not its generation. Slots of objects that counted nothing are reused, and keep their
// class, faster than they can be read (record/engine/free_lists.h). Numbers in its list are of one generation, which ends in a fold.
Found ReadInstance(const Snapshot& snapshot, uint32_t index, InstanceRow* row, bool of_any_generation = false);

}  // namespace perfschema
