// background/own_thread.h: a thread of pfs itself, which the program must not notice.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace perfschema {

enum class JoinState : int { kJoinable = PTHREAD_CREATE_JOINABLE, kDetached = PTHREAD_CREATE_DETACHED };

// Starts a thread that no signal reaches and that has no priority of its creator's. Returns false if the system refuses.
// Threads: any thread.
bool StartOwnThread(pthread_t& thread, size_t stack_bytes, JoinState state, void* (*run)(void*), void* argument);
// Its first action: nothing that it does is an event, and it runs on all processors of the program.
// Threads: the thread that was started.
void BecomeOwnThread(const char* name);

}  // namespace perfschema
