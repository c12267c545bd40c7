// bindings/guard.h: what the GIL does for this folder, in a Python without it (3.13t and later). With the GIL, all of this is nothing.
//
// The GIL makes a function one step for all other threads, except where the function waits or runs Python code. Alone() does so for one
// object: the critical section of the interpreter ends wherever the GIL would be released, and begins again where it would be taken back.
// So the rules are the same with and without a GIL; "Threads: the GIL is held" means the guard of the object there. As the interpreter
// waits for another critical section without this one, no order of guards can deadlock, and fork() finds none that another thread holds.
#pragma once

#include <type_traits>
#include <utility>

#include "python.h"

namespace perfschema::bindings {

#ifdef Py_GIL_DISABLED
inline constexpr bool kHasGil = false;
#define PFS_LOCAL_WITHOUT_GIL thread_local  // a cache of each thread
#else
inline constexpr bool kHasGil = true;
#define PFS_LOCAL_WITHOUT_GIL
#endif

// Guards what belongs to no object of Python.
// Threads: any thread.
struct Guard {
#ifdef Py_GIL_DISABLED
  PyObject object{};  // only its lock is used
#endif
};

// Calls function() as the only thread that is in such a call for this object. No destructor ends it: see gil.h.
template <typename Function>
__attribute__((always_inline)) inline auto Alone([[maybe_unused]] PyObject* object, Function&& function) {
#if defined(Py_GIL_DISABLED) && !defined(PFS_TEST_WITHOUT_GUARD)
  PyCriticalSection section;
  PyCriticalSection_Begin(&section, object);
  try {
    if constexpr (std::is_void_v<decltype(function())>) {
      function();
      PyCriticalSection_End(&section);
    } else {
      auto result = function();
      PyCriticalSection_End(&section);
      return result;
    }
  } catch (const std::exception&) {  // not (...): a thread that is canceled ends without a thread state
    PyCriticalSection_End(&section);
    throw;
  }
#else
  return function();
#endif
}
template <typename Function>
__attribute__((always_inline)) inline auto Alone([[maybe_unused]] Guard& guard, Function&& function) {
#ifdef Py_GIL_DISABLED
  return Alone(&guard.object, function);
#else
  return function();
#endif
}

// A method or a property of a type that runs alone in its object.
template <auto kMethod>
struct AloneInObject;
template <typename Result, typename... Arguments, Result (*kMethod)(PyObject*, Arguments...)>
struct AloneInObject<kMethod> {
  static Result Call(PyObject* self, Arguments... arguments) {
    return Alone(self, [&] { return kMethod(self, arguments...); });
  }
};
template <auto kMethod>
inline constexpr auto kAlone = kHasGil ? kMethod : &AloneInObject<kMethod>::Call;

// Calls function() while all other threads are where they would be without the GIL. It is for what changes the state of another thread, and
// may take milliseconds. REQUIRES: function() throws nothing and makes no object of Python.
template <typename Function>
void StopOthers(Function&& function) {
#if defined(Py_GIL_DISABLED) && !defined(PFS_TEST_WITHOUT_GUARD)
  // The only function with this effect that the interpreter exports: it visits objects while all other threads stand. One is enough.
  struct Once {
    Function& function;
    bool is_done;
  } once{function, false};
  PyUnstable_GC_VisitObjects(
      [](PyObject*, void* given) {
        auto& call = *static_cast<Once*>(given);
        if (!call.is_done) call.is_done = true, call.function();
        return 0;
      },
      &once);
#else
  function();
#endif
}

// Read and change a word that other threads read: what was written before Store() is seen after Load() has returned its value.
template <typename Word>
Word Load(const Word& word) {
  return kHasGil ? word : __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
template <typename Word>
void Store(Word& word, std::type_identity_t<Word> value) {
  kHasGil ? static_cast<void>(word = value) : __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}
template <typename Word>
Word Exchange(Word& word, std::type_identity_t<Word> value) {
  return kHasGil ? std::exchange(word, value) : __atomic_exchange_n(&word, value, __ATOMIC_ACQ_REL);
}
template <typename Word>
Word Next(Word& counter) {
  return kHasGil ? ++counter : __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);
}

// What a dictionary has for a key; nullptr: nothing, perhaps with an exception. Without a GIL another thread may remove it: then it is
// held. Threads: owner thread.
class Item {
 public:
  Item(PyObject* dictionary, PyObject* key) {
#ifdef Py_GIL_DISABLED
    PyDict_GetItemRef(dictionary, key, &object_);
#else
    object_ = PyDict_GetItemWithError(dictionary, key);
#endif
  }
  Item(const Item&) = delete;
  Item& operator=(const Item&) = delete;
  ~Item() {
    if (!kHasGil) Py_XDECREF(object_);
  }
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

}  // namespace perfschema::bindings
