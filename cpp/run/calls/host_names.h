// run/calls/host_names.h: the event of a look-up of a host name, or of an address. It has the name that was asked for: resolve-NAME-PLACE.
#pragma once

#include <sys/socket.h>

#include "run/calls/wait_calls.h"

namespace perfschema::run {

// A name, or an address, as a program gives it: nothing of it is known to be valid.
struct Asked {
  explicit Asked(const char* its_name) : name(its_name) {}
  Asked(const void* its_bytes, socklen_t bytes, int its_family);
  Asked(const sockaddr* of, socklen_t bytes);

  const char* name = nullptr;
  const void* address = nullptr;
  int family = AF_UNSPEC;  // of the address
};

// Returns the object of a look-up. Of many names of a process, the first ones have objects of their own; the others have that of the place.
Object* ObjectOfLookUp(const Asked& asked, const void* caller);

template <typename Call>
[[gnu::always_inline]] inline auto Resolved(const Asked& asked, const void* caller, Call call) {
  if (IsPlain()) return call();
  caller = UserAt(caller);
  const Waiting event(
      ObjectOfLookUp(asked, caller), [=] { return SourceOfScript(SourceAt(caller)); }, Operation::kCondWait);
  return call();
}

}  // namespace perfschema::run
