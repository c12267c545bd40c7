// background/writer.cpp: the thread that writes the trace: its start, its sleep, its end; fork() and exit.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <new>

#include "background/drain.h"
#include "background/own_thread.h"
#include "base/clock.h"
#include "record/probe/trace.h"
#include "setup/ceiling.h"

namespace perfschema {
namespace {

constexpr int64_t kNapNanos = 10'000'000, kExitNanos = 5'000'000'000;
constexpr uint64_t kMuch = 2000;      // rows of a pass after which the next one comes at once
constexpr uint64_t kIdlePasses = 50;  // after which the thread checks whether the trace is still on
constexpr size_t kMostOpenFiles = 128;
constexpr size_t kStackBytes = 1u << 20;

timespec In(int64_t nanos) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  nanos += now.tv_nsec;
  return {now.tv_sec + nanos / 1'000'000'000, nanos % 1'000'000'000};
}

// The state that the program's threads and the writer share.
struct Shared {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  pthread_t thread;
  bool is_running, must_end, is_woken;
  std::atomic<bool> is_awake;  // the writer will check by itself

  void Make() {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&mutex, nullptr);
    pthread_cond_init(&changed, &monotonic);
    is_running = must_end = is_woken = false;
    is_awake.store(false, kRelaxed);
  }
};
Shared* shared = nullptr;            // made by the first start; a forked child makes its own
std::string* folder_path = nullptr;  // for this process and the children that it forks
pthread_mutex_t start_mutex = PTHREAD_MUTEX_INITIALIZER;
bool is_exiting = false, hears_of_exit = false;

TraceFolder FolderOfOptions() {
  const Options& options = StartOptions();
  TraceFolder folder;
  folder.max_size = static_cast<uint64_t>(options.Get(OptionId::trace_max_size));
  folder.on_limit = static_cast<TraceFolder::OnLimit>(options.Get(OptionId::trace_on_limit));
  folder.path = *folder_path;
  return folder;
}

// Returns the folder of the files. A relative path is resolved now, wherever the program changes its directory to later.
std::string PathOfOptions() {
  std::string path(StartOptions().Get(TextOptionId::trace_directory));
  if (path.empty()) path = "pfs-trace-" + std::to_string(getpid());
  if (path[0] == '/') return path;
  std::unique_ptr<char, decltype(&std::free)> here(getcwd(nullptr, 0), &std::free);
  return here == nullptr ? path : std::string(here.get()) + "/" + path;
}

// Gives the thread its own table of descriptors. The program neither sees nor closes its files, and files that the program closes are
// really closed. Returns false if this system cannot do that.
bool LeaveDescriptors() {
#if defined(SYS_close_range)
  constexpr unsigned kUnshare = 2;  // CLOSE_RANGE_UNSHARE
  return syscall(SYS_close_range, 0u, ~0u, kUnshare) == 0;
#else
  return false;
#endif
}

uint64_t PassWithDead(TraceDrain& drain, uint64_t* next_ended, bool is_last) {
  static std::array<EndedThread, 256> ended;
  uint32_t count = 0;
  if (const ColdLock lock; lock) count = TakeEndedThreads(next_ended, ended.data(), ended.size());
  const uint64_t given = drain.Pass({ended.data(), count}, is_last && count < ended.size());
  return count == ended.size() ? given + kMuch : given;  // there are more
}

bool IsWanted() {
  const ColdLock lock;
  return !lock || TraceIsWanted();
}

// Waits until there may be something to do. Returns false at the end of the trace.
bool Wait(Shared& own, bool may_sleep) {
  pthread_mutex_lock(&own.mutex);
  if (may_sleep) {
    own.is_awake.store(false, kRelaxed);
    while (!own.must_end && !own.is_woken) pthread_cond_wait(&own.changed, &own.mutex);
    own.is_awake.store(true, kRelaxed);
  } else if (!own.must_end) {
    const timespec until = In(kNapNanos);
    pthread_cond_timedwait(&own.changed, &own.mutex, &until);
  }
  own.is_woken = false;
  const bool goes_on = !own.must_end;
  pthread_mutex_unlock(&own.mutex);
  return goes_on;
}

