// bindings/greenlets.h: gevent and eventlet. They replace the locks of the standard library, so that a waiting greenlet lets the other
// greenlets of its thread run. Locks of pfs then wait at such a lock, see Waiter in locks.h.
#pragma once

#include "bindings.h"  // Python.h comes first

namespace perfschema::bindings {

// The dictionary of module _thread, which holds the replaced functions.
// Threads: the GIL is held, or `names` is guarded; the flags are read by any thread.
struct ThreadModule {
  PyObject* names;
  uint64_t version;  // of `names` at the last check
  bool has_changed;  // since then
  bool is_replaced;
};
extern ThreadModule g_thread_module;
bool CheckThreadModule();

// Returns true if the locks of the standard library are replaced. Costs one comparison until something changes in module _thread.
inline bool IsGreen() {
#if PY_VERSION_HEX >= 0x030c0000
  const bool has_changed = Load(g_thread_module.has_changed);
#else
  const bool has_changed = reinterpret_cast<PyDictObject*>(g_thread_module.names)->ma_version_tag != g_thread_module.version;
#endif
  return __builtin_expect(has_changed, 0) ? CheckThreadModule() : Load(g_thread_module.is_replaced);
}

// Returns a number of the running greenlet; 0 if it is the thread's first one, or there are no greenlets.
unsigned long CurrentGreenlet();

// Returns a number of the running thread, or of the running greenlet if that is not the thread's first one.
inline unsigned long Me() {
  const unsigned long greenlet = __builtin_expect(IsGreen(), 0) ? CurrentGreenlet() : 0;
  return greenlet != 0 ? greenlet : PyThread_get_thread_ident();
}

// Makes a lock of gevent or eventlet, and takes it. nullptr: a Python exception is set.
PyObject* MakeGate();
// Waits until the gate is released, for at most `timeout` seconds if that is not below 0. Other greenlets run meanwhile. Returns 1, 0, or
// -1 and a Python exception.
int WaitAtGate(PyObject* gate, double timeout);
// Releases the gate. An exception that is set stays.
void OpenGate(PyObject* gate);

void StartGreenlets();  // call it before all functions above

}  // namespace perfschema::bindings
