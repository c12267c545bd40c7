// bindings/bind_files.cpp: the system calls under pfs.open. Each runs without the GIL, is an event, and is repeated after a signal (PEP
// 475).
#include <cerrno>
#include <string>

#include "gil.h"
#include "perfschema/pfs.h"
#include "pybind.h"  // comes first

namespace perfschema::bindings {

namespace {

// Repeats the call until no signal interrupted it. Throws the exception of a signal handler. errno is that of the last call.
template <typename Call>
auto Retried(Call&& call) {
  const CallSite site = FindCallSite();
  for (;;) {
    const auto result = WithoutGil([&] {
      errno = 0;
      return call(site);
    });
    if (result >= 0 || errno != EINTR) return result;
    if (PyErr_CheckSignals() != 0) throw PythonError();
  }
}

[[noreturn]] void RaiseErrno() {
  PyErr_SetFromErrno(PyExc_OSError);
  throw PythonError();
}

// Holds the bytes of an object during its lifetime.
struct Buffer {
  Py_buffer view;
  Buffer(py::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view, flags) != 0) throw PythonError();
  }
  ~Buffer() { PyBuffer_Release(&view); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

// Returns the count, or None if a non-blocking descriptor has no data.
py::object CountOrNone(ssize_t count) {
  if (count >= 0) return py::int_(count);
  if (errno == EAGAIN) return py::none();
  RaiseErrno();
}

int Open(uint32_t key, const py::bytes& path, int flags, int mode, const py::object& shown) {
  const std::string text = path;
  const int fd = Retried([&](CallSite site) { return pfs_open_at(key, site.file, site.line, text.c_str(), flags, mode); });
  if (fd < 0) {
    PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, shown.ptr());
    throw PythonError();
  }
  return fd;
}

// Closes the descriptor once: it is gone, whatever close() returns.
void Close(int fd) {
  const CallSite site = FindCallSite();
  if (WithoutGil([&] { return pfs_close_at(fd, site.file, site.line); }) != 0) RaiseErrno();
}

py::object ReadInto(int fd, const py::object& target) {
  const Buffer buffer(target, PyBUF_WRITABLE);
  return CountOrNone(
      Retried([&](CallSite site) { return pfs_read_at(fd, buffer.view.buf, static_cast<size_t>(buffer.view.len), site.file, site.line); }));
}

// Reads to the end of the file. `guess` is the expected number of bytes.
py::object ReadAll(int fd, Py_ssize_t guess) {
  constexpr Py_ssize_t kLeast = 8192;
  Py_ssize_t capacity = guess > 0 ? guess + 1 : kLeast, used = 0;  // one more: the read that finds the end then needs no growth
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, capacity);
  if (bytes == nullptr) throw PythonError();
  for (;;) {
    if (used == capacity) {
      capacity += capacity < 65536 ? kLeast + capacity : capacity / 8 + 65536;
      if (_PyBytes_Resize(&bytes, capacity) != 0) throw PythonError();
    }
    char* place = PyBytes_AS_STRING(bytes) + used;
    ssize_t got;
    try {
      got = Retried([&](CallSite site) { return pfs_read_at(fd, place, static_cast<size_t>(capacity - used), site.file, site.line); });
    } catch (...) {
      Py_DECREF(bytes);
      throw;
    }
    if (got == 0) break;
    if (got < 0) {
      if (errno == EAGAIN && used > 0) break;
      Py_DECREF(bytes);
      return CountOrNone(got);
    }
    used += got;
  }
  if (_PyBytes_Resize(&bytes, used) != 0) throw PythonError();
  return py::reinterpret_steal<py::object>(bytes);
}

py::object Write(int fd, const py::object& data) {
  const Buffer buffer(data, PyBUF_SIMPLE);
  return CountOrNone(Retried(
      [&](CallSite site) { return pfs_write_at(fd, buffer.view.buf, static_cast<size_t>(buffer.view.len), site.file, site.line); }));
}

int64_t Seek(int fd, int64_t offset, int whence) {
  const off_t at = Retried([&](CallSite site) { return pfs_lseek_at(fd, offset, whence, site.file, site.line); });
  if (at < 0) RaiseErrno();
  return at;
}

int64_t Tell(int fd) {
  const off_t at = Retried([&](CallSite site) { return pfs_tell_at(fd, site.file, site.line); });
  if (at < 0) RaiseErrno();
  return at;
}

void Truncate(int fd, int64_t size) {
  if (Retried([&](CallSite site) { return pfs_ftruncate_at(fd, size, site.file, site.line); }) != 0) RaiseErrno();
}

void Sync(int fd, bool data_only) {
  const int rc = Retried(
      [&](CallSite site) { return data_only ? pfs_fdatasync_at(fd, site.file, site.line) : pfs_fsync_at(fd, site.file, site.line); });
  if (rc != 0) RaiseErrno();
}

py::tuple Stat(int fd) {
  struct stat about;
  if (Retried([&](CallSite site) { return pfs_fstat_at(fd, &about, site.file, site.line); }) != 0) RaiseErrno();
  return py::make_tuple(static_cast<int64_t>(about.st_mode), static_cast<int64_t>(about.st_blksize), static_cast<int64_t>(about.st_size));
}

}  // namespace

void BindFiles(PyObject* module) {
  auto m = py::reinterpret_borrow<py::module_>(module);
  m.def(
      "file_key", [](const std::string& name) { return RegisterName(NameFamily::kFile, name); }, py::arg("name"));
  m.def("file_open", Open, py::arg("key"), py::arg("path"), py::arg("flags"), py::arg("mode"), py::arg("shown"));
  m.def(
      "file_bind", [](int fd, uint32_t key, const py::bytes& path) { return pfs_file_bind(key, fd, std::string(path).c_str()) == PFS_OK; },
      py::arg("fd"), py::arg("key"), py::arg("path"));
  m.def(
      "file_unbind", [](int fd) { pfs_file_unbind(fd); }, py::arg("fd"));
  m.def("file_close", Close, py::arg("fd"));
  m.def("file_read_into", ReadInto, py::arg("fd"), py::arg("buffer"));
  m.def("file_read_all", ReadAll, py::arg("fd"), py::arg("guess"));
  m.def("file_write", Write, py::arg("fd"), py::arg("data"));
  m.def("file_seek", Seek, py::arg("fd"), py::arg("offset"), py::arg("whence"));
  m.def("file_tell", Tell, py::arg("fd"));
  m.def("file_truncate", Truncate, py::arg("fd"), py::arg("size"));
  m.def("file_stat", Stat, py::arg("fd"));
  m.def("file_sync", Sync, py::arg("fd"), py::arg("data_only"));
}

}  // namespace perfschema::bindings
