#include "record/context/actors.h"

#include "record/engine/texts.h"
#include "record/probe/trace.h"

namespace perfschema {
namespace {

// All functions below REQUIRE the cold lock.

ShmActor& ActorAt(uint64_t index) { return *g_runtime.segment.element<ShmActor>(ArrayId::kActors, index); }
uint64_t UsedActors() { return g_runtime.segment.array(ArrayId::kActors).used.load(kRelaxed); }

// Returns the index of the row with this key, 0 = none.
uint64_t IndexOf(const ActorKey& key) {
  for (uint64_t i = 1; i < UsedActors(); ++i) {
    const ShmActor& actor = ActorAt(i);
    if (actor.is_live.load(kRelaxed) != 0 && IsText(actor.user, key.user) && IsText(actor.host, key.host) && IsText(actor.role, key.role))
      return i;
  }
  return 0;
}

// REQUIRES: a CellWriter of the row.
void Set(ShmActor& actor, ThreadSettings settings) {
  actor.enabled.store(settings.instrumented ? 1 : 0, kRelease);
  actor.history.store(settings.history ? 1 : 0, kRelease);
  actor.traced.store(settings.traced ? 1 : 0, kRelease);
}

// Returns false if the array is full.
bool Make(const ActorKey& key, ThreadSettings settings) {
  ShmArray& array = g_runtime.segment.array(ArrayId::kActors);
  uint64_t index = array.free_head.load(kRelaxed);
  if (index != 0) {
    array.free_head.store(ActorAt(index).next.load(kRelaxed), kRelaxed);
  } else if (const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kActors); fresh > 0) {
    index = static_cast<uint64_t>(fresh);
  } else {
    return false;
  }
  ShmActor& actor = ActorAt(index);
  {
    const CellWriter writer(actor.seq);
    StoreText(actor.host, key.host);
    StoreText(actor.user, key.user);
    StoreText(actor.role, key.role);
    Set(actor, settings);
  }
  actor.is_live.store(1, kRelease);  // last: pairs with ForEachActor
  return true;
}

void Delete(uint64_t index) {
  ShmActor& actor = ActorAt(index);
  ShmArray& array = g_runtime.segment.array(ArrayId::kActors);
  actor.is_live.store(0, kRelease);
  actor.next.store(static_cast<uint32_t>(array.free_head.load(kRelaxed)), kRelaxed);
  array.free_head.store(index, kRelaxed);
}

std::string Shown(const ActorKey& key) {
  return "HOST '" + std::string(key.host) + "', USER '" + std::string(key.user) + "', ROLE '" + std::string(key.role) + "'";
}

template <size_t N>
std::string_view TextIn(const Word (&words)[N], char (&bytes)[N * 8]) {
  CopyFromShared(bytes, words, N * 8);
  return {bytes, strnlen(bytes, N * 8)};
}

// Computes again which threads are traced, from the rows.
void RefreshTracedThreads() {
  const uint64_t used = g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed);
  for (uint64_t slot = 1; slot < used; ++slot) {
    ShmThread& thread = g_runtime.threads[slot];
    if (thread.thread_id.load(kRelaxed) == 0) continue;
    char user[sizeof thread.user_name], host[sizeof thread.host_name];
    if (FindActor(TextIn(thread.user_name, user), TextIn(thread.host_name, host)).traced) {
      thread.flags.fetch_or(kThreadTrace, kRelaxed);
    } else {
      thread.flags.fetch_and(~kThreadTrace, kRelaxed);
    }
  }
}

