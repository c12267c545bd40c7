// run/calls/wait_calls.h: the event of a wait for a condition, a semaphore or a barrier. A wait is a cancellation point, so events end in
// destructors.
#pragma once

#include "capi/own_wait.h"
#include "run/calls/objects.h"
#include "run/loader/real.h"
#include "run/python/python.h"

namespace perfschema::run {

// Returns whether a call that has this timeout may wait.
template <typename Time>
bool Waits(const Time* timeout) {
  const Time zero = {};
  return timeout == nullptr || __builtin_memcmp(timeout, &zero, sizeof zero) != 0;
}

// The event of a wait, from construction to destruction. `source` returns the SourceLine.
class Waiting {
 public:
  template <typename Source>
  Waiting(Object* object, Source source, Operation operation) {
    wait_.instance = nullptr;
    if (object == nullptr || !IsInstrumented(object)) return;
    const SourceLine at = source();
    perfschema::capi::BeginOwnWait(&wait_, object->row.load(std::memory_order_relaxed), operation, at.file, at.line);
  }
  ~Waiting() {
    if (wait_.instance != nullptr) perfschema::capi::EndOwnCondWait(&wait_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  pfs_wait_t wait_;
};

// Returns the object of a wait for no object of the program: it stands for the place of the call, in the script if there is one.
inline Object* ObjectOfPlace(Kind kind, const void* caller) {
  const Site* const script = __builtin_expect(t_script_call.place != nullptr, 0) ? SiteOfScript(PrefixOf(kind)) : nullptr;
  return script != nullptr ? ObjectOfSite(script, kind) : ObjectAt(caller, kind, caller);
}

// Makes a call that waits for no object of the program, if it `waits` at all: the event has the place of the call.
template <typename Call>
[[gnu::always_inline]] inline auto WaitedAtPlace(Kind kind, bool waits, const void* caller, Call call,
                                                 Operation operation = Operation::kCondWait) {
  if (!waits || IsPlain()) return call();
  caller = UserAt(caller);
  const Waiting event(
      ObjectOfPlace(kind, caller), [=] { return SourceOfScript(SourceAt(caller)); }, operation);
  return call();
}

}  // namespace perfschema::run
