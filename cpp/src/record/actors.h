// record/actors.h: setup_actors: whose threads are instrumented.
//
// Of all rows that fit (user, host) one decides: the same user and host, else the user on any host, else any user on the host, else anybody
// (SEMANTICS G2). It is asked when a thread begins to work for somebody; running threads stay as they are.
#pragma once

#include <string_view>

#include "base/status.h"
#include "record/runtime.h"

namespace perfschema {

// INSTRUMENTED and HISTORY of a thread.
struct ThreadSettings {
  bool instrumented = true, history = true;
  // Bits of ShmThread::flags.
  uint32_t flags() const { return (instrumented ? kThreadInstrumented : 0) | (history ? kThreadHistory : 0); }
};

// What the row that decides says; no row: neither. REQUIRES: cold lock.
ThreadSettings FindActor(std::string_view user, std::string_view host);

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
