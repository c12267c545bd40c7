// run/python/python_join.cpp: the Python layer in a program that was joined (python.h).
//
// A thread of its own takes the GIL: another one may have it, and wait for long. The layer is imported without a change of sys.path.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

#include "base/settings.h"
#include "record/context/threads.h"
#include "run/loader/exported.h"
#include "run/loader/modules.h"
#include "run/loader/real.h"
#include "run/python/python.h"
#include "run/python/python_api.h"

namespace perfschema::run {

PyObject* NativeModule(PyObject* (*make)(void* definition, int version));  // python_module.cpp

namespace {

// What is called of CPython besides g_py. All are of the stable ABI.
#define PFS_JOIN_FUNCTIONS(F)                                       \
  F(int, Py_IsInitialized, ())                                      \
  F(int, PyGILState_Ensure, ())                                     \
  F(void, PyGILState_Release, (int))                                \
  F(PyObject*, PyModule_Create2, (void*, int))                      \
  F(PyObject*, PyDict_New, ())                                      \
  F(int, PyDict_SetItemString, (PyObject*, const char*, PyObject*)) \
  F(PyObject*, Py_CompileString, (const char*, const char*, int))   \
  F(PyObject*, PyEval_EvalCode, (PyObject*, PyObject*, PyObject*))
struct JoinApi {
#define PFS_MEMBER(result, name, parameters) result(*name) parameters;
  PFS_JOIN_FUNCTIONS(PFS_MEMBER)
#undef PFS_MEMBER
};
#define PFS_NAME(result, name, parameters) #name "\0"
constexpr char kNames[] = PFS_JOIN_FUNCTIONS(PFS_NAME);
#undef PFS_NAME
constexpr size_t kFunctions = sizeof(JoinApi) / sizeof(void*);
constexpr auto kPlaces = PlacesIn<kFunctions>(kNames);
JoinApi api = {};

constexpr char kScript[] = R"(
import sys
package = sys.modules.get("_pfs_run")
if is_wanted:
    try:
        if package is None:
            external = sys.modules["_frozen_importlib_external"]
            spec = external.spec_from_file_location("_pfs_run", folder + "/_pfs_run/__init__.py")
            package = sys.modules["_pfs_run"] = sys.modules["_frozen_importlib"].module_from_spec(spec)
            spec.loader.exec_module(package)
        package.join(native, parts)
    except BaseException as error:
        sys.modules.pop("_pfs_run", None)
        native.note(f"no Python layer: {type(error).__name__}: {error}")
elif package is not None:
    package.leave()
)";

// What is wanted, and whether a thread is about to do it.
size_t bytes_of_runtime = 0;
constinit std::atomic<bool> is_wanted{false}, is_under_way{false};
constexpr int kStatements = 257;  // Py_file_input

// Finds the GIL's state in _PyRuntime: its last holder, whether it is locked, a count, cond, mutex, switch_cond, switch_mutex (3.11 to
// 3.14). REQUIRES: this thread has the GIL.
void FindGil() {
  constexpr size_t kCond = 3 * sizeof(uintptr_t), kPair = sizeof(pthread_cond_t) + sizeof(pthread_mutex_t);
  const auto own = reinterpret_cast<uintptr_t>(g_py.PyGILState_GetThisThreadState());
  const auto is_monotonic = [](const char* cond) {  // as the interpreter makes its conditions
    return (reinterpret_cast<const pthread_cond_t*>(cond)->__data.__wrefs & 2) != 0;
  };
  for (size_t at = 0; at + kCond + 2 * kPair <= bytes_of_runtime; at += sizeof(uintptr_t)) {
    const char* const state = g_py._PyRuntime + at;
    uintptr_t words[2];
    std::memcpy(words, state, sizeof words);
    if (words[0] != own || static_cast<int>(words[1]) != 1) continue;
    if (!is_monotonic(state + kCond) || !is_monotonic(state + kCond + kPair)) continue;
    g_gil = reinterpret_cast<uintptr_t>(state + kCond);
    return;
  }
}

// REQUIRES: the GIL.
void RunScript() {
  static PyObject* native = nullptr;
  if (native == nullptr) native = NativeModule(api.PyModule_Create2);
  const char* const parts = Setting("PFS_RUN_PYTHON");
  const char* const folder = Setting("PFS_RUN_LAYER");
  if (parts != nullptr && std::strcmp(parts, "none") == 0) return;
  const Reference<PyObject> variables(api.PyDict_New());
  const Reference<PyObject> code(api.Py_CompileString(kScript, "<pfs join>", kStatements));
  if (native == nullptr || folder == nullptr || variables.get() == nullptr || code.get() == nullptr) return;
  const auto set = [&](const char* name, PyObject* value) {
    const Reference<PyObject> held(value);
    (void)api.PyDict_SetItemString(variables.get(), name, value);
  };
  const auto text = [](const char* of) { return g_py.PyUnicode_FromStringAndSize(of, static_cast<intptr_t>(std::strlen(of))); };
  set("native", NewReference(native));
  set("folder", text(folder));
  set("parts", text(parts != nullptr ? parts : ""));
  set("is_wanted", g_py.PyLong_FromLong(is_wanted.load() ? 1 : 0));
  const Reference<PyObject> result(api.PyEval_EvalCode(code.get(), variables.get(), variables.get()));
}

void* WithGil(void*) {
  bool wanted;
  do {
    wanted = is_wanted.load();
    if (api.Py_IsInitialized() == 0) break;
    const int state = api.PyGILState_Ensure();
    if (wanted) FindGil();
    RunScript();
    if (g_py.PyErr_Occurred() != nullptr) g_py.PyErr_Clear();
    api.PyGILState_Release(state);
  } while (wanted != is_wanted.load());
  is_under_way.store(false);
  return nullptr;
}

// Waits a second at most: a thread may have the GIL for long.
void Want(bool wanted) {
  is_wanted.store(wanted);
  if (!is_under_way.exchange(true)) {
    pthread_attr_t detached;
    pthread_t thread;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (PFS_REAL(pthread_create)(&thread, &detached, WithGil, nullptr) != 0) is_under_way.store(false);
    pthread_attr_destroy(&detached);
  }
  constexpr timespec kNap{0, 1'000'000};
  for (int naps = 0; is_under_way.load() && naps < 1000; ++naps) nanosleep(&kNap, nullptr);
}

// The name of a thread that was there before. The list grows only: the first entry of a thread counts.
struct EarlyThread {
  const uint64_t os_id;
  EarlyThread* next;
  char name[128];
};
constinit std::atomic<EarlyThread*> early{nullptr};

const char* NameOfEarlyThread(uint64_t os_id) {
  const EarlyThread* thread = early.load(std::memory_order_acquire);
  while (thread != nullptr && thread->os_id != os_id) thread = thread->next;
  return thread != nullptr ? thread->name : nullptr;
}

}  // namespace

