#include "record/family/memory.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "record/context/principals.h"

namespace perfschema {

uint64_t g_memory_process = 0;

namespace {

uint32_t NowInterval() { return g_runtime.header->EpochsOf(Kind::kMemory).now.load(kRelaxed); }
int64_t SignedWord(const Word* words, uint32_t at) { return static_cast<int64_t>(words[at].load(kRelaxed)); }

bool IsOfThisProcess(uint64_t owner) { return owner >> kProcessShift == g_memory_process >> kProcessShift; }

// The memory in use: blocks and bytes.
struct Used {
  int64_t at[2];
  static Used In(const Word* words) {
    Used used{};
    for (uint32_t i = 0; i < 2; ++i) used.at[i] = SignedWord(words, kAllocWord + i) - SignedWord(words, kFreeWord + i);
    return used;
  }
};

// The band that a row has published to the levels above: it uses at most top and at least bottom.
struct Band {
  int64_t top[2], bottom[2];
  static Band In(const Word* words) {
    Band band{};
    for (uint32_t i = 0; i < 2; ++i) {
      band.top[i] = SignedWord(words, kBandTopWord + i);
      band.bottom[i] = SignedWord(words, kBandBottomWord + i);
    }
    return band;
  }
  void Store(Word* words) const {
    for (uint32_t i = 0; i < 2; ++i) {
      words[kBandTopWord + i].store(static_cast<uint64_t>(top[i]), kRelaxed);
      words[kBandBottomWord + i].store(static_cast<uint64_t>(bottom[i]), kRelaxed);
    }
  }
  static Band Around(const Used& used, const int64_t (&slack)[2]) {
    Band band{};
    for (uint32_t i = 0; i < 2; ++i) {
      band.top[i] = used.at[i] + slack[i];
      band.bottom[i] = used.at[i] - slack[i];
    }
    return band;
  }
  bool Holds(const Used& used) const {
    return used.at[0] <= top[0] && used.at[0] >= bottom[0] && used.at[1] <= top[1] && used.at[1] >= bottom[1];
  }
  Band With(const Band& other) const {
    Band band{};
    for (uint32_t i = 0; i < 2; ++i) {
      band.top[i] = std::max(top[i], other.top[i]);
      band.bottom[i] = std::min(bottom[i], other.bottom[i]);
    }
    return band;
  }
};

// Raises `most` to `value`. Any thread, at any time.
void RaiseTo(Word& most, int64_t value) {
  uint64_t seen = most.load(kRelaxed);
  while (static_cast<int64_t>(seen) < value && !most.compare_exchange_weak(seen, static_cast<uint64_t>(value), kRelease, kRelaxed)) {
  }
}
void LowerTo(Word& least, int64_t value) {
  uint64_t seen = least.load(kRelaxed);
  while (static_cast<int64_t>(seen) > value && !least.compare_exchange_weak(seen, static_cast<uint64_t>(value), kRelease, kRelaxed)) {
  }
}

// Publishes a changed band of a lower row in `cell`. Any thread, at any time. Locked additions are in one order for
// all threads.
void Publish(ShmCell& cell, const Band& before, const Band& after) {
  Word* const words = CellWords(cell);
  for (uint32_t i = 0; i < 2; ++i) {
    if (const int64_t more = after.top[i] - before.top[i]; more != 0) {
      const int64_t sum = static_cast<int64_t>(words[kTopsWord + i].fetch_add(static_cast<uint64_t>(more))) + more;
      if (more > 0) RaiseTo(words[kMaxTopWord + i], sum);
    }
    if (const int64_t more = after.bottom[i] - before.bottom[i]; more != 0) {
      const int64_t sum = static_cast<int64_t>(words[kBottomsWord + i].fetch_add(static_cast<uint64_t>(more))) + more;
      if (more < 0) LowerTo(words[kMinBottomWord + i], sum);
    }
  }
}

// Returns the cell of an account, a user, a host (0 = none) or the total. nullptr: there is none, or the segment is
// full.
ShmCell* MemberCell(Level level, uint32_t index, uint32_t class_index, bool has_cold_lock) {
  if (index == 0 && level != Level::kGlobal) return nullptr;
  const uint32_t ready = ReadyColumns(level, index).load(kAcquire);  // pairs with ReserveColumns: the cell's page is mapped
  if (class_index + ColumnsOf(Kind::kMemory) <= ready) return RowOf(level, index) + class_index;
  if (has_cold_lock) return ColumnOf(level, index, class_index, Kind::kMemory);
  const ColdLock lock;
  return lock ? ColumnOf(level, index, class_index, Kind::kMemory) : nullptr;
}

// Publishes a changed band to all levels above a row. `thread` is nullptr if the row counts for the total only.
void PublishAbove(const ShmThread* thread, uint32_t class_index, const Band& before, const Band& after, bool has_cold_lock = false) {
  const auto publish = [&](Level level, uint32_t index) {
    if (ShmCell* const cell = MemberCell(level, index, class_index, has_cold_lock); cell != nullptr) Publish(*cell, before, after);
  };
  if (thread != nullptr) {
    publish(Level::kAccount, thread->account.load(kRelaxed));
    publish(Level::kUser, thread->user.load(kRelaxed));
    publish(Level::kHost, thread->host.load(kRelaxed));
  }
  publish(Level::kGlobal, 0);
}

// Computes the width of the next band, and counts its publication. The word: exact updates used | doublings << 8 |
// changes at the last regained one << 16.
void TakeUpdate(Word& pace_word, uint64_t changes, int64_t (*slack)[2]) {
  uint64_t pace = pace_word.load(kRelaxed);
  uint64_t used = pace & 0xff, doublings = pace >> 8 & 0xff, mark = pace >> 16;
  constexpr uint64_t kMarkMask = ~uint64_t{0} >> 16;
  if (const uint64_t regained = ((changes - mark) & kMarkMask) / kChangesPerUpdate; regained != 0) {
    used -= std::min(used, regained);
    mark = changes & kMarkMask;
  }
  const bool is_exact = used < kExactUpdates;
  used += is_exact ? 1 : 0;
  doublings = is_exact ? 0 : std::min<uint64_t>(doublings + 1, 40);
  (*slack)[0] = is_exact ? 0 : int64_t{1} << doublings;
  (*slack)[1] = is_exact ? 0 : int64_t{64} << doublings;
  pace_word.store(used | doublings << 8 | mark << 16, kRelaxed);
}

// Starts the watermarks from the memory in use. REQUIRES: cold lock, which TRUNCATE holds, too; the caller is the
// cell's writer.
void BeginInterval(ShmCell& cell) {
  Word* const words = CellWords(cell);
  const CellWriter writer(cell.seq);
  const Used used = Used::In(words);
  for (uint32_t i = 0; i < 2; ++i) {
    words[kHighWord + i].store(static_cast<uint64_t>(used.at[i]), kRelease);
    words[kLowWord + i].store(static_cast<uint64_t>(used.at[i]), kRelease);
  }
  cell.gen.store(NowInterval(), kRelease);
}

// REQUIRES: the caller is the cell's writer.
void StoreChange(ShmCell& cell, const MemoryChange& change) {
  Word* const words = CellWords(cell);
  const CellWriter writer(cell.seq);
  const auto add = [&](uint32_t at, uint64_t more) { words[at].store(words[at].load(kRelaxed) + more, kRelease); };
  add(kAllocWord, change.allocs);
  add(kAllocWord + 1, change.alloc_bytes);
  add(kFreeWord, change.frees);
  add(kFreeWord + 1, change.free_bytes);
  const Used used = Used::In(words);
  for (uint32_t i = 0; i < 2; ++i) {
    if (used.at[i] > SignedWord(words, kHighWord + i)) words[kHighWord + i].store(static_cast<uint64_t>(used.at[i]), kRelease);
    if (used.at[i] < SignedWord(words, kLowWord + i)) words[kLowWord + i].store(static_cast<uint64_t>(used.at[i]), kRelease);
  }
}

// REQUIRES: the caller is the cell's writer. Called after any change of its watermarks or its band.
void StoreSlack(ShmCell& cell) {
  Word* const words = CellWords(cell);
  if (__builtin_expect(!StoresPairs(), 0)) {  // no slack at all: every change comes here, inside a section
    for (uint32_t i = 0; i < 2; ++i) {
      words[kSlackTopWord + i].store(static_cast<uint64_t>(std::numeric_limits<int64_t>::min()), kRelaxed);
      words[kSlackBottomWord + i].store(static_cast<uint64_t>(std::numeric_limits<int64_t>::max()), kRelaxed);
    }
    return;
  }
  for (uint32_t i = 0; i < 2; ++i) {
    const int64_t top = std::min(SignedWord(words, kHighWord + i), SignedWord(words, kBandTopWord + i));
    const int64_t bottom = std::max(SignedWord(words, kLowWord + i), SignedWord(words, kBandBottomWord + i));
    words[kSlackTopWord + i].store(static_cast<uint64_t>(top), kRelaxed);
    words[kSlackBottomWord + i].store(static_cast<uint64_t>(bottom), kRelaxed);
  }
}

Used After(const ShmCell& cell, const MemoryChange& change) {
  Used used = Used::In(CellWords(cell));
  used.at[0] += static_cast<int64_t>(change.allocs - change.frees);
  used.at[1] += static_cast<int64_t>(change.alloc_bytes - change.free_bytes);
  return used;
}

// Returns the counting cell; nullptr if the segment is full (counted).
ShmCell* MemoryCell(ThreadState& thread, uint32_t class_index, bool of_thread) {
  const uint32_t end = class_index + ColumnsOf(Kind::kMemory);
  if (of_thread) return end > thread.cell_count && !GrowCells(thread, end) ? nullptr : &thread.cells[class_index];
  return end > thread.global_cell_count && !GrowGlobalCells(thread, end) ? nullptr : &thread.global_cells[class_index];
}

// Slow path for a cell whose interval is over, or that leaves its band. `of_thread`: the cell is in the thread's row,
// else in its slot's row for the total. Preserves errno.
[[gnu::noinline]] void ChangeMemorySlowly(ThreadState& thread, uint32_t class_index, bool of_thread, ShmCell& cell,
                                          const MemoryChange& change) {
  const int error = errno;
  Word* const words = CellWords(cell);
  if (cell.gen.load(kRelaxed) != NowInterval()) {
    // A handler that interrupted the slow path must do without; the cell stays in the old interval.
    if (const ColdLock lock; lock) BeginInterval(cell);
  }
  const Used after = After(cell, change);
  const Band before = Band::In(words);
  if (before.Holds(after)) {
    StoreChange(cell, change);
  } else {
    const uint64_t changes = words[kAllocWord].load(kRelaxed) + words[kFreeWord].load(kRelaxed);
    int64_t slack[2];
    TakeUpdate(words[kPaceWord], changes, &slack);
    const Band next = Band::Around(after, slack), wide = before.With(next);
    const ShmThread* const above = of_thread ? thread.shared : nullptr;
    PublishAbove(above, class_index, before, wide);
    StoreChange(cell, change);
    PublishAbove(above, class_index, wide, next);
    next.Store(words);
  }
  StoreSlack(cell);
  errno = error;
}

// Counts any change in a cell of the thread. Returns false if the segment is full (counted). REQUIRES: EnterProbe.
bool ChangeMemory(ThreadState& thread, uint32_t class_index, bool of_thread, const MemoryChange& change) {
  ShmCell* const cell = MemoryCell(thread, class_index, of_thread);
  if (cell == nullptr) return false;
  if (cell->gen.load(kRelaxed) == NowInterval() && Band::In(CellWords(*cell)).Holds(After(*cell, change))) {
    StoreChange(*cell, change);
    StoreSlack(*cell);
  } else {
    ChangeMemorySlowly(thread, class_index, of_thread, *cell, change);
  }
  return true;
}

// Counts a change of the total under the cold lock. For a thread without a row (it ends, or is detached), or inside a
// probe (a signal handler). Preserves errno.
void ChangeMemoryOfTotal(uint32_t class_index, const MemoryChange& change) {
  const int error = errno;
  if (const ColdLock lock; !lock) {
    CountLoss(Loss::kLockers);
  } else if (ShmCell* const cell = ColumnOf(Level::kGlobal, 0, class_index, Kind::kMemory); cell == nullptr) {
    CountLoss(Loss::kThreadStatistics);
  } else {
    // The row has no band of its own: its use is published exactly, as is the use that moves here from ended threads.
    const Used used = After(*cell, change), now = Used::In(CellWords(*cell));
    if (cell->gen.load(kRelaxed) != NowInterval()) BeginInterval(*cell);
    const Band before = Band::Around(now, {}), after = Band::Around(used, {}), wide = before.With(after);
    Publish(*cell, before, wide);
    StoreChange(*cell, change);
    Publish(*cell, wide, after);
  }
  errno = error;
}

}  // namespace

uint32_t AllocateSlowly(uint32_t key, uint64_t size, uint64_t* owner) {
  *owner = 0;
  const uint32_t class_index = ClassOfKey(Family::kMemory, key);
  const uint32_t flags = class_index == 0 ? 0 : g_runtime.classes[class_index].flags.load(kRelaxed);
  if ((flags & kFlagEnabled) == 0) return 0;
  const bool of_thread = (flags & kFlagThread) != 0, is_controlled = of_thread && (flags & kFlagControlled) != 0;
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return 0;
  if (of_thread && (thread->shared->flags.load(kRelaxed) & kThreadInstrumented) == 0) return 0;
  const NestedProbe probe(*thread);
  if (!probe || !ChangeMemory(*thread, class_index, of_thread, {1, size, 0, 0})) return 0;
  if (of_thread) AddToSession(*thread, size, is_controlled);
  *owner = g_memory_process | (of_thread ? thread->thread_id : 0);
  return is_controlled ? key | kControlledKey : key;
}

void FreeSlowly(uint32_t key, uint64_t size, uint64_t owner) {
  const uint32_t class_index = ClassOfKey(Family::kMemory, key & ~kControlledKey);
  if (class_index == 0 || !IsOfThisProcess(owner)) return;  // a forked child has it from its parent
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr || IsInterrupted(*thread)) return ChangeMemoryOfTotal(class_index, {0, 0, 1, size});
  const bool is_own = (owner & kOwnerMask) == thread->thread_id;
  const NestedProbe probe(*thread);
  if (ChangeMemory(*thread, class_index, is_own, {0, 0, 1, size}) && is_own) TakeFromSession(*thread, size, (key & kControlledKey) != 0);
}

