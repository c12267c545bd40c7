#include "snapshot/thread_time.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/time_states.h"
#include "shm/place.h"
#include "shm/writer.h"
#include "snapshot/kernel_threads.h"
#include "snapshot/moment.h"
#include "snapshot/open_events.h"
#include "snapshot/slots.h"
#include "snapshot/snapshot.h"
#include "snapshot/sums.h"
#include "snapshot/threads.h"

namespace perfschema {
namespace {

struct RoleTime : TimeSplit {
  uint64_t threads = 0;
  uint64_t unseen = 0;
};
using Roles = std::map<std::string, RoleTime>;

// What the kernel has counted for a thread, in nanoseconds.
struct KernelTime {
  uint64_t computing = 0, runnable = kTimeUnknown;
};

// Asks the kernel about the threads of a process that lives, on this machine and in this namespace of pids.
class Kernel {
 public:
  explicit Kernel(const ShmHeader& header) : pid_(header.pid) {
    const std::optional<ProcessStat> stat = StatOfWriter(header);
    lives_ = stat && stat->state != 'Z';
  }
  std::optional<KernelTime> TimeOf(uint64_t os_id) const {
    if (!lives_) return {};
    const std::string text = TextInProc(pid_, os_id, "schedstat");
    if (text.empty()) return {};
    const auto [computing, runnable] = ParseSchedulerTimes(text.c_str());
    return KernelTime{computing, runnable};
  }
  // Returns the processor time of the whole process; 0 = not known.
  uint64_t Computed() const {
    constexpr int kComputed = 2;
    timespec time;
    if (!lives_ || clock_gettime(static_cast<clockid_t>(~static_cast<uint32_t>(pid_) << 3 | kComputed), &time) != 0) return 0;
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
  }

