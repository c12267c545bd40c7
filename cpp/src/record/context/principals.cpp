#include "record/context/principals.h"

#include <algorithm>
#include <cerrno>

#include "base/hash.h"
#include "base/private_memory.h"
#include "record/context/thread_time.h"
#include "record/engine/texts.h"
#include "record/family/memory.h"
#include "record/probe/cells.h"
#include "shm/shapes.h"

namespace perfschema {
namespace {

// Hash table by (user, host), one for each level; chains run through hash_next. Guarded by the cold lock.
constexpr uint32_t kBuckets = 1024;
uint32_t (*buckets)[kBuckets] = nullptr;

constexpr auto kAccount = Level::kAccount, kUser = Level::kUser, kHost = Level::kHost;

ShmArray& PrincipalsOf(Level level) { return g_runtime.segment.array(kPrincipalsOf[static_cast<uint32_t>(level)]); }
ShmPrincipal& PrincipalAt(Level level, uint32_t index) {
  return *g_runtime.segment.element<ShmPrincipal>(kPrincipalsOf[static_cast<uint32_t>(level)], index);
}

ShmEpochs& Epochs(Kind kind) { return g_runtime.header->EpochsOf(kind); }
// Returns true if a number of this epoch counts for the level.
bool Counts(Kind kind, uint32_t epoch, Level level) {
  return static_cast<int32_t>(epoch - Epochs(kind).since[static_cast<uint32_t>(level)].load(kRelaxed)) >= 0;
}

// Makes readers of the sums wait while numbers move between these principals (0 = none).
// Threads: external lock (cold lock). Sections of the same principal may nest.
class MoveSection {
 public:
  MoveSection(uint32_t account, uint32_t user, uint32_t host) {
    Open(0, g_runtime.header->move_seq);
    if (account != 0) Open(1, PrincipalAt(kAccount, account).fold_seq);
    if (user != 0) Open(2, PrincipalAt(kUser, user).fold_seq);
    if (host != 0) Open(3, PrincipalAt(kHost, host).fold_seq);
  }
  explicit MoveSection(const ShmThread& thread)
      : MoveSection(thread.account.load(kRelaxed), thread.user.load(kRelaxed), thread.host.load(kRelaxed)) {}
  ~MoveSection() {
    for (HalfWord* seq : opened_) {
      if (seq != nullptr) seq->store(seq->load(kRelaxed) + 1, kRelease);  // pairs with AddUpPrincipals
    }
  }
  MoveSection(const MoveSection&) = delete;
  MoveSection& operator=(const MoveSection&) = delete;

 private:
  void Open(int at, HalfWord& seq) {
    if ((seq.load(kRelaxed) & 1) != 0) return;    // an outer section's
    seq.store(seq.load(kRelaxed) + 1, kRelaxed);  // ordered before the moves by their release stores
    opened_[at] = &seq;
  }
  HalfWord* opened_[4] = {};
};

struct Parents {
  uint32_t account, user, host;
};
Parents ParentsOf(const ShmThread& thread) {
  return {thread.account.load(kRelaxed), thread.user.load(kRelaxed), thread.host.load(kRelaxed)};
}

// The column of an instrument in every row, and its kind.
struct MemberColumn {
  uint32_t index;
  Kind kind;
  const Shape& shape() const { return ShapeOf(kind); }
};

// The numbers of a cell on their way up.
struct AnyNumbers {
  Numbers words{};

  static bool AreNone(MemberColumn column, const ShmCell& cell) { return IsEmpty(column.shape(), cell); }
  static AnyNumbers In(MemberColumn column, const ShmCell& cell) {
    AnyNumbers numbers;
    LoadNumbers(column.shape(), cell, &numbers.words);
    return numbers;
  }
  bool are_zero() const { return words == Numbers{}; }
  void Merge(MemberColumn column, const AnyNumbers& more) { MergeNumbers(column.shape(), more.words, &words); }
  void StoreIn(MemberColumn column, ShmCell& cell) const { StoreNumbers(column.shape(), words, cell); }
};

// The same of waits and stages, which are nearly all that a thread has when it ends: in a tenth of the instructions.
struct TimeNumbers {
  Stat stat;