uint32_t ReallocateMemory(uint32_t key, uint64_t old_size, uint64_t new_size, uint64_t* owner) {
  const uint32_t class_index = ClassOfKey(Family::kMemory, key & ~kControlledKey);
  ThreadState* const thread = CurrentThread();
  const bool is_own = thread != nullptr && IsOfThisProcess(*owner) && (*owner & kOwnerMask) == thread->thread_id;
  const uint32_t flags = class_index == 0 ? 0 : g_runtime.classes[class_index].flags.load(kRelaxed);
  constexpr uint32_t kCommon = kFlagEnabled | kFlagThread;
  const bool controlled = (key & kControlledKey) != 0;
  if ((flags & kCommon) != kCommon || !is_own || thread->inside() || (thread->shared->flags.load(kRelaxed) & kThreadInstrumented) == 0 ||
      controlled != ((flags & kFlagControlled) != 0)) {
    // Its account changes: the block is freed in one account and allocated in the other.
    FreeMemory(key, old_size, *owner);
    return AllocateMemory(key, new_size, owner);
  }
  EnterProbe(*thread);
  ChangeMemory(*thread, class_index, true, {1, new_size, 1, old_size});
  TakeFromSession(*thread, old_size, controlled);
  AddToSession(*thread, new_size, controlled);
  LeaveProbe(*thread, thread->outside());
  return key;
}

