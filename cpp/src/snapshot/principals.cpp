// snapshot/principals.cpp: reads threads, accounts, users and hosts: rows of cells, and sums over a row and all rows below it
// (record/context/principals.h).
#include <algorithm>
#include <vector>

#include "snapshot/mend.h"
#include "snapshot/moment.h"
#include "snapshot/snapshot.h"
#include "snapshot/try_read.h"

namespace perfschema {
namespace {

bool Counts(uint32_t epoch, uint32_t since) { return static_cast<int32_t>(epoch - since) >= 0; }

// Returns the name of a stage in lists of threads, without "stage/component/".
std::string_view StateOf(std::string_view stage) {
  for (int i = 0; i < 2; ++i) stage.remove_prefix(std::min(stage.find('/'), stage.size() - 1) + 1);
  return stage;
}

uint32_t IndexAt(const ShmThread& thread, Level level) {
  const HalfWord& index = level == Level::kAccount ? thread.account : level == Level::kUser ? thread.user : thread.host;
  return index.load(kAcquire);  // pairs with ConnectThread
}

}  // namespace

bool Snapshot::ReadThread(uint32_t slot, ThreadRow* row) const {
  const ShmThread* shm = threads_.at(slot);
  if (shm == nullptr) return false;
  // A slot that changes hands while it is read is read again: its new thread is live, too.
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint64_t thread_id = shm->thread_id.load(kAcquire);  // pairs with MakeThread's last store
    if (thread_id == 0) return false;
    uint64_t name[16], user[4], host[32], db[8] = {}, command[2] = {}, state[8] = {}, connection_type[2] = {}, resource_group[8] = {},
                                          info[128] = {};
    if (!TryRead(shm->seq, [&] {
          LoadWords(shm->name, name);
          LoadWords(shm->user_name, user);
          LoadWords(shm->host_name, host);
          const uint32_t its_texts = shm->texts.load(kAcquire);  // pairs with MakeTexts
          const ShmThreadTexts* const texts = its_texts == 0 ? nullptr : thread_texts_.at(its_texts);
          if (texts == nullptr) return;
          LoadWords(texts->db, db);
          LoadWords(texts->command, command);
          LoadWords(texts->state, state);
          LoadWords(texts->connection_type, connection_type);
          LoadWords(texts->resource_group, resource_group);
          LoadWords(texts->info, info);
        })) {
      ++skipped_;
      return false;
    }
    const uint64_t os_id = shm->os_id.load(kAcquire);
    const uint64_t parent = shm->parent_thread_id.load(kAcquire);
    const uint64_t processlist_id = shm->processlist_id.load(kAcquire);
    const uint64_t start_seconds = shm->start_seconds.load(kAcquire);
    *row = {};
    row->slot = slot;
    row->thread_id = thread_id;
    row->flags = shm->flags.load(kAcquire);
    row->cells = shm->cells.load(kAcquire);
    row->peer_port = shm->peer_port.load(kAcquire);
    const ClassRow* stage = ClassAt(shm->stage.load(kAcquire));
    if (shm->thread_id.load(kRelaxed) != thread_id) continue;
    row->controlled_memory = shm->controlled_memory.load(kAcquire);
    row->max_controlled_memory = shm->max_controlled_memory.load(kAcquire);
    row->total_memory = shm->total_memory.load(kAcquire);
    row->max_total_memory = shm->max_total_memory.load(kAcquire);
    const auto number = [](uint64_t value) { return value == 0 ? std::optional<uint64_t>() : value; };
    const auto keep = [&](const auto& words, auto* text) {
      if (const std::string_view kept = KeepWords(words); !kept.empty()) text->emplace(kept);
    };
    row->os_id = number(os_id);
    row->parent_thread_id = number(parent);
    if (row->is_foreground()) row->processlist_id = number(processlist_id);
    const auto now = ReadMoment::NowSeconds(header());
    if (start_seconds != 0) row->seconds = static_cast<int64_t>(start_seconds < now ? now - start_seconds : 0);
    row->name = KeepWords(name);
    keep(user, &row->user);
    keep(host, &row->host);
    keep(db, &row->db);
    keep(command, &row->command);
    keep(state, &row->state);
    if (stage != nullptr && stage->kind() == Kind::kStage) row->state = StateOf(stage->name.view());
    keep(connection_type, &row->connection_type);
    keep(resource_group, &row->resource_group);
    keep(info, &row->info);
    return true;
  }
  return false;
}

std::vector<ThreadRow> Snapshot::Threads() const {
  std::vector<ThreadRow> rows;
  ThreadRow row{};
  for (uint64_t slot = 1; slot < threads_.used(); ++slot) {
    if (ReadThread(static_cast<uint32_t>(slot), &row)) rows.push_back(row);
  }
  return rows;
}

