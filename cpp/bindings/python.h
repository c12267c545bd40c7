// bindings/python.h: the part of Python's C API that this folder needs. Most types here are plain CPython types: they need no more than
// this, and compile in a sixth of the time that pybind11 takes (pybind.h has it, for the files that bind functions and C++ classes).
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <exception>
#include <utility>

namespace perfschema::bindings {

// Says that a Python exception is set. A function that catches it returns to the interpreter.
// Threads: immutable.
class PythonError : public std::exception {
 public:
  const char* what() const noexcept override { return "a Python exception is set"; }
};

// Owns a reference, or none.
// Threads: the GIL is held.
class Object {
 public:
  Object() = default;
  explicit Object(PyObject* owned) : object_(owned) {}
  Object(Object&& other) noexcept : object_(other.Release()) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* Release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Takes the reference that a call of Python returned. Throws PythonError if that is nullptr.
inline Object Checked(PyObject* owned) {
  if (owned == nullptr) throw PythonError();
  return Object(owned);
}

// Adds `object` to the module, which takes a reference of its own. Throws PythonError if it is nullptr or cannot be added.
template <typename Python>
void AddToModule(PyObject* module, const char* name, Python* object) {
  if (object == nullptr || PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(object)) != 0) throw PythonError();
}

}  // namespace perfschema::bindings