uint32_t ClaimMemory(uint32_t key, uint64_t size, uint64_t* owner, bool takes) {
  const uint32_t class_index = ClassOfKey(Family::kMemory, key & ~kControlledKey);
  if (class_index == 0 || !IsOfThisProcess(*owner)) return key;
  ThreadState* const thread = CurrentThread();
  const bool is_controlled = (key & kControlledKey) != 0;
  const bool is_own = thread != nullptr && (*owner & kOwnerMask) == thread->thread_id;
  if (!takes) {
    if (is_own) {
      const NestedProbe probe(*thread);
      if (!probe) return key;
      // The free comes first: no level above may see both blocks.
      ChangeMemory(*thread, class_index, true, {0, 0, 1, size});
      ChangeMemory(*thread, class_index, false, {1, size, 0, 0});
      TakeFromSession(*thread, size, is_controlled);
    }
    *owner = g_memory_process;
    return key;
  }
  // The thread counts nothing of its own, or the instrument counts globally only: the block keeps no owner.
  if (thread == nullptr || is_own || (g_runtime.classes[class_index].properties & kPropertyGlobal) != 0) return key;
  const uint32_t flags = thread->shared->flags.load(kRelaxed);
  const bool threads_count = (g_runtime.classes[class_index].flags.load(kRelaxed) & (kFlagEnabled | kFlagThread)) != kFlagEnabled;
  if ((flags & kThreadInstrumented) == 0 || !threads_count) return key;
  const NestedProbe probe(*thread);
  if (!probe) return key;
  ChangeMemory(*thread, class_index, false, {0, 0, 1, size});
  ChangeMemory(*thread, class_index, true, {1, size, 0, 0});
  AddToSession(*thread, size, is_controlled);
  *owner = g_memory_process | thread->thread_id;
  return key;
}

