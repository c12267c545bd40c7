// bindings/bind_identity.cpp: identity of the process that wrote a segment.
#include <pybind11/stl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "identity.h"
#include "pybind.h"  // comes first
#include "shm/dead_segments.h"

namespace perfschema::bindings {

namespace {

template <size_t N>
std::string ZeroPadded(const uint8_t (&bytes)[N]) {
  const char* const text = reinterpret_cast<const char*>(bytes);
  return {text, strnlen(text, N)};
}

// Returns nullopt if the file is no segment.
std::optional<Identity> IdentityOfFile(int descriptor) {
  char head[kIdentityBytes];
  ssize_t got;
  do {
    got = pread(descriptor, head, sizeof head, 0);
  } while (got < 0 && errno == EINTR);
  uint64_t magic = 0;
  if (got != static_cast<ssize_t>(sizeof head)) return {};
  std::memcpy(&magic, head, sizeof magic);
  if (magic != kSegmentMagic && !IsUnfinished(head)) return {};
  return IdentityOf(head);
}

}  // namespace

Identity IdentityOf(const void* head) {
  alignas(ShmHeader) char bytes[sizeof(ShmHeader)] = {};  // only the beginning is used
  std::memcpy(bytes, head, kIdentityBytes);
  const auto& header = *reinterpret_cast<const ShmHeader*>(bytes);
  Identity identity;
  identity.layout_major = header.layout_major;
  identity.layout_minor = header.layout_minor;
  identity.is_readable = header.endian_mark == kEndianMark && header.word_bytes == sizeof(void*) && header.layout_major == kLayoutMajor;
  identity.is_finished = header.magic == kSegmentMagic;
  identity.pid = header.pid;
  identity.pid_namespace = header.pid_namespace;
  identity.process_start_ticks = header.process_start_ticks;
  identity.parent = identity.is_readable ? header.parent : 0;
  identity.epoch_unix_micros = header.epoch_unix_micros;
  identity.boot_id = ZeroPadded(header.boot_id);
  identity.library_version = ZeroPadded(header.library_version);
  identity.command.assign(reinterpret_cast<const char*>(header.command), sizeof header.command);
  while (!identity.command.empty() && identity.command.back() == 0) identity.command.pop_back();
  return identity;
}

void BindIdentity(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  const auto text = [](const std::string& bytes) {
    PyObject* const decoded = PyUnicode_DecodeASCII(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace");
    if (decoded == nullptr) throw PythonError();
    return py::reinterpret_steal<py::str>(decoded);
  };
  py::class_<Identity>(m, "Identity", "Who wrote a segment, as its header says.")
      .def_property_readonly("layout",
                             [](const Identity& identity) { return py::make_tuple(identity.layout_major, identity.layout_minor); })
      .def_readonly("is_readable", &Identity::is_readable)
      .def_readonly("is_finished", &Identity::is_finished)
      .def_readonly("pid", &Identity::pid)
      .def_readonly("pid_namespace", &Identity::pid_namespace)
      .def_readonly("parent", &Identity::parent)
      .def_readonly("process_start_ticks", &Identity::process_start_ticks)
      .def_property_readonly("boot_id", [text](const Identity& identity) { return text(identity.boot_id); })
      .def_readonly("started", &Identity::epoch_unix_micros)
      .def_property_readonly("library_version", [text](const Identity& identity) { return text(identity.library_version); })
      .def_property_readonly("command", [](const Identity& identity) { return py::bytes(identity.command); });
  m.def(
      "identity", [](int descriptor) { return IdentityOfFile(descriptor); }, py::arg("descriptor"), py::pos_only());
}

}  // namespace perfschema::bindings