void Drain(Shared& own) {
  const bool has_own_descriptors = LeaveDescriptors();
  TraceDrain drain(FolderOfOptions());
  uint64_t next_ended = 0, idle = 0;
  for (bool goes_on = true; goes_on;) {
    const uint64_t given = PassWithDead(drain, &next_ended, false);
    idle = given == 0 && !drain.has_pending() ? idle + 1 : 0;
    const bool may_sleep = idle >= kIdlePasses && !IsWanted();
    if (idle >= kIdlePasses) idle = 0;
    drain.CloseFiles(has_own_descriptors ? may_sleep ? 0 : kMostOpenFiles : 0);
    if (given < kMuch) {
      goes_on = Wait(own, may_sleep);
    } else {
      pthread_mutex_lock(&own.mutex);
      goes_on = !own.must_end;
      pthread_mutex_unlock(&own.mutex);
    }
  }
  // Makes two passes over the existing records: the second finds all events that began before those that the first one found.
  for (int i = 0; i < 16 && PassWithDead(drain, &next_ended, false) >= kMuch; ++i) {
  }
  (void)PassWithDead(drain, &next_ended, true);
}

void* Run(void* argument) {
  BecomeOwnThread("pfs-trace");
  try {
    Drain(*static_cast<Shared*>(argument));
  } catch (const std::bad_alloc&) {
    CountLoss(Loss::kTraceErrors);
    SetTraceStatus("no memory");
  }
  return nullptr;
}

// Bounded: a disk that does not answer must not delay the program's exit.
void EndAtExit() {
  pthread_mutex_lock(&start_mutex);
  is_exiting = true;
  Shared* const own = shared;
  const bool was_running = own != nullptr && own->is_running;
  if (was_running) own->is_running = false;
  pthread_mutex_unlock(&start_mutex);
  if (!was_running) return;
  pthread_mutex_lock(&own->mutex);
  own->must_end = true;
  pthread_cond_signal(&own->changed);
  pthread_mutex_unlock(&own->mutex);
  const uint64_t end = ReadKernelNanos(CLOCK_REALTIME) + kExitNanos;
  const timespec until{static_cast<time_t>(end / 1'000'000'000), static_cast<long>(end % 1'000'000'000)};
  (void)pthread_timedjoin_np(own->thread, nullptr, &until);
}

// REQUIRES: start_mutex, or only this thread runs.
void Start() {
  if (folder_path == nullptr) folder_path = new std::string(PathOfOptions());
  if (shared == nullptr) {
    auto* const made = new Shared();
    made->Make();
    shared = made;
  }
  shared->is_awake.store(true, kRelaxed);
  shared->is_running = StartOwnThread(shared->thread, kStackBytes, JoinState::kJoinable, Run, shared);
  if (!shared->is_running) {
    CountLoss(Loss::kTraceErrors);
    SetTraceStatus("cannot start the thread that writes the trace");
    return;
  }
  if (!hears_of_exit) hears_of_exit = std::atexit(EndAtExit) == 0;
}

}  // namespace

void TraceMayBegin() {
  GovernorMayBegin();
  if (!TraceHasBegun() || t_locals.ended) return;
  const int error = errno;
  if (IsWanted()) {
    const NoSignals no_signals;  // a longjmp would leave the mutex locked
    pthread_mutex_lock(&start_mutex);
    if (shared == nullptr || !shared->is_running) {
      if (!is_exiting) Start();
    } else if (!shared->is_awake.load(kRelaxed)) {
      pthread_mutex_lock(&shared->mutex);
      shared->is_woken = true;
      pthread_cond_signal(&shared->changed);
      pthread_mutex_unlock(&shared->mutex);
    }
    pthread_mutex_unlock(&start_mutex);
  }
  errno = error;
}

void ForgetTraceInChild() {
  ForgetGovernorInChild();
  if (!TraceHasBegun()) return;
  pthread_mutex_init(&start_mutex, nullptr);
  shared = nullptr;  // the old one may be locked by a thread that is not in this process
}

}  // namespace perfschema
