// record/context/actors.h: setup_actors: whose threads are instrumented.
//
// Of all rows that fit (user, host) one decides: the same user and host, else the user on any host, else any user on the host, else anybody
// (SEMANTICS G2). It is asked when a thread begins to work for somebody; running threads stay as they are, but for TRACE_ENABLED, which acts at once.
#pragma once

#include <string_view>

#include "base/status.h"
#include "record/engine/runtime.h"

namespace perfschema {

// INSTRUMENTED and HISTORY of a thread, and whether it is traced.
struct ThreadSettings {
  bool instrumented = true, history = true, traced = false;
  // Bits of ShmThread::flags.
  uint32_t flags() const {
    return (instrumented ? kThreadInstrumented : 0) | (history ? kThreadHistory : 0) | (traced ? kThreadTrace : 0) | kThreadAlways;
  }
};

// What the row that decides says; no row: neither. REQUIRES: cold lock.
ThreadSettings FindActor(std::string_view user, std::string_view host);

// Does any row say that threads are traced? REQUIRES: cold lock.
bool IsAnyActorTraced();

// TRACE_ENABLED becomes NO in the row that decides for (user, host), and for its threads. Takes the cold lock.
void StopTraceOfActor(std::string_view user, std::string_view host);

// The row that everybody fits. REQUIRES: cold lock, pfs starts.
void StartActors();

struct ActorKey {
  std::string_view host, user, role;  // "%" = any
};
// All below take the cold lock. kExists, kFull, kInvalidArgument (a role: there are none); kNotFound: no such row.
Status InsertActor(const ActorKey& key, ThreadSettings settings);
Status UpdateActor(const ActorKey& key, ThreadSettings settings);
Status DeleteActor(const ActorKey& key);
Status DeleteAllActors();

}  // namespace perfschema
