#include "record/engine/barrier.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "record/engine/runtime.h"

namespace perfschema {
namespace {

// Of <linux/membarrier.h>, which old systems do not have.
enum Command : int { kGlobal = 1, kGlobalExpedited = 2, kRegisterGlobal = 4, kPrivateExpedited = 8, kRegisterPrivate = 16 };

bool has_barrier = false;  // guarded by the cold lock

bool Membarrier(Command command) {
#if defined(SYS_membarrier)
  const int error = errno;
  const bool is_done = syscall(SYS_membarrier, command, 0, 0) == 0;
  errno = error;
  return is_done;
#else
  return false;
#endif
}

}  // namespace

// With several threads, each registration waits until every processor has changed its task: some milliseconds.
void StartBarriers() { has_barrier = Membarrier(kRegisterGlobal) && Membarrier(kRegisterPrivate); }

// A child inherits both registrations, or none.
void ContinueBarriersInChild() {
  if (has_barrier && !Membarrier(kPrivateExpedited)) StartBarriers();
}

bool HasBarrier() { return has_barrier; }

#if defined(PFS_BREAK_BARRIER)  // negative control of the stress test
void BarrierInAllThreads() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#else
void BarrierInAllThreads() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (has_barrier && !Membarrier(kPrivateExpedited)) DoWithoutBarrier();  // a sandbox that was entered later
}
#endif

bool BarrierInProgram() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return Membarrier(kGlobalExpedited) || Membarrier(kGlobal);
}

void DoWithoutBarrier() {
  has_barrier = false;
  const uint64_t used = g_runtime.segment.array(ArrayId::kFreeLists).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) g_runtime.free_lists[i].is_light.store(0, kRelaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Threads that were behind the old LightBarrier() at that moment have their stores in a buffer of their processor. It is empty after
  // microseconds, whatever the processor does.
  const int error = errno;
  const timespec nap{0, 10'000'000};
  nanosleep(&nap, nullptr);
  errno = error;
}

}  // namespace perfschema
