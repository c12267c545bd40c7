// bindings/pybind.h: pybind11, for the files that bind functions and C++ classes. Only they include it, before anything else.
#pragma once

#include <pybind11/cast.h>  // the caster below must be known to the rest of pybind11

#include "bindings.h"

// Converts a str or a bytes object to a std::string of a bound function. The caster of pybind11 knows no surrogates.
template <>
struct pybind11::detail::type_caster<std::string> {
  PYBIND11_TYPE_CASTER(std::string, const_name("str"));

  bool load(handle source, bool) {
    if (!source) return false;
    if (PyUnicode_Check(source.ptr())) {
      value = perfschema::bindings::BytesOf(source.ptr());
    } else if (PyBytes_Check(source.ptr())) {
      value.assign(PyBytes_AS_STRING(source.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(source.ptr())));
    } else {
      return false;
    }
    return true;
  }
  static handle cast(const std::string& text, return_value_policy, handle) { return perfschema::bindings::Decoded(text).Release(); }
};

#include <pybind11/pybind11.h>

namespace perfschema::bindings {

namespace py = pybind11;

}  // namespace perfschema::bindings
