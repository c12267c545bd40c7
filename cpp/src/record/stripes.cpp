#include "record/stripes.h"

#include <cerrno>

namespace perfschema {
namespace {

uint32_t IndexOf(const ShmStripe* stripe) { return static_cast<uint32_t>(stripe - g_runtime.stripes); }

// May the calling thread store to a stripe of this slot? Its own, or one whose thread has ended.
bool MayTake(uint32_t owner) {
  const ThreadState* self = t_locals.state;
  return (self != nullptr && owner == self->slot) || owner == 0 || SlotIsFree(owner);
}

ShmStripe* TakeStripe() {
  ShmArray& array = g_runtime.segment.array(ArrayId::kStripes);
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    ShmStripe& stripe = g_runtime.stripes[free];
    array.free_head.store(stripe.next.load(kRelaxed), kRelaxed);
    return &stripe;
  }
  const int64_t fresh = g_runtime.segment.TakeFresh(ArrayId::kStripes);
  return fresh < 0 ? nullptr : &g_runtime.stripes[fresh];
}

void GiveStripe(ShmStripe& stripe) {
  {
    const CellWriter writer(stripe.seq);
    ClearIo(stripe.io);
  }
  ShmArray& array = g_runtime.segment.array(ArrayId::kStripes);
  stripe.owner.store(0, kRelaxed);
  stripe.next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelease);
  array.free_head.store(IndexOf(&stripe), kRelaxed);
}

// Adds to what the class keeps of dead objects. REQUIRES: cold lock, inside fold_seq.
void AddToDead(ShmClass& entry, const Stat& misc, const Stat& read, const Stat& write, uint64_t read_bytes, uint64_t write_bytes) {
  ShmStripe& dead = entry.dead;
  const CellWriter writer(dead.seq);
  if (StartsGeneration(dead.gen, Generation(ClassDomain(static_cast<Family>(entry.family))))) ClearIo(dead.io);
  MergeIntoStat(dead.io.misc, misc);
  MergeIntoStat(dead.io.read, read);
  MergeIntoStat(dead.io.write, write);
  dead.io.read_bytes.store(dead.io.read_bytes.load(kRelaxed) + read_bytes, kRelease);
  dead.io.write_bytes.store(dead.io.write_bytes.load(kRelaxed) + write_bytes, kRelease);
}

void FoldStripe(ShmClass& entry, ShmStripe& stripe) {
  AddToDead(entry, LoadStat(stripe.io.misc), LoadStat(stripe.io.read), LoadStat(stripe.io.write), stripe.io.read_bytes.load(kRelaxed),
            stripe.io.write_bytes.load(kRelaxed));
}

// While statistics move between an object and its class, readers of the class's totals wait.
// Threads: external lock (cold lock).
class FoldSection {
 public:
  explicit FoldSection(ShmClass& entry) : entry_(entry), next_(entry.fold_seq.load(kRelaxed) + 2) {
    entry_.fold_seq.store(next_ - 1, kRelaxed);  // ordered before the moves by their release stores
  }
  ~FoldSection() { entry_.fold_seq.store(next_, kRelease); }  // pairs with Snapshot::class_totals
  FoldSection(const FoldSection&) = delete;
  FoldSection& operator=(const FoldSection&) = delete;

 private:
  ShmClass& entry_;
  uint32_t next_;
};

// A thread forgets a stripe that it is about to give away.
void ForgetStripe(const ShmStripe& stripe) {
  ThreadState* self = t_locals.state;
  if (self == nullptr) return;
  for (StripeCache::Entry& entry : self->stripes.entries) {
    if (entry.stripe == IndexOf(&stripe)) entry.object = 0;
  }
}

// Folds what may be taken of the list; returns the rest of it.
uint32_t FoldList(ShmClass& entry, uint32_t head, uint32_t object_gen, bool class_is_current) {
  uint32_t rest = 0;
  for (uint32_t at = head; at != 0;) {
    ShmStripe& stripe = g_runtime.stripes[at];
    const uint32_t next = stripe.next.load(kRelaxed);
    if (MayTake(stripe.owner.load(kRelaxed))) {
      if (class_is_current && stripe.gen.load(kRelaxed) == object_gen) FoldStripe(entry, stripe);
      ForgetStripe(stripe);
      GiveStripe(stripe);
    } else {
      stripe.next.store(rest, kRelease);
      rest = at;
    }
    at = next;
  }
  return rest;
}

}  // namespace

