#include "record/context/thread_time.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <string_view>

#include "base/clock.h"
#include "base/hash.h"
#include "base/placement.h"
#include "base/time_states.h"
#include "record/context/principals.h"
#include "record/engine/classes.h"
#include "record/engine/cold_lock.h"
#include "record/engine/texts.h"
#include "shm/place.h"
#include "shm/segment.h"

namespace perfschema {
namespace {

constexpr uint64_t kPicosPerNano = 1000;

// When pfs began in the process: nanoseconds of CLOCK_MONOTONIC, and what the kernel had counted by then for the first thread, and for all.
// 0 = not known.
struct ProcessBegin {
  uint64_t at = 0, computed = 0, runnable = 0, computed_by_all = 0;
};
PFS_SET_IN_EVERY_PROCESS constinit ProcessBegin process_begin = {};

// Whether the kernel has no count of the time that threads were runnable. Guarded by the cold lock.
bool has_no_schedstat = false;

// Reads for how long a thread was runnable but had no processor, in nanoseconds.
uint64_t ReadRunnable(uint64_t os_id) {
  if (has_no_schedstat || !HasDescriptorsToSpare()) return kTimeUnknown;
  // Not by snprintf(), most of whose code a short program would run for this alone.
  constexpr std::string_view kBefore = "/proc/self/task/", kAfter = "/schedstat";
  char path[64], text[96];
  char* const digits = std::copy(kBefore.begin(), kBefore.end(), path);
  char* const behind = std::copy(kAfter.begin(), kAfter.end(), std::to_chars(digits, digits + 20, os_id).ptr);
  *behind = 0;
  if (!ReadSmallFile(path, text, sizeof text)) {
    has_no_schedstat = errno == ENOENT && os_id == OsIdOfThisThread();
    return kTimeUnknown;
  }
  return ParseSchedulerTimes(text).runnable;
}

// Returns the clock of a thread of this process, as the kernel numbers it.
clockid_t ClockOf(uint64_t os_id) {
  constexpr int kPerThread = 4, kComputed = 2;
  return static_cast<clockid_t>(~static_cast<uint32_t>(os_id) << 3 | kPerThread | kComputed);
}

uint64_t ReadComputing(uint64_t os_id) {
  timespec time;
  if (clock_gettime(ClockOf(os_id), &time) != 0) return kTimeUnknown;
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

void ReadInto(ShmThread& shared) {
  const uint64_t os_id = shared.os_id.load(kRelaxed);
  shared.computing.store(ReadComputing(os_id), kRelaxed);
  shared.runnable.store(ReadRunnable(os_id), kRelaxed);
}

void StoreBegin(ShmThread& shared, uint64_t born, uint64_t computed, uint64_t runnable) {
  shared.computed_before.store(computed, kRelaxed);
  shared.runnable_before.store(runnable, kRelaxed);
  shared.computing.store(0, kRelaxed);
  shared.runnable.store(0, kRelaxed);
  shared.seen.store(0, kRelaxed);
  shared.born.store(born, kRelease);  // last: pairs with AddLive
}

// Gives the row of the process's first thread the begin of the process, once. Returns false if that is not known.
bool TakeProcessBegin(ShmThread& shared) {
  const ProcessBegin begin = process_begin;
  if (begin.at == 0) return false;
  process_begin = {};
  StoreBegin(shared, TimeNow() - (ReadClockNanos(CLOCK_MONOTONIC) - begin.at) * kPicosPerNano, begin.computed, begin.runnable);
  return true;
}

// Returns the role's place, which is made if it is new. 0: the segment is full.
uint32_t RoleAt(std::string_view role) {
  const uint32_t hash = Hash().Add(role).folded();
  const auto used = static_cast<uint32_t>(g_runtime.segment.array(ArrayId::kRoles).used.load(kRelaxed));
  for (uint32_t i = 1; i < used; ++i) {
    const auto& shared = *g_runtime.segment.element<ShmRole>(ArrayId::kRoles, i);
    if (shared.hash.load(kRelaxed) == hash && IsText(shared.name, role)) return i;
  }
  if (used > kMostRoles) return kMostRoles;
  const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kRoles);
  if (fresh <= 0) return 0;
  auto& shared = *g_runtime.segment.element<ShmRole>(ArrayId::kRoles, static_cast<uint64_t>(fresh));
  if (fresh == kMostRoles) role = "thread/(others)";
  const CellWriter writer(shared.seq);
  shared.hash.store(hash, kRelease);
  StoreText(shared.name, role);
  return static_cast<uint32_t>(fresh);
}

void Add(Word& word, uint64_t more) { word.store(word.load(kRelaxed) + more, kRelease); }

// Adds up the waits that the thread has counted, by their states. Returns whether there are any.
bool AddWaits(const ShmThread& shared, TimeSplit* split) {
  const ShmCell* const row = RowOf(Level::kThread, static_cast<uint32_t>(&shared - g_runtime.threads));
  const uint64_t columns = std::min<uint64_t>(g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed), shared.cells.load(kRelaxed));
  const uint32_t since = g_runtime.header->wait_epochs.since[static_cast<uint32_t>(Level::kThread)].load(kRelaxed);
  bool any = false;
  for (uint64_t at = 1; at < columns; ++at) {
    const uint64_t time = row[at].stat.sum_ps.load(kRelaxed);
    if (time == 0 || static_cast<int32_t>(row[at].gen.load(kRelaxed) - since) < 0) continue;
    const ShmClass& its = g_runtime.classes[at];
    if (its.ready.load(kRelaxed) == 0 || TraitsOf(static_cast<Family>(its.family)).kind != Kind::kWait) continue;
    split->waits[WaitStateOf(NameOf(its))] += time;
    any = true;
  }
  return any;
}

}  // namespace

