// run/calls/openmp.h: what the replacements of OpenMP libraries share: the events of threads of a team that wait for each other.
#pragma once

#include "run/calls/wait_calls.h"

// Replaces a function of an OpenMP library under the version that programs ask for.
#define PFS_OPENMP_REPLACES(version, type, name, parameters)    \
  asm(".symver pfs_openmp_" #name ", " #name "@" version "\n"); \
  extern "C" __attribute__((used, visibility("default"))) type pfs_openmp_##name parameters

namespace perfschema::run {

template <typename Call>
auto WaitedInTeam(bool waits, const void* caller, Call call) {
  return WaitedAtPlace(Kind::kTeam, waits, caller, call);
}

// Makes a call that waits for a lock or a critical section.
template <typename Call>
void LockedInTeam(bool waits, const void* caller, Call call) {
  WaitedAtPlace(Kind::kTeam, waits, caller, call, perfschema::Operation::kLock);
}

}  // namespace perfschema::run
