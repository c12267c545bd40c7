// shm/threads.h: the rows of threads. A part of layout.h, whose rules apply here.
#pragma once

#include <cstdint>

#include "shm/cell.h"
#include "shm/flags.h"

namespace perfschema {

// HISTORY = YES is both history bits of a flag word: one AND yields the destinations of a thread's event.
inline constexpr uint32_t kThreadInstrumented = 1, kThreadForeground = 2, kThreadSecondary = 4,
                          kThreadHistory = kFlagHistory | kFlagHistoryLong;
// TRACE_ENABLED of setup_actors works likewise. Bits of an instrument that no thread may refuse are set in every thread.
inline constexpr uint32_t kThreadTrace = kFlagTrace, kThreadAlways = kFlagTraceOnly;
inline constexpr uint32_t kThreadViews =
    kThreadHistory | kThreadTrace | kThreadAlways;  // bits of a flag word that become those of a record

// The numbers of a thread: words in shared memory (W = Word), integers in a reader's row, which takes all of them. Zero at birth.
// Threads: the attached thread writes.
template <typename W>
struct ThreadNumbers {
  W controlled_memory, max_controlled_memory;  // of the session; see record/family/memory.h
  W total_memory, max_total_memory;
};
using ThreadWords = ThreadNumbers<Word>;
inline constexpr size_t kThreadNumbers = sizeof(ThreadWords) / sizeof(Word);
using ThreadWordArray = Word[kThreadNumbers];  // its words in order

// The context of a live thread: a row of threads. Most threads create their own. The context of pfs_thread_new() is attached to one
// thread after another, or to none. The thread that has it attached changes texts under `seq`. Row t of kThreadCells belongs to thread
// slot t.
struct alignas(64) ShmThread {
  Word thread_id;         // 0 = free slot; last store of the registration, first store of the end
  HalfWord flags;         // kThreadInstrumented ...: read by every event, written by UPDATE threads
  Word event_id;          // youngest event that is no wait; the attached thread writes it
  HalfWord cells;         // columns of its row that may be stored to and read
  HalfWord global_cells;  // the same for the slot's row of kGlobalCells, whose numbers outlive the thread
  Word os_id;             // gettid(); 0 = no thread of the system is attached
  Word parent_thread_id;
  Word processlist_id;  // 0 = NULL
  HalfWord free_next;
  HalfWord seq;          // covers the texts below and those of `texts`; cell.h
  HalfWord class_index;  // its thread instrument, 0 = none
  HalfWord stage;        // instrument of its current stage, 0 = none: PROCESSLIST_STATE
  HalfWord peer_port;    // shown behind the host in processlist; 0 = none
  HalfWord account, user,
      host;            // principals that it counts for, by index; 0 = table full. Without an account, user and host are its parents
  HalfWord texts;      // the slot's element of kThreadTexts; 0 = none, and all of its texts are empty
  Word start_seconds;  // wall clock (of time()) that PROCESSLIST_TIME counts from; 0 = NULL
  // Where its time went (record/context/thread_time.h), as `computing` and the next ones. Threads: under the cold lock.
  Word born;  // picoseconds since the epoch; 0 = no thread of the system has made the row
  Word computed_before, runnable_before;
  alignas(64) Word name[16];  // 128 bytes, zero padded, as all texts
  Word user_name[4];
  Word host_name[32];
  alignas(64) ThreadWords numbers;
  // What the kernel counts for the thread of the system, in nanoseconds, until `seen`, with what was before `born`; kTimeUnknown.
  Word computing, runnable;
  Word seen;  // when the process ended: picoseconds since the epoch; 0 = not yet, or it was killed
};
inline constexpr uint64_t kTimeUnknown = ~uint64_t{0};
// Returns picoseconds between two readings of the kernel's counts; 0 if one of them is not known.
constexpr uint64_t TimeSince(uint64_t now, uint64_t before) {
  return now == kTimeUnknown || before == kTimeUnknown || now < before ? 0 : (now - before) * 1000;
}

// Holds what a thread has said about its session. A slot gets one at the first such text: most threads say nothing.
// Threads: as the row, whose `seq` covers it.
struct alignas(64) ShmThreadTexts {
  Word db[8];
  Word command[2];
  Word state[8];
  Word connection_type[2];
  Word resource_group[8];
  Word info[128];
};

}  // namespace perfschema
