// run/calls/openmp.cpp: replaces the functions of GNU's OpenMP library (libgomp) in which threads of a team wait for each other.
//
// The library waits by futexes of its own, which nothing else here sees. A wait has the place of the construct in the program. A lock or a
// critical section that is free makes no event. The end of a parallel region is the first thread's wait for the others: it begins when the
// body of the region has returned in that thread. openmp_llvm.cpp has LLVM's library.
//
// The names here have the versions of libgomp: a program that asks whether there is an OpenMP library finds none.
#include "run/calls/openmp.h"

#include <atomic>
#include <optional>

#include "run/protocols/clients.h"

using namespace perfschema::run;

namespace {

using Body = void (*)(void*);

// The functions that are replaced: version, result, name, parameters.
#define PFS_GOMP_WAITS(F)                       \
  F("GOMP_1.0", void, GOMP_barrier, ())         \
  F("GOMP_4.0", bool, GOMP_barrier_cancel, ())  \
  F("GOMP_1.0", void, GOMP_loop_end, ())        \
  F("GOMP_4.0", bool, GOMP_loop_end_cancel, ()) \
  F("GOMP_1.0", void, GOMP_sections_end, ())    \
  F("GOMP_2.0", void, GOMP_taskwait, ())        \
  F("GOMP_4.0", void, GOMP_taskgroup_end, ())
#define PFS_GOMP_LOCKS(F)                                       \
  F("GOMP_1.0", void, GOMP_critical_start, ())                  \
  F("GOMP_1.0", void, GOMP_critical_end, ())                    \
  F("GOMP_1.0", void, GOMP_critical_name_start, (void** where)) \
  F("OMP_3.0", void, omp_set_lock, (void* lock))                \
  F("OMP_3.0", void, omp_set_nest_lock, (void* lock))
#define PFS_GOMP_REGIONS(F)                                                                                                      \
  F("GOMP_4.0", void, GOMP_parallel, (Body body, void* data, unsigned threads, unsigned flags), (threads, flags))                \
  F("GOMP_5.0", unsigned, GOMP_parallel_reductions, (Body body, void* data, unsigned threads, unsigned flags), (threads, flags)) \
  F("GOMP_4.0", void, GOMP_parallel_sections, (Body body, void* data, unsigned threads, unsigned count, unsigned flags),         \
    (threads, count, flags))                                                                                                     \
  PFS_GOMP_CHUNKS(F, "GOMP_4.0", GOMP_parallel_loop_static)                                                                      \
  PFS_GOMP_CHUNKS(F, "GOMP_4.0", GOMP_parallel_loop_dynamic)                                                                     \
  PFS_GOMP_CHUNKS(F, "GOMP_4.0", GOMP_parallel_loop_guided)                                                                      \
  PFS_GOMP_CHUNKS(F, "GOMP_4.5", GOMP_parallel_loop_nonmonotonic_dynamic)                                                        \
  PFS_GOMP_CHUNKS(F, "GOMP_4.5", GOMP_parallel_loop_nonmonotonic_guided)                                                         \
  PFS_GOMP_RANGE(F, "GOMP_4.0", GOMP_parallel_loop_runtime)                                                                      \
  PFS_GOMP_RANGE(F, "GOMP_5.0", GOMP_parallel_loop_nonmonotonic_runtime)                                                         \
  PFS_GOMP_RANGE(F, "GOMP_5.0", GOMP_parallel_loop_maybe_nonmonotonic_runtime)
#define PFS_GOMP_CHUNKS(F, version, name)                                                                                        \
  F(version, void, name, (Body body, void* data, unsigned threads, long first, long end, long step, long chunk, unsigned flags), \
    (threads, first, end, step, chunk, flags))
#define PFS_GOMP_RANGE(F, version, name)                                                                             \
  F(version, void, name, (Body body, void* data, unsigned threads, long first, long end, long step, unsigned flags), \
    (threads, first, end, step, flags))

struct Gomp : ClientFunctions {
  static constexpr const char* kFirst = "GOMP_barrier";
  static constexpr const char* kPrefix = "GOMP_";
#define PFS_GOMP_MEMBER(version, type, name, parameters, ...) type(*name) parameters;
  PFS_GOMP_WAITS(PFS_GOMP_MEMBER)
  PFS_GOMP_LOCKS(PFS_GOMP_MEMBER)
  PFS_GOMP_REGIONS(PFS_GOMP_MEMBER)
#undef PFS_GOMP_MEMBER
  int (*omp_test_lock)(void*);
  int (*omp_test_nest_lock)(void*);

