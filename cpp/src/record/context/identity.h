// record/context/identity.h: what the calling thread says of itself: its name, for whom it works, the PROCESSLIST_ columns.
//
// All are of the instrumentation that is attached to the calling thread; nothing happens if there is none. Longer texts are cut to the
// width of their column (SEMANTICS L13), except names, which are those of instruments.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "record/context/threads.h"

namespace perfschema {

// "thread/component/name" of "component/name", or of itself.
Status FullThreadName(std::string_view name, std::string* full);

// "component/name" is shown as thread/component/name. If there is such an instrument the thread is one of its threads from now on.
Status SetThreadName(std::string_view name);
// setup_actors says whether the thread is instrumented from now on, if it works for somebody.
void SetAccount(std::string_view user, std::string_view host);

// A thread that was there before it heard what it is: instrument, name, parent, account.
void Rename(ThreadState& thread, const Birth& birth);

// No lock: cheap enough to be called for each statement. `words`: the member of ShmThread that holds it.
template <size_t N>
void SetThreadText(Word (ShmThread::*words)[N], std::string_view text);
void SetThreadStart(uint64_t unix_seconds);  // 0 = NULL
void SetProcesslistId(uint64_t id);          // 0 = NULL
void SetPeerPort(uint32_t port);             // 0 = none
void SetSecondaryEngine(bool is_secondary);

}  // namespace perfschema
