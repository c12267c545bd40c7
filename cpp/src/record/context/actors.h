// record/context/actors.h: setup_actors: decides which threads are instrumented.
//
// Several rows can match (user, host). The most specific one decides: the same user and host, then the user on any
// host, then any user on the host, then any user on any host (semantics.md G2). The row is looked up when a thread gets
// its account. Running threads keep their settings, except TRACE_ENABLED, which takes effect at once.
#pragma once

#include <string_view>

#include "base/status.h"
#include "record/engine/runtime.h"

namespace perfschema {

// The INSTRUMENTED, HISTORY and TRACE_ENABLED settings of a thread.
struct ThreadSettings {
  bool instrumented = true, history = true, traced = false;
  // Bits of ShmThread::flags.
  uint32_t flags() const {
    return (instrumented ? kThreadInstrumented : 0) | (history ? kThreadHistory : 0) | (traced ? kThreadTrace : 0) | kThreadAlways;
  }
};

// Returns the settings of the deciding row; all are false if no row matches. REQUIRES: cold lock.
ThreadSettings FindActor(std::string_view user, std::string_view host);

// Returns true if any row enables the trace. REQUIRES: cold lock.
bool IsAnyActorTraced();

// Sets TRACE_ENABLED to NO in the row that decides for (user, host), and for its threads. Takes the cold lock.
void StopTraceOfActor(std::string_view user, std::string_view host);

// Makes the row that matches every account. REQUIRES: cold lock, pfs starts.
void StartActors();

struct ActorKey {
  std::string_view host, user, role;  // "%" = any
};
// All functions below take the cold lock. They return kExists, kFull, kInvalidArgument (for a role: there are no
// roles), or kNotFound if there is no such row.
Status InsertActor(const ActorKey& key, ThreadSettings settings);
Status UpdateActor(const ActorKey& key, ThreadSettings settings);
Status DeleteActor(const ActorKey& key);
Status DeleteAllActors();

}  // namespace perfschema
