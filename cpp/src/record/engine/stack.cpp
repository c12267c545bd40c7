#include "record/engine/stack.h"

#include <csignal>

namespace perfschema {

bool WasLeft(const void* place, const void* frame) {
  if (place != frame && !LiesBelow(place, frame)) return false;
  stack_t signal_stack{};
  return sigaltstack(nullptr, &signal_stack) != 0 || (signal_stack.ss_flags & SS_ONSTACK) == 0;
}

}  // namespace perfschema
