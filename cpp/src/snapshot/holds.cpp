// snapshot/holds.cpp: reads how long locks were held. record/family/holds.h says which numbers are whose.
#include <algorithm>

#include "snapshot/mend.h"
#include "snapshot/snapshot.h"
#include "snapshot/try_read.h"

namespace perfschema {

// A copy of a ShmHold. Numbers of before the last TRUNCATE are zero.
struct Snapshot::Holds {
  Stat held;
  uint64_t longest = 0;
  uint32_t class_index = 0, version = 0;
  bool is_torn = false;
};

bool Snapshot::ReadHold(const ShmHold& shm, Holds* holds) const {
  const uint32_t gen = Reset(ObjectDomain(ResetGroup::kHold));
  return TryRead(
      shm.seq,
      [&] {
        holds->held = shm.gen.load(kAcquire) == gen ? LoadStat(shm.stat) : Stat();
        holds->longest = shm.longest.load(kAcquire);
        holds->class_index = shm.what.load(kAcquire) & 0xffff;
        holds->version = shm.version.load(kAcquire);
      },
      [&] { Mend(&holds->held); });
}

HoldRow Snapshot::RowOf(const ClassRow* instrument, uint64_t identity, const Holds& holds) const {
  const uint64_t thread_id = holds.longest >> 16;
  return {instrument, identity, holds.held, SourceText(holds.longest & 0xffff),
          thread_id == 0 ? std::optional<uint64_t>() : std::optional<uint64_t>(thread_id)};
}

void Snapshot::ForEachHold(const std::function<void(const HoldRow&)>& use) const {
  if (!ok_) return;
  StartWalks();
  InstanceRow object;
  for (uint64_t i = 1; i < holds_.used(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    const ShmHold* const shm = holds_.at(i);
    const ShmInstanceList* const rest = instance_lists_.at(i);
    if (shm == nullptr || rest == nullptr) break;
    const uint32_t version = rest->version.load(kAcquire);
    Holds holds;
    if (!ReadHold(*shm, &holds)) {
      ++skipped_;
      continue;
    }
    if (holds.held.is_empty() || holds.version != version) continue;
    const Found found = ReadInstance(index, Reset(ObjectDomain(ResetGroup::kSync)), &object, false);
    if (rest->version.load(kAcquire) != version) continue;  // the object died meanwhile
    if (found == Found::kTorn) ++skipped_;
    if (found == Found::kRead && HasOneHolder(object.instrument->family)) use(RowOf(object.instrument, object.identity, holds));
  }
}

// Makes one pass over all holds. Returns false if numbers of a dead object moved meanwhile.
bool Snapshot::AddUpHolds(std::vector<Holds>* sums) const {
  const uint32_t before = header().hold_seq.load(kAcquire);  // pairs with TakeHold
  if (IsUnderWay(header().hold_seq, before)) return false;
  sums->assign(class_at_.size(), Holds());
  const auto add = [&](const ShmHold& shm, uint64_t class_index) {
    Holds one;
    const bool is_whole = ReadHold(shm, &one);
    if (class_index == 0) class_index = one.class_index;
    if (class_index >= sums->size()) return;
    Holds& sum = (*sums)[class_index];
    sum.is_torn = sum.is_torn || !is_whole;
    if (!is_whole || one.held.is_empty()) return;
    if (sum.held.is_empty() || one.held.max_ps > sum.held.max_ps) sum.longest = one.longest;
    sum.held.Merge(one.held);
  };
  // Uses the present number of totals: one that is younger than this snapshot has numbers of older holds.
  const uint64_t totals = std::min(view_.used(ArrayId::kHoldTotals), hold_totals_.capacity());
  // Each element is read once: a process that changes the file may take it away between two calls.
  const auto add_all = [&](const auto& array, uint64_t end, bool are_totals) {
    for (uint64_t i = 1; i < end; ++i) {
      const ShmHold* const shm = array.at(i);
      if (shm == nullptr) return;
      add(*shm, are_totals ? i : 0);
    }
  };
  add_all(hold_totals_, totals, true);
  add_all(holds_, holds_.used(), false);
  return header().hold_seq.load(kRelaxed) == before;  // all loads above are acquire
}

void Snapshot::ForEachHoldTotal(const std::function<void(const HoldRow&)>& use) const {
  if (!ok_) return;
  std::vector<Holds> sums;
  if (!ReadSettled([&] { return AddUpHolds(&sums); })) {
    ++skipped_;
    return;
  }
  for (const ClassRow& row : classes_) {
    if (row.index >= sums.size() || !HasOneHolder(row.family)) continue;
    const Holds& sum = sums[row.index];
    if (sum.is_torn) ++skipped_;
    if (!sum.is_torn && !sum.held.is_empty()) use(RowOf(&row, 0, sum));
  }
}

}  // namespace perfschema
