// Rows of cells, and sums over a row and all rows below it (record/context/principals.h).
#include "snapshot/sums.h"

#include <algorithm>
#include <vector>

#include "snapshot/members.h"
#include "snapshot/mend.h"
#include "snapshot/slots.h"

namespace perfschema {
namespace {

bool Counts(uint32_t epoch, uint32_t since) { return static_cast<int32_t>(epoch - since) >= 0; }

uint32_t IndexAt(const ShmThread& thread, Level level) {
  const HalfWord& index = level == Level::kAccount ? thread.account : level == Level::kUser ? thread.user : thread.host;
  return index.load(kAcquire);  // pairs with ConnectThread
}

// Holds the sums of a member by place in ClassesOf the kind. Most are zero, and take only an index.
// Threads: external lock.
struct RowSums {
  std::vector<uint32_t> place_of;  // in `numbers`, plus one; 0 = zero
  std::vector<Numbers> numbers;

  void Clear(size_t count) {
    place_of.assign(count, 0);
    numbers.clear();
  }
  Numbers* At(size_t i) {
    if (place_of[i] == 0) {
      numbers.emplace_back();
      place_of[i] = static_cast<uint32_t>(numbers.size());
    }
    return &numbers[place_of[i] - 1];
  }
  bool Has(size_t i) const { return place_of[i] != 0; }
  Numbers Get(size_t i) const { return place_of[i] == 0 ? Numbers{} : numbers[place_of[i] - 1]; }
};

uint32_t Since(const Snapshot& snapshot, Kind kind, Level level) {
  return snapshot.header().EpochsOf(kind).since[static_cast<uint32_t>(level)].load(kAcquire);  // pairs with TruncateLevel
}

// Bounds how many members x instruments are read: a damaged file may claim endless ones. One's own segment has no bound.
uint64_t MostReads(const Snapshot& snapshot) { return snapshot.view().file() == nullptr ? ~uint64_t{0} : uint64_t{1} << 24; }
// Bounds how many rows they may have: as many as the segment has words. Of members beyond that, instruments without counts are left
// out: all others have memory in the file, which bounds them.
uint64_t MostSums(const Snapshot& snapshot, Kind kind) {
  constexpr uint64_t kMostWordsOfTable = 8 << 20;  // about half a second to read
  return snapshot.view().file() == nullptr ? ~uint64_t{0} : kMostWordsOfTable / (8 * ColumnsOf(kind));
}

// Adds a row of cells to `sums`. Numbers of an epoch before `since` do not count. `reads_left`: of cells.
void AddRow(const Snapshot& snapshot, Kind kind, Level level, uint64_t index, uint64_t readable, uint32_t since, uint64_t* reads_left,
            RowSums* sums, bool* torn) {
  const ArrayView<ShmCell>& cells = CellsOf(snapshot, level);
  const uint64_t width = WidthOf(snapshot, level);
  const Shape& shape = ShapeOf(kind);
  readable = std::min(readable, width);
  const uint32_t interval = snapshot.header().EpochsOf(kind).now.load(kAcquire);
  const auto& classes = snapshot.ClassesOf(kind);
  if (readable == 0) return;
  if (*reads_left < classes.size()) {
    *torn = true;
    return;
  }
  *reads_left -= classes.size();
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i]->index + uint64_t{shape.columns} > readable) continue;
    const uint64_t first = index * width + classes[i]->index;
    const ShmCell* cell = cells.at(first, shape.columns);
    if (cell == nullptr) continue;
    Numbers numbers;
    const bool whole = snapshot.TryRead(
        cell->seq,
        [&] {
          numbers = {};
          const uint32_t gen = cell->gen.load(kAcquire);
          if (Counts(gen, since) && !LoadNumbers(shape, *cell, &numbers)) return false;
          if (kind == Kind::kMemory && gen != interval) BeginMemoryInterval(&numbers);
          return true;
        },
        [&] { MendNumbers(shape, &numbers); });
    *torn |= !whole;
    if (numbers != Numbers{}) MergeNumbers(shape, numbers, sums->At(i));
  }
}

