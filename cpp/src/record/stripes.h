// record/stripes.h: statistics of objects that no lock protects: one cell for each (object, thread) pair, found without a lock.
#pragma once

#include "record/threads.h"

namespace perfschema {

// What a stripe belongs to, as the thread's cache knows it.
enum class StripeKind : uint64_t { kClass = 1, kMutex = 2, kFile = 3 };
constexpr uint64_t StripeObject(StripeKind kind, uint32_t index, uint16_t version) {
  return static_cast<uint64_t>(kind) << 56 | static_cast<uint64_t>(version) << 32 | index;
}

inline void ClearIo(ShmIoStat& io) {
  ClearStat(io.misc);
  ClearStat(io.read);
  ClearStat(io.write);
  io.read_bytes.store(0, kRelease);
  io.write_bytes.store(0, kRelease);
}

// Makes or adopts the calling thread's stripe. nullptr: no room, the event is counted as lost; or the file was deleted meanwhile (kFlagDead),
// and the event is its class's. Preserves errno. Cold.
[[gnu::noinline]] ShmStripe* FindStripeSlow(ThreadState& thread, uint64_t object, HalfWord& list);

PFS_ALWAYS_INLINE ShmStripe* FindStripe(ThreadState& thread, uint64_t object, HalfWord& list) {
  const StripeCache::Entry& entry = thread.stripes.entries[StripeCache::Place(object)];
  if (__builtin_expect(entry.object == object, 1)) return &g_runtime.stripes[entry.stripe];
  return FindStripeSlow(thread, object, list);
}

// Adds one event to a stripe of the calling thread.
PFS_ALWAYS_INLINE void AddToStripe(ShmStripe& stripe, uint32_t gen, OperationGroup group, bool timed, uint64_t wait_ps, uint64_t bytes) {
  const CellWriter writer(stripe.seq);
  if (StartsGeneration(stripe.gen, gen)) ClearIo(stripe.io);
  switch (group) {
    case OperationGroup::kMisc: AddToStat(stripe.io.misc, timed, wait_ps); break;
    case OperationGroup::kRead:
      AddToStat(stripe.io.read, timed, wait_ps);
      stripe.io.read_bytes.store(stripe.io.read_bytes.load(kRelaxed) + bytes, kRelease);
      break;
    case OperationGroup::kWrite:
      AddToStat(stripe.io.write, timed, wait_ps);
      stripe.io.write_bytes.store(stripe.io.write_bytes.load(kRelaxed) + bytes, kRelease);
      break;
  }
}

// Two domains of a family: live objects, and the class itself.
constexpr ResetDomain ObjectDomain(Family family) { return family == Family::kMutex ? ResetDomain::kMutexInstances : ResetDomain::kFileInstances; }
constexpr ResetDomain ClassDomain(Family family) { return family == Family::kMutex ? ResetDomain::kMutexClasses : ResetDomain::kFileClasses; }
inline uint32_t Generation(ResetDomain domain) { return g_runtime.header->resets[static_cast<uint32_t>(domain)].load(kRelaxed); }

// An object dies: `hide` takes it from the readers' sight, and what `list` and `own` (may be nullptr; a cell that the caller alone writes)
// hold moves to the class in the same fold section. Stripes of other live threads go to a grave.
// REQUIRES: cold lock; no new event of the object will begin.
void BuryObject(uint32_t class_index, HalfWord& list, ShmInstance* own, void (*hide)(void* object), void* object);

// Moves what has become free in graves to the classes: stripes of the calling thread and of free slots. REQUIRES: cold lock.
void FoldGraves(uint32_t at_most);

}  // namespace perfschema