  static constexpr bool IsOf(Kind kind) { return kind == Kind::kWait || kind == Kind::kStage; }
  static bool AreNone(MemberColumn, const ShmCell& cell) {
    const ShmStat& words = cell.stat;
    return (words.count.load(kRelaxed) | words.sum_ps.load(kRelaxed) | words.inverted_min_ps.load(kRelaxed) |
            words.range_ps.load(kRelaxed) | cell.amount.load(kRelaxed)) == 0;
  }
  static TimeNumbers In(MemberColumn, const ShmCell& cell) {
    const uint64_t unsampled = cell.amount.load(kAcquire);
    TimeNumbers numbers{LoadStat(cell.stat)};
    numbers.stat.unsampled = unsampled;
    return numbers;
  }
  bool are_zero() const { return (stat.count | stat.sum_ps | stat.inverted_min_ps | stat.unsampled) == 0; }
  void Merge(MemberColumn, const TimeNumbers& more) { stat.Merge(more.stat); }
  void StoreIn(MemberColumn, ShmCell& cell) const {
    StoreStat(cell.stat, stat);
    cell.amount.store(stat.unsampled, kRelease);
  }
};
static_assert(kShapes[static_cast<uint32_t>(Kind::kWait)].rules == kShapes[static_cast<uint32_t>(Kind::kStage)].rules &&
              kShapes[static_cast<uint32_t>(Kind::kWait)].rules == shapes::Times().rules);

template <typename Copy>
void AddToParents(const Parents& parents, MemberColumn column, const Copy& numbers, uint32_t epoch);

// Adds numbers that count for the level. The old content of the cell may not count for the level any more; then it
// moves on first.
template <typename Copy>
void AddToPrincipal(Level level, uint32_t index, MemberColumn column, const Copy& numbers) {
  ShmCell* cell = ColumnOf(level, index, column.index, column.kind);
  if (cell == nullptr) return CountLoss(Loss::kThreadStatistics);
  const CellWriter writer(cell->seq);
  const uint32_t epoch = cell->gen.load(kRelaxed);
  const bool is_empty = Copy::AreNone(column, *cell);
  Copy sum{};
  if (!is_empty) sum = Copy::In(column, *cell);
  if (is_empty || !Counts(column.kind, epoch, level)) {
    if (level == kAccount) {
      const ShmPrincipal& principal = PrincipalAt(level, index);
      AddToParents({0, principal.user.load(kRelaxed), principal.host.load(kRelaxed)}, column, sum, epoch);
    } else if (level == kHost) {
      AddToParents({}, column, sum, epoch);
    }
    sum = {};
    cell->gen.store(Epochs(column.kind).now.load(kRelaxed), kRelease);
  }
  sum.Merge(column, numbers);
  sum.StoreIn(column, *cell);
}

// Adds numbers of an epoch to the closest level that they still count for: the account, else the user and the host.
// Numbers without a host, or that have left it, stay for the total.
template <typename Copy>
void AddToParents(const Parents& parents, MemberColumn column, const Copy& numbers, uint32_t epoch) {
  if (numbers.are_zero()) return;
  const auto counts = [&](Level level) { return Counts(column.kind, epoch, level); };
  if (parents.account != 0 && counts(kAccount)) return AddToPrincipal(kAccount, parents.account, column, numbers);
  if (parents.user != 0 && counts(kUser)) AddToPrincipal(kUser, parents.user, column, numbers);
  if (parents.host != 0 && counts(kHost)) return AddToPrincipal(kHost, parents.host, column, numbers);
  if (HasGlobalLevel(column.kind) && counts(Level::kGlobal)) AddToPrincipal(Level::kGlobal, 0, column, numbers);
}

// Moves the numbers of a column up, and leaves it empty. REQUIRES: a MoveSection, and a CellWriter.
template <typename Copy>
void MoveColumnUp(MemberColumn column, ShmCell& cell, const Parents& parents, bool to_total) {
  if (to_total) AddToParents(parents, column, Copy::In(column, cell), cell.gen.load(kRelaxed));
  Copy{}.StoreIn(column, cell);
}
void MoveUp(MemberColumn column, ShmCell& cell, const Parents& parents, bool to_total) {
  if (TimeNumbers::IsOf(column.kind)) return MoveColumnUp<TimeNumbers>(column, cell, parents, to_total);
  MoveColumnUp<AnyNumbers>(column, cell, parents, to_total);
}
bool HasNumbers(MemberColumn column, const ShmCell& cell) {
  return TimeNumbers::IsOf(column.kind) ? !TimeNumbers::AreNone(column, cell) : !AnyNumbers::AreNone(column, cell);
}

// Returns whether a column was never written since its row was made. Most are not: a row has a column for each instrument.
bool IsUnused(const ShmCell& column) {
  const Word* const words = reinterpret_cast<const Word*>(&column);
  uint64_t any = 0;
#pragma GCC unroll 8
  for (size_t i = 0; i < sizeof(ShmCell) / sizeof(Word); ++i) any |= words[i].load(kRelaxed);
  return any == 0;
}

// Returns the instrument that has the column. Columns behind the first of a wide kind belong to no instrument of their own.
MemberColumn OwnerOf(uint32_t column) {
  uint32_t at = column;
  while (at > 0 && g_runtime.classes[at].ready.load(kRelaxed) == 0) --at;
  return {at, at > 0 ? TraitsOf(static_cast<Family>(g_runtime.classes[at].family)).kind : Kind::kNone};
}

// Moves all numbers of a row up, and leaves it empty. `to_total` is false for a user, whose numbers its host has as
// well. Looks at instruments of used columns only: it runs at the end of each thread.
// REQUIRES: a MoveSection; no other thread writes the row.
void MoveRowUp(ShmCell* row, uint32_t cells, const Parents& parents, bool to_total = true) {
  const uint64_t classes = std::min<uint64_t>(g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed), cells);
  for (uint32_t at = 1; at < classes; ++at) {
    if (IsUnused(row[at])) continue;
    const MemberColumn column = OwnerOf(at);
    if (column.kind == Kind::kNone) continue;
    ShmCell& cell = row[column.index];
    if (!HasNumbers(column, cell)) continue;
    const CellWriter writer(cell.seq);
    MoveUp(column, cell, parents, to_total);
  }
}

void MoveThreadUp(ShmThread& thread) {
  const auto slot = static_cast<uint32_t>(&thread - g_runtime.threads);
  SettleMemory(thread);
  MoveRowUp(RowOf(Level::kThread, slot), thread.cells.load(kRelaxed), ParentsOf(thread));
  ForgetMemory(Level::kThread, slot);
}

uint32_t HashOf(std::string_view user, std::string_view host) { return Hash().AddPart(user).AddPart(host).folded(); }

uint32_t& BucketOf(Level level, uint32_t hash) { return buckets[static_cast<uint32_t>(level)][hash % kBuckets]; }

uint32_t TakePrincipal(Level level) {
  ShmArray& array = PrincipalsOf(level);
  if (const uint64_t free = array.free_head.load(kRelaxed); free != 0) {
    array.free_head.store(PrincipalAt(level, static_cast<uint32_t>(free)).hash_next.load(kRelaxed), kRelaxed);
    return static_cast<uint32_t>(free);
  }
  const int64_t fresh = g_runtime.segment.AllocateFresh(kPrincipalsOf[static_cast<uint32_t>(level)]);
  return fresh < 0 ? 0 : static_cast<uint32_t>(fresh);
}

// Finds or makes a principal. Returns 0 if the array is full.
uint32_t FindPrincipal(Level level, std::string_view user, std::string_view host) {
  const uint32_t hash = HashOf(user, host);
  for (uint32_t at = BucketOf(level, hash); at != 0; at = PrincipalAt(level, at).hash_next.load(kRelaxed)) {
    const ShmPrincipal& principal = PrincipalAt(level, at);
    if (principal.hash.load(kRelaxed) == hash && IsText(principal.user_name, user) && IsText(principal.host_name, host)) return at;
  }
  const uint32_t index = TakePrincipal(level);
  if (index == 0) {
    CountLoss(level == kAccount ? Loss::kAccounts : level == kUser ? Loss::kUsers : Loss::kHosts);
    return 0;
  }
  ShmPrincipal& principal = PrincipalAt(level, index);
  principal.version.fetch_add(1, kRelaxed);
  StoreText(principal.user_name, user);
  StoreText(principal.host_name, host);
  principal.user.store(level == kAccount ? FindPrincipal(kUser, user, {}) : 0, kRelaxed);
  principal.host.store(level == kAccount ? FindPrincipal(kHost, {}, host) : 0, kRelaxed);
  principal.connections.store(0, kRelaxed);
  ForgetMemory(level, index);
  principal.hash.store(hash, kRelaxed);
  principal.hash_next.store(BucketOf(level, hash), kRelaxed);
  BucketOf(level, hash) = index;
  principal.is_live.store(1, kRelease);  // last: pairs with Snapshot
  return index;
}

void ForgetPrincipal(Level level, uint32_t index) {
  ShmPrincipal& principal = PrincipalAt(level, index);
  HalfWord* link = nullptr;
  uint32_t& head = BucketOf(level, principal.hash.load(kRelaxed));
  for (uint32_t at = head; at != 0 && at != index; at = PrincipalAt(level, at).hash_next.load(kRelaxed))
    link = &PrincipalAt(level, at).hash_next;
  const uint32_t next = principal.hash_next.load(kRelaxed);
  if (link == nullptr) {
    head = next;
  } else {
    link->store(next, kRelaxed);
  }
  ShmArray& array = PrincipalsOf(level);
  principal.hash_next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelaxed);
  array.free_head.store(index, kRelaxed);
}