 private:
  const uint64_t pid_;
  bool lives_ = false;
};

std::string RoleOf(std::string_view name) {
  std::string role(name.size(), 0);
  role.resize(CopyRole(name, role.data()));
  return role;
}

void AddEnded(const Snapshot& snapshot, Roles* roles) {
  const auto& array = snapshot.array<ArrayId::kRoles>();
  const uint64_t used = std::min<uint64_t>(array.UsedNow(), kMostRoles + 1);
  for (uint64_t i = 1; i < used; ++i) {
    const ShmRole* const shm = array.at(i);
    if (shm == nullptr) return;
    uint64_t name[16];
    RoleTime found;
    const bool is_whole = snapshot.TryRead(shm->seq, [&] {
      LoadWords(shm->name, name);
      found.threads = shm->threads.load(kAcquire);
      found.wall = shm->wall.load(kAcquire);
      found.computing = shm->computing.load(kAcquire);
      found.runnable = shm->runnable.load(kAcquire);
      found.elsewhere = shm->elsewhere.load(kAcquire);
      for (uint32_t state = 0; state < kWaitStates; ++state) found.waits[state] = shm->waits[state].load(kAcquire);
    });
    if (is_whole) (*roles)[std::string(snapshot.KeepWords(name))] = found;
    if (!is_whole) snapshot.CountSkipped();
  }
}

using Waits = std::unordered_map<uint64_t, TimeSplit>;  // by THREAD_ID

Waits WaitsOfLive(const Snapshot& snapshot) {
  Waits waits;
  ForEachSum(snapshot, Kind::kWait, Level::kThread, [&](const SumRow& row) {
    const uint64_t time = StatIn(row.numbers, 0).sum_ps;
    if (time != 0) waits[row.thread_id].waits[WaitStateOf(row.instrument->name.view())] += time;
  });
  return waits;
}

// Adds the waits that have not ended. One that runs inside another is a part of that one.
void AddOpen(const Snapshot& snapshot, const std::unordered_map<uint64_t, uint64_t>& until, Waits* waits) {
  for (const OpenEvent& open : OpenWaits(snapshot)) {
    if (!open.event.timer_start || open.event.nesting_type == NestingType::kWait) continue;
    const auto at = until.find(open.event.thread_id);
    if (at == until.end() || at->second <= *open.event.timer_start) continue;
    (*waits)[open.event.thread_id].waits[WaitStateOf(open.event.event_name.view())] += at->second - *open.event.timer_start;
  }
}

// `left`: when the process has read its clocks at its end.
void AddLive(const Snapshot& snapshot, const Kernel& kernel, Roles* roles, uint64_t* left) {
  const uint64_t now = ReadMoment::Now(snapshot.header());
  const std::vector<ThreadRow> threads = Threads(snapshot);
  std::unordered_map<uint64_t, uint64_t> until;
  for (const ThreadRow& row : threads) {
    const ShmThread* const shm = snapshot.array<ArrayId::kThreads>().at(row.slot);
    const uint64_t seen = shm == nullptr ? 0 : shm->seen.load(kAcquire);  // pairs with ReadTimesAtEnd
    until[row.thread_id] = seen != 0 ? seen : now;
  }
  Waits waits = WaitsOfLive(snapshot);
  AddOpen(snapshot, until, &waits);
  for (const ThreadRow& row : threads) {
    const ShmThread* const shm = snapshot.array<ArrayId::kThreads>().at(row.slot);
    if (shm == nullptr) continue;
    const uint64_t born = shm->born.load(kAcquire);  // pairs with StoreBegin
    const uint64_t end = until[row.thread_id];
    if (born == 0) continue;
    TimeSplit split = waits[row.thread_id];
    split.wall = static_cast<int64_t>(end - born) > 0 ? end - born : 0;
    const bool was_seen = shm->seen.load(kAcquire) != 0;
    std::optional<KernelTime> time;
    if (was_seen) {
      time = KernelTime{shm->computing.load(kAcquire), shm->runnable.load(kAcquire)};
    } else if (row.os_id) {
      time = kernel.TimeOf(*row.os_id);
    }
    if (time) {
      split.computing = TimeSince(time->computing, shm->computed_before.load(kAcquire));
      split.runnable = TimeSince(time->runnable, shm->runnable_before.load(kAcquire));
    }
    if (shm->thread_id.load(kRelaxed) != row.thread_id) continue;  // ended meanwhile: all is read again
    split.Settle();
    if (was_seen) *left = std::max(*left, end);
    RoleTime& role = (*roles)[RoleOf(row.name.view())];
    ++role.threads;
    role.wall += split.wall;
    role.computing += split.computing;
    role.runnable += split.runnable;
    (time ? role.elsewhere : role.unseen) += split.elsewhere;
    for (uint32_t i = 0; i < kWaitStates; ++i) role.waits[i] += split.waits[i];
  }
}

}  // namespace

std::vector<ThreadTimeRow> ThreadTimes(const Snapshot& snapshot) {
  std::vector<ThreadTimeRow> rows;
  if (!snapshot.ok()) return rows;
  const Kernel kernel(snapshot.header());
  Roles roles;
  uint64_t left = 0;
  const auto read = [&] {
    const HalfWord& moves = snapshot.header().move_seq;
    const uint32_t before = moves.load(kAcquire);  // pairs with MoveSection
    roles.clear();
    left = 0;
    AddEnded(snapshot, &roles);
    AddLive(snapshot, kernel, &roles, &left);
    return !snapshot.IsUnderWay(moves, before) && moves.load(kRelaxed) == before;
  };
  if (!snapshot.ReadSettled(read)) snapshot.CountSkipped();
  uint64_t computed = 0;
  for (const auto& [name, role] : roles) {
    const Text<128> kept = snapshot.Keep(name);
    computed += role.computing;
    rows.push_back({kept, "computing", role.threads, role.computing});
    rows.push_back({kept, "runnable", role.threads, role.runnable});
    for (uint32_t i = 0; i < kWaitStates; ++i) {
      if (role.waits[i] != 0) rows.push_back({kept, kWaitStateNames[i], role.threads, role.waits[i]});
    }
    rows.push_back({kept, "elsewhere", role.threads, role.elsewhere});
    if (role.unseen != 0) rows.push_back({kept, "not seen", role.threads, role.unseen});
  }
  const ShmHeader& header = snapshot.header();
  const uint64_t at_end = header.computed.load(kAcquire);
  const uint64_t of_all = TimeSince(at_end != 0 ? at_end : kernel.Computed(), header.computed_before.load(kAcquire));
  if (of_all > computed) rows.push_back({"(not seen)", "computing", 0, of_all - computed});
  const uint64_t loading = header.loading.load(kAcquire);  // pairs with NoteLoading
  if (loading != 0) rows.push_back({"(process)", "starting", 1, loading * 1000});
  const bool became_another = header.became.at.load(kAcquire) != 0;  // pairs with ReadTimesAtEnd
  if (left != 0 && !became_another) rows.push_back({"(process)", "ending", 1, ReadMoment::Since(header, left)});
  return rows;
}

}  // namespace perfschema
