// bindings/text.h: how a str becomes bytes and back, in all bindings: as os.fsencode and os.fsdecode do it.
#pragma once

#include <pybind11/cast.h>

#include <string>
#include <string_view>

namespace perfschema::bindings {

// Returns the bytes of a str: UTF-8, and the byte that a surrogate stands for if os.fsdecode made it. A surrogate that stands for no byte
// becomes three bytes, so that different texts stay different. REQUIRES: it is a str.
std::string BytesOf(PyObject* text);
// Returns the str of bytes. Throws if there is no memory.
pybind11::str Decoded(std::string_view bytes);

}  // namespace perfschema::bindings

// A std::string of a bound function is a str or a bytes object. The one of pybind11 knows no surrogates.
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
  static handle cast(const std::string& text, return_value_policy, handle) { return perfschema::bindings::Decoded(text).release(); }
};
