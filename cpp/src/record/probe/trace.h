// record/probe/trace.h: the interface of probes and setup to the trace, whose thread (background/writer.cpp) reads the
// records.
#pragma once

#include <atomic>
#include <string_view>

#include "record/context/threads.h"

namespace perfschema {

// Counts how often flag words began to request the trace, and whether one does now: count << 1 | now. A full chunk is
// scanned for traced events only if it can have some: a flag word requested them when the chunk was taken, when it
// was full, or began to in between.
inline HalfWord g_trace_wish{0};
inline bool TraceHasBegun() { return g_trace_wish.load(kRelaxed) != 0; }
// Notes that a flag word is about to request the trace. REQUIRES: cold lock, also for NoteFlags().
inline void NoteTrace() {
  const uint32_t wish = g_trace_wish.load(kRelaxed);
  if ((wish & 1) == 0) g_trace_wish.store(wish + 3, kRelaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the flag word
}
// Notes that all flag words are stored.
void NoteFlags();

// A thread that has ended. Its row may belong to another thread before its records are read.
struct EndedThread {
  uint64_t thread_id;
  uint64_t traced[kEventKinds];         // traced events that it began
  char name[128], user[32], host[256];  // zero padded
};
// REQUIRES: cold lock; the thread has given its chunks back.
void TellTraceOfEnd(const ThreadState& thread);
// Copies the threads that ended since `*next`, and moves `*next` on. Copies at most `most`; a late caller misses the
// oldest. REQUIRES: cold lock.
uint32_t TakeEndedThreads(uint64_t* next, EndedThread* out, uint32_t most);

// Only the program itself runs the writer thread: another process can switch the trace off, not on.
inline bool IsOutsider() { return t_locals.ended; }
inline Status TraceIsInsidersOnly() {
  return Status(Code::kNotAllowed, "TRACE_ENABLED can be set to YES by the program itself only, not from another process");
}

// Returns true if a flag word and an actor request the trace. REQUIRES: cold lock.
bool TraceIsWanted();

// The last error of the trace, for global_status. Threads: the writer only.
void SetTraceStatus(std::string_view text);

// All functions below are defined in background/.

// Starts or wakes the trace's thread, because the setup may request the trace now. Starts the governor's, if there is a ceiling.
// REQUIRES: no lock.
void TraceMayBegin();
// Forgets the parent's writer thread and files in a forked child; TraceMayBegin() starts a new thread. Without a thread of either kind a
// child need not call it: it has no code or data of trace/ in memory yet. REQUIRES: only this thread runs.
void ForgetTraceInChild();

}  // namespace perfschema
