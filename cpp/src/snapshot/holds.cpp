// Reads how long locks were held. record/family/holds.h says which numbers are whose.
#include "snapshot/mend.h"
#include "snapshot/object_reader.h"

namespace perfschema {
namespace {

// A copy of a ShmHold. Numbers of before the last TRUNCATE are zero.
struct Holds {
  Stat held;
  uint64_t longest = 0;
  uint32_t class_index = 0, version = 0;
  bool is_torn = false;
};

bool ReadHold(const Snapshot& snapshot, const ShmHold& shm, Holds* holds) {
  const uint32_t gen = snapshot.Reset(ObjectDomain(ResetGroup::kHold));
  return snapshot.TryRead(
      shm.seq,
      [&] {
        holds->held = shm.gen.load(kAcquire) == gen ? LoadStat(shm.stat) : Stat();
        holds->longest = shm.longest.load(kAcquire);
        holds->class_index = shm.what.load(kAcquire) & 0xffff;
        holds->version = shm.version.load(kAcquire);
      },
      [&] { Mend(&holds->held); });
}

HoldRow RowOf(const Snapshot& snapshot, const ClassRow* instrument, uint64_t identity, const Holds& holds) {
  const uint64_t thread_id = holds.longest >> 16;
  return {instrument, identity, holds.held, snapshot.SourceText(holds.longest & 0xffff),
          thread_id == 0 ? std::optional<uint64_t>() : std::optional<uint64_t>(thread_id)};
}

// Makes one pass over all holds. Returns false if numbers of a dead object moved meanwhile.
bool AddUpHolds(const Snapshot& snapshot, std::vector<Holds>* sums) {
  const uint32_t before = snapshot.header().hold_seq.load(kAcquire);  // pairs with TakeHold
  if (snapshot.IsUnderWay(snapshot.header().hold_seq, before)) return false;
  sums->assign(snapshot.MostClasses(), Holds());
  const auto add = [&](const ShmHold& shm, uint64_t class_index) {
    Holds one;
    const bool is_whole = ReadHold(snapshot, shm, &one);
    if (class_index == 0) class_index = one.class_index;
    if (class_index >= sums->size()) return;
    Holds& sum = (*sums)[class_index];
    sum.is_torn = sum.is_torn || !is_whole;
    if (!is_whole || one.held.is_empty()) return;
    if (sum.held.is_empty() || one.held.max_ps > sum.held.max_ps) sum.longest = one.longest;
    sum.held.Merge(one.held);
  };
  // Uses the present number of totals: one that is younger than this snapshot has numbers of older holds.
  const uint64_t totals = std::min(snapshot.view().used(ArrayId::kHoldTotals), snapshot.array<ArrayId::kHoldTotals>().capacity());
  // Each element is read once: a process that changes the file may take it away between two calls.
  const auto add_all = [&](const auto& array, uint64_t end, bool are_totals) {
    for (uint64_t i = 1; i < end; ++i) {
      const ShmHold* const shm = array.at(i);
      if (shm == nullptr) return;
      add(*shm, are_totals ? i : 0);
    }
  };
  add_all(snapshot.array<ArrayId::kHoldTotals>(), totals, true);
  add_all(snapshot.array<ArrayId::kHolds>(), snapshot.array<ArrayId::kHolds>().used(), false);
  return snapshot.header().hold_seq.load(kRelaxed) == before;  // all loads above are acquire
}

}  // namespace

void ForEachHold(const Snapshot& snapshot, const std::function<void(const HoldRow&)>& use) {
  if (!snapshot.ok()) return;
  snapshot.StartWalks();
  InstanceRow object;
  for (uint64_t i = 1; i < snapshot.array<ArrayId::kHolds>().used(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    const ShmHold* const shm = snapshot.array<ArrayId::kHolds>().at(i);
    const ShmInstanceList* const rest = snapshot.array<ArrayId::kInstanceLists>().at(i);
    if (shm == nullptr || rest == nullptr) break;
    const uint32_t version = rest->version.load(kAcquire);
    Holds holds;
    if (!ReadHold(snapshot, *shm, &holds)) {
      snapshot.CountSkipped();
      continue;
    }
    if (holds.held.is_empty() || holds.version != version) continue;
    const Found found = ReadInstance(snapshot, index, &object);
    if (rest->version.load(kAcquire) != version) continue;  // the object died meanwhile
    if (found == Found::kTorn) snapshot.CountSkipped();
    if (found == Found::kRead && HasOneHolder(object.instrument->family)) use(RowOf(snapshot, object.instrument, object.identity, holds));
  }
}

void ForEachHoldTotal(const Snapshot& snapshot, const std::function<void(const HoldRow&)>& use) {
  if (!snapshot.ok()) return;
  std::vector<Holds> sums;
  if (!snapshot.ReadSettled([&] { return AddUpHolds(snapshot, &sums); })) {
    snapshot.CountSkipped();
    return;
  }
  for (const ClassRow& row : snapshot.classes()) {
    if (row.index >= sums.size() || !HasOneHolder(row.family)) continue;
    const Holds& sum = sums[row.index];
    if (sum.is_torn) snapshot.CountSkipped();
    if (!sum.is_torn && !sum.held.is_empty()) use(RowOf(snapshot, &row, 0, sum));
  }
}

}  // namespace perfschema