void ForEachThreadSum(const Snapshot& snapshot, Kind kind, const std::function<void(const SumRow&)>& use) {
  if (!snapshot.ok()) return;
  const auto& classes = snapshot.ClassesOf(kind);
  RowSums sums;
  uint64_t words_left = MostSums(snapshot, kind);
  uint64_t reads_left = MostReads(snapshot);
  for (uint64_t slot = 1; slot < snapshot.array<ArrayId::kThreads>().used(); ++slot) {
    const ShmThread* shm = snapshot.array<ArrayId::kThreads>().at(slot);
    if (shm == nullptr) break;
    const uint64_t thread_id = shm->thread_id.load(kAcquire);
    if (thread_id == 0) continue;
    const bool is_within = words_left >= classes.size();
    if (is_within) words_left -= classes.size();
    sums.Clear(classes.size());
    bool torn = false;
    const uint64_t readable = shm->cells.load(kAcquire);  // pairs with the reservation of cells
    AddRow(snapshot, kind, Level::kThread, slot, readable, Since(snapshot, kind, Level::kThread), &reads_left, &sums, &torn);
    if (shm->thread_id.load(kRelaxed) != thread_id) continue;  // ended meanwhile, and so did its rows
    if (torn || !is_within) snapshot.CountSkipped();
    for (size_t i = 0; i < classes.size() && !torn; ++i) {
      if (is_within || sums.Has(i)) use({classes[i], thread_id, nullptr, slot, sums.Get(i)});
    }
  }
}

// A live principal: the slot and its generation, and the row read so far.
struct Principal {
  const ShmPrincipal* shm = nullptr;
  uint32_t index = 0, version = 0;
  PrincipalRow row;
  bool is_live() const { return shm->is_live.load(kAcquire) != 0 && shm->version.load(kRelaxed) == version; }
};

bool ReadPrincipal(const Snapshot& snapshot, Level level, uint32_t index, Principal* principal) {
  const ShmPrincipal* shm = PrincipalsOf(snapshot, level).at(index);
  if (shm == nullptr || shm->is_live.load(kAcquire) == 0) return false;  // pairs with FindPrincipal
  *principal = {shm, index, shm->version.load(kAcquire), {}};
  uint64_t user[4], host[32];
  LoadWords(shm->user_name, user);
  LoadWords(shm->host_name, host);
  const uint64_t connections = shm->connections.load(kAcquire);
  if (!principal->is_live()) return false;
  principal->row.max_controlled_memory = shm->max_controlled_memory.load(kAcquire);
  principal->row.max_total_memory = shm->max_total_memory.load(kAcquire);
  principal->row.current_connections = static_cast<int64_t>(connections & kCurrentConnectionsMask);
  principal->row.total_connections = static_cast<int64_t>(connections / kOneTotalConnection);
  if (const auto text = snapshot.KeepWords(user); !text.empty()) principal->row.user = text;
  if (const auto text = snapshot.KeepWords(host); !text.empty()) principal->row.host = text;
  return true;
}

std::vector<Principal> Principals(const Snapshot& snapshot, Level level) {
  std::vector<Principal> principals;
  Principal principal;
  for (uint64_t i = 1; i < PrincipalsOf(snapshot, level).used(); ++i) {
    if (ReadPrincipal(snapshot, level, static_cast<uint32_t>(i), &principal)) principals.push_back(principal);
  }
  // A principal that was forgotten meanwhile may have returned in another slot: none is shown twice.
  std::erase_if(principals, [](const Principal& one) { return !one.is_live(); });
  return principals;
}

