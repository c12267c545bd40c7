// record/probe/cells.h and record/context/principals.h say which events count where.
#include "snapshot/objects.h"

#include <algorithm>
#include <vector>

#include "shm/unsampled.h"
#include "snapshot/mend.h"
#include "snapshot/object_reader.h"

namespace perfschema {
namespace {

// Returns which cells of objects count for their class.
Generations CountingForClass(const Snapshot& snapshot, Family family, uint32_t now) {
  return OfClass(now, snapshot.Reset(KeptSince(TraitsOf(family).group)));
}

// Adds a cell; one of another generation counts nothing. Returns false if it is torn.
PFS_ALWAYS_INLINE bool AddCell(const Snapshot& snapshot, const ShmCell& cell, Generations counting, Stat* sum, uint64_t* moved) {
  Stat stat;
  uint64_t amount = 0;
  const bool read = snapshot.TryRead(
      cell.seq,
      [&] {
        const bool counts = counting.Has(cell.gen.load(kAcquire));
        const uint64_t unsampled = UnsampledIn(cell);
        stat = counts ? LoadStat(cell.stat) : Stat();
        stat.unsampled = counts ? unsampled : 0;
        amount = counts ? BytesIn(cell) : 0;
      },
      [&] { Mend(&stat); });
  if (!read) return false;
  sum->Merge(stat);
  *moved += amount;
  return true;
}

}  // namespace

bool AddLane(const Snapshot& snapshot, uint32_t first, Generations counting, Stat* sum, uint64_t* moved, uint64_t* held) {
  uint64_t longest = snapshot.array<ArrayId::kThreads>().capacity() + 1;
  for (uint32_t at = first; at != 0;) {
    const ShmCell* cell = snapshot.array<ArrayId::kCells>().at(at);
    if (cell == nullptr || longest-- == 0 || !snapshot.TakeStep()) return false;
    if (!AddCell(snapshot, *cell, counting, sum, moved)) return false;
    if (held != nullptr) *held += cell->held.load(kAcquire);
    at = cell->next.load(kAcquire);  // pairs with the link of a new cell
  }
  return true;
}

Found ReadInstance(const Snapshot& snapshot, uint32_t index, InstanceRow* row, bool of_any_generation) {
  const uint32_t gen = snapshot.Reset(ObjectDomain(ResetGroup::kSync));
  const ShmInstance* shm = snapshot.array<ArrayId::kInstances>().at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const auto is_dead = [&] { return (shm->flags.load(kAcquire) & kFlagDead) != 0; };  // pairs with the last store of the creation
    if (!of_any_generation && is_dead()) return Found::kFree;
    const uint32_t class_index = shm->class_index.load(kAcquire);
    if (class_index == 0) return Found::kFree;
    const auto has_class = [&] { return shm->class_index.load(kAcquire) == class_index; };
    const ShmInstanceList* rest = snapshot.array<ArrayId::kInstanceLists>().at(index);
    const auto version_now = [&] { return rest == nullptr ? 0 : rest->version.load(kAcquire); };
    const uint32_t version = version_now();
    Stat wait;
    bool is_same_class = true;
    bool whole = snapshot.TryRead(
        shm->seq,
        [&] {
          wait = shm->gen.load(kAcquire) == gen ? LoadStat(shm->stat) : Stat();
          is_same_class = has_class();
        },
        [&] { Mend(&wait); });
    if (!is_same_class) continue;
    Stat apart;
    uint64_t moved = 0, held = 0;
    const uint32_t first = rest == nullptr ? 0 : HeadOf(rest->cells, kAcquire);
    const bool has_cells = first != 0;
    if (whole && has_cells) whole = AddLane(snapshot, first, gen, &apart, &moved, &held);
    const uint64_t owner = shm->owner.load(kAcquire) & kOwnerThreadMask;
    const uint64_t identity = shm->identity.load(kAcquire);
    const bool is_same_generation = version_now() == version;
    if (!has_class() || (!is_same_generation && (!of_any_generation || has_cells)) || (!of_any_generation && is_dead())) continue;
    if (!whole) return Found::kTorn;
    const ClassRow* instrument = snapshot.ClassAt(class_index);
    if (instrument == nullptr || TraitsOf(instrument->family).group != ResetGroup::kSync)
      return Found::kFree;  // younger than this snapshot, or damaged
    wait.Merge(apart);
    *row = {instrument, identity, owner == 0 ? std::optional<uint64_t>() : owner, static_cast<uint32_t>(held), wait};
    return Found::kRead;
  }
  return of_any_generation ? Found::kTorn : Found::kFree;  // objects that died while they were read; the first that stays alive is whole
}

