#include "record/family/holds.h"

#include <algorithm>

#include "record/family/locks.h"

namespace perfschema {
namespace {

constexpr uint32_t kHalf = 16;  // a class and a call site each have as many bits
static_assert(kMostClasses <= uint64_t{1} << kHalf);

uint32_t HoldGeneration() { return Generation(ObjectDomain(ResetGroup::kHold)); }

bool HasHold(uint32_t index) { return index < g_runtime.segment.array(ArrayId::kHolds).used.load(kRelaxed); }

// Gives the holds of all present objects memory. REQUIRES: cold lock.
bool ReserveHolds(uint32_t index) {
  Segment& segment = g_runtime.segment;
  ShmArray& holds = segment.array(ArrayId::kHolds);
  if (!segment.ReserveUpTo(ArrayId::kHolds, index + 1)) return false;
  const uint64_t objects = segment.array(ArrayId::kInstances).used.load(kRelaxed);
  const uint64_t used = std::min(objects, holds.reserved.load(kRelaxed) / holds.stride);
  if (used > holds.used.load(kRelaxed)) holds.used.store(used, kRelease);  // pairs with Snapshot
  return HasHold(index);
}

void Empty(ShmHold& hold) {
  ClearStat(hold.stat);
  hold.longest.store(0, kRelease);
}

// Adds the numbers of a dead object to those of its class. REQUIRES: cold lock.
bool AddToClass(const ShmHold& dead) {
  const uint32_t class_index = dead.what.load(kRelaxed) & ((1u << kHalf) - 1);
  Segment& segment = g_runtime.segment;
  if (!segment.ReserveUpTo(ArrayId::kHoldTotals, class_index + 1)) return false;
  ShmArray& totals = segment.array(ArrayId::kHoldTotals);
  if (class_index >= totals.used.load(kRelaxed)) totals.used.store(class_index + 1, kRelease);  // pairs with Snapshot
  ShmHold& total = *segment.element<ShmHold>(ArrayId::kHoldTotals, class_index);
  const CellWriter writer(total.seq);
  StartGeneration(total.gen, dead.gen.load(kRelaxed), [&] { Empty(total); });
  const Stat before = LoadStat(total.stat), more = LoadStat(dead.stat);
  if (before.is_empty() || more.max_ps > before.max_ps) total.longest.store(dead.longest.load(kRelaxed), kRelease);
  MergeIntoStat(total.stat, more);
  return true;
}

// Makes the slot that of a new object. Returns false if the old one's numbers cannot move: then the holds of the new one do not count.
bool TakeHold(ShmHold& hold, uint32_t version) {
  const auto take = [&] {
    const CellWriter writer(hold.seq);
    Empty(hold);
    hold.version.store(version, kRelease);
  };
  if (IsEmpty(hold.stat) || hold.gen.load(kRelaxed) != HoldGeneration()) return take(), true;
  const ColdLock lock;
  if (!lock) return false;
  HalfWord& seq = g_runtime.header->hold_seq;
  const CellWriter moving(seq);  // pairs with ForEachHoldTotal
  if (hold.gen.load(kRelaxed) == HoldGeneration() && !AddToClass(hold)) return false;
  take();
  return true;
}

// Returns the object's slot, or nullptr if there is no memory for it.
ShmHold* HoldOf(const ShmInstance& object) {
  const uint32_t index = IndexOf(object), version = VersionOf(object);
  bool is_there = HasHold(index);
  if (!is_there) {
    const ColdLock lock;
    is_there = lock && ReserveHolds(index);
  }
  if (!is_there) return nullptr;
  ShmHold& hold = g_runtime.holds[index];
  return __builtin_expect(hold.version.load(kRelaxed) == version, 1) || TakeHold(hold, version) ? &hold : nullptr;
}

// REQUIRES: the thread holds the object at the depth of its owner word.
void Begin(ShmInstance& object, uint64_t owner, uint32_t source) {
  const int error = errno;
  ShmHold* const hold = HoldOf(object);
  errno = error;
  if (hold == nullptr) return CountLoss(Loss::kStatistics);
  hold->what.store(object.class_index.load(kRelaxed) | source << kHalf, kRelaxed);
  hold->since.store(g_time_base.Counter(), kRelaxed);
  object.owner.store(owner | kOwnerHold, kRelaxed);
}

}  // namespace

uint32_t SourceOfHold(ThreadState& thread, const char* file, uint32_t line) {
  const uint64_t nesting = thread.nesting;
  EnterProbe(thread);
  const uint32_t source = thread.sources.Find(file, line);
  LeaveProbe(thread, nesting);
  return source;
}

void BeginHoldAt(ShmInstance& object, uint32_t source) {
  const ThreadState* const thread = t_locals.state;
  if (thread == nullptr || thread->inside() || object.owner.load(kRelaxed) != thread->thread_id) return;
  Begin(object, thread->thread_id, source);
}

void BeginHold(ShmInstance& object, const char* file, uint32_t line) {
  ThreadState* const thread = t_locals.state;
  if (thread == nullptr || thread->inside() || object.owner.load(kRelaxed) != thread->thread_id) return;
  Begin(object, thread->thread_id, SourceOfHold(*thread, file, line));
}

void ResumeHold(ShmInstance& object, const char* file, uint32_t line) {
  ThreadState* const thread = AttachedThread();
  const uint64_t owner = object.owner.load(kRelaxed);
  if (thread == nullptr || thread->inside() || (object.flags.load(kRelaxed) & kFlagHolds) == 0) return;
  if ((owner & kOwnerHold) != 0 || (owner & kOwnerThreadMask) != thread->thread_id) return;
  Begin(object, owner, SourceOfHold(*thread, file, line));
}

void EndHold(ShmInstance& object, uint64_t owner) {
  const uint64_t now = g_time_base.Counter();
  const uint32_t index = IndexOf(object);
  if (!g_runtime.on || IsStillForked() || !HasHold(index)) return;  // a hold that began in the parent is not the child's
  ShmHold& hold = g_runtime.holds[index];
  const uint64_t since = hold.since.load(kRelaxed);
  const uint64_t held_ps = now > since ? TimerScale::Scale(now - since, g_time_base.multiplier) : 0;
  const CellWriter writer(hold.seq);
  StartGeneration(hold.gen, HoldGeneration(), [&] { Empty(hold); });
  if (IsEmpty(hold.stat) || held_ps > LoadStat(hold.stat).max_ps) {
    hold.longest.store((owner & kOwnerThreadMask) << kHalf | hold.what.load(kRelaxed) >> kHalf, kRelease);
  }
  AddToStat(hold.stat, true, held_ps);
}

}  // namespace perfschema
