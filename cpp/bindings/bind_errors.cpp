// bindings/bind_errors.cpp: exceptions counted by class, behind pfs.raised; status variables, behind pfs.register_status.
#include <cstddef>
#include <string>

#include "locks.h"  // Python.h comes first

namespace perfschema::bindings {

namespace {

// ---- Exceptions ----------------------------------------------------------------------------------------------------------------------

PyObject* numbers;  // dict: weak reference to a class -> its error number

// The callback of such a reference: the class is gone.
PyObject* ForgetClass(PyObject*, PyObject* reference) {
  if (PyDict_DelItem(numbers, reference) != 0) PyErr_Clear();
  Py_RETURN_NONE;
}
PyMethodDef forget_method = {"forget_class", ForgetClass, METH_O, nullptr};
PyObject* forget_class;

// Returns "module.Name". A class may report any name, or fail to report one.
std::string NameOfClass(PyObject* type) {
  std::string name;
  for (const char* part : {"__module__", "__qualname__"}) {
    const Object text(PyObject_GetAttrString(type, part));
    if (!text || !PyUnicode_Check(text.get())) {
      PyErr_Clear();
      continue;
    }
    if (!name.empty()) name += '.';
    name += BytesOf(text.get());
  }
  return name;
}

// Returns the class's error number, or 0, which is never registered, if it is unknown. Leaves no exception of its own.
int32_t NumberOfClass(PyObject* type) {
  const Object key(PyWeakref_NewRef(type, nullptr));
  if (key) {
    if (const Item known(numbers, key.get()); known.get() != nullptr) return static_cast<int32_t>(PyLong_AsLong(known.get()));
  }
  PyErr_Clear();
  const std::string name = NameOfClass(type);
  const int32_t number = name.empty() ? 0 : pfs_error_number(name.c_str());
  const Object kept(PyWeakref_NewRef(type, forget_class));
  const Object value(PyLong_FromLong(number));
  if (!kept || !value || PyDict_SetItem(numbers, kept.get(), value.get()) != 0) PyErr_Clear();
  return number;
}

struct CounterObject {
  PyObject_HEAD char handled;
};
CounterObject* AsCounter(PyObject* object) { return reinterpret_cast<CounterObject*>(object); }

PyObject* CounterNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"handled", nullptr};
  int handled = 0;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$p:raised", const_cast<char**>(names), &handled)) return nullptr;
  PyObject* const object = type->tp_alloc(type, 0);
  if (object != nullptr) AsCounter(object)->handled = handled != 0;
  return object;
}

void CounterDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* CounterEnter(PyObject* object, PyObject*) {
  Py_INCREF(object);
  return object;
}

// Lets the exception pass: it reads only its class.
PyObject* CounterExit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  if (count < 1 || args[0] == Py_None || !PyType_Check(args[0])) Py_RETURN_NONE;
  return Guarded([&] {
    NameThisThreadOnce();
    const int32_t number = NumberOfClass(args[0]);
    pfs_error_raised(number);
    if (AsCounter(object)->handled != 0) pfs_error_handled(number);
    return Py_NewRef(Py_None);
  });
}

PyObject* Handled(PyObject*, PyObject* error) {
  PyObject* const type = PyExceptionInstance_Check(error) ? reinterpret_cast<PyObject*>(Py_TYPE(error)) : error;
  if (!PyExceptionClass_Check(type))
    return PyErr_Format(PyExc_TypeError, "handled() takes an exception or a class of exceptions, not %R", error);
  return Guarded([&] {
    NameThisThreadOnce();
    pfs_error_handled(NumberOfClass(type));
    return Py_NewRef(Py_None);
  });
}

// ---- Status variables ----------------------------------------------------------------------------------------------------------------

struct StatusObject {
  PyObject_HEAD PyObject* name;
  pfs_key_t key;
};
StatusObject* AsStatus(PyObject* object) { return reinterpret_cast<StatusObject*>(object); }

PyObject* StatusNew(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"name", "documentation", nullptr};
  PyObject *name = nullptr, *documentation = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "U|U:StatusVariable", const_cast<char**>(names), &name, &documentation)) return nullptr;
  return Guarded([&]() -> PyObject* {
    const std::string text = BytesOf(name), doc = documentation == nullptr ? std::string() : BytesOf(documentation);
    if (text.find('\0') != std::string::npos)
      throw StatusError(Status(Code::kInvalidArgument, "bad name of a status variable: control characters are not legal"));
    pfs_key_t key = 0;
    const int rc = pfs_register_status(text.c_str(), doc.c_str(), &key);
    if (rc != PFS_OK) throw StatusError(Status(static_cast<Code>(rc), pfs_last_error()));
    PyObject* const object = type->tp_alloc(type, 0);
    if (object == nullptr) return nullptr;
    AsStatus(object)->name = Py_NewRef(name);
    AsStatus(object)->key = key;
    return object;
  });
}