namespace {

// Prefetches the parts of a file that ReadFileStat and ReadFileName will read. They lie all over the segment, and arrive while other
// files are read. Those functions then check the parts.
void PrefetchFile(const Snapshot& snapshot, uint64_t index, uint32_t wanted) {
  const auto& files = snapshot.array<ArrayId::kFiles>();
  const ShmFile* shm = index + kAhead < files.used() ? files.at(index + kAhead) : nullptr;
  if (shm == nullptr) return;
  if ((wanted & kFileNumbers) != 0) PrefetchCells(snapshot, shm->lanes);
  if ((wanted & kFileName) != 0) __builtin_prefetch(snapshot.array<ArrayId::kNames>().at(static_cast<uint32_t>(shm->name.load(kRelaxed))));
}

Found ReadFileStat(const Snapshot& snapshot, uint32_t index, uint32_t wanted, FileRow* row) {
  const ShmFile* shm = snapshot.array<ArrayId::kFiles>().at(index);
  if (shm == nullptr) return Found::kFree;
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint32_t class_index = shm->class_index.load(kAcquire);  // pairs with the last store of the creation
    if (class_index == 0 || (shm->state.load(kAcquire) & kFileStateMask) != kFileLive) return Found::kFree;
    const uint32_t version = shm->version.load(kAcquire);
    const ClassRow* instrument = snapshot.ClassAt(class_index);
    if (instrument == nullptr || (instrument->family != Family::kFile && instrument->family != Family::kSocket))
      return Found::kFree;  // younger than this snapshot, or damaged
    row->io = {};
    const bool whole =
        (wanted & kFileNumbers) == 0 || AddLanes(snapshot, shm->lanes, snapshot.Reset(ObjectDomain(instrument->family)), &row->io);
    const uint32_t open_count = shm->open_count.load(kAcquire);
    const uint32_t descriptor = shm->hash.load(kAcquire);
    const uint64_t thread_id = shm->thread_id.load(kAcquire);
    const uint32_t state = shm->state.load(kAcquire);
    if (shm->class_index.load(kAcquire) != class_index || (state & kFileStateMask) != kFileLive || shm->version.load(kRelaxed) != version)
      continue;
    if (!whole) return Found::kTorn;
    const auto offset = reinterpret_cast<const char*>(shm) - reinterpret_cast<const char*>(&snapshot.header());
    row->instrument = instrument;
    row->identity = static_cast<uint64_t>(offset);
    row->name = {};
    row->open_count = open_count;
    row->state = state;
    row->descriptor = descriptor;
    row->thread_id = thread_id == 0 ? std::optional<uint64_t>() : thread_id;
    return Found::kRead;
  }
  return Found::kTorn;
}

// Copies the name, which may change (rename) meanwhile. Returns false if it changes faster than it can be read.
bool ReadFileName(const Snapshot& snapshot, uint32_t index, FileRow* row) {
  const ShmFile* shm = snapshot.array<ArrayId::kFiles>().at(index);
  for (int attempt = 0; attempt < kSlotAttempts; ++attempt) {
    const uint64_t whole = shm->name.load(kAcquire);
    const auto granule = static_cast<uint32_t>(whole);
    if (granule == 0) {  // the table of names was full: Performance_schema_names_lost
      row->name = {};
      return true;
    }
    const ShmNameGranule* first = snapshot.array<ArrayId::kNames>().at(granule);
    if (first == nullptr) return false;
    std::string_view name;
    const uint32_t version = first->version.load(kAcquire);
    if ((version & 1) != 0 && !snapshot.IsUnderWay(first->version, version)) {  // half of another name
      row->name = {};
      return true;
    }
    const bool copied = snapshot.CopyNewName(granule, version, &name);
    if (!copied || shm->name.load(kRelaxed) != whole) continue;
    row->name = name;
    return true;
  }
  return false;
}

// Holds sums by index of the class.
struct Totals {
  std::vector<bool> wanted;  // not read yet; of a pass: not whole
  std::vector<Lanes> sums;
};

