// Cells, stripes and totals of classes. The map of who counts where is "Protocols" in docs/architecture.md.
#include <algorithm>
#include <ctime>
#include <vector>

#include "snapshot/snapshot.h"
#include "snapshot/try_read.h"

namespace perfschema {
namespace {

// Reset domains of a family's cells: those of its live objects, and those of its classes.
struct Domains {
  ResetDomain instances, classes;
};
Domains DomainsOf(Family family) {
  return family == Family::kFile ? Domains{ResetDomain::kFileInstances, ResetDomain::kFileClasses}
                                 : Domains{ResetDomain::kMutexInstances, ResetDomain::kMutexClasses};
}

IoStat LoadIoStat(const ShmIoStat& io) {
  return {LoadStat(io.misc), LoadStat(io.read), LoadStat(io.write), io.read_bytes.load(kAcquire),
          io.write_bytes.load(kAcquire)};
}

constexpr int kSlotAttempts = 8;    // for a slot that changes hands while it is read
constexpr int kTotalAttempts = 20;  // for a class whose objects die while they are added up

}  // namespace

// A stripe of an older generation counts nothing. False: torn.
bool Snapshot::AddStripe(const ShmStripe& stripe, uint32_t gen, IoStat* sum) const {
  IoStat copy;
  const bool read = TryRead(stripe.seq, stripe.gen,
                            [&](uint32_t stripe_gen) { copy = stripe_gen == gen ? LoadIoStat(stripe.io) : IoStat(); });
  if (read) sum->Merge(copy);
  return read;
}

// A list has at most one stripe a thread slot. A longer one is damaged, or was taken apart on the way (then the object
// is gone, too).
bool Snapshot::AddStripes(uint32_t head, uint32_t gen, IoStat* sum) const {
  uint64_t longest = threads_.capacity() + 1;
  while (head != 0) {
    const ShmStripe* stripe = stripes_.at(head);
    if (stripe == nullptr || longest-- == 0 || steps_left_ == 0) return false;
    --steps_left_;
    if (!AddStripe(*stripe, gen, sum)) return false;
    head = stripe->next.load(kAcquire);  // pairs with whoever links a stripe in
  }
  return true;
}

Snapshot::Found Snapshot::ReadMutex(uint32_t index, uint32_t gen, MutexRow* row) const {
  const ShmInstance* shm = mutexes_.at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint16_t class_index = shm->class_index.load(kAcquire);  // pairs with the last store of the birth
    if (class_index == 0) return Found::kFree;
    const uint16_t version = shm->version.load(kAcquire);
    Stat wait;
    bool whole =
        TryRead(shm->seq, shm->gen, [&](uint32_t cell_gen) { wait = cell_gen == gen ? LoadStat(shm->stat) : Stat(); });
    IoStat striped;
    const ShmStripeList* list = mutex_lists_.at(index);
    const uint32_t head = list == nullptr ? 0 : list->head.load(kAcquire);
    if (whole && head != 0) whole = AddStripes(head, gen, &striped);
    const uint64_t owner = shm->owner.load(kAcquire) & kOwnerThreadMask;
    const uint64_t identity = shm->identity.load(kAcquire);
    if (shm->class_index.load(kAcquire) != class_index || shm->version.load(kRelaxed) != version) continue;
    if (!whole) return Found::kTorn;
    const ClassRow* instrument = ClassAt(class_index);
    if (instrument == nullptr || instrument->family != Family::kMutex)
      return Found::kFree;  // younger than this snapshot, or damaged
    wait.Merge(striped.total());
    *row = {instrument, identity, owner == 0 ? std::optional<uint64_t>() : owner, wait};
    return Found::kRead;
  }
  return Found::kTorn;
}

Snapshot::Found Snapshot::ReadFileStat(uint32_t index, uint32_t gen, FileRow* row) const {
  const ShmFile* shm = files_.at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint16_t class_index = shm->class_index.load(kAcquire);  // pairs with the last store of the birth
    if (class_index == 0 || (shm->state.load(kAcquire) & ~kFileTemporary) != kFileLive) return Found::kFree;
    const uint16_t version = shm->version.load(kAcquire);
    IoStat io;
    const bool whole = AddStripes(shm->stripes.load(kAcquire), gen, &io);
    const uint32_t open_count = shm->open_count.load(kAcquire);
    const uint32_t state = shm->state.load(kAcquire) & ~kFileTemporary;
    if (shm->class_index.load(kAcquire) != class_index || state != kFileLive || shm->version.load(kRelaxed) != version)
      continue;
    if (!whole) return Found::kTorn;
    const ClassRow* instrument = ClassAt(class_index);
    if (instrument == nullptr || instrument->family != Family::kFile) return Found::kFree;
    const auto offset = reinterpret_cast<const char*>(shm) - reinterpret_cast<const char*>(&header());
    *row = {instrument, static_cast<uint64_t>(offset), {}, open_count, io};
    return Found::kRead;
  }
  return Found::kTorn;
}