void StatusDealloc(PyObject* object) {
  PyTypeObject* const type = Py_TYPE(object);
  Py_XDECREF(AsStatus(object)->name);
  type->tp_free(object);
  Py_DECREF(type);
}

PyObject* StatusAdd(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  long long n = 1;
  if (count > 1) return PyErr_Format(PyExc_TypeError, "add() takes at most 1 argument (%zd given)", count);
  if (count == 1) {
    n = PyLong_AsLongLong(args[0]);
    if (n == -1 && PyErr_Occurred() != nullptr) return nullptr;
  }
  NameThisThreadOnce();
  pfs_status_add(AsStatus(object)->key, n);
  Py_RETURN_NONE;
}

PyObject* StatusRepr(PyObject* object) { return PyUnicode_FromFormat("pfs.register_status(%R)", AsStatus(object)->name); }

template <size_t kSize>
void AddType(PyObject* module, const char* name, const char* full, size_t bytes, unsigned flags, PyType_Slot (&slots)[kSize]) {
  PyType_Spec spec = {full, static_cast<int>(bytes), 0, flags, slots};
  AddToModule(module, name, Checked(PyType_FromModuleAndSpec(module, &spec, nullptr)).get());
}

}  // namespace

void BindErrors(PyObject* module) {
  numbers = PyDict_New();
  forget_class = PyCFunction_New(&forget_method, nullptr);
  if (numbers == nullptr || forget_class == nullptr) throw PythonError();

  static PyMethodDef counter_methods[] = {{"__enter__", CounterEnter, METH_NOARGS, nullptr},
                                          {"__exit__", AsMethod(CounterExit), METH_FASTCALL, nullptr},
                                          {nullptr, nullptr, 0, nullptr}};
  static PyMemberDef counter_members[] = {
      {"handled", T_BOOL, offsetof(CounterObject, handled), READONLY, "Whether exceptions count as handled, too."},
      {nullptr, 0, 0, 0, nullptr}};
  PyType_Slot counter[] = {{Py_tp_new, reinterpret_cast<void*>(CounterNew)},
                           {Py_tp_dealloc, reinterpret_cast<void*>(CounterDealloc)},
                           {Py_tp_methods, counter_methods},
                           {Py_tp_members, counter_members},
                           {0, nullptr}};
  AddType(module, "ErrorCounter", "pfs._core.ErrorCounter", sizeof(CounterObject), Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, counter);

  static PyMethodDef handled_method = {"handled", Handled, METH_O, nullptr};
  AddToModule(module, "handled",
              Checked(PyCFunction_NewEx(&handled_method, nullptr, Checked(PyUnicode_FromString("pfs._core")).get())).get());

  static PyMethodDef status_methods[] = {{"add", AsMethod(StatusAdd), METH_FASTCALL,
                                          "add($self, n=1, /)\n--\n\nAdds to the calling thread's value; n may be negative.\n\nRaises:\n   "
                                          " OverflowError: n has more than 64 bits."},
                                         {nullptr, nullptr, 0, nullptr}};
  static PyMemberDef status_members[] = {{"name", T_OBJECT_EX, offsetof(StatusObject, name), READONLY, "VARIABLE_NAME."},
                                         {nullptr, 0, 0, 0, nullptr}};
  PyType_Slot status[] = {{Py_tp_new, reinterpret_cast<void*>(StatusNew)},
                          {Py_tp_dealloc, reinterpret_cast<void*>(StatusDealloc)},
                          {Py_tp_repr, reinterpret_cast<void*>(StatusRepr)},
                          {Py_tp_methods, status_methods},
                          {Py_tp_members, status_members},
                          {Py_tp_doc, const_cast<char*>("A status variable: the result of pfs.register_status.")},
                          {0, nullptr}};
  AddType(module, "StatusVariable", "pfs.StatusVariable", sizeof(StatusObject), Py_TPFLAGS_DEFAULT, status);
}

}  // namespace perfschema::bindings