// Changes both connection counts of a principal in one step.
void CountConnection(const ShmThread& thread, bool begins) {
  const auto count = [&](Level level, const HalfWord& index_word) {
    const uint32_t index = index_word.load(kRelaxed);
    if (index == 0) return;
    const uint64_t step = begins ? kOneTotalConnection + 1 : ~uint64_t{0};
    PrincipalAt(level, index).connections.fetch_add(step, kRelease);
  };
  count(kAccount, thread.account);
  count(kUser, thread.user);
  count(kHost, thread.host);
}

void LeaveAccount(ShmThread& thread) {
  thread.account.store(0, kRelaxed);
  thread.user.store(0, kRelaxed);
  thread.host.store(0, kRelaxed);
}

}  // namespace

ShmCell* RowOf(Level level, uint32_t index) {
  return g_runtime.segment.element<ShmCell>(kCellsOf[static_cast<uint32_t>(level)], index * g_runtime.cells_per_thread);
}

HalfWord& ReadyColumns(Level level, uint32_t index) {
  return level == Level::kGlobal ? g_runtime.header->remainder_cells : PrincipalAt(level, index).cells;
}

ShmCell* ColumnOf(Level level, uint32_t index, uint32_t column, Kind kind) {
  ShmCell* row = RowOf(level, index);
  const uint32_t end = column + ColumnsOf(kind);
  HalfWord& ready = ReadyColumns(level, index);
  const bool grown = end <= ready.load(kRelaxed) || ReserveColumns(kCellsOf[static_cast<uint32_t>(level)], index, end, &ready);
  return grown ? row + column : nullptr;
}

