// record/trace.h: what the recording side and the setup tell the trace, whose thread (trace/writer.h) reads the records.
#pragma once

#include <atomic>
#include <string_view>

#include "record/threads.h"

namespace perfschema {

// Set for good when the first flag word asks for the trace, before it is stored: until then nobody counts what is traced.
inline std::atomic<bool> g_trace_has_begun{false};
inline bool TraceHasBegun() { return g_trace_has_begun.load(kRelaxed); }
inline void NoteTrace() { g_trace_has_begun.store(true, kRelaxed); }

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
// A forked child has no such thread, and none of the files. REQUIRES: only this thread runs; no lock.
void ContinueTraceInChild();

}  // namespace perfschema
