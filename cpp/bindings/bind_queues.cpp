// bindings/bind_queues.cpp: pfs.SimpleQueue. The GIL guards it (guard.h), no lock: a signal handler or a finalizer that interrupts a get()
// may call put().
#include <chrono>
#include <cstddef>
#include <string>

#include "locks.h"  // Python.h comes first

namespace perfschema::bindings {

namespace {

// Threads: the GIL is held.
struct QueueObject {
  PyObject_HEAD pfs_instance_t* instance;  // nullptr = not instrumented
  PyObject* name;                          // full name
  PyObject* weak_references;
  PyObject** items;  // a ring buffer; its capacity is a power of two, or 0
  size_t capacity;
  size_t head;
  size_t count;
  WaitQueue waiters;

  PyObject*& At(size_t i) { return items[(head + i) & (capacity - 1)]; }

  // Doubles the capacity. Returns false if a Python exception is set.
  bool Grow() {
    const size_t more = capacity == 0 ? 8 : 2 * capacity;
    auto* fresh = static_cast<PyObject**>(PyMem_Malloc(more * sizeof(PyObject*)));
    if (fresh == nullptr) return PyErr_NoMemory(), false;
    for (size_t i = 0; i < count; ++i) fresh[i] = At(i);
    PyMem_Free(items);
    items = fresh;
    capacity = more;
    head = 0;
    return true;
  }

  PyObject* Pop() {
    PyObject* item = items[head];
    head = (head + 1) & (capacity - 1);
    Store(count, count - 1);
    return item;
  }
};

QueueObject* AsQueue(PyObject* object) { return reinterpret_cast<QueueObject*>(object); }

PyObject* MakeQueue(PyTypeObject* type, const std::string& name) {
  const uint32_t key = RegisterName(NameFamily::kCond, name);
  Object full = Decoded(FullName(NameFamily::kCond, name));
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  QueueObject* self = AsQueue(object);
  self->name = full.Release();
  self->instance = pfs_cond_create(key, object);
  return object;
}

PyObject* QueueNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"name", nullptr};
  PyObject* name = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O:SimpleQueue", const_cast<char**>(names), &name)) return nullptr;
  return Guarded([&] { return MakeQueue(type, NameOr(name)); });
}

int QueueTraverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  QueueObject* self = AsQueue(object);
  for (size_t i = 0; i < self->count; ++i) Py_VISIT(self->At(i));
  return 0;
}

int QueueClear(PyObject* object) {
  QueueObject* self = AsQueue(object);
  while (self->count != 0) Py_DECREF(self->Pop());
  return 0;
}

void QueueDealloc(PyObject* object) {
  QueueObject* self = AsQueue(object);
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  QueueClear(object);
  PyMem_Free(self->items);
  self->waiters.Free();
  pfs_cond_discard(self->instance);
  Py_XDECREF(self->name);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* Put(PyObject* object, PyObject* item) {
  return Alone(object, [=, self = AsQueue(object)]() -> PyObject* {
    if (self->count == self->capacity && !self->Grow()) return nullptr;
    Store(self->count, self->count + 1);
    self->At(self->count - 1) = Py_NewRef(item);
    if (!self->waiters.is_empty()) self->waiters.Wake();
    Py_RETURN_NONE;
  });
}

PyObject* RaiseEmpty() {
  PyObject* module = PyImport_ImportModule("_queue");
  PyObject* type = module == nullptr ? nullptr : PyObject_GetAttrString(module, "Empty");
  Py_XDECREF(module);
  if (type != nullptr) PyErr_SetNone(type);
  Py_XDECREF(type);
  return nullptr;
}

// Waits until there is an item; another thread may be faster and take it.
Waited AwaitItem(QueueObject* self, double timeout) {
  Waiter* waiter = Waiter::Make();
  if (waiter == nullptr) return Waited::kInterrupted;
  self->waiters.Join(waiter);
  const Waited waited = self->count != 0 ? Waited::kGot : waiter->Wait(timeout);  // an item may have come while the waiter was made
  if (!waiter->is_woken) {
    self->waiters.Leave(waiter);
  } else if (waited == Waited::kInterrupted && self->count != 0 && !self->waiters.is_empty()) {
    self->waiters.Wake();  // another waiter takes the item
  }
  waiter->Free();
  return waited;
}

// Takes an item. -1 seconds: no limit. REQUIRES: alone.
PyObject* Take(QueueObject* self, double timeout) {
  using Clock = std::chrono::steady_clock;
  if (self->count != 0) return self->Pop();
  if (timeout == 0) return RaiseEmpty();
  pfs_wait_t wait;
  wait.instance = nullptr;
  if (pfs_enabled_(self->instance)) {
    const CallSite site = FindCallSite();
    pfs_cond_wait_begin_at(&wait, self->instance, timeout < 0 ? PFS_WAIT : PFS_TIMED_WAIT, site.file, site.line);
  }
  const Clock::time_point start = Clock::now();
  double left = timeout;
  Waited waited = Waited::kGot;
  while (self->count == 0 && waited == Waited::kGot) {
    waited = AwaitItem(self, left);
    if (timeout < 0) continue;
    left = timeout - std::chrono::duration<double>(Clock::now() - start).count();
    if (left < 0) left = 0;
  }
  if (self->count != 0 && waited == Waited::kTimeOver) waited = Waited::kGot;
  PyObject* item = waited == Waited::kGot ? self->Pop() : nullptr;
  pfs_cond_wait_end(&wait, ResultOf(waited));
  return waited == Waited::kTimeOver ? RaiseEmpty() : item;
}

PyObject* Get(PyObject* object, double timeout) {
  return Alone(object, [=] { return Take(AsQueue(object), timeout); });
}

PyObject* QueuePutWith(PyObject* object, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"item", "block", "timeout", nullptr};
  PyObject* item;
  int block;
  PyObject* timeout;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|pO:put", const_cast<char**>(names), &item, &block, &timeout)) return nullptr;
  return Put(object, item);
}