// Returns the numbers that a class keeps of dead objects, of one lane: those before a move that its writer has not finished.
const ShmCell* DeadCell(const Snapshot& snapshot, uint64_t index) {
  const ShmCell* const cell = snapshot.array<ArrayId::kCells>().at(index);
  const ShmMove& move = snapshot.header().move;
  const uint64_t of = move.of.load(kAcquire);  // pairs with MoveToDead
  if (of >> 32 != index || of == 0) return cell;
  const uint64_t from = static_cast<uint32_t>(of) & ~kMovesInstance;
  const HalfWord* gen = nullptr;
  if ((static_cast<uint32_t>(of) & kMovesInstance) != 0) {
    if (const ShmInstance* const object = snapshot.array<ArrayId::kInstances>().at(from); object != nullptr) gen = &object->gen;
  } else {
    if (const ShmCell* const source = snapshot.array<ArrayId::kCells>().at(from); source != nullptr) gen = &source->gen;
  }
  return gen == nullptr || (gen->load(kAcquire) & kMovedGen) != 0 ? cell : &move.before;
}

// The lists of an object that its writer was moving to their class. Each counts unless something else that counts shows it.
class Leaving {
 public:
  explicit Leaving(const Snapshot& snapshot) : object_(snapshot.header().move.object) {
    class_index_ = object_.class_index.load(kAcquire);  // pairs with RetireObject
    for (uint32_t lane = 0; lane < kMostLanes; ++lane) lists_[lane].head.store(HeadOf(object_.lanes[lane], kAcquire), kRelaxed);
  }
  uint32_t class_index() const { return class_index_; }
  const ShmRetired& object() const { return object_; }
  const ShmCellChain (&lists() const)[kMostLanes] { return lists_; }
  // Says that these lists have been counted.
  template <typename List>
  void AreCounted(const List* lists, uint32_t count) {
    for (uint32_t lane = 0; lane < count && class_index_ != 0; ++lane) {
      if (HeadOf(lists[lane], kAcquire) == HeadOf(lists_[lane])) lists_[lane].head.store(0, kRelaxed);
    }
  }

 private:
  const ShmRetired& object_;
  uint32_t class_index_ = 0;
  ShmCellChain lists_[kMostLanes];
};

void AddObjects(const Snapshot& snapshot, const Totals& totals, Totals* pass) {
  Leaving leaving(snapshot);
  const auto is_wanted = [&](uint64_t class_index) { return class_index < totals.wanted.size() && totals.wanted[class_index]; };
  const auto add = [&](Found found, uint64_t class_index, const auto& lanes) {
    if (found == Found::kRead) pass->sums[class_index].Merge(lanes);
    if (found == Found::kTorn) pass->wanted[class_index] = true;
  };
  InstanceRow object;
  for (uint64_t i = 1; i < snapshot.array<ArrayId::kInstances>().used(); ++i) {
    const ShmInstance* shm = snapshot.array<ArrayId::kInstances>().at(i);
    if (shm == nullptr) break;
    const uint32_t class_index = shm->class_index.load(kRelaxed);
    if (!is_wanted(class_index)) continue;
    const Found found = ReadInstance(snapshot, static_cast<uint32_t>(i), &object, true);
    add(found, found == Found::kRead ? object.instrument->index : class_index, LanesOf<1>{{object.wait}});
    const ShmInstanceList* const rest = snapshot.array<ArrayId::kInstanceLists>().at(i);
    if (found == Found::kRead && rest != nullptr) leaving.AreCounted(&rest->cells, 1);
  }
  FileRow file;
  for (uint64_t i = 1; i < snapshot.array<ArrayId::kFiles>().used(); ++i) {
    const ShmFile* shm = snapshot.array<ArrayId::kFiles>().at(i);
    if (shm == nullptr) break;
    const uint32_t class_index = shm->class_index.load(kRelaxed);
    if (!is_wanted(class_index)) continue;
    PrefetchFile(snapshot, i, kFileNumbers);
    const Found found = ReadFileStat(snapshot, static_cast<uint32_t>(i), kFileNumbers, &file);
    add(found, found == Found::kRead ? file.instrument->index : class_index, file.io);
    if (found == Found::kRead) leaving.AreCounted(shm->lanes, kFileLanes);
  }
  // Locks of tables count for the one instrument of such locks, and rows for that of rows.
  Family added = Family{};  // there is one of each: more is damage
  for (const ClassRow& row : snapshot.classes()) {
    if (!is_wanted(row.index) || (row.family != Family::kTableLock && row.family != Family::kTableIo) || row.family == added) continue;
    added = row.family;
    const Generations counting = CountingForClass(snapshot, row.family, snapshot.Reset(ObjectDomain(row.family)));
    const bool is_lock = row.family == Family::kTableLock;
    const uint64_t used = is_lock ? snapshot.array<ArrayId::kTables>().used() : snapshot.array<ArrayId::kIndexes>().used();
    for (uint64_t i = 1; i < used; ++i) {
      const ShmTable* table = is_lock ? snapshot.array<ArrayId::kTables>().at(i) : nullptr;
      const ShmIndex* index = is_lock ? nullptr : snapshot.array<ArrayId::kIndexes>().at(i);
      if (table == nullptr && index == nullptr) break;
      if (is_lock ? table->type.load(kAcquire) == 0 : index->table.load(kAcquire) == 0) continue;
      const auto add_lanes = [&](const auto& lists, auto lanes) {
        const bool whole = AddLanes(snapshot, lists, counting, &lanes);
        add(whole ? Found::kRead : Found::kTorn, row.index, lanes);
        leaving.AreCounted(lists, static_cast<uint32_t>(std::size(lists)));
      };
      if (is_lock)
        add_lanes(table->lock_lanes, LanesOf<kTableLockLanes>());
      else
        add_lanes(index->lanes, LanesOf<kTableIoLanes>());
    }
  }
  const auto add_retired = [&](const ShmRetired& retired, uint32_t class_index, const ShmCellChain(&lists)[kMostLanes]) {
    const ClassRow* row = snapshot.ClassAt(class_index);
    if (row == nullptr || retired.class_gen.load(kAcquire) != snapshot.Reset(ClassDomain(row->family))) return;
    Lanes lanes;
    const bool whole = AddLanes(snapshot, lists, CountingForClass(snapshot, row->family, retired.object_gen.load(kAcquire)), &lanes);
    add(whole ? Found::kRead : Found::kTorn, class_index, lanes);
  };
  // Uses the present number of entries: an entry that is younger than this snapshot has numbers of older objects.
  const uint64_t used = std::min(snapshot.view().used(ArrayId::kRetired), snapshot.array<ArrayId::kRetired>().capacity());
  for (uint64_t i = 1; i < used; ++i) {
    const ShmRetired* retired = snapshot.array<ArrayId::kRetired>().at(i);
    if (retired == nullptr) break;
    const uint32_t class_index = retired->class_index.load(kAcquire);  // pairs with the store that publishes the entry
    if (!is_wanted(class_index)) continue;
    add_retired(*retired, class_index, retired->lanes);
    leaving.AreCounted(retired->lanes, kMostLanes);
  }
  if (is_wanted(leaving.class_index())) add_retired(leaving.object(), leaving.class_index(), leaving.lists());
}

