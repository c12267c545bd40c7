// run/process.cpp: the start of the library in a program, threads, and children.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "record/engine/runtime.h"
#include "run/conversations.h"
#include "run/exported.h"
#include "run/python.h"
#include "run/real.h"
#include "run/sites.h"

namespace perfschema::run {

void RememberPid();

namespace {

// What children of the program get, by PFS_RUN_CHILDREN: nothing, forked children only, or all.
enum class Children { kNone, kFork, kAll };

void InForkedChild() { RememberPid(); }
void InForkedChildWithoutPfs() { g_is_off = true; }

Children WantedChildren() {
  const char* const text = std::getenv("PFS_RUN_CHILDREN");
  if (text != nullptr && std::strcmp(text, "none") == 0) return Children::kNone;
  return text != nullptr && std::strcmp(text, "fork") == 0 ? Children::kFork : Children::kAll;
}

// Takes this library out of LD_PRELOAD, so that programs which this one starts run without it.
void LeavePreload() {
  const char* const before = std::getenv("LD_PRELOAD");
  const char* const mine = std::getenv("PFS_RUN_LIBRARY");
  if (before == nullptr || mine == nullptr) return;
  const char* const at = std::strstr(before, mine);
  if (at == nullptr) return;
  const char* rest = at + std::strlen(mine);
  if (*rest == ':') ++rest;
  char text[4096];
  const int bytes = std::snprintf(text, sizeof text, "%.*s%s", static_cast<int>(at - before), before, rest);
  if (bytes <= 0) {
    unsetenv("LD_PRELOAD");
  } else if (static_cast<size_t>(bytes) < sizeof text) {
    setenv("LD_PRELOAD", text, 1);
  }
}

// An allocator of the program's own may lock mutexes inside malloc(). Start-up calls functions of the C library that allocate, so it
// must not begin in such a lock.
bool HasForeignAllocator() {
  const SymbolName allocate("malloc"), of_the_c_library("getppid");
  for (const link_map* object = FirstObject(); object != nullptr; object = object->l_next) {
    const Exported exported(*object);
    if (exported.Find(allocate) != nullptr) return exported.Find(of_the_c_library) == nullptr;
  }
  return false;
}

// Before glibc 2.34 a program may have no libpthread, in which these are. It has no second thread then either.
bool HasThreads() { return PFS_HAS(pthread_key_create) && PFS_HAS(pthread_setspecific) && PFS_HAS(pthread_sigmask); }

__attribute__((constructor)) void StartRun() {
  pfs_run_find_all();
  RememberPid();
  const Children children = WantedChildren();
  if (children != Children::kAll) LeavePreload();
  if (!HasThreads()) return;
  StartSites();
  StartPython();
  StartConversations();
  pthread_atfork(nullptr, nullptr, children == Children::kNone ? InForkedChildWithoutPfs : InForkedChild);
  (void)HearOfForks();
  // Not earlier: an allocator's constructor takes locks before the static objects of the core exist.
  g_is_off = false;
  if (HasForeignAllocator()) (void)EnsureStarted();
}

}  // namespace
}  // namespace perfschema::run

using namespace perfschema::run;

PFS_REPLACES int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  if (IsPlain()) return PFS_REAL(pthread_create)(thread, attributes, start, argument);
  const Module* const module = ModuleOf(reinterpret_cast<const void*>(start));
  char name[64], documentation[256];
  const auto offset = reinterpret_cast<uintptr_t>(start) - (module != nullptr ? module->base : 0);
  std::snprintf(name, sizeof name, "code+0x%lx", static_cast<unsigned long>(offset));
  std::snprintf(documentation, sizeof documentation, "Thread that starts at %s+0x%lx build-id=%s",
                module != nullptr ? module->path : "unknown", static_cast<unsigned long>(offset),
                module != nullptr ? module->build_id : "");
  return pfs_thread_create(KeyOf(pfs_register_thread, module, name, documentation), thread, attributes, start, argument);
}

PFS_REPLACES int pthread_setname_np(pthread_t thread, const char* name) {
  const int rc = PFS_REAL(pthread_setname_np)(thread, name);
  if (rc != 0 || IsPlain() || name[0] == 0 || pthread_equal(thread, pthread_self()) == 0) return rc;
  const Site& site = *PFS_RUN_SITE;
  char full[120];
  std::snprintf(full, sizeof full, "%s/%s", site.module != nullptr ? site.module->name : "unknown", name);
  (void)pfs_set_thread_name(full);
  return rc;
}

// The child uses the stack of this call, so it must not return: the compiler makes a jump of it.
PFS_REPLACES __attribute__((optimize("O2"))) pid_t vfork() {
  t_flags.may_be_vfork_child = true;
  return PFS_REAL(vfork)();
}
