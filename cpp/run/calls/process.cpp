// run/calls/process.cpp: the start of the library in a program, threads, and children.
#include <sched.h>
#include <sys/prctl.h>
#include <threads.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/placement.h"
#include "base/settings.h"
#include "record/context/thread_time.h"
#include "record/engine/runtime.h"
#include "run/calls/objects.h"
#include "run/calls/sandbox.h"
#include "run/calls/users_of_code.h"
#include "run/calls/wait_calls.h"
#include "run/loader/exported.h"
#include "run/loader/modules.h"
#include "run/loader/real.h"
#include "run/loader/sites.h"
#include "run/protocols/conversations.h"
#include "run/python/python.h"

extern "C" pid_t _Fork() noexcept;                                                                           // since glibc 2.34
extern "C" int __register_atfork(void (*prepare)(), void (*in_parent)(), void (*in_child)(), void* object);  // what pthread_atfork() calls

namespace perfschema::run {

void RememberPid();
void StartExec();

namespace {

// What children of the program get, by PFS_RUN_CHILDREN: nothing, forked children only, or all.
enum class Children { kNone, kFork, kAll };

PFS_IN_EVERY_PROCESS void InForkedChild() {
  if (g_forking.child_is_unrecorded) return InUnheardChild();
  if (!RunIsOff()) RememberPid();
}
void InForkedChildWithoutPfs() {
  g_runtime.run_is_off = true;
  StopTags();
}

// What clone() calls in a child that has a copy of this memory.
struct Start {
  int (*start)(void*);
  void* argument;
};
int StartInCopy(void* at) {
  const Start its = *static_cast<Start*>(at);
  InUnheardChild();
  return its.start(its.argument);
}

PFS_IN_EVERY_PROCESS Children WantedChildren() {
  const char* const text = Setting("PFS_RUN_CHILDREN");
  if (text != nullptr && std::strcmp(text, "none") == 0) return Children::kNone;
  return text != nullptr && std::strcmp(text, "fork") == 0 ? Children::kFork : Children::kAll;
}

// Takes this library out of LD_PRELOAD, so that programs which this one starts run without it.
void LeavePreload() {
  const char* const before = secure_getenv("LD_PRELOAD");
  const char* const mine = Setting("PFS_RUN_PRELOAD");
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
PFS_IN_EVERY_PROCESS bool HasForeignAllocator() {
  constexpr SymbolName allocate("malloc"), of_the_c_library("getppid");
  for (const link_map* object = FirstObject(); object != nullptr; object = object->l_next) {
    const Exported exported(*object);
    if (exported.Find(allocate) != nullptr) return exported.Find(of_the_c_library) == nullptr;
  }
  return false;
}

// Before glibc 2.34 a program may have no libpthread, in which these are. It has no second thread then either.
PFS_IN_EVERY_PROCESS bool HasThreads() { return PFS_HAS(pthread_key_create) && PFS_HAS(pthread_setspecific) && PFS_HAS(pthread_sigmask); }

// Registers what fork() calls before it forks, earlier than the program and its libraries register theirs. So BeforeFork() runs last. The
// handler of an allocator waits for the allocator's locks, and a thread that holds one of them may wait for the cold lock: BeforeFork()
// must not have it by then. In the child the order is the other one: pfs goes on when the allocator's handler has given its locks back.
PFS_IN_EVERY_PROCESS void HearOfForksEarly() {
  pfs_run_find_all();
  if (HasThreads()) (void)HearOfForksInParent();
}

// Does the part of the start that takes no lock of the program. Returns false if this process has no threads.
PFS_IN_EVERY_PROCESS bool BeginStart(int count, char** arguments) {
  NoteProcessBegin();
  HearOfForksEarly();
  RememberPid();
  g_is_alone_in_object = true;
  const Children children = WantedChildren();
  if (children != Children::kAll && !g_came_late) LeavePreload();
  if (!HasThreads()) return false;
  StartSites();
  StartTags();
  if (g_came_late) {
    WithObjects([] { StartPython(0, nullptr); });
  } else {
    StartPython(count, arguments);
  }
  g_user_of_code = UserOfCode;
  StartConversations();
  if (children == Children::kAll) StartExec();
  pthread_atfork(nullptr, nullptr, children == Children::kNone ? InForkedChildWithoutPfs : InForkedChild);
  (void)HearOfForks();
  return true;
}

// glibc gives constructors the arguments of main().
PFS_IN_EVERY_PROCESS __attribute__((constructor)) void StartRun(int count, char** arguments, char**) {
  if (g_came_late || !BeginStart(count, arguments)) return;
  // Not earlier: an allocator's constructor takes locks before the static objects of the core exist.
  g_runtime.run_is_off = false;
  if (HasForeignAllocator()) (void)EnsureStarted();
  NoteFreeThreadedPython();
}

}  // namespace

void InUnheardChild() {
  if (RunIsOff()) return;
  InForkedChildWithoutPfs();
  EndInUnheardChild();
}

}  // namespace perfschema::run

using namespace perfschema::run;

// As the part of the C library that is linked statically has it, which would be code of one more page.
extern "C" void* __dso_handle __attribute__((visibility("hidden")));
extern "C" PFS_IN_EVERY_PROCESS int pthread_atfork(void (*prepare)(), void (*in_parent)(), void (*in_child)()) {
  return PFS_REAL(__register_atfork)(prepare, in_parent, in_child, &__dso_handle);
}

namespace {

// Gives this library a name of its own. The dynamic linker knows it by that of a descriptor, which has been closed since: a debugger would
// open its own descriptor of that number and wait for what comes there, and the program would load another file for it.
void NameLibrary() {
  static char name[] = "/memfd:pfs/libperfschema-run.so";
  auto* const own = const_cast<link_map*>(OwnObject());
  // Release: pairs with the reads of those who go through the objects without a lock. The name before stays valid.
  __atomic_store_n(&own->l_name, static_cast<char*>(name), __ATOMIC_RELEASE);
}

}  // namespace

// What `pfs join` and `pfs leave` call, in a thread that they have made for it: it holds no lock. Both return 0, or 1 if this process
// cannot be recorded; a join returns 2 if it is recorded already. `settings`: as HandOverSettings() takes them; those of the first join
// stay.
PFS_REPLACES int pfs_run_join(const char* settings) {
  using perfschema::g_came_late;
  if (!RunIsOff()) return 2;
  if (perfschema::g_is_off_for_good) return 1;
  static bool has_begun = false;
  if (g_came_late && !has_begun) {
    if (!perfschema::HandOverSettings(settings)) return 1;
    NameLibrary();
    has_begun = BeginStart(0, nullptr);
  }
  RememberPid();  // of a forked child that was not recorded
  // Here, with the handler of exit(): in a forked child that would wait for a lock of the C library, which a thread of the parent may hold.
  // A thread that forks may have the cold lock for long.
  for (int tries = 0; !perfschema::EnsureStarted(); ++tries) {
    if (perfschema::IsOff() || tries == 50) return 1;
  }
  perfschema::g_runtime.run_is_off = false;
  if (!g_came_late) return 0;
  JoinPython();  // first: its names are there when a thread's first event comes
  BindProgram(true);
  // A thread that was binding a call has stored the C library's address after that.
  constexpr timespec kInFlight{0, 10'000'000};
  nanosleep(&kInFlight, nullptr);
  BindProgram(true);
  NoteFreeThreadedPython();
  return 0;
}
PFS_REPLACES int pfs_run_leave() {
  if (RunIsOff()) return 0;
  perfschema::g_runtime.run_is_off = true;
  StopTags();
  if (!perfschema::g_came_late) return 0;
  BindProgram(false);
  LeavePython();
  return 0;
}

PFS_REPLACES int __register_atfork(void (*prepare)(), void (*in_parent)(), void (*in_child)(), void* object) {
  HearOfForksEarly();
  return PFS_REAL(__register_atfork)(prepare, in_parent, in_child, object);
}

namespace {

// Returns the table of virtual functions of a std::thread's state, or 0. libstdc++ starts all threads with one routine, whose argument is
// the state: an object of a class that is named after the thread's function.
uintptr_t StateOfStdThread(const Module* module, void* argument) {
  if (module == nullptr || std::strcmp(module->name, "libstdc++") != 0 || argument == nullptr) return 0;
  constexpr uintptr_t kBefore = 2 * sizeof(void*);  // the pointer leads to the first function of the table
  return *static_cast<uintptr_t*>(argument) - kBefore;
}

// Creates a thread whose instrument has the name of its start routine.
int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  auto address = reinterpret_cast<uintptr_t>(start);
  const Module* module = ModuleOf(reinterpret_cast<const void*>(start));
  const uintptr_t state = StateOfStdThread(module, argument);
  const Module* const of_state = state != 0 ? ModuleOf(reinterpret_cast<const void*>(state)) : nullptr;
  if (of_state != nullptr) {
    module = of_state;
    address = state;
  }
  const Site& site = *SiteOf(reinterpret_cast<const void*>(address));
  const std::atomic_ref<pfs_key_t> known(site.threads);
  // A module that was unloaded may have left its site to another one.
  pfs_key_t key = site.module == module ? known.load(std::memory_order_relaxed) : 0;
  if (key == 0) {
    const char* const what = of_state != nullptr ? "Thread of std::thread with a function of the class" : "Thread that starts";
    const uint64_t offset = address - (module != nullptr ? module->base : 0);
    key = KeyOfPlace(pfs_register_thread, module, offset, of_state != nullptr, "", what, "at");
    if (site.module == module) known.store(key, std::memory_order_relaxed);
  }
  return pfs_thread_create(key, thread, attributes, start, argument);
}

void NameThisThread(const char* name, const void* caller) {
  if (IsPlain() || name[0] == 0) return;
  const Site& site = *SiteOf(caller);
  NameThread(site.module != nullptr ? site.module->name : "unknown", name);
}

}  // namespace

