// run/loader/unwind.cpp: exceptions and pthread_cancel() without a reference to libgcc_s.so.1. Loading that takes a fifth of the start of a
// small program, and a program need not have it.
//
// The compiler's unwinder is linked statically. It serves what this library throws itself, such as bad_alloc. pthread_cancel() and
// pthread_exit() bring another one, mostly libgcc_s.so.1: it calls the personality routine of our frames with a context that only its own
// functions may read. So the personality routine notes which unwinder has called. Until the next one calls, every function of an unwinder
// that the C++ library or the end of a cleanup calls is that unwinder's.
#include <unwind.h>

#include <atomic>
#include <string_view>

#include "run/loader/exported.h"
#include "run/loader/sites.h"
#include "run/loader/small_lock.h"

#define PFS_UNWINDER(F)              \
  F(_Unwind_DeleteException)         \
  F(_Unwind_GetDataRelBase)          \
  F(_Unwind_GetIPInfo)               \
  F(_Unwind_GetLanguageSpecificData) \
  F(_Unwind_GetRegionStart)          \
  F(_Unwind_GetTextRelBase)          \
  F(_Unwind_Resume)                  \
  F(_Unwind_Resume_or_Rethrow)       \
  F(_Unwind_SetGR)                   \
  F(_Unwind_SetIP)

#define PFS_HIDDEN __attribute__((visibility("hidden")))

// The linker's --wrap gives the static functions these names, and sends all calls to __wrap_name.
extern "C" {
#define PFS_DECLARE(name) extern decltype(name) __real_##name PFS_HIDDEN;
PFS_UNWINDER(PFS_DECLARE)
#undef PFS_DECLARE
_Unwind_Reason_Code __real___gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception*,
                                                _Unwind_Context*) PFS_HIDDEN;
extern const char __ehdr_start[] PFS_HIDDEN, _end[] PFS_HIDDEN;  // of this library, by the linker
}

namespace perfschema::run {
namespace {

struct Unwinder {
#define PFS_MEMBER(name) decltype(&::name) name;
  PFS_UNWINDER(PFS_MEMBER)
#undef PFS_MEMBER
};

constexpr Unwinder kOwn = {
#define PFS_MEMBER(name) __real_##name,
    PFS_UNWINDER(PFS_MEMBER)
#undef PFS_MEMBER
};

// An unwinder that has called. Filled under the lock; `object` is stored last.
struct Known {
  std::atomic<const link_map*> object;
  Unwinder functions;
};
constexpr size_t kMostKnown = 4;
constinit Known known[kMostKnown] = {};
constinit SmallLock lock;

// The unwinder that last called the personality routine in this thread.
thread_local constinit const Unwinder* t_unwinder __attribute__((tls_model("initial-exec"))) = &kOwn;

// Fills in the functions that the object exports. Returns false if one is missing.
bool Find(const link_map& object, Unwinder* functions) {
  const Exported exported(object);
  bool has_all = true;
#define PFS_FIND(name)                                                                                               \
  functions->name = reinterpret_cast<decltype(functions->name)>(exported.Find(SymbolName(std::string_view(#name)))); \
  has_all = has_all && functions->name != nullptr;
  PFS_UNWINDER(PFS_FIND)
#undef PFS_FIND
  return has_all;
}

// Returns the unwinder that contains the code. One that does not export its functions is linked into the program, as ours is, and has
// contexts of the same form.
const Unwinder& UnwinderAt(const char* code) {
  if (code >= __ehdr_start && code < _end) return kOwn;
  const link_map* const object = MapOf(code);
  if (object == nullptr) return kOwn;
  for (const Known& one : known) {
    if (one.object.load(std::memory_order_acquire) == object) return one.functions;
  }
  const SmallLock::Guard guard(lock);
  for (Known& one : known) {
    const link_map* const there = one.object.load(std::memory_order_relaxed);
    if (there == object) return one.functions;
    if (there != nullptr) continue;
    if (!Find(*object, &one.functions)) one.functions = kOwn;
    one.object.store(object, std::memory_order_release);  // pairs with the load above
    return one.functions;
  }
  return kOwn;
}

}  // namespace
}  // namespace perfschema::run

using namespace perfschema::run;

extern "C" {

PFS_HIDDEN _Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, _Unwind_Exception_Class exception_class,
                                                           _Unwind_Exception* exception, _Unwind_Context* context) {
  const Unwinder* const before = t_unwinder;
  t_unwinder = &UnwinderAt(static_cast<const char*>(__builtin_return_address(0)));
  const _Unwind_Reason_Code code = __real___gxx_personality_v0(version, actions, exception_class, exception, context);
  if (code != _URC_INSTALL_CONTEXT) t_unwinder = before;
  return code;
}

PFS_HIDDEN void __wrap__Unwind_DeleteException(_Unwind_Exception* exception) { t_unwinder->_Unwind_DeleteException(exception); }
PFS_HIDDEN _Unwind_Ptr __wrap__Unwind_GetDataRelBase(_Unwind_Context* context) { return t_unwinder->_Unwind_GetDataRelBase(context); }
PFS_HIDDEN _Unwind_Ptr __wrap__Unwind_GetIPInfo(_Unwind_Context* context, int* before) {
  return t_unwinder->_Unwind_GetIPInfo(context, before);
}
PFS_HIDDEN void* __wrap__Unwind_GetLanguageSpecificData(_Unwind_Context* context) {
  return t_unwinder->_Unwind_GetLanguageSpecificData(context);
}
PFS_HIDDEN _Unwind_Ptr __wrap__Unwind_GetRegionStart(_Unwind_Context* context) { return t_unwinder->_Unwind_GetRegionStart(context); }
PFS_HIDDEN _Unwind_Ptr __wrap__Unwind_GetTextRelBase(_Unwind_Context* context) { return t_unwinder->_Unwind_GetTextRelBase(context); }
PFS_HIDDEN void __wrap__Unwind_Resume(_Unwind_Exception* exception) { t_unwinder->_Unwind_Resume(exception); }
PFS_HIDDEN _Unwind_Reason_Code __wrap__Unwind_Resume_or_Rethrow(_Unwind_Exception* exception) {
  return t_unwinder->_Unwind_Resume_or_Rethrow(exception);
}
PFS_HIDDEN void __wrap__Unwind_SetGR(_Unwind_Context* context, int index, _Unwind_Word value) {
  t_unwinder->_Unwind_SetGR(context, index, value);
}
PFS_HIDDEN void __wrap__Unwind_SetIP(_Unwind_Context* context, _Unwind_Ptr value) { t_unwinder->_Unwind_SetIP(context, value); }

}  // extern "C"

// The C++ library's own one prints the exception, for which it brings a demangler.
namespace __gnu_cxx {
void __verbose_terminate_handler() { __builtin_abort(); }
}  // namespace __gnu_cxx
