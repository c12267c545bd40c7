// record/context/identity.h: the calling thread declares its name, its account and its PROCESSLIST_ columns.
//
// All functions apply to the instrumentation that is attached to the calling thread, and do nothing if there is none.
// Longer texts are cut to the width of their column (semantics.md L13), except names, which have the limit of instrument
// names.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "record/context/threads.h"

namespace perfschema {

// Returns "thread/component/name" for "component/name", and a full name unchanged.
Status FullThreadName(std::string_view name, std::string* full);

// Shows "component/name" as thread/component/name. If that instrument exists, the thread is one of its threads from
// now on.
Status SetThreadName(std::string_view name);
// Sets the account. If it has a user, setup_actors decides from now on whether the thread is instrumented.
void SetAccount(std::string_view user, std::string_view host);

// Renames a thread that was registered before the program declared its instrument, name, parent and account.
void Rename(ThreadState& thread, const Birth& birth);

// These functions take no lock and are cheap enough to be called for each statement. Only the first text of a slot of threads takes the
// cold lock. `words`: the member of ShmThreadTexts that holds the text.
template <size_t N>
void SetThreadText(Word (ShmThreadTexts::*words)[N], std::string_view text);
void SetThreadStart(uint64_t unix_seconds);  // 0 = NULL
void SetProcesslistId(uint64_t id);          // 0 = NULL
void SetPeerPort(uint32_t port);             // 0 = none
void SetSecondaryEngine(bool is_secondary);

}  // namespace perfschema