PFS_REPLACES int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  if (IsPlain()) return PFS_REAL(pthread_create)(thread, attributes, start, argument);
  return CreateThread(thread, attributes, start, argument);
}

// The start routine returns an int: its register is the lower half of the one that a pthread returns, and thrd_join() takes that half.
PFS_REPLACES int thrd_create(thrd_t* thread, thrd_start_t start, void* argument) {
  if (IsPlain()) return PFS_REAL(thrd_create)(thread, start, argument);
  switch (CreateThread(thread, nullptr, reinterpret_cast<void* (*)(void*)>(reinterpret_cast<void*>(start)), argument)) {
    case 0:
      return thrd_success;
    case ENOMEM:
      return thrd_nomem;
    default:
      return thrd_error;
  }
}

PFS_REPLACES int pthread_setname_np(pthread_t thread, const char* name) {
  const int rc = PFS_REAL(pthread_setname_np)(thread, name);
  if (rc == 0 && pthread_equal(thread, pthread_self()) != 0) NameThisThread(name, PFS_CALLER);
  return rc;
}

PFS_REPLACES int prctl(int option, ...) {
  va_list arguments;
  va_start(arguments, option);
  unsigned long words[4];
  for (unsigned long& word : words) word = va_arg(arguments, unsigned long);
  va_end(arguments);
  const char* const why_not = WhyNotAfterPrctl(option, words[0], reinterpret_cast<const void*>(words[1]));
  const auto call = [&] { return long{PFS_REAL(prctl)(option, words[0], words[1], words[2], words[3])}; };
  const auto rc = static_cast<int>(CallIntoSandbox(why_not, call));
  if (option == PR_SET_NAME && rc == 0) {
    char name[16];  // what the kernel keeps
    std::snprintf(name, sizeof name, "%s", reinterpret_cast<const char*>(words[0]));
    NameThisThread(name, PFS_CALLER);
  }
  return rc;
}