PyObject* QueuePut(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 1 && names == nullptr) return Put(object, args[0]);
  return CallWithTuple(QueuePutWith, object, args, count, names);
}

PyObject* QueuePutNowait(PyObject* object, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"item", nullptr};
  PyObject* item;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:put_nowait", const_cast<char**>(names), &item)) return nullptr;
  return Put(object, item);
}

PyObject* QueueGetWith(PyObject* object, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"block", "timeout", nullptr};
  int block = 1;
  PyObject* limit = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|pO:get", const_cast<char**>(names), &block, &limit)) return nullptr;
  double timeout = block != 0 ? -1 : 0;
  if (block != 0 && limit != Py_None) {
    if (!ParseTimeout(limit, &timeout)) return nullptr;
    if (!(timeout >= 0)) {
      PyErr_SetString(PyExc_ValueError, "'timeout' must be a non-negative number");
      return nullptr;
    }
  }
  return Get(object, timeout);
}

PyObject* QueueGet(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 0 && names == nullptr) return Get(object, -1);
  return CallWithTuple(QueueGetWith, object, args, count, names);
}

PyObject* QueueGetNowait(PyObject* object, PyObject*) { return Get(object, 0); }
PyObject* QueueEmpty(PyObject* object, PyObject*) { return PyBool_FromLong(Load(AsQueue(object)->count) == 0); }
PyObject* QueueSize(PyObject* object, PyObject*) { return PyLong_FromSize_t(Load(AsQueue(object)->count)); }
PyObject* QueueName(PyObject* object, void*) { return Py_NewRef(AsQueue(object)->name); }

PyObject* MakeQueueType(PyObject* module) {
  static PyMethodDef methods[] = {
      {"put", AsMethod(QueuePut), METH_FASTCALL | METH_KEYWORDS,
       "put($self, item, block=True, timeout=None)\n--\n\nPuts the item at the end. Never waits; `block` and `timeout` are as in "
       "queue.Queue and have no "
       "effect. No event."},
      {"get", AsMethod(QueueGet), METH_FASTCALL | METH_KEYWORDS,
       "get($self, block=True, timeout=None)\n--\n\n"
       "Takes the first item. If there is none it waits, for at most `timeout` seconds if given: one event, wait or timed_wait.\n"
       "queue.Empty if there is none still, or at once if not `block`."},
      {"put_nowait", AsMethod(QueuePutNowait), METH_VARARGS | METH_KEYWORDS, "put_nowait($self, item)\n--\n\nput(item)."},
      {"get_nowait", QueueGetNowait, METH_NOARGS, "get_nowait($self)\n--\n\nget(block=False)."},
      {"empty", QueueEmpty, METH_NOARGS, "empty($self)\n--\n\nTrue if there is no item now."},
      {"qsize", QueueSize, METH_NOARGS, "qsize($self)\n--\n\nReturns the present number of items."},
      {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  static PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(QueueObject, weak_references), READONLY, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
  static PyGetSetDef properties[] = {{"name", QueueName, nullptr, "Full name of the instrument.", nullptr},
                                     {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static const char doc[] =
      "SimpleQueue(name=None)\n--\n\n"
      "An unbounded queue, first in, first out, whose waits are recorded: a drop-in for queue.SimpleQueue. put() may be called from "
      "signal\n"
      "handlers and finalizers.\n\n"
      "SimpleQueue('myapp/QUEUE_log') counts as wait/synch/cond/myapp/QUEUE_log: one event per get() that finds the queue empty and "
      "waits.\n\n"
      "Raises InvalidValue for a name that breaks the rules of instrument names.";
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(QueueNew)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(QueueDealloc)},
                                {Py_tp_traverse, reinterpret_cast<void*>(QueueTraverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(QueueClear)},
                                {Py_tp_methods, methods},
                                {Py_tp_members, members},
                                {Py_tp_getset, properties},
                                {Py_tp_doc, const_cast<char*>(doc)},
                                {0, nullptr}};
  static PyType_Spec spec = {"pfs.SimpleQueue", sizeof(QueueObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                             slots};
  return PyType_FromModuleAndSpec(module, &spec, nullptr);
}

}  // namespace

void BindQueues(PyObject* module) {
  PyObject* type = MakeQueueType(module);
  AddToModule(module, "SimpleQueue", type);
}

}  // namespace perfschema::bindings
