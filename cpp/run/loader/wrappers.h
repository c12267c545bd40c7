// run/loader/wrappers.h: functions that take a lock, or wait, on behalf of their caller: std::mutex::lock(), CRYPTO_THREAD_write_lock().
//
// All locks of a program would have the place of such a function. So a lock is named after the caller of the wrapper, and so is a wait.
// Wrappers are known by their symbols (wrappers.cpp lists the names; PFS_RUN_WRAPPERS has the user's), which are read once from the file of
// each module that takes locks.
#pragma once

#include "run/loader/sites.h"

namespace perfschema::run {

// Returns the return address of the innermost frame of this thread that is in no wrapper. REQUIRES: `caller` is a return address of this
// thread's stack, in a wrapper. Returns `caller` if the stack cannot be read. Slow.
[[gnu::noinline, gnu::cold]] const void* CallerOfWrapper(const void* caller);

// Returns whether a module is a library of C++ streams: all of its code makes calls for others.
bool IsOfStreams(const Module& module);

// Returns whether the code at a site is in a wrapper. The first call for a site is slow.
[[gnu::noinline]] bool FindWrapper(const Site& site);
inline bool IsInWrapper(const Site& site) {
  const Site::InWrapper known = std::atomic_ref(site.in_wrapper).load(std::memory_order_relaxed);
  return __builtin_expect(known == Site::InWrapper::kUnknown, 0) ? FindWrapper(site) : known == Site::InWrapper::kYes;
}

// Returns the user of a lock, or the thread that waits: the return address `caller`, or that of the caller of wrappers. REQUIRES: as
// CallerOfWrapper().
inline const void* UserAt(const void* caller) { return IsInWrapper(*SiteOf(caller)) ? CallerOfWrapper(caller) : caller; }
inline const Site* SiteOfUser(const void* caller) {
  const Site* const site = SiteOf(caller);
  return IsInWrapper(*site) ? SiteOf(CallerOfWrapper(caller)) : site;
}

}  // namespace perfschema::run