ShmStripe* FindStripeSlow(ThreadState& thread, uint64_t object, HalfWord& list) {
  const int error = errno;
  uint32_t found = 0;
  bool is_dead = false;
  if (ColdLock lock; lock) {
    is_dead = object >> 56 == static_cast<uint64_t>(StripeKind::kFile) &&
              (g_runtime.files[static_cast<uint32_t>(object)].flags.load(kRelaxed) & kFlagDead) != 0;
    uint32_t adoptable = 0;
    for (uint32_t at = list.load(kRelaxed); at != 0 && found == 0; at = g_runtime.stripes[at].next.load(kRelaxed)) {
      const uint32_t owner = g_runtime.stripes[at].owner.load(kRelaxed);
      if (owner == thread.slot) {
        found = at;
      } else if (adoptable == 0 && SlotIsFree(owner)) {
        adoptable = at;
      }
    }
    if (found == 0 && adoptable != 0) {
      g_runtime.stripes[adoptable].owner.store(thread.slot, kRelaxed);
      found = adoptable;
    }
    if (found == 0 && !is_dead) {
      FoldGraves(4);
      if (ShmStripe* stripe = TakeStripe(); stripe != nullptr) {
        stripe->owner.store(thread.slot, kRelaxed);
        stripe->next.store(list.load(kRelaxed), kRelaxed);
        found = IndexOf(stripe);
        list.store(found, kRelease);  // pairs with Snapshot: the stripe is whole before it is in the list
      }
    }
  }
  errno = error;
  if (found == 0) {
    if (!is_dead) CountLoss(Loss::kStatistics);
    return nullptr;
  }
  thread.stripes.entries[StripeCache::Place(object)] = {object, found};
  return &g_runtime.stripes[found];
}

void BuryObject(uint32_t class_index, HalfWord& list, ShmInstance* own, void (*hide)(void* object), void* object) {
  ShmClass& entry = g_runtime.classes[class_index];
  const auto family = static_cast<Family>(entry.family);
  const uint32_t object_gen = Generation(ObjectDomain(family));
  FoldSection fold(entry);
  hide(object);
  if (own != nullptr && own->gen.load(kRelaxed) == object_gen) AddToDead(entry, LoadStat(own->stat), {}, {}, 0, 0);
  if (own != nullptr) {
    const CellWriter writer(own->seq);
    ClearStat(own->stat);
  }
  const uint32_t rest = FoldList(entry, list.load(kRelaxed), object_gen, true);
  list.store(0, kRelease);
  if (rest == 0) return;
  ShmArray& array = g_runtime.segment.array(ArrayId::kGraves);
  ShmGrave* grave = nullptr;
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    grave = g_runtime.segment.element<ShmGrave>(ArrayId::kGraves, free);
    array.free_head.store(grave->next.load(kRelaxed), kRelaxed);
  } else if (const int64_t fresh = g_runtime.segment.TakeFresh(ArrayId::kGraves); fresh >= 0) {
    grave = g_runtime.segment.element<ShmGrave>(ArrayId::kGraves, static_cast<uint64_t>(fresh));
  }
  if (grave == nullptr) {  // the numbers of those threads are lost, and so are the stripes until the threads end
    CountLoss(Loss::kStatistics);
    return;
  }
  grave->stripes.store(rest, kRelaxed);
  grave->object_gen.store(object_gen, kRelaxed);
  grave->class_gen.store(Generation(ClassDomain(family)), kRelaxed);
  grave->class_index.store(class_index, kRelease);  // last: publishes the grave
}

void FoldGraves(uint32_t at_most) {
  Segment& segment = g_runtime.segment;
  ShmArray& array = segment.array(ArrayId::kGraves);
  const uint64_t used = array.used.load(kRelaxed);
  static uint64_t next = 1;  // where the last call stopped: all graves get their turn
  for (uint64_t seen = 1; seen < used && at_most > 0; ++seen) {
    next = next + 1 < used ? next + 1 : 1;
    auto* grave = segment.element<ShmGrave>(ArrayId::kGraves, next);
    const uint32_t class_index = grave->class_index.load(kRelaxed);
    if (class_index == 0) continue;
    --at_most;
    ShmClass& entry = g_runtime.classes[class_index];
    const bool current = grave->class_gen.load(kRelaxed) == Generation(ClassDomain(static_cast<Family>(entry.family)));
    FoldSection fold(entry);
    const uint32_t rest = FoldList(entry, grave->stripes.load(kRelaxed), grave->object_gen.load(kRelaxed), current);
    grave->stripes.store(rest, kRelease);
    if (rest != 0) continue;
    grave->class_index.store(0, kRelease);
    grave->next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelaxed);
    array.free_head.store(next, kRelaxed);
  }
}

}  // namespace perfschema
