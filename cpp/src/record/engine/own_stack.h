// record/engine/own_stack.h: a stack for what needs much of one.
//
// A process starts at its first event, and a forked child makes its segment at its own. That may happen anywhere: in a signal handler
// on an alternate stack of 8 KiB, or in a thread with the smallest stack. Both need more than 10 KiB. So they run on a stack that is
// kept for them.
#pragma once

namespace perfschema {

// REQUIRES: cold lock, which also keeps signals away. `call` throws nothing. Under valgrind, which would report another stack, it runs
// on the caller's.
void CallOnOwnStack(void (*call)(void* argument), void* argument);

template <typename Call>
void OnOwnStack(Call call) {
  CallOnOwnStack([](void* argument) { (*static_cast<Call*>(argument))(); }, &call);
}

}  // namespace perfschema
