// record/context/attach.h: instrumentations that no thread owns: the sessions of a thread pool (semantics.md G7).
//
// An instrumentation is attached to at most one thread of the system at a time, and gets the events of that thread.
// The thread that detaches it hands its whole state (release) to the next thread that attaches it (acquire), without
// a lock.
#pragma once

#include <string_view>

#include "base/status.h"
#include "record/context/threads.h"

namespace perfschema {

// A handle is THREAD_ID << 17 | slot. 0 means none and is legal everywhere: events are dropped.
using ThreadHandle = uint64_t;
inline constexpr uint32_t kHandleSlotBits = 17;
constexpr uint64_t ThreadIdOf(ThreadHandle handle) { return handle >> kHandleSlotBits; }

// Makes an instrumentation. Returns 0 if there is no free slot (counted), the key is 0, or pfs is off.
// `processlist_id` 0 = the THREAD_ID.
ThreadHandle NewThread(uint32_t key, const void* identity, uint64_t processlist_id);
// Sends the events of the calling thread to `handle` from now on, in place of the previous instrumentation. Returns
// kState if another thread has it attached or owns it, kNotFound if it was deleted.
Status AttachThread(ThreadHandle handle);
// Drops the events of the calling thread until it attaches an instrumentation again.
Status DetachThread();
// Ends the instrumentation: its row disappears, and its statistics move to its account. Returns kState if another
// thread has it attached.
Status DeleteThread(ThreadHandle handle);
// Return the instrumentation that is attached to the calling thread, and the one that the thread owns; 0 = none
// (yet).
ThreadHandle CurrentHandle();
ThreadHandle OwnHandle();
// Returns the `identity` that NewThread() was given; nullptr if there was none, or the instrumentation was deleted.
const void* IdentityOf(ThreadHandle handle);

// The settings that a new thread starts with: the calling thread is its parent, and the calling thread's account is
// its account.
struct ThreadOrigin {
  uint64_t parent_thread_id;
  char user[32], host[256];  // zero padded
  uint64_t time;             // picoseconds since the epoch
};
static_assert(sizeof(ThreadOrigin) == 304);
void DescribeOrigin(ThreadOrigin* origin);
// Applies `origin`; the new thread calls it before anything else. `name`: "component/name", or empty for the name of
// the instrument. Returns kState if the thread is detached, or if an instrumentation is attached that it does not
// own.
Status BeginThread(uint32_t class_index, std::string_view name, const ThreadOrigin& origin);

}  // namespace perfschema