bool ReserveColumns(ArrayId cells, uint64_t row, uint32_t end, HalfWord* ready) {
  constexpr uint64_t kCellsPerPage = 4096 / sizeof(ShmCell);
  const uint64_t wanted = std::min<uint64_t>((end + kCellsPerPage - 1) / kCellsPerPage * kCellsPerPage, g_runtime.cells_per_thread);
  const uint64_t begin = row * g_runtime.cells_per_thread;
  if (end > wanted ||
      !g_runtime.segment.ReserveRange(cells, (begin + ready->load(kRelaxed)) * sizeof(ShmCell), (begin + wanted) * sizeof(ShmCell))) {
    return false;
  }
  ready->store(static_cast<uint32_t>(wanted), kRelease);  // pairs with Snapshot: columns below are mapped
  return true;
}

void ReindexPrincipals() {
  std::fill_n(&buckets[0][0], kLevelCount * kBuckets, 0u);
  for (const Level level : {kAccount, kUser, kHost}) {
    const uint64_t used = PrincipalsOf(level).used.load(kRelaxed);
    for (uint32_t index = 1; index < used; ++index) {
      ShmPrincipal& principal = PrincipalAt(level, index);
      if (principal.is_live.load(kRelaxed) == 0) continue;
      uint32_t& head = BucketOf(level, principal.hash.load(kRelaxed));
      principal.hash_next.store(head, kRelaxed);
      head = index;
    }
  }
}