// Neither runs the handlers of exit().
PFS_REPLACES void _exit(int status) {
  perfschema::ReadTimesAtEnd();
  PFS_REAL(_exit)(status);
  __builtin_unreachable();
}
PFS_REPLACES void _Exit(int status) noexcept {
  perfschema::ReadTimesAtEnd();
  PFS_REAL(_Exit)(status);
  __builtin_unreachable();
}

// In the child no handler of fork() runs.
PFS_REPLACES pid_t _Fork() noexcept {
  const pid_t child = PFS_REAL(_Fork)();
  if (child == 0) InUnheardChild();
  return child;
}

PFS_REPLACES int clone(int (*start)(void*), void* stack, int flags, void* argument, ...) noexcept {
  va_list more;
  va_start(more, argument);
  auto* const parent_id = va_arg(more, pid_t*);
  auto* const thread_memory = va_arg(more, void*);
  auto* const child_id = va_arg(more, pid_t*);
  va_end(more);
  Start its{start, argument};
  if (!IsPlain() && start != nullptr) {
    if ((flags & CLONE_VM) == 0) {
      start = StartInCopy;
      argument = &its;
    } else if ((flags & (CLONE_VFORK | CLONE_THREAD)) == CLONE_VFORK) {
      const auto call = [=] {
        perfschema::t_locals.may_share_memory = true;
        return PFS_REAL(clone)(start, stack, flags, argument, parent_id, thread_memory, child_id);
      };
      return WaitedAtPlace(Kind::kChild, true, PFS_CALLER, call, perfschema::Operation::kCreate);
    } else if ((flags & CLONE_SETTLS) == 0) {
      ShareWithClone();
    }
  }
  return PFS_REAL(clone)(start, stack, flags, argument, parent_id, thread_memory, child_id);
}