  explicit Gomp(const ClientLibrary& from) {
#define PFS_GOMP_FIND(version, type, name, ...) from.Find(#name, &name);
    PFS_GOMP_WAITS(PFS_GOMP_FIND)
    PFS_GOMP_LOCKS(PFS_GOMP_FIND)
    PFS_GOMP_REGIONS(PFS_GOMP_FIND)
#undef PFS_GOMP_FIND
    from.Find("omp_test_lock", &omp_test_lock);
    from.Find("omp_test_nest_lock", &omp_test_nest_lock);
  }
};

// The library that the caller of a replacement calls.
#define PFS_GOMP (ClientOf<Gomp>(*PFS_RUN_SITE, PFS_CALLER))

// A parallel region, in the frame of the thread that begins it. `end` is that thread's wait for the others.
struct Region {
  Body body;
  void* data;
  const void* caller;
  const void* thread = &perfschema::t_locals;
  std::optional<Waiting> end = std::nullopt;

  // The body as the library calls it in each thread of the team.
  static void Run(void* of_region) {
    auto& region = *static_cast<Region*>(of_region);
    region.body(region.data);
    if (region.thread != &perfschema::t_locals) return;
    region.end.emplace(
        ObjectAt(region.caller, Kind::kTeam, region.caller), [&region] { return SourceAt(region.caller); },
        perfschema::Operation::kCondWait);
  }
};

// Whether a thread is in a critical section without a name. A wait that begins at the same moment as another one may be missed.
std::atomic<bool> is_in_critical{false};

}  // namespace

#define PFS_GOMP_WAIT(version, type, name, parameters)                      \
  PFS_OPENMP_REPLACES(version, type, name, parameters) {                    \
    const Gomp& gomp = PFS_GOMP;                                            \
    return WaitedInTeam(true, PFS_CALLER, [&gomp] { return gomp.name(); }); \
  }
PFS_GOMP_WAITS(PFS_GOMP_WAIT)

#define PFS_GOMP_UNPACKED(...) __VA_ARGS__
#define PFS_GOMP_REGION(version, type, name, parameters, rest)           \
  PFS_OPENMP_REPLACES(version, type, name, parameters) {                 \
    const Gomp& gomp = PFS_GOMP;                                         \
    if (IsPlain()) return gomp.name(body, data, PFS_GOMP_UNPACKED rest); \
    Region region{body, data, PFS_CALLER};                               \
    return gomp.name(Region::Run, &region, PFS_GOMP_UNPACKED rest);      \
  }
PFS_GOMP_REGIONS(PFS_GOMP_REGION)

PFS_OPENMP_REPLACES("GOMP_1.0", void, GOMP_critical_start, ()) {
  const Gomp& gomp = PFS_GOMP;
  LockedInTeam(is_in_critical.load(std::memory_order_relaxed), PFS_CALLER, [&gomp] { gomp.GOMP_critical_start(); });
  is_in_critical.store(true, std::memory_order_relaxed);
}

PFS_OPENMP_REPLACES("GOMP_1.0", void, GOMP_critical_end, ()) {
  const Gomp& gomp = PFS_GOMP;
  is_in_critical.store(false, std::memory_order_relaxed);
  gomp.GOMP_critical_end();
}

// The library keeps the lock in the program's word; zero is a free one.
PFS_OPENMP_REPLACES("GOMP_1.0", void, GOMP_critical_name_start, (void** where)) {
  const Gomp& gomp = PFS_GOMP;
  LockedInTeam(__atomic_load_n(where, __ATOMIC_RELAXED) != nullptr, PFS_CALLER, [&] { gomp.GOMP_critical_name_start(where); });
}

// LLVM's library has these, too, under its own version.
asm(".symver pfs_openmp_omp_set_lock, omp_set_lock@VERSION\n"
    ".symver pfs_openmp_omp_set_nest_lock, omp_set_nest_lock@VERSION\n");
PFS_OPENMP_REPLACES("OMP_3.0", void, omp_set_lock, (void* lock)) {
  const Gomp& gomp = PFS_GOMP;
  if (gomp.omp_test_lock(lock) == 0) LockedInTeam(true, PFS_CALLER, [&] { gomp.omp_set_lock(lock); });
}

PFS_OPENMP_REPLACES("OMP_3.0", void, omp_set_nest_lock, (void* lock)) {
  const Gomp& gomp = PFS_GOMP;
  if (gomp.omp_test_nest_lock(lock) == 0) LockedInTeam(true, PFS_CALLER, [&] { gomp.omp_set_nest_lock(lock); });
}
