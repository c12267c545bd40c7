// record/probe/trace.h: what the recording side and the setup tell the trace, whose thread (trace/writer.h) reads the records.
#pragma once

#include <atomic>
#include <string_view>

#include "record/context/threads.h"

namespace perfschema {

// How often flag words have begun to ask for the trace, and does one do so now: count << 1 | now. A chunk is looked through for traced events only
// if there may be any: one asked when the chunk was taken, or asks when it is full, or has begun to ask between.
inline HalfWord g_trace_wish{0};
inline bool TraceHasBegun() { return g_trace_wish.load(kRelaxed) != 0; }
// A flag word is about to ask. REQUIRES: cold lock, as the next one.
inline void NoteTrace() {
  const uint32_t wish = g_trace_wish.load(kRelaxed);
  if ((wish & 1) == 0) g_trace_wish.store(wish + 3, kRelaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the flag word
}
// All flag words are stored.
void NoteFlags();

// A thread that has ended: its row is somebody else's by the time that its records are read.
struct EndedThread {
  uint64_t thread_id;
  uint64_t traced[kEventKinds];  // traced events that it began
  char name[128], user[32], host[256];  // zero padded
};
// REQUIRES: cold lock; the thread has given its chunks back.
void TellTraceOfEnd(const ThreadState& thread);
// Those since `*next`, which moves on. At most `most`; who is late misses the oldest. REQUIRES: cold lock.
uint32_t TakeEndedThreads(uint64_t* next, EndedThread* out, uint32_t most);

// Only the program itself has the thread that writes: another process can switch the trace off, not on.
inline bool IsOutsider() { return t_locals.ended; }
inline Status TraceIsInsidersOnly() {
  return Status(Code::kNotAllowed, "TRACE_ENABLED can be set to YES by the program itself only, not from another process");
}

// Some flag word and some actor ask for the trace? REQUIRES: cold lock.
bool TraceIsWanted();

// The last error of the trace, for global_status. Threads: the writer only.
void SetTraceStatus(std::string_view text);

// All below are defined in trace/.

// The setup may ask for the trace now: starts its thread, or wakes it. REQUIRES: no lock.
void TraceMayBegin();
// A forked child has no such thread, and none of the files: TraceMayBegin() starts one. REQUIRES: only this thread runs.
void ForgetTraceInChild();

}  // namespace perfschema