PFS_IN_EVERY_PROCESS void NoteProcessBegin() {
  process_begin = {ReadClockNanos(CLOCK_MONOTONIC), ReadClockNanos(CLOCK_THREAD_CPUTIME_ID), 0, ReadClockNanos(CLOCK_PROCESS_CPUTIME_ID)};
}

PFS_IN_EVERY_PROCESS void NoteForkedProcessBegin() { process_begin = {ReadClockNanos(CLOCK_MONOTONIC)}; }

// The kernel tells the begin of a process in ticks of 10 ms, and no begin of a program. So a program that runs as the first one of its
// process began in that tick, and a time before that the thread has computed or waited for a processor: it seldom did anything else.
void NoteLoading() {
  ShmHeader& header = *g_runtime.header;
  ProcessBegin& begin = process_begin;
  const uint64_t ticks = header.process_start_ticks;
  if (begin.at == 0 || g_came_late || ticks == 0) return;
  header.computed_before.store(begin.computed_by_all, kRelaxed);
  const EarlierProgram& earlier = TheEarlierProgram();
  const uint64_t runnable_now = ReadRunnable(static_cast<uint64_t>(getpid()));
  const uint64_t runnable = runnable_now == kTimeUnknown ? 0 : runnable_now;
  const uint64_t tick = 1'000'000'000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  const uint64_t at = begin.at + (ReadClockNanos(CLOCK_BOOTTIME) - ReadClockNanos(CLOCK_MONOTONIC));
  const uint64_t most = at - std::min(at, ticks * tick);
  const uint64_t age = std::clamp(begin.computed + runnable, most - std::min(most, tick), most);
  const uint64_t since = earlier.at < begin.at ? begin.at - earlier.at : 0;
  const bool is_first = since == 0 || since > most;
  const uint64_t loading = is_first ? age : since;
  header.loading.store(loading, kRelease);  // pairs with ThreadTimes
  if (runnable_now == kTimeUnknown) return;
  const uint64_t computed = begin.computed - std::min(begin.computed, is_first ? 0 : earlier.computed);
  const uint64_t before = is_first || earlier.runnable == kTimeUnknown ? 0 : std::min(earlier.runnable, runnable);
  begin.runnable = before + std::min(runnable - before, loading - std::min(loading, computed));
}

void ForgetLoadingInChild() {
  ShmHeader& header = *g_runtime.header;
  for (Word* const word : {&header.computed, &header.loading, &header.computed_before, &header.became.at}) word->store(0, kRelaxed);
}

