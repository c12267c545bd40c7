// run/calls/openmp_llvm.cpp: replaces the functions of LLVM's OpenMP library (libomp, libiomp5) in which threads of a team wait for each
// other.
//
// openmp.cpp says what makes an event. The version of all names is VERSION. The end of a parallel region is not seen: the function that
// begins one takes any number of arguments.
#include <atomic>
#include <cstdint>

#include "run/calls/openmp.h"
#include "run/protocols/clients.h"

using namespace perfschema::run;

namespace {

#define PFS_KMP_WAITS(F)                                   \
  F(void, __kmpc_barrier, (void* where, int thread))       \
  F(int, __kmpc_cancel_barrier, (void* where, int thread)) \
  F(int, __kmpc_omp_taskwait, (void* where, int thread))   \
  F(void, __kmpc_end_taskgroup, (void* where, int thread))
#define PFS_KMP_OTHERS(F)                                                                     \
  F(void, __kmpc_critical, (void* where, int thread, void* section))                          \
  F(void, __kmpc_critical_with_hint, (void* where, int thread, void* section, uint32_t hint)) \
  F(void, __kmpc_end_critical, (void* where, int thread, void* section))

struct Kmp : ClientFunctions {
  static constexpr const char* kFirst = "__kmpc_barrier";
  static constexpr const char* kPrefix = "__kmpc_";
#define PFS_KMP_MEMBER(type, name, parameters) type(*name) parameters;
  PFS_KMP_WAITS(PFS_KMP_MEMBER)
  PFS_KMP_OTHERS(PFS_KMP_MEMBER)
#undef PFS_KMP_MEMBER

  explicit Kmp(const ClientLibrary& from) {
#define PFS_KMP_FIND(type, name, parameters) from.Find(#name, &name);
    PFS_KMP_WAITS(PFS_KMP_FIND)
    PFS_KMP_OTHERS(PFS_KMP_FIND)
#undef PFS_KMP_FIND
  }
};

// The library that the caller of a replacement calls.
#define PFS_KMP (ClientOf<Kmp>(*PFS_RUN_SITE, PFS_CALLER))

// Whether a thread is in a critical section, by its address. Two sections may share a place, which makes an event of one that is free. A
// wait that begins at the same moment as another one may be missed.
constinit std::atomic<bool> g_is_in_section[256] = {};
std::atomic<bool>& IsInSection(const void* section) {
  constexpr int kSectionBits = 5;  // a section is 32 bytes
  return g_is_in_section[reinterpret_cast<uintptr_t>(section) >> kSectionBits & 255];
}

template <typename Call>
void EnterSection(void* section, const void* caller, Call call) {
  std::atomic<bool>& is_in = IsInSection(section);
  LockedInTeam(is_in.load(std::memory_order_relaxed), caller, call);
  is_in.store(true, std::memory_order_relaxed);
}

}  // namespace

#define PFS_KMP_WAIT(type, name, parameters)                                        \
  PFS_OPENMP_REPLACES("VERSION", type, name, parameters) {                          \
    const Kmp& kmp = PFS_KMP;                                                       \
    return WaitedInTeam(true, PFS_CALLER, [&] { return kmp.name(where, thread); }); \
  }
PFS_KMP_WAITS(PFS_KMP_WAIT)

PFS_OPENMP_REPLACES("VERSION", void, __kmpc_critical, (void* where, int thread, void* section)) {
  const Kmp& kmp = PFS_KMP;
  EnterSection(section, PFS_CALLER, [&] { kmp.__kmpc_critical(where, thread, section); });
}

PFS_OPENMP_REPLACES("VERSION", void, __kmpc_critical_with_hint, (void* where, int thread, void* section, uint32_t hint)) {
  const Kmp& kmp = PFS_KMP;
  EnterSection(section, PFS_CALLER, [&] { kmp.__kmpc_critical_with_hint(where, thread, section, hint); });
}

PFS_OPENMP_REPLACES("VERSION", void, __kmpc_end_critical, (void* where, int thread, void* section)) {
  const Kmp& kmp = PFS_KMP;
  IsInSection(section).store(false, std::memory_order_relaxed);
  kmp.__kmpc_end_critical(where, thread, section);
}
