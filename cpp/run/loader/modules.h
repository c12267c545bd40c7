// run/loader/modules.h: leads the calls of a program that was there first.
#pragma once

#include <link.h>

#include <cstdint>

namespace perfschema::run {

// Calls `visit` while the list of objects does not change. It must not call the dynamic linker. Returns how many objects have been loaded
// since the program began.
template <typename Visit>
uint64_t WithObjects(Visit visit) {
  struct Call {
    Visit& visit;
    uint64_t loaded;
  } call{visit, 0};
  constexpr auto kOnce = [](dl_phdr_info* first, size_t, void* at) {
    auto& its = *static_cast<Call*>(at);
    its.loaded = first->dlpi_adds;
    its.visit();
    return 1;
  };
  dl_iterate_phdr(kOnce, &call);
  return call.loaded;
}

// Binds the calls of all objects of the program to the replacements, or back to where they led. What is loaded later is bound at the next
// dlsym(). REQUIRES: g_came_late. THREADS: any, but none that holds a lock which the dynamic linker or its callers may want.
void BindProgram(bool is_here);

}  // namespace perfschema::run