constinit uintptr_t g_gil = 0;

void NameEarlyThread(uint64_t os_id, const char* name) {
  char text[128];
  std::snprintf(text, sizeof text, "thread/python/%s", name);
  if (const char* const known = NameOfEarlyThread(os_id); known != nullptr && std::strcmp(known, text) == 0) return;
  auto* const thread = new (std::nothrow) EarlyThread{os_id, early.load(std::memory_order_relaxed), {}};
  if (thread == nullptr) return;
  std::memcpy(thread->name, text, sizeof text);
  while (!early.compare_exchange_weak(thread->next, thread, std::memory_order_release, std::memory_order_relaxed)) {
  }
  g_name_of_early_thread = NameOfEarlyThread;
}

void JoinPython() {
  if (!g_is_python) return;
  if (api.PyEval_EvalCode == nullptr) {
    void* found[kFunctions] = {};
    WithObjects([&] {
      constexpr SymbolName kRuntime("_PyRuntime");
      FindAll(FirstObject(), kNames, kPlaces, found);
      for (const link_map* object = FirstObject(); object != nullptr; object = object->l_next) {
        const Exported exported(*object);
        if (exported.Find(kRuntime) == g_py._PyRuntime) bytes_of_runtime = exported.BytesOf(kRuntime);
      }
    });
    if (std::ranges::find(found, nullptr) != std::end(found)) return;
    std::memcpy(&api, found, sizeof api);
  }
  Want(true);
}

void LeavePython() {
  if (api.PyEval_EvalCode != nullptr) Want(false);
}

}  // namespace perfschema::run