void RepairPrincipals() {
  for (const Level level : {kAccount, kUser, kHost, Level::kGlobal}) {
    const bool is_global = level == Level::kGlobal;
    const uint64_t used = is_global ? 1 : PrincipalsOf(level).used.load(kRelaxed);
    for (uint32_t index = is_global ? 0 : 1; index < used; ++index) {
      if (!is_global) EndWriting(PrincipalAt(level, index).fold_seq);
      ShmCell* const row = RowOf(level, index);
      const uint32_t ready = ReadyColumns(level, index).load(kRelaxed);
      const uint64_t classes = std::min<uint64_t>(g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed), ready);
      for (uint32_t at = 1; at < classes; ++at) {
        if (g_runtime.classes[at].ready.load(kRelaxed) != 0) EndWriting(row[at].seq);
      }
    }
  }
}

bool StartPrincipals() {
  void* const memory = MapPrivate(kLevelCount * sizeof *buckets);
  if (memory == nullptr) return false;
  buckets = static_cast<uint32_t(*)[kBuckets]>(memory);
  return true;
}

void ConnectThread(ShmThread& thread, std::string_view user, std::string_view host) {
  const uint32_t account = FindPrincipal(kAccount, user, host);
  const uint32_t new_user = account != 0 ? PrincipalAt(kAccount, account).user.load(kRelaxed) : FindPrincipal(kUser, user, {});
  const uint32_t new_host = account != 0 ? PrincipalAt(kAccount, account).host.load(kRelaxed) : FindPrincipal(kHost, {}, host);
  const MoveSection moving(thread);
  // A thread that is being made has no number yet, and the row that the slot's last thread left empty.
  if (thread.thread_id.load(kRelaxed) != 0) {
    AddTimeToRole(thread, false);
    MoveThreadUp(thread);
  }
  CountConnection(thread, false);
  // After the cells are empty: a reader that finds the thread under its new account finds no numbers of the old one.
  thread.account.store(account, kRelease);
  thread.user.store(new_user, kRelease);
  thread.host.store(new_host, kRelease);
  CountConnection(thread, true);
}

void DisconnectThread(ShmThread& thread, void (*hide)(ShmThread& thread)) {
  const MoveSection moving(thread);
  hide(thread);
  MoveThreadUp(thread);
  CountConnection(thread, false);
  LeaveAccount(thread);
}

void RollOver(ShmThread& thread, uint32_t column, ShmCell& cell, Kind kind) {
  const MoveSection moving(thread);
  MoveUp({column, kind}, cell, ParentsOf(thread), true);
  cell.gen.store(Epochs(kind).now.load(kRelaxed), kRelease);
}

void ForgetUnconnected(Level level) {
  const uint64_t used = PrincipalsOf(level).used.load(kRelaxed);
  for (uint32_t index = 1; index < used; ++index) {
    ShmPrincipal& principal = PrincipalAt(level, index);
    if (principal.is_live.load(kRelaxed) == 0) continue;
    const uint64_t current = principal.connections.load(kRelaxed) & kCurrentConnectionsMask;
    principal.connections.store(current * (kOneTotalConnection + 1), kRelease);
    principal.max_controlled_memory.store(0, kRelease);
    principal.max_total_memory.store(0, kRelease);
    if (current != 0) continue;
    const uint32_t user = principal.user.load(kRelaxed), host = principal.host.load(kRelaxed);
    const bool is_account = level == kAccount;
    const MoveSection moving(is_account ? index : 0, level == kUser ? index : user, level == kHost ? index : host);
    principal.is_live.store(0, kRelease);  // first: readers hide it from here on
    MoveRowUp(RowOf(level, index), principal.cells.load(kRelaxed), {0, user, host}, level != kUser);
    ForgetPrincipal(level, index);
  }
}

void ReconnectInChild() {
  for (const Level level : {kAccount, kUser, kHost}) {
    const uint64_t used = PrincipalsOf(level).used.load(kRelaxed);
    for (uint32_t index = 1; index < used; ++index) {
      ShmPrincipal& principal = PrincipalAt(level, index);
      principal.cells.store(0, kRelaxed);
      principal.fold_seq.store(0, kRelaxed);
      principal.connections.store(0, kRelaxed);
    }
  }
  const uint64_t threads = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  for (uint32_t slot = 1; slot < threads; ++slot) {
    ShmThread& thread = g_runtime.threads[slot];
    if (SlotIsFree(slot)) {
      LeaveAccount(thread);
    } else {
      CountConnection(thread, true);
    }
  }
  for (const Level level : {kAccount, kUser, kHost}) ForgetUnconnected(level);
}

}  // namespace perfschema