struct PrincipalSums {
  struct One {
    Principal principal;    // none for Level::kGlobal
    bool is_wanted = true;  // not read yet
    bool is_gone = false;
    bool torn = false;
    uint32_t seq = 0;
    RowSums sums;
  };
  std::vector<One> ones;
  std::vector<uint32_t> place_of;  // by index of the principal: place in `ones` + 1
  uint64_t reads_left = 0;         // of cells

  One* Wanted(uint64_t index) {
    if (index >= place_of.size() || place_of[index] == 0) return nullptr;
    One& one = ones[place_of[index] - 1];
    return one.is_wanted ? &one : nullptr;
  }
};

// Makes one pass over the rows of a level and all below it. Principals into or out of which no numbers moved meanwhile are done and not
// wanted any more; nor are those that have ended.
void AddUpPrincipals(const Snapshot& snapshot, Kind kind, Level level, PrincipalSums* wanted) {
  const uint32_t since = Since(snapshot, kind, level);
  const bool is_global = level == Level::kGlobal;
  // Any move of numbers may affect the total; a principal is affected only by moves from or to it.
  const auto seq_of = [&](const PrincipalSums::One& one) -> const HalfWord& {
    return is_global ? snapshot.header().move_seq : one.principal.shm->fold_seq;
  };
  for (PrincipalSums::One& one : wanted->ones) {
    if (!one.is_wanted) continue;
    one.seq = seq_of(one).load(kAcquire);  // pairs with MoveSection
    one.torn = snapshot.IsUnderWay(seq_of(one), one.seq);
    one.is_gone = !is_global && !one.principal.is_live();
    one.is_wanted = !one.is_gone;
    one.sums.Clear(snapshot.ClassesOf(kind).size());
    if (!one.is_wanted) continue;
    const HalfWord& columns = is_global ? snapshot.header().remainder_cells : one.principal.shm->cells;
    AddRow(snapshot, kind, level, is_global ? 0 : one.principal.index, columns.load(kAcquire), since, &wanted->reads_left, &one.sums,
           &one.torn);
  }
  // Uses the present number of rows: numbers that were a thread's when this snapshot began may belong to a younger account.
  const auto add_principals = [&](Level below, auto parent_of) {
    const auto& principals = PrincipalsOf(snapshot, below);
    const uint64_t count =
        std::min(snapshot.view().used(below == Level::kAccount ? ArrayId::kAccounts : ArrayId::kHosts), principals.capacity());
    for (uint64_t i = 1; i < count; ++i) {
      const ShmPrincipal* shm = principals.at(i);
      if (shm == nullptr) break;
      if (shm->is_live.load(kAcquire) == 0) continue;
      if (PrincipalSums::One* one = wanted->Wanted(parent_of(*shm)); one != nullptr)
        AddRow(snapshot, kind, below, i, shm->cells.load(kAcquire), since, &wanted->reads_left, &one->sums, &one->torn);
    }
  };
  if (is_global) add_principals(Level::kHost, [](const ShmPrincipal&) { return 0u; });
  if (level != Level::kAccount) {
    add_principals(Level::kAccount, [&](const ShmPrincipal& account) {
      return is_global ? 0 : (level == Level::kUser ? account.user : account.host).load(kAcquire);
    });
  }
  for (uint64_t slot = 1; slot < snapshot.array<ArrayId::kThreads>().used(); ++slot) {
    const ShmThread* shm = snapshot.array<ArrayId::kThreads>().at(slot);
    if (shm == nullptr) break;
    if (PrincipalSums::One* one = is_global ? wanted->Wanted(0) : nullptr; one != nullptr)
      AddRow(snapshot, kind, Level::kGlobal, slot, shm->global_cells.load(kAcquire), since, &wanted->reads_left, &one->sums, &one->torn);
    if (shm->thread_id.load(kAcquire) == 0) continue;
    if (PrincipalSums::One* one = wanted->Wanted(is_global ? 0 : IndexAt(*shm, level)); one != nullptr)
      AddRow(snapshot, kind, Level::kThread, slot, shm->cells.load(kAcquire), since, &wanted->reads_left, &one->sums, &one->torn);
  }
  if (Since(snapshot, kind, level) != since) return;  // a TRUNCATE meanwhile
  for (PrincipalSums::One& one : wanted->ones) {
    if (!one.is_wanted) continue;
#if defined(PFS_BREAK_SEQLOCK)  // negative control of the test of principals: the check removed
    one.is_wanted = false;
#else
    // All loads above are acquire: this one is the last.
    if (!one.torn && seq_of(one).load(kRelaxed) == one.seq) one.is_wanted = false;
#endif
  }
}

}  // namespace