namespace {

// No memory instrument has a smaller index. Few programs have one, and each thread that ends would look at all instruments.
// Threads: under the cold lock.
uint64_t first_memory_class = 1;

uint64_t FirstMemoryClass() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  const auto is_memory = [](uint64_t at) { return g_runtime.classes[at].family == static_cast<uint32_t>(Family::kMemory); };
  while (first_memory_class < used && !is_memory(first_memory_class)) ++first_memory_class;
  return first_memory_class;
}

}  // namespace

void SettleMemory(ShmThread& thread) {
  const auto slot = static_cast<uint32_t>(&thread - g_runtime.threads);
  ShmCell* const row = RowOf(Level::kThread, slot);
  const uint32_t ready = thread.cells.load(kRelaxed);
  ForEachMemoryClass(FirstMemoryClass(), [&](uint32_t class_index) {
    if (class_index + ColumnsOf(Kind::kMemory) > ready) return;
    ShmCell& cell = row[class_index];
    Word* const words = CellWords(cell);
    if (cell.gen.load(kRelaxed) != NowInterval()) BeginInterval(cell);
    PublishAbove(&thread, class_index, Band::In(words), Band::Around(Used::In(words), {}), true);
  });
  const auto keep_most = [](ShmPrincipal& principal, const ThreadWords& session) {
    RaiseTo(principal.max_controlled_memory, static_cast<int64_t>(session.max_controlled_memory.load(kRelaxed)));
    RaiseTo(principal.max_total_memory, static_cast<int64_t>(session.max_total_memory.load(kRelaxed)));
  };
  const auto principal_at = [](Level level, uint32_t index) {
    return index == 0 ? nullptr : g_runtime.segment.element<ShmPrincipal>(kPrincipalsOf[static_cast<uint32_t>(level)], index);
  };
  for (ShmPrincipal* principal :
       {principal_at(Level::kAccount, thread.account.load(kRelaxed)), principal_at(Level::kUser, thread.user.load(kRelaxed)),
        principal_at(Level::kHost, thread.host.load(kRelaxed))}) {
    if (principal != nullptr) keep_most(*principal, thread.numbers);
  }
  ThreadWords& words = thread.numbers;
  for (Word* word : {&words.controlled_memory, &words.max_controlled_memory, &words.total_memory, &words.max_total_memory})
    word->store(0, kRelease);
  if (ThreadState* const state = SlotAt(slot).state; state != nullptr) state->controlled_memory_peak = state->total_memory_peak = 0;
}

