// record/context/attach.h: instrumentations that are no thread's own: sessions of a thread pool (SEMANTICS G7).
//
// One is attached to at most one thread of the system at a time; events of that thread are its events. The one who detaches it hands over
// all its state (release) to the next one who attaches it (acquire), without a lock.
#pragma once

#include <string_view>

#include "base/status.h"
#include "record/context/threads.h"

namespace perfschema {

// THREAD_ID << 17 | slot. 0 = none, which is legal everywhere: events go nowhere.
using ThreadHandle = uint64_t;
inline constexpr uint32_t kHandleSlotBits = 17;
constexpr uint64_t ThreadIdOf(ThreadHandle handle) { return handle >> kHandleSlotBits; }

// 0: no room (counted), the key is 0, or pfs is off. `processlist_id` 0 = the THREAD_ID.
ThreadHandle NewThread(uint32_t key, const void* identity, uint64_t processlist_id);
// The calling thread's events are those of `handle` from here on; what was attached before is put aside. kState: another thread has it, or it is
// another thread's own; kNotFound: it was deleted.
Status AttachThread(ThreadHandle handle);
// Events of the calling thread go nowhere until something is attached again.
Status DetachThread();
// It ends: its row goes, its numbers move to its account. kState: another thread has it.
Status DeleteThread(ThreadHandle handle);
// What is attached to the calling thread, and what is its own; 0 = nothing (yet).
ThreadHandle CurrentHandle();
ThreadHandle OwnHandle();
// What NewThread was given. nullptr: nothing, or it was deleted.
const void* IdentityOf(ThreadHandle handle);

// What a thread that is about to be started will begin with: the calling thread is its parent, and its account the calling thread's.
struct ThreadOrigin {
  uint64_t parent_thread_id;
  char user[32], host[256];  // zero padded
};
static_assert(sizeof(ThreadOrigin) == 296);
void DescribeOrigin(ThreadOrigin* origin);
// The first thing of the new thread. `name`: "component/name", or empty for that of the instrument. kState: it was detached, or an
// instrumentation is attached that is not its own.
Status BeginThread(uint32_t class_index, std::string_view name, const ThreadOrigin& origin);

}  // namespace perfschema
