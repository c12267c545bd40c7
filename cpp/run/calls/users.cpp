// run/calls/users.cpp: replaces setuid() and the like: the user that a process becomes gets a directory for segments in the folder of the
// run.
//
// The folder belongs to root, so only the process itself can make that directory, while it is still root (shm/place.h). A program that
// changes its user by the system call itself has no directory, unless another one has become that user before.
#include <unistd.h>

#include <atomic>

#include "run/calls/sandbox.h"
#include "run/loader/real.h"
#include "shm/place.h"

using namespace perfschema::run;

namespace {

// Holds users that have a directory: a server of files may become another user for each request.
std::atomic<uid_t> prepared[64];

void Prepare(uid_t user) {
  if (g_is_sandboxed) return;
  std::atomic<uid_t>& last = prepared[user % 64];
  if (last.load(std::memory_order_relaxed) == user) return;
  if (perfschema::MakeDirectoryOf(user)) last.store(user, std::memory_order_relaxed);
}

}  // namespace

PFS_REPLACES int setuid(uid_t user) noexcept {
  Prepare(user);
  return PFS_REAL(setuid)(user);
}
PFS_REPLACES int seteuid(uid_t effective) noexcept {
  Prepare(effective);
  return PFS_REAL(seteuid)(effective);
}
PFS_REPLACES int setreuid(uid_t real, uid_t effective) noexcept {
  Prepare(effective);
  return PFS_REAL(setreuid)(real, effective);
}
PFS_REPLACES int setresuid(uid_t real, uid_t effective, uid_t saved) noexcept {
  Prepare(effective);
  return PFS_REAL(setresuid)(real, effective, saved);
}