// Makes one pass over everything that may count for a wanted class. Classes whose statistics did not move meanwhile are done, and not
// wanted any more.
void AddUpClasses(const Snapshot& snapshot, Totals* totals) {
  snapshot.StartWalks();
  const size_t count = snapshot.MostClasses();
  std::vector<uint32_t> seqs(count);
  Totals pass{std::vector<bool>(count), std::vector<Lanes>(count)};
  uint32_t resets[kResetWordCount];
  for (uint32_t i = 0; i < kResetWordCount; ++i) resets[i] = snapshot.Reset(i);
  for (const ClassRow& row : snapshot.classes()) {
    if (!totals->wanted[row.index]) continue;
    const ShmClass* const shm = snapshot.array<ArrayId::kClasses>().at(row.index);
    if (shm == nullptr) continue;
    seqs[row.index] = shm->fold_seq.load(kAcquire);  // pairs with the fold's stores
    const uint32_t gen = snapshot.Reset(ClassDomain(row.family));
    Lanes& sum = pass.sums[row.index];
    const uint32_t dead = shm->dead.load(kAcquire);
    bool whole = AddLanes(snapshot, shm->lanes, gen, &sum);
    for (uint8_t lane = 0; lane < TraitsOf(row.family).lanes && dead != 0; ++lane) {
      const ShmCell* cell = DeadCell(snapshot, uint64_t{dead} + lane);
      whole = whole && cell != nullptr && AddCell(snapshot, *cell, gen, &sum.stats[lane], &sum.amounts[lane]);
    }
    pass.wanted[row.index] = !whole;
  }
  AddObjects(snapshot, *totals, &pass);
  // After a TRUNCATE meanwhile, half of a sum would be cleared.
  bool truncated = false;
  for (uint32_t i = 0; i < kResetWordCount; ++i) truncated |= snapshot.Reset(i) != resets[i];
  if (truncated) return;
  for (const ClassRow& row : snapshot.classes()) {
    const uint32_t seq = seqs[row.index];
    if (!totals->wanted[row.index] || pass.wanted[row.index]) continue;
    const ShmClass* const shm = snapshot.array<ArrayId::kClasses>().at(row.index);
    if (shm == nullptr || snapshot.IsUnderWay(shm->fold_seq, seq)) continue;
    if (shm->fold_seq.load(kRelaxed) != seq) continue;  // all loads above are acquire: this one is the last
    totals->sums[row.index] = pass.sums[row.index];
    totals->wanted[row.index] = false;
  }
}

