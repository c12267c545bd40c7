// record/engine/barrier.h: a memory barrier of two threads for which one of them pays.
//
//   often, own thread                 rarely, under the cold lock
//     store: I am at work               store: nobody may work
//     LightBarrier()                    BarrierInAllThreads()
//     load: may I work?                 load: who is at work?
//
// At least one of the two sees the other's store. LightBarrier() is no instruction: membarrier() interrupts each processor that runs a
// thread of this process, and a barrier is executed there. On a system that refuses that call, LightBarrier() is a barrier itself
// (ShmFreeLists::is_light says which).
#pragma once

#include <atomic>

#include "shm/free_lists.h"

namespace perfschema {

// Asks the system for membarrier(), for this process and for outsiders. REQUIRES: cold lock, pfs starts.
void StartBarriers();
// REQUIRES: pfs goes on in a forked child.
void ContinueBarriersInChild();
// Returns whether new lists may be light. REQUIRES: cold lock.
bool HasBarrier();

// All earlier stores of this thread are seen by every thread of this process that executes a LightBarrier() later, and all stores that
// another one made before a LightBarrier() that it has executed are seen here. Preserves errno. REQUIRES: cold lock.
void BarrierInAllThreads();
// Does the same in the threads of the process whose segment this outsider changes. Returns false if the system refuses.
bool BarrierInProgram();

// From now on each thread executes its own barriers. The system did what it had promised until now. REQUIRES: cold lock.
void DoWithoutBarrier();

// Threads: owner of the list.
PFS_ALWAYS_INLINE void LightBarrier(const ShmFreeLists& own) {
  if (__builtin_expect(own.is_light.load(kRelaxed) != 0, 1)) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}

}  // namespace perfschema