// Returns the index of the deciding row, 0 = none.
uint64_t IndexOfBest(std::string_view user, std::string_view host) {
  int best = -1;
  uint64_t index = 0;
  for (uint64_t i = 1; i < UsedActors(); ++i) {
    const ShmActor& actor = ActorAt(i);
    if (actor.is_live.load(kRelaxed) == 0) continue;
    const bool any_user = IsText(actor.user, "%"), any_host = IsText(actor.host, "%");
    if ((!any_user && !IsText(actor.user, user)) || (!any_host && !IsText(actor.host, host))) continue;
    const int rank = (any_user ? 0 : 2) + (any_host ? 0 : 1);
    if (rank <= best) continue;
    best = rank;
    index = i;
  }
  return index;
}

// Runs `change` under the cold lock. While pfs is off there are no rows.
template <typename Change>
Status Changed(Change change) {
  if (!EnsureStarted()) return Status(Code::kState, "pfs is off: " + StatusReason());
  Status status;
  {
    const ColdLock lock;
    if (!lock) return Status(Code::kState, "setup_actors in a signal handler that interrupted pfs: try again outside of it");
    const bool was_any_traced = IsAnyActorTraced();
    status = change();
    if (was_any_traced || IsAnyActorTraced()) RefreshTracedThreads();
  }
  TraceMayBegin();
  return status;
}

}  // namespace

bool IsAnyActorTraced() {
  for (uint64_t i = 1; i < UsedActors(); ++i) {
    if (ActorAt(i).is_live.load(kRelaxed) != 0 && ActorAt(i).traced.load(kRelaxed) != 0) return true;
  }
  return false;
}

ThreadSettings FindActor(std::string_view user, std::string_view host) {
  const uint64_t index = IndexOfBest(user, host);
  if (index == 0) return {false, false, false};
  const ShmActor& actor = ActorAt(index);
  return {actor.enabled.load(kRelaxed) != 0, actor.history.load(kRelaxed) != 0, actor.traced.load(kRelaxed) != 0};
}

void StopTraceOfActor(std::string_view user, std::string_view host) {
  const ColdLock lock;
  const uint64_t index = lock ? IndexOfBest(user, host) : 0;
  if (index == 0) return;
  {
    const CellWriter writer(ActorAt(index).seq);
    ActorAt(index).traced.store(0, kRelease);
  }
  RefreshTracedThreads();
}

void StartActors() { (void)Make({"%", "%", "%"}, {true, true, StartOptionsLocked().Get(OptionId::trace_enabled) != 0}); }

Status InsertActor(const ActorKey& key, ThreadSettings settings) {
  return Changed([&] {
    if (key.role != "%") return Status(Code::kInvalidArgument, "column ROLE of setup_actors takes '%' only: there are no roles");
    if (settings.traced && IsOutsider()) return TraceIsInsidersOnly();
    if (IndexOf(key) != 0) return Status(Code::kExists, "setup_actors has a row with " + Shown(key) + " already");
    if (Make(key, settings)) return Status();
    return Status(Code::kFull, "setup_actors is full: performance_schema_setup_actors_size is " +
                                   std::to_string(StartOptionsLocked().Get(OptionId::setup_actors_size)));
  });
}

Status UpdateActor(const ActorKey& key, ThreadSettings settings) {
  return Changed([&] {
    const uint64_t index = IndexOf(key);
    if (index == 0) return Status(Code::kNotFound, "no such row");
    if (settings.traced && IsOutsider() && ActorAt(index).traced.load(kRelaxed) == 0) return TraceIsInsidersOnly();
    const CellWriter writer(ActorAt(index).seq);
    Set(ActorAt(index), settings);
    return Status();
  });
}

Status DeleteActor(const ActorKey& key) {
  return Changed([&] {
    const uint64_t index = IndexOf(key);
    if (index == 0) return Status(Code::kNotFound, "no such row");
    Delete(index);
    return Status();
  });
}

Status DeleteAllActors() {
  if (!EnsureStarted()) return {};
  return Changed([] {
    for (uint64_t i = 1; i < UsedActors(); ++i) {
      if (ActorAt(i).is_live.load(kRelaxed) != 0) Delete(i);
    }
    return Status();
  });
}

}  // namespace perfschema