// Returns SOURCE of the longest wait, nullopt if the class has kept that of another one.
std::optional<Text<64>> SourceOfLongest(const Snapshot& snapshot, const ClassRow& row, uint64_t max_ps) {
  const bool has_word = TraitsOf(row.family).group == ResetGroup::kSync;
  const ShmClass* const shm = has_word ? snapshot.array<ArrayId::kClasses>().at(row.index) : nullptr;
  const uint64_t longest = shm == nullptr ? 0 : shm->longest_wait.load(kAcquire);  // pairs with NoteLongWait
  return longest >> 32 == LengthOfLongest(max_ps) ? snapshot.SourceText(longest & 0xffff) : std::nullopt;
}

}  // namespace

void ForEachInstance(const Snapshot& snapshot, const std::function<void(const InstanceRow&)>& use) {
  if (!snapshot.ok()) return;
  snapshot.StartWalks();
  InstanceRow row;
  for (uint64_t i = 1; i < snapshot.array<ArrayId::kInstances>().used(); ++i) {
    Show(snapshot, ReadInstance(snapshot, static_cast<uint32_t>(i), &row), row, use);
  }
}

uint64_t MostInstances(const Snapshot& snapshot) { return snapshot.array<ArrayId::kInstances>().used(); }
uint64_t MostFiles(const Snapshot& snapshot) { return snapshot.array<ArrayId::kFiles>().used(); }

uint64_t CountFiles(const Snapshot& snapshot, Family family) {
  uint64_t count = 0;
  for (uint64_t i = 1; i < snapshot.array<ArrayId::kFiles>().used(); ++i) {
    const ShmFile* shm = snapshot.array<ArrayId::kFiles>().at(i);
    if (shm == nullptr) break;
    const ClassRow* instrument = snapshot.ClassAt(shm->class_index.load(kRelaxed));
    if (instrument != nullptr && instrument->family == family) ++count;
  }
  return count;
}

void ForEachFile(const Snapshot& snapshot, uint32_t wanted, const std::function<void(const FileRow&)>& use) {
  if (!snapshot.ok()) return;
  snapshot.StartWalks();
  FileRow row;
  for (uint64_t i = 1; i < snapshot.array<ArrayId::kFiles>().used(); ++i) {
    PrefetchFile(snapshot, i, wanted);
    const auto index = static_cast<uint32_t>(i);
    const ShmFile* shm = snapshot.array<ArrayId::kFiles>().at(i);
    if (shm == nullptr) break;
    bool torn = true;
    for (int attempt = 0; attempt < kSlotAttempts && torn; ++attempt) {
      const uint32_t version = shm->version.load(kAcquire);
      const Found found = ReadFileStat(snapshot, index, wanted, &row);
      if (found == Found::kTorn) break;
      torn = false;
      if (found == Found::kFree) break;
      const bool named = (wanted & kFileName) == 0 || ReadFileName(snapshot, index, &row);
      if (shm->class_index.load(kAcquire) == 0) break;  // died meanwhile
      // Numbers and name must be of the same generation of the slot.
      if (named && shm->version.load(kRelaxed) == version)
        use(row);
      else
        torn = true;
    }
    if (torn) snapshot.CountSkipped();
  }
}

void ForEachClassTotal(const Snapshot& snapshot, const std::function<void(const ClassTotalRow&)>& use) {
  if (!snapshot.ok()) return;
  Totals totals{std::vector<bool>(snapshot.MostClasses()), std::vector<Lanes>(snapshot.MostClasses())};
  for (const ClassRow& row : snapshot.classes()) totals.wanted[row.index] = row.is_wait();
  const auto is_done = [&] { return std::find(totals.wanted.begin(), totals.wanted.end(), true) == totals.wanted.end(); };
  const auto add_up = [&] {
    AddUpClasses(snapshot, &totals);
    return is_done();
  };
  if (!is_done()) snapshot.ReadSettled(add_up);  // objects of a class die while they are added up
  for (const ClassRow& row : snapshot.classes()) {
    if (!row.is_wait()) continue;
    const Lanes& sum = totals.sums[row.index];
    if (totals.wanted[row.index])
      snapshot.CountSkipped();
    else
      use({&row, sum, SourceOfLongest(snapshot, row, sum.stats[0].max_ps)});
  }
}

}  // namespace perfschema