uint64_t TimeNow() { return g_time_base.Units<0>(g_time_base.Counter()); }

void BeginTime(ShmThread& shared, uint64_t born) {
  const uint64_t os_id = shared.os_id.load(kRelaxed);
  if (born != 0) return StoreBegin(shared, born, 0, 0);
  if (os_id == static_cast<uint64_t>(getpid()) && TakeProcessBegin(shared)) return;
  StoreBegin(shared, TimeNow(), ReadComputing(os_id), ReadRunnable(os_id));
}

void AddTimeToRole(ShmThread& shared, bool is_end) {
  const uint64_t born = shared.born.load(kRelaxed), now = TimeNow();
  if (born == 0) return;
  TimeSplit split;
  const bool any = AddWaits(shared, &split);
  if (!is_end && !any) return;
  ReadInto(shared);
  const uint64_t computing = shared.computing.load(kRelaxed), runnable = shared.runnable.load(kRelaxed);
  const uint64_t computed_before = shared.computed_before.load(kRelaxed), runnable_before = shared.runnable_before.load(kRelaxed);
  split.wall = std::max(now, born) - born;
  split.computing = TimeSince(computing, computed_before);
  split.runnable = TimeSince(runnable, runnable_before);
  split.Settle();
  char name[sizeof shared.name], role[sizeof shared.name];
  CopyFromShared(name, shared.name, sizeof name);
  const uint32_t at = RoleAt({role, CopyRole({name, strnlen(name, sizeof name)}, role)});
  if (at == 0) return CountLoss(Loss::kThreadStatistics);
  auto& to = *g_runtime.segment.element<ShmRole>(ArrayId::kRoles, at);
  const CellWriter writer(to.seq);  // pairs with AddEnded
  if (is_end) Add(to.threads, 1);
  Add(to.wall, split.wall);
  Add(to.computing, split.computing);
  Add(to.runnable, split.runnable);
  Add(to.elsewhere, split.elsewhere);
  for (uint32_t i = 0; i < kWaitStates; ++i) Add(to.waits[i], split.waits[i]);
  if (!is_end) StoreBegin(shared, now, computing, runnable);
}

void ReadTimesAtEnd(bool becomes_another) {
  if (!__atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE) || IsStillForked() || IsInColdPath()) return;
  if (g_runtime.header->pid != static_cast<uint64_t>(getpid()) || !KeepsSegment()) return;
  const int error = errno;
  if (const ColdLock lock; lock) {
    const uint64_t used = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
    for (uint64_t slot = 1; slot < used; ++slot) {
      ShmThread& shared = g_runtime.threads[slot];
      if (shared.thread_id.load(kRelaxed) == 0 || shared.born.load(kRelaxed) == 0) continue;
      ReadInto(shared);
      shared.seen.store(TimeNow(), kRelease);  // pairs with AddLive
    }
    g_runtime.header->computed.store(ReadClockNanos(CLOCK_PROCESS_CPUTIME_ID), kRelease);
    if (becomes_another) {
      ShmProgramEnd& end = g_runtime.header->became;
      end.computed.store(ReadClockNanos(CLOCK_THREAD_CPUTIME_ID), kRelaxed);
      end.runnable.store(ReadRunnable(OsIdOfThisThread()), kRelaxed);
      end.at.store(ReadClockNanos(CLOCK_MONOTONIC), kRelease);  // pairs with ThreadTimes
    }
  }
  errno = error;
}

void ForgetTimesAtEnd() {
  if (!__atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE) || IsStillForked() || IsInColdPath()) return;
  if (g_runtime.header->pid != static_cast<uint64_t>(getpid())) return;
  const int error = errno;
  if (const ColdLock lock; lock) {
    const uint64_t used = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
    for (uint64_t slot = 1; slot < used; ++slot) g_runtime.threads[slot].seen.store(0, kRelease);
    g_runtime.header->computed.store(0, kRelease);
    g_runtime.header->became.at.store(0, kRelease);
  }
  errno = error;
}

}  // namespace perfschema
