// churn_bench.cpp: objects that are made and destroyed often: a condition for each write, a journal for each
// transaction. "unused" is made and destroyed, "used" has one event in between.
#include <fcntl.h>

#include <cstdlib>
#include <perfschema/pfs.hpp>
#include <string>

#include "probe_bench.h"

namespace bench {
namespace {

constexpr timespec kPast = {-1, 0};

struct Mutex {
  static constexpr char kName[] = "churn_mutex";
  using Bare = pthread_mutex_t;
  using Recorded = pfs_mutex_t;
  static pfs_key_t Key() {
    static const pfs_key_t key = KeyOf(pfs_register_mutex, "short");
    return key;
  }
  static void Make(Bare* m) { pthread_mutex_init(m, nullptr); }
  static void Make(Recorded* m, pfs_key_t key) { pfs_mutex_init(key, m, nullptr); }
  static void Use(Bare* m) { pthread_mutex_lock(m), pthread_mutex_unlock(m); }
  static void Use(Recorded* m) { pfs_mutex_lock(m), pfs_mutex_unlock(m); }
  static void Destroy(Bare* m) { pthread_mutex_destroy(m); }
  static void Destroy(Recorded* m) { pfs_mutex_destroy(m); }
};

struct Rwlock {
  static constexpr char kName[] = "churn_rwlock";
  using Bare = pthread_rwlock_t;
  using Recorded = pfs_rwlock_t;
  static pfs_key_t Key() {
    static const pfs_key_t key = KeyOf(pfs_register_rwlock, "short");
    return key;
  }
  static void Make(Bare* rw) { pthread_rwlock_init(rw, nullptr); }
  static void Make(Recorded* rw, pfs_key_t key) { pfs_rwlock_init(key, rw, nullptr); }
  static void Use(Bare* rw) { pthread_rwlock_rdlock(rw), pthread_rwlock_unlock(rw); }
  static void Use(Recorded* rw) { pfs_rwlock_rdlock(rw), pfs_rwlock_unlock(rw); }
  static void Destroy(Bare* rw) { pthread_rwlock_destroy(rw); }
  static void Destroy(Recorded* rw) { pfs_rwlock_destroy(rw); }
};

struct Cond {
  static constexpr char kName[] = "churn_cond";
  using Bare = pthread_cond_t;
  using Recorded = pfs_cond_t;
  static pfs_key_t Key() {
    static const pfs_key_t key = KeyOf(pfs_register_cond, "short");
    return key;
  }
  static void Make(Bare* c) { pthread_cond_init(c, nullptr); }
  static void Make(Recorded* c, pfs_key_t key) { pfs_cond_init(key, c, nullptr); }
  // A deadline before 1970 has passed: the call does not read the clock.
  static void Use(Bare* c) {
    static thread_local pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex), pthread_cond_timedwait(c, &mutex, &kPast), pthread_mutex_unlock(&mutex);
  }
  static void Use(Recorded* c) {
    static thread_local pfs_mutex_t mutex = {PTHREAD_MUTEX_INITIALIZER, nullptr, nullptr};
    pfs_mutex_lock(&mutex), pfs_cond_timedwait(c, &mutex, &kPast), pfs_mutex_unlock(&mutex);
  }
  static void Destroy(Bare* c) { pthread_cond_destroy(c); }
  static void Destroy(Recorded* c) { pfs_cond_destroy(c); }
};

// Each thread's object is in a cache line of its own.
template <typename Object, bool kUsed>
void Bare(benchmark::State& state) {
  alignas(64) typename Object::Bare object;
  Run(state, 1000, [&] {
    Object::Make(&object);
    if (kUsed) Object::Use(&object);
    Object::Destroy(&object);
  });
}

template <typename Object, bool kUsed>
void Recording(benchmark::State& state) {
  alignas(64) typename Object::Recorded object;
  const pfs_key_t key = Object::Key();
  Run(state, kWarmUp, [&] {
    Object::Make(&object, key);
    if (kUsed) Object::Use(&object);
    Object::Destroy(&object);
  });
}

// Returns the path of a file that is made, written to and deleted.
std::string Path(const benchmark::State& state) {
  return "/dev/shm/churn_bench." + std::to_string(getpid()) + "." + std::to_string(state.thread_index());
}

void BareFile(benchmark::State& state) {
  const std::string path = Path(state);
  Run(state, 100, [&] {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (write(fd, "journal", 7) != 7) std::abort();
    close(fd);
    unlink(path.c_str());
  });
}

void RecordingFile(benchmark::State& state) {
  static const pfs_key_t key = KeyOf(pfs_register_file, "journal");
  const std::string path = Path(state);
  Run(state, 4000, [&] {
    const int fd = pfs_open(key, path.c_str(), O_RDWR | O_CREAT, 0600);
    if (pfs_write(fd, "journal", 7) != 7) std::abort();
    pfs_close(fd);
    pfs_unlink(key, path.c_str());
  });
}

void AddRows(const std::string& family, void (*bare)(benchmark::State&), void (*run)(benchmark::State&), int iterations) {
  const auto add = [&](const std::string& variant, void (*one)(benchmark::State&), void (*set_up)(const benchmark::State&)) {
    for (int threads : {1, 2}) {
      auto* added = benchmark::RegisterBenchmark((family + "/" + variant + (threads == 2 ? "/2T" : "")).c_str(), one)
                        ->Iterations(iterations)
                        ->UseRealTime();
      if (threads == 2) added->Threads(2);
      if (set_up) added->Setup(set_up);
    }
  };
  add("bare", bare, nullptr);
  add("disabled", run, SetUp<Recorded::kNothing>);
  add("all", run, SetUp<Recorded::kAll>);
}

template <typename Object>
void AddObject() {
  Object::Key();
  AddRows(std::string(Object::kName) + "_unused", Bare<Object, false>, Recording<Object, false>, kLockIterations);
  AddRows(std::string(Object::kName) + "_used", Bare<Object, true>, Recording<Object, true>, kLockIterations);
}

}  // namespace

void RegisterChurnBenchmarks() {
  AddObject<Mutex>();
  AddObject<Rwlock>();
  AddObject<Cond>();
  AddRows("churn_file", BareFile, RecordingFile, kReadIterations);
}

}  // namespace bench
