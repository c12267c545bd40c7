// run/loader/real.h: the C library's own functions, and whether the replacements have work to do.
#pragma once

#include <aio.h>
#include <mqueue.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "record/engine/runtime.h"

#define FUNCTION(name) extern "C" void* pfs_real_##name __attribute__((visibility("hidden")));
#include "run/loader/functions.def"
// Finds all of them, if that has not happened yet. Not for threads: it is called before the program begins.
extern "C" void pfs_run_find_all() __attribute__((visibility("hidden")));

// The function of that name that the program would call without this library. REQUIRES: it is declared.
#define PFS_REAL(name) (reinterpret_cast<decltype(&::name)>(pfs_real_##name))

// Returns whether the program has the C library's function of that name.
#define PFS_HAS(name) (perfschema::run::IsInCLibrary(pfs_real_##name))

// Marks a replacement: the only symbols that this library exports.
#define PFS_REPLACES extern "C" __attribute__((visibility("default")))

namespace perfschema::run {

// Returns whether this is a function of the C library, and not a substitute. REQUIRES: pfs_run_find_all() was called.
bool IsInCLibrary(const void* function);

// Returns whether the thread is in a child that shares the parent's memory: nothing of the parent may change there.
[[gnu::noinline]] bool SharesParentsMemory();
// Tells that a child from clone() is about to use the memory of this thread, `t_locals` included, beside it: from here on each call of the
// thread asks the system who it is.
void ShareWithClone();
// Turns this library off in a child that a system call has made, without fork(): it has a copy of this memory as it was at any moment, and
// its parent's segment.
void InUnheardChild();

// Returns whether nothing of this library works: before its start, and in children that shall not be recorded.
inline bool RunIsOff() { return __builtin_expect(g_runtime.run_is_off, 0); }

// Returns whether a replacement makes the plain call and records nothing.
inline bool IsPlain() { return RunIsOff() || (__builtin_expect(t_locals.may_share_memory, 0) && SharesParentsMemory()); }

}  // namespace perfschema::run