void ForEachPrincipal(const Snapshot& snapshot, Level level, const std::function<void(const PrincipalRow&)>& use) {
  if (!snapshot.ok()) return;
  std::vector<Principal> principals = Principals(snapshot, level);
  // Includes the sessions that exist now.
  std::vector<Principal*> place_of(PrincipalsOf(snapshot, level).used(), nullptr);
  for (Principal& principal : principals) place_of[principal.index] = &principal;
  for (uint64_t slot = 1; slot < snapshot.array<ArrayId::kThreads>().used(); ++slot) {
    const ShmThread* shm = snapshot.array<ArrayId::kThreads>().at(slot);
    if (shm == nullptr) break;
    const uint32_t index = IndexAt(*shm, level);
    if (shm->thread_id.load(kAcquire) == 0 || index >= place_of.size() || place_of[index] == nullptr) continue;
    PrincipalRow& row = place_of[index]->row;
    row.max_controlled_memory = std::max(row.max_controlled_memory, shm->numbers.max_controlled_memory.load(kAcquire));
    row.max_total_memory = std::max(row.max_total_memory, shm->numbers.max_total_memory.load(kAcquire));
  }
  for (const Principal& principal : principals) use(principal.row);
}

void ForEachSum(const Snapshot& snapshot, Kind kind, Level level, const std::function<void(const SumRow&)>& use) {
  if (!snapshot.ok()) return;
  if (level == Level::kThread) return ForEachThreadSum(snapshot, kind, use);
  PrincipalSums sums;
  const uint64_t most = MostReads(snapshot);
  sums.reads_left = most == ~uint64_t{0} ? most : 4 * most;
  if (level == Level::kGlobal) {
    sums.ones.emplace_back();
    sums.place_of = {1};
  } else {
    sums.place_of.resize(PrincipalsOf(snapshot, level).used());
    for (const Principal& principal : Principals(snapshot, level)) {
      if ((sums.ones.size() + 1) * snapshot.ClassesOf(kind).size() > most) {
        snapshot.CountSkipped();
        continue;
      }
      sums.ones.emplace_back().principal = principal;
      sums.place_of[principal.index] = static_cast<uint32_t>(sums.ones.size());
    }
  }
  const auto is_done = [&] { return std::none_of(sums.ones.begin(), sums.ones.end(), [](const auto& one) { return one.is_wanted; }); };
  const auto add_up = [&] {
    AddUpPrincipals(snapshot, kind, level, &sums);
    return is_done();
  };
  if (!is_done()) snapshot.ReadSettled(add_up);  // threads of a principal end while they are added up
  uint64_t words_left = MostSums(snapshot, kind);
  for (const PrincipalSums::One& one : sums.ones) {
    if (one.is_wanted) snapshot.CountSkipped();
    if (one.is_wanted || one.is_gone) continue;
    const auto& classes = snapshot.ClassesOf(kind);
    const bool is_within = words_left >= classes.size();
    if (is_within) words_left -= classes.size();
    if (!is_within) snapshot.CountSkipped();
    for (size_t i = 0; i < classes.size(); ++i) {
      if (is_within || one.sums.Has(i)) use({classes[i], 0, &one.principal.row, one.principal.index, one.sums.Get(i)});
    }
  }
}

}  // namespace perfschema