// Holds the sums of a member by place in classes_of_ of the kind. Most are zero, and take only an index.
// Threads: external lock.
struct Snapshot::RowSums {
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

// Adds a row of cells to `sums`. Numbers of an epoch before `since` do not count.
void Snapshot::AddRow(Kind kind, Level level, uint64_t index, uint64_t readable, uint32_t since, RowSums* sums, bool* torn) const {
  const auto at = static_cast<uint32_t>(level);
  const ArrayView<ShmCell>& cells = rows_[at];
  const bool by_thread = level == Level::kThread || level == Level::kGlobal;
  const uint64_t members = by_thread ? threads_.capacity() : principals_[at].capacity();
  const uint64_t width = members == 0 ? 0 : cells.capacity() / members;
  const Shape& shape = ShapeOf(kind);
  readable = std::min(readable, width);
  const uint32_t interval = header().EpochsOf(kind).now.load(kAcquire);
  const auto& classes = classes_of_[static_cast<uint32_t>(kind)];
  if (readable == 0) return;
  if (reads_left_ < classes.size()) {
    *torn = true;
    return;
  }
  reads_left_ -= classes.size();
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i]->index + uint64_t{shape.columns} > readable) continue;
    const uint64_t first = index * width + classes[i]->index;
    const ShmCell* cell = cells.at(first, shape.columns);
    if (cell == nullptr) continue;
    Numbers numbers;
    const bool whole = TryRead(
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

void Snapshot::ForEachThreadSum(Kind kind, const std::function<void(const SumRow&)>& use) const {
  if (!ok_) return;
  const auto& classes = classes_of_[static_cast<uint32_t>(kind)];
  RowSums sums;
  uint64_t words_left = MostSums(kind);
  reads_left_ = MostReads();
  for (uint64_t slot = 1; slot < threads_.used(); ++slot) {
    const ShmThread* shm = threads_.at(slot);
    if (shm == nullptr) break;
    const uint64_t thread_id = shm->thread_id.load(kAcquire);
    if (thread_id == 0) continue;
    const bool is_within = words_left >= classes.size();
    if (is_within) words_left -= classes.size();
    sums.Clear(classes.size());
    bool torn = false;
    const uint64_t readable = shm->cells.load(kAcquire);  // pairs with the reservation of cells
    AddRow(kind, Level::kThread, slot, readable, Since(kind, Level::kThread), &sums, &torn);
    if (shm->thread_id.load(kRelaxed) != thread_id) continue;  // ended meanwhile, and so did its rows
    if (torn || !is_within) ++skipped_;
    for (size_t i = 0; i < classes.size() && !torn; ++i) {
      if (is_within || sums.Has(i)) use({classes[i], thread_id, nullptr, slot, sums.Get(i)});
    }
  }
}

// A live principal: the slot and its generation, and the row read so far.
struct Snapshot::Principal {
  const ShmPrincipal* shm = nullptr;
  uint32_t index = 0, version = 0;
  PrincipalRow row;
  bool is_live() const { return shm->is_live.load(kAcquire) != 0 && shm->version.load(kRelaxed) == version; }
};

bool Snapshot::ReadPrincipal(Level level, uint32_t index, Principal* principal) const {
  const ShmPrincipal* shm = principals_[static_cast<uint32_t>(level)].at(index);
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
  if (const auto text = KeepWords(user); !text.empty()) principal->row.user = text;
  if (const auto text = KeepWords(host); !text.empty()) principal->row.host = text;
  return true;
}

std::vector<Snapshot::Principal> Snapshot::Principals(Level level) const {
  std::vector<Principal> principals;
  Principal principal;
  for (uint64_t i = 1; i < principals_[static_cast<uint32_t>(level)].used(); ++i) {
    if (ReadPrincipal(level, static_cast<uint32_t>(i), &principal)) principals.push_back(principal);
  }
  // A principal that was forgotten meanwhile may have returned in another slot: none is shown twice.
  std::erase_if(principals, [](const Principal& one) { return !one.is_live(); });
  return principals;
}

void Snapshot::ForEachPrincipal(Level level, const std::function<void(const PrincipalRow&)>& use) const {
  if (!ok_) return;
  std::vector<Principal> principals = Principals(level);
  // Includes the sessions that exist now.
  std::vector<Principal*> place_of(principals_[static_cast<uint32_t>(level)].used(), nullptr);
  for (Principal& principal : principals) place_of[principal.index] = &principal;
  for (uint64_t slot = 1; slot < threads_.used(); ++slot) {
    const ShmThread* shm = threads_.at(slot);
    if (shm == nullptr) break;
    const uint32_t index = IndexAt(*shm, level);
    if (shm->thread_id.load(kAcquire) == 0 || index >= place_of.size() || place_of[index] == nullptr) continue;
    PrincipalRow& row = place_of[index]->row;
    row.max_controlled_memory = std::max(row.max_controlled_memory, shm->max_controlled_memory.load(kAcquire));
    row.max_total_memory = std::max(row.max_total_memory, shm->max_total_memory.load(kAcquire));
  }
  for (const Principal& principal : principals) use(principal.row);
}

struct Snapshot::PrincipalSums {
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

  One* Wanted(uint64_t index) {
    if (index >= place_of.size() || place_of[index] == 0) return nullptr;
    One& one = ones[place_of[index] - 1];
    return one.is_wanted ? &one : nullptr;
  }
};

// Makes one pass over the rows of a level and all below it. Principals into or out of which no numbers moved meanwhile are done and not
// wanted any more; nor are those that have ended.
void Snapshot::AddUpPrincipals(Kind kind, Level level, PrincipalSums* wanted) const {
  const uint32_t since = Since(kind, level);
  const bool is_global = level == Level::kGlobal;
  // Any move of numbers may affect the total; a principal is affected only by moves from or to it.
  const auto seq_of = [&](const PrincipalSums::One& one) -> const HalfWord& {
    return is_global ? header().move_seq : one.principal.shm->fold_seq;
  };
  for (PrincipalSums::One& one : wanted->ones) {
    if (!one.is_wanted) continue;
    one.seq = seq_of(one).load(kAcquire);  // pairs with MoveSection
    one.torn = IsUnderWay(seq_of(one), one.seq);
    one.is_gone = !is_global && !one.principal.is_live();
    one.is_wanted = !one.is_gone;
    one.sums.Clear(classes_of_[static_cast<uint32_t>(kind)].size());
    if (!one.is_wanted) continue;
    const HalfWord& columns = is_global ? header().remainder_cells : one.principal.shm->cells;
    AddRow(kind, level, is_global ? 0 : one.principal.index, columns.load(kAcquire), since, &one.sums, &one.torn);
  }
  // Uses the present number of rows: numbers that were a thread's when this snapshot began may belong to a younger account.
  const auto add_principals = [&](Level below, auto parent_of) {
    const auto& principals = principals_[static_cast<uint32_t>(below)];
    const uint64_t count = std::min(view_.used(below == Level::kAccount ? ArrayId::kAccounts : ArrayId::kHosts), principals.capacity());
    for (uint64_t i = 1; i < count; ++i) {
      const ShmPrincipal* shm = principals.at(i);
      if (shm == nullptr) break;
      if (shm->is_live.load(kAcquire) == 0) continue;
      if (PrincipalSums::One* one = wanted->Wanted(parent_of(*shm)); one != nullptr)
        AddRow(kind, below, i, shm->cells.load(kAcquire), since, &one->sums, &one->torn);
    }
  };
  if (is_global) add_principals(Level::kHost, [](const ShmPrincipal&) { return 0u; });
  if (level != Level::kAccount) {
    add_principals(Level::kAccount, [&](const ShmPrincipal& account) {
      return is_global ? 0 : (level == Level::kUser ? account.user : account.host).load(kAcquire);
    });
  }
  for (uint64_t slot = 1; slot < threads_.used(); ++slot) {
    const ShmThread* shm = threads_.at(slot);
    if (shm == nullptr) break;
    if (PrincipalSums::One* one = is_global ? wanted->Wanted(0) : nullptr; one != nullptr)
      AddRow(kind, Level::kGlobal, slot, shm->global_cells.load(kAcquire), since, &one->sums, &one->torn);
    if (shm->thread_id.load(kAcquire) == 0) continue;
    if (PrincipalSums::One* one = wanted->Wanted(is_global ? 0 : IndexAt(*shm, level)); one != nullptr)
      AddRow(kind, Level::kThread, slot, shm->cells.load(kAcquire), since, &one->sums, &one->torn);
  }
  if (Since(kind, level) != since) return;  // a TRUNCATE meanwhile
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

void Snapshot::ForEachSum(Kind kind, Level level, const std::function<void(const SumRow&)>& use) const {
  if (!ok_) return;
  if (level == Level::kThread) return ForEachThreadSum(kind, use);
  PrincipalSums sums;
  const uint64_t most = MostReads();
  reads_left_ = most == ~uint64_t{0} ? most : 4 * most;
  if (level == Level::kGlobal) {
    sums.ones.emplace_back();
    sums.place_of = {1};
  } else {
    sums.place_of.resize(principals_[static_cast<uint32_t>(level)].used());
    for (const Principal& principal : Principals(level)) {
      if ((sums.ones.size() + 1) * classes_of_[static_cast<uint32_t>(kind)].size() > most) {
        ++skipped_;
        continue;
      }
      sums.ones.emplace_back().principal = principal;
      sums.place_of[principal.index] = static_cast<uint32_t>(sums.ones.size());
    }
  }
  const auto is_done = [&] { return std::none_of(sums.ones.begin(), sums.ones.end(), [](const auto& one) { return one.is_wanted; }); };
  const auto add_up = [&] {
    AddUpPrincipals(kind, level, &sums);
    return is_done();
  };
  if (!is_done()) ReadSettled(add_up);  // threads of a principal end while they are added up
  uint64_t words_left = MostSums(kind);
  for (const PrincipalSums::One& one : sums.ones) {
    if (one.is_wanted) ++skipped_;
    if (one.is_wanted || one.is_gone) continue;
    const auto& classes = classes_of_[static_cast<uint32_t>(kind)];
    const bool is_within = words_left >= classes.size();
    if (is_within) words_left -= classes.size();
    if (!is_within) ++skipped_;
    for (size_t i = 0; i < classes.size(); ++i) {
      if (is_within || one.sums.Has(i)) use({classes[i], 0, &one.principal.row, one.principal.index, one.sums.Get(i)});
    }
  }
}

}  // namespace perfschema