void ForgetMemory(Level level, uint32_t index) {
  ShmCell* const row = RowOf(level, index);
  const uint32_t ready =
      level == Level::kThread ? g_runtime.threads[index].cells.load(kRelaxed) : ReadyColumns(level, index).load(kRelaxed);
  ForEachMemoryClass(FirstMemoryClass(), [&](uint32_t class_index) {
    if (class_index + ColumnsOf(Kind::kMemory) > ready) return;
    Word* const words = CellWords(row[class_index]);
    for (uint32_t at = kLowWord + 2; at < WordsOf(ColumnsOf(Kind::kMemory)); ++at) words[at].store(0, kRelease);
  });
  if (level == Level::kThread) return;
  auto& principal = *g_runtime.segment.element<ShmPrincipal>(kPrincipalsOf[static_cast<uint32_t>(level)], index);
  principal.max_controlled_memory.store(0, kRelaxed);
  principal.max_total_memory.store(0, kRelaxed);
}

void ForgetMemoryInChild() {
  first_memory_class = 1;
  g_memory_process += uint64_t{1} << kProcessShift;
  g_runtime.header->rebase_seq.store(0, kRelaxed);
  const auto forget = [](auto& holder) {
    holder.max_controlled_memory.store(0, kRelaxed);
    holder.max_total_memory.store(0, kRelaxed);
  };
  const uint64_t threads = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  for (uint64_t slot = 1; slot < threads; ++slot) {
    ThreadWords& words = g_runtime.threads[slot].numbers;
    forget(words);
    words.controlled_memory.store(0, kRelaxed);
    words.total_memory.store(0, kRelaxed);
  }
  for (const Level level : {Level::kAccount, Level::kUser, Level::kHost}) {
    const ArrayId id = kPrincipalsOf[static_cast<uint32_t>(level)];
    const uint64_t used = g_runtime.segment.array(id).used.load(kRelaxed);
    for (uint64_t i = 1; i < used; ++i) forget(*g_runtime.segment.element<ShmPrincipal>(id, i));
  }
}

}  // namespace perfschema
