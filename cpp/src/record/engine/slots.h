// record/engine/slots.h: allocates and frees slots of an array. The free list links the elements through one of their
// fields.
//
// class_index 0 is a free object slot, thread_id 0 a free thread slot. Both are stored last when a slot is taken and
// cleared first when it is freed. A reader checks them (and `version`) before and after its copy.
#pragma once

#include "record/engine/runtime.h"

namespace perfschema {

// REQUIRES: cold lock, for both.

// Returns a free slot, or 0 if the array is full.
template <typename T, typename Number>
uint64_t AllocateSlot(ArrayId id, T* elements, std::atomic<Number> T::*link) {
  ShmArray& array = g_runtime.segment.array(id);
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    array.free_head.store((elements[free].*link).load(kRelaxed), kRelaxed);
    return free;
  }
  const int64_t fresh = g_runtime.segment.AllocateFresh(id);
  return fresh < 0 ? 0 : static_cast<uint64_t>(fresh);
}

template <typename T, typename Number>
void FreeSlot(ArrayId id, T* elements, std::atomic<Number> T::*link, uint64_t slot) {
  ShmArray& array = g_runtime.segment.array(id);
  // Release: a reader that mistakes the link for the field's old content sees that the slot has been freed.
  (elements[slot].*link).store(static_cast<Number>(array.free_head.load(kRelaxed)), kRelease);
  array.free_head.store(slot, kRelaxed);
}

}  // namespace perfschema
