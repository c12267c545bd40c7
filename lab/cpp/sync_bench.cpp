// sync_bench.cpp: rwlocks without contention, unless the name says "same"; and waits for a condition whose deadline
// has passed.
#include <cstdlib>
#include <perfschema/pfs.hpp>

#include "probe_bench.h"

namespace bench {
namespace {

// The object is in the middle of a page of its own: see mutex_bench.cpp. Never destroyed.
struct alignas(4096) Rwlock {
  char before[1024];
  alignas(64) pthread_rwlock_t bare = PTHREAD_RWLOCK_INITIALIZER;
  alignas(64) pfs_rwlock_t recorded;

  explicit Rwlock(const char* name) {
    if (pfs_rwlock_init(KeyOf(pfs_register_rwlock, name), &recorded, nullptr) != 0 || recorded.instance == nullptr) std::abort();
  }
};

Rwlock* Alone() {
  static Rwlock* const lock = new Rwlock("alone");
  return lock;
}
// A lock that is never instrumented; the instrument is on for other locks now and then.
Rwlock* Unused() {
  static Rwlock* const lock = new Rwlock("never");
  return lock;
}
Rwlock* Shared() {
  static Rwlock* const lock = new Rwlock("same");
  return lock;
}

struct Read {
  static void Bare(pthread_rwlock_t* rw) { pthread_rwlock_rdlock(rw); }
  static void Recorded(pfs_rwlock_t* rw) { pfs_rwlock_rdlock(rw); }
};
struct Write {
  static void Bare(pthread_rwlock_t* rw) { pthread_rwlock_wrlock(rw); }
  static void Recorded(pfs_rwlock_t* rw) { pfs_rwlock_wrlock(rw); }
};

template <typename Kind, Rwlock* (*kLock)()>
void Bare(benchmark::State& state) {
  pthread_rwlock_t* rw = &kLock()->bare;
  Run(state, kWarmUp, [rw] {
    Kind::Bare(rw);
    pthread_rwlock_unlock(rw);
  });
}

template <typename Kind, Rwlock* (*kLock)()>
void BareFloor(benchmark::State& state) {
  pthread_rwlock_t* rw = &kLock()->bare;
  Run(state, kWarmUp, Floor([rw] { Kind::Bare(rw); }, [rw] { pthread_rwlock_unlock(rw); }));
}

template <typename Kind, Rwlock* (*kLock)()>
void Recording(benchmark::State& state, bool counts) {
  pfs_rwlock_t* rw = &kLock()->recorded;
  const auto lock_and_unlock = [rw] {
    Kind::Recorded(rw);
    pfs_rwlock_unlock(rw);
  };
  if (state.threads() == 1) {
    RunCounted(state, kWarmUp, counts, lock_and_unlock);
  } else {
    Run(state, kWarmUp, lock_and_unlock);
  }
}

// ---- Conditions ------------------------------------------------------------------------------------------------------------------------
// The mutex is held all the time. A deadline before 1970 has passed, and the call does not read the clock: the
// shortest possible wait.

constexpr timespec kPast = {-1, 0};

struct alignas(4096) Cond {
  char before[1024];
  alignas(64) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  alignas(64) pthread_cond_t bare = PTHREAD_COND_INITIALIZER;
  alignas(64) pfs_mutex_t recorded_mutex;
  alignas(64) pfs_cond_t recorded;

  Cond() {
    if (pfs_cond_init(KeyOf(pfs_register_cond, "changed"), &recorded, nullptr) != 0 || recorded.instance == nullptr) std::abort();
    pfs_mutex_init(KeyOf(pfs_register_mutex, "LOCK_changed"), &recorded_mutex, nullptr);
  }
};

Cond* TheCond() {
  static Cond* const cond = new Cond;
  return cond;
}

void CondBare(benchmark::State& state) {
  Cond* c = TheCond();
  pthread_mutex_lock(&c->mutex);
  Run(state, kWarmUp, [c] { benchmark::DoNotOptimize(pthread_cond_timedwait(&c->bare, &c->mutex, &kPast)); });
  pthread_mutex_unlock(&c->mutex);
}

void CondFloor(benchmark::State& state) {
  Cond* c = TheCond();
  pthread_mutex_lock(&c->mutex);
  Run(state, kWarmUp, Floor([c] { benchmark::DoNotOptimize(pthread_cond_timedwait(&c->bare, &c->mutex, &kPast)); }, [] {}));
  pthread_mutex_unlock(&c->mutex);
}

void CondRecording(benchmark::State& state, bool counts) {
  Cond* c = TheCond();
  pfs_mutex_lock(&c->recorded_mutex);
  RunCounted(state, kWarmUp, counts, [c] { benchmark::DoNotOptimize(pfs_cond_timedwait(&c->recorded, &c->recorded_mutex, &kPast)); });
  pfs_mutex_unlock(&c->recorded_mutex);
}

// A wait for a condition is a system call.
int IterationsOf(const std::string& name) { return name.compare(0, 5, "cond/") == 0 ? kReadIterations : kLockIterations; }

benchmark::internal::Benchmark* Add(const std::string& name, void (*run)(benchmark::State&)) {
  return benchmark::RegisterBenchmark(name.c_str(), run)->Iterations(IterationsOf(name))->UseRealTime();
}

template <Recorded kWhat>
benchmark::internal::Benchmark* AddRecording(const std::string& name, void (*run)(benchmark::State&, bool)) {
  return benchmark::RegisterBenchmark(name.c_str(), run, kWhat != Recorded::kNothing)
      ->Iterations(IterationsOf(name))
      ->UseRealTime()
      ->Setup(SetUp<kWhat>);
}

using Plain = void (*)(benchmark::State&);
using Recorder = void (*)(benchmark::State&, bool);

// `unused`: like `run`, on an object that was never recorded. An object that was recorded counts its read locks down,
// whatever the setup says now.
void AddRows(const std::string& family, Plain bare, Plain floor, Recorder unused, Recorder run) {
  Add(family + "/bare", bare);
  Add(family + "/floor", floor);
  AddRecording<Recorded::kNothing>(family + "/disabled", unused);
  if (unused != run) AddRecording<Recorded::kNothing>(family + "/disabled_later", run);
  AddRecording<Recorded::kCounts>(family + "/counted", run);
  AddRecording<Recorded::kTimes>(family + "/timed", run);
  AddRecording<Recorded::kAll>(family + "/all", run);
}

}  // namespace

void RegisterSyncBenchmarks() {
  Alone(), Unused(), Shared(), TheCond();
  AddRows("rdlock", Bare<Read, Alone>, BareFloor<Read, Alone>, Recording<Read, Unused>, Recording<Read, Alone>);
  AddRows("wrlock", Bare<Write, Alone>, BareFloor<Write, Alone>, Recording<Write, Alone>, Recording<Write, Alone>);
  AddRows("cond", CondBare, CondFloor, CondRecording, CondRecording);
  Add("rdlock_same/bare/2T", Bare<Read, Shared>)->Threads(2);
  Add("rdlock_same/floor/2T", BareFloor<Read, Shared>)->Threads(2);
  AddRecording<Recorded::kAll>("rdlock_same/all/2T", Recording<Read, Shared>)->Threads(2);
}

}  // namespace bench