// The name may change (rename) while it is copied. False: it does so faster than it can be read.
bool Snapshot::ReadFileName(uint32_t index, FileRow* row) const {
  const ShmFile* shm = files_.at(index);
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint32_t granule = shm->name.load(kAcquire);
    if (granule == 0) {  // there was no room for it: Performance_schema_names_lost
      row->name = {};
      return true;
    }
    const ShmNameGranule* first = names_.at(granule);
    if (first == nullptr) return false;
    std::string_view name;
    const bool copied = CopyName(granule, first->version.load(kAcquire), &name);
    if (!copied || shm->name.load(kRelaxed) != granule) continue;
    row->name = name;
    return true;
  }
  return false;
}

void Snapshot::ForEachMutex(const std::function<void(const MutexRow&)>& use) const {
  if (!ok_) return;
  steps_left_ = 4 * stripes_.used() + 1'000'000;
  MutexRow row;
  for (uint64_t i = 1; i < mutexes_.used(); ++i) {
    switch (ReadMutex(static_cast<uint32_t>(i), Reset(ResetDomain::kMutexInstances), &row)) {
      case Found::kFree:
        break;
      case Found::kRead:
        use(row);
        break;
      case Found::kTorn:
        ++skipped_;
        break;
    }
  }
}

void Snapshot::ForEachFile(const std::function<void(const FileRow&)>& use) const {
  if (!ok_) return;
  steps_left_ = 4 * stripes_.used() + 1'000'000;
  FileRow row;
  for (uint64_t i = 1; i < files_.used(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    const ShmFile* shm = files_.at(i);
    if (shm == nullptr) break;
    bool torn = true;
    for (int attempt = 0; attempt < kSlotAttempts && torn; ++attempt) {
      const uint16_t version = shm->version.load(kAcquire);
      const Found found = ReadFileStat(index, Reset(ResetDomain::kFileInstances), &row);
      if (found == Found::kTorn) break;
      torn = false;
      if (found == Found::kFree) break;
      const bool named = ReadFileName(index, &row);
      if (shm->class_index.load(kAcquire) == 0) break;  // died meanwhile
      // Numbers and name must be of the same life of the slot.
      if (named && shm->version.load(kRelaxed) == version)
        use(row);
      else
        torn = true;
    }
    if (torn) ++skipped_;
  }
}

void Snapshot::ForEachThreadWait(const std::function<void(const ThreadWaitRow&)>& use) const {
  if (!ok_ || threads_.capacity() == 0) return;
  const uint64_t width = cells_.capacity() / threads_.capacity();
  std::vector<std::optional<Stat>> stats(classes_.size());
  for (uint64_t slot = 1; slot < threads_.used(); ++slot) {
    const ShmThread* shm = threads_.at(slot);
    if (shm == nullptr) break;
    const uint64_t thread_id = shm->thread_id.load(kAcquire);
    if (thread_id == 0) continue;
    const uint64_t readable =
        std::min<uint64_t>(shm->cells.load(kAcquire), width);  // pairs with the reservation of cells
    const uint32_t gen = Reset(ResetDomain::kThreadWaits);
    for (size_t i = 0; i < classes_.size(); ++i) {
      stats[i] = Stat();
      if (!classes_[i].is_wait() || classes_[i].index >= readable) continue;
      const ShmCell* cell = cells_.at(slot * width + classes_[i].index);
      if (cell == nullptr) continue;
      Stat stat;
      const bool whole = TryRead(cell->seq, cell->gen,
                                 [&](uint32_t cell_gen) { stat = cell_gen == gen ? LoadStat(cell->stat) : Stat(); });
      stats[i] = whole ? std::optional<Stat>(stat) : std::nullopt;
    }
    if (shm->thread_id.load(kRelaxed) != thread_id) continue;  // ended meanwhile: its rows left with it
    for (size_t i = 0; i < classes_.size(); ++i) {
      if (!classes_[i].is_wait()) continue;
      if (stats[i])
        use({thread_id, &classes_[i], *stats[i]});
      else
        ++skipped_;
    }
  }
}

// ---- Totals of classes
// ---------------------------------------------------------------------------------------------------------

// By index of the class.
struct Snapshot::Totals {
  std::vector<bool> wanted;  // not read yet
  std::vector<IoStat> sums;
};

void Snapshot::AddObjects(const Totals& totals, const uint32_t (&resets)[static_cast<size_t>(ResetDomain::kCount)],
                          std::vector<IoStat>* sums, std::vector<bool>* torn) const {
  const auto is_wanted = [&](uint64_t class_index) {
    return class_index < totals.wanted.size() && totals.wanted[class_index];
  };
  const auto instances_gen = [&](Family family) { return resets[static_cast<size_t>(DomainsOf(family).instances)]; };
  const auto add = [&](Found found, uint64_t class_index, const IoStat& io) {
    if (found == Found::kRead) (*sums)[class_index].Merge(io);
    if (found == Found::kTorn) (*torn)[class_index] = true;
  };
  MutexRow mutex;
  for (uint64_t i = 1; i < mutexes_.used(); ++i) {
    const ShmInstance* shm = mutexes_.at(i);
    if (shm == nullptr) break;
    const uint16_t class_index = shm->class_index.load(kRelaxed);
    if (!is_wanted(class_index)) continue;
    const Found found = ReadMutex(static_cast<uint32_t>(i), instances_gen(Family::kMutex), &mutex);
    add(found, found == Found::kRead ? mutex.instrument->index : class_index, {mutex.wait, {}, {}, 0, 0});
  }
  FileRow file;
  for (uint64_t i = 1; i < files_.used(); ++i) {
    const ShmFile* shm = files_.at(i);
    if (shm == nullptr) break;
    const uint16_t class_index = shm->class_index.load(kRelaxed);
    if (!is_wanted(class_index)) continue;
    const Found found = ReadFileStat(static_cast<uint32_t>(i), instances_gen(Family::kFile), &file);
    add(found, found == Found::kRead ? file.instrument->index : class_index, file.io);
  }
  // As many as there are now: a grave that is younger than this snapshot has numbers of older objects.
  const uint64_t graves = std::min(view_.used(ArrayId::kGraves), graves_.capacity());
  for (uint64_t i = 1; i < graves; ++i) {
    const ShmGrave* grave = graves_.at(i);
    if (grave == nullptr) break;
    const uint32_t class_index = grave->class_index.load(kAcquire);  // pairs with the digging of the grave
    if (!is_wanted(class_index)) continue;
    const ClassRow* row = ClassAt(class_index);
    if (row == nullptr ||
        grave->class_gen.load(kAcquire) != resets[static_cast<size_t>(DomainsOf(row->family).classes)])
      continue;
    IoStat io;
    const bool whole = AddStripes(grave->stripes.load(kAcquire), grave->object_gen.load(kAcquire), &io);
    add(whole ? Found::kRead : Found::kTorn, class_index, io);
  }
}

// One pass over everything that may count for a wanted class. Classes that were at rest meanwhile are not wanted any
// more.
void Snapshot::AddUpClasses(Totals* totals) const {
  steps_left_ = 4 * stripes_.used() + 1'000'000;
  const size_t count = class_at_.size();
  std::vector<uint32_t> seqs(count);
  std::vector<IoStat> sums(count);
  std::vector<bool> torn(count);
  uint32_t resets[static_cast<size_t>(ResetDomain::kCount)];
  for (size_t i = 0; i < std::size(resets); ++i) resets[i] = Reset(static_cast<ResetDomain>(i));
  for (const ClassRow& row : classes_) {
    if (!totals->wanted[row.index]) continue;
    const ShmClass* shm = class_array_.at(row.index);
    seqs[row.index] = shm->fold_seq.load(kAcquire);  // pairs with the fold's stores
    const uint32_t gen = resets[static_cast<size_t>(DomainsOf(row.family).classes)];
    IoStat& sum = sums[row.index];
    torn[row.index] = !AddStripe(shm->dead, gen, &sum) || !AddStripes(shm->stripes.load(kAcquire), gen, &sum);
  }
  AddObjects(*totals, resets, &sums, &torn);
  // A TRUNCATE meanwhile would leave a sum of which half is cleared.
  bool truncated = false;
  for (size_t i = 0; i < std::size(resets); ++i) truncated |= Reset(static_cast<ResetDomain>(i)) != resets[i];
  if (truncated) return;
  for (const ClassRow& row : classes_) {
    const uint32_t seq = seqs[row.index];
    if (!totals->wanted[row.index] || torn[row.index] || (seq & 1) != 0) continue;
    if (class_array_.at(row.index)->fold_seq.load(kRelaxed) != seq)
      continue;  // all loads above are acquire: this one is the last
    totals->sums[row.index] = sums[row.index];
    totals->wanted[row.index] = false;
  }
}

void Snapshot::ForEachClassTotal(const std::function<void(const ClassTotalRow&)>& use) const {
  if (!ok_) return;
  Totals totals{std::vector<bool>(class_at_.size()), std::vector<IoStat>(class_at_.size())};
  for (const ClassRow& row : classes_) totals.wanted[row.index] = row.is_wait();
  const auto is_done = [&] {
    return std::find(totals.wanted.begin(), totals.wanted.end(), true) == totals.wanted.end();
  };
  for (int attempt = 0; attempt < kTotalAttempts && !is_done(); ++attempt) {
    if (attempt > 2) {
      const timespec nap{0, 20'000 * attempt};
      nanosleep(&nap, nullptr);
    }
    AddUpClasses(&totals);
  }
  if (!is_done() && quiesce_) quiesce_([&] { AddUpClasses(&totals); });
  for (const ClassRow& row : classes_) {
    if (!row.is_wait()) continue;
    if (totals.wanted[row.index])
      ++skipped_;
    else
      use({&row, totals.sums[row.index]});
  }
}

}  // namespace perfschema
