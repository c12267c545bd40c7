// bindings/bind_sockets.cpp: the base of pfs.socket: a subclass of socket.socket, each of whose calls is an event around the call of the
// base class. So arguments, results, timeouts and errors are the base class's, and no signal can come between an event and its call.
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "gil.h"  // Python.h comes first
#include "locks.h"

namespace perfschema::bindings {

namespace {

// Says how many bytes a call has transferred.
enum class Moved {
  kNothing,
  kResult,         // the result is the number
  kLength,         // the result is the bytes
  kFirst,          // the result begins with the number
  kLengthOfFirst,  // the result begins with the bytes
  kArgument        // all of the first argument
};

struct Call {
  const char* name;
  pfs_socket_op op;
  Moved moved;
};
constexpr Call kCalls[] = {
    {"_accept", PFS_SOCKET_ACCEPT, Moved::kNothing},
    {"bind", PFS_SOCKET_BIND, Moved::kNothing},
    {"connect", PFS_SOCKET_CONNECT, Moved::kNothing},
    {"connect_ex", PFS_SOCKET_CONNECT, Moved::kNothing},
    {"getpeername", PFS_SOCKET_BIND, Moved::kNothing},
    {"getsockname", PFS_SOCKET_BIND, Moved::kNothing},
    {"getsockopt", PFS_SOCKET_OPT, Moved::kNothing},
    {"listen", PFS_SOCKET_LISTEN, Moved::kNothing},
    {"recv", PFS_SOCKET_RECV, Moved::kLength},
    {"recv_into", PFS_SOCKET_RECV, Moved::kResult},
    {"recvfrom", PFS_SOCKET_RECVFROM, Moved::kLengthOfFirst},
    {"recvfrom_into", PFS_SOCKET_RECVFROM, Moved::kFirst},
    {"recvmsg", PFS_SOCKET_RECVMSG, Moved::kLengthOfFirst},
    {"recvmsg_into", PFS_SOCKET_RECVMSG, Moved::kFirst},
    {"send", PFS_SOCKET_SEND, Moved::kResult},
    {"sendall", PFS_SOCKET_SEND, Moved::kArgument},
    {"sendmsg", PFS_SOCKET_SENDMSG, Moved::kResult},
    {"sendmsg_afalg", PFS_SOCKET_SENDMSG, Moved::kResult},
    {"sendto", PFS_SOCKET_SENDTO, Moved::kResult},
    {"setsockopt", PFS_SOCKET_OPT, Moved::kNothing},
    {"shutdown", PFS_SOCKET_SHUTDOWN, Moved::kNothing},
};
constexpr size_t kCallCount = std::size(kCalls);
constexpr bool GivesAddress(const Call& call) {
  return call.op == PFS_SOCKET_BIND || call.op == PFS_SOCKET_CONNECT || call.op == PFS_SOCKET_LISTEN;
}
constexpr bool MovesBytes(const Call& call) { return call.moved != Moved::kNothing; }

PyTypeObject* standard;    // socket.socket; never freed
PyTypeObject* base;        // its subclass
Py_ssize_t fields_offset;  // of Fields in an object of `base`
PyObject* methods_of_standard[kCallCount];
PyCFunction functions_of_standard[kCallCount];  // nullptr: not a C function of a tuple

// Threads: the GIL is held.
struct Fields {
  int fd_plus_1;     // 0 = not instrumented
  bool awaits_peer;  // it is connecting: the system knows the peer only later
};
Fields& FieldsOf(PyObject* self) { return *reinterpret_cast<Fields*>(reinterpret_cast<char*>(self) + fields_offset); }

// Counts nested calls of repr(). They ask the system for addresses, which is not the program's work.
thread_local int t_unseen;

bool MayBeginEvent(int fd) { return t_unseen == 0 && pfs_socket_is_enabled(fd) != 0; }

// REQUIRES: MayBeginEvent.
void BeginEvent(pfs_wait_t* wait, int fd, pfs_socket_op op, int64_t requested) {
  const CallSite site = FindCallSite();
  pfs_socket_wait_begin_at(wait, fd, op, requested, site.file, site.line);
}

int64_t BytesIn(PyObject* buffer) {
  if (PyBytes_CheckExact(buffer)) return PyBytes_GET_SIZE(buffer);
  Py_buffer view;
  if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();  // the base class reports the error
    return 0;
  }
  const int64_t bytes = view.len;
  PyBuffer_Release(&view);
  return bytes;
}

int64_t NumberIn(PyObject* number) {
  const Py_ssize_t value = PyLong_Check(number) ? PyLong_AsSsize_t(number) : 0;
  if (value >= 0) return value;
  PyErr_Clear();
  return 0;
}

// Returns the number of requested bytes, from the positional arguments.
template <size_t kIndex>
int64_t Requested(PyObject* const* args, Py_ssize_t count) {
  constexpr Call kCall = kCalls[kIndex];
  if (count == 0) return 0;
  if (kCall.moved == Moved::kArgument || kCall.op == PFS_SOCKET_SEND || kCall.op == PFS_SOCKET_SENDTO) return BytesIn(args[0]);
  if (kCall.op != PFS_SOCKET_RECV && kCall.op != PFS_SOCKET_RECVFROM) return 0;
  if (kCall.moved == Moved::kLength || kCall.moved == Moved::kLengthOfFirst) return NumberIn(args[0]);
  const int64_t number = count > 1 ? NumberIn(args[1]) : 0;
  return number != 0 ? number : BytesIn(args[0]);
}

template <size_t kIndex>
int64_t BytesMoved(PyObject* result, int64_t requested) {
  if (result == nullptr) return -1;
  switch (kCalls[kIndex].moved) {
    case Moved::kNothing:
      return -1;
    case Moved::kResult:
      return NumberIn(result);
    case Moved::kLength:
      return PyBytes_GET_SIZE(result);
    case Moved::kFirst:
      return NumberIn(PyTuple_GET_ITEM(result, 0));
    case Moved::kLengthOfFirst:
      return PyBytes_GET_SIZE(PyTuple_GET_ITEM(result, 0));
    case Moved::kArgument:
      return requested;
  }
  return -1;
}

// Calls the base class's method, with `self` as the first argument.
PyObject* CallStandard(PyObject* method, PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const Py_ssize_t total = count + (names == nullptr ? 0 : PyTuple_GET_SIZE(names));
  constexpr Py_ssize_t kFew = 6;
  PyObject* few[kFew + 2];
  PyObject** all = total <= kFew ? few : static_cast<PyObject**>(PyMem_Malloc((total + 2) * sizeof(PyObject*)));
  if (all == nullptr) return PyErr_NoMemory();
  all[1] = self;
  for (Py_ssize_t i = 0; i < total; ++i) all[i + 2] = args[i];
  PyObject* result = PyObject_Vectorcall(method, all + 1, (count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
  if (all != few) PyMem_Free(all);
  return result;
}

void LearnAddress(PyObject* self, int fd) {
  // Another thread may have closed it meanwhile.
  if (Load(FieldsOf(self).fd_plus_1) == fd + 1) pfs_socket_set_address(fd, nullptr, 0);
}

// Makes the event around `call_standard()`, which makes the call.
template <size_t kIndex, typename CallStandard>
PyObject* Record(PyObject* self, PyObject* const* args, Py_ssize_t count, CallStandard call_standard) {
  constexpr Call kCall = kCalls[kIndex];
  const int fd = Load(FieldsOf(self).fd_plus_1) - 1;
  int64_t requested = 0;
  pfs_wait_t wait;
  wait.instance = nullptr;
  if (fd >= 0 && MayBeginEvent(fd)) {
    requested = Requested<kIndex>(args, count);
    BeginEvent(&wait, fd, kCall.op, requested);
  }
  PyObject* result = call_standard();
  if (wait.instance != nullptr) pfs_socket_wait_end(&wait, BytesMoved<kIndex>(result, requested));
  if (fd < 0) return result;
  if (GivesAddress(kCall) && count != 0) {  // bind, connect, connect_ex; listen also binds
    LearnAddress(self, fd);
    const std::string_view name = kCall.name;
    Store(FieldsOf(self).awaits_peer, name == "connect_ex" || (name == "connect" && result == nullptr));
  } else if (MovesBytes(kCall) && result != nullptr && Load(FieldsOf(self).awaits_peer)) {
    Store(FieldsOf(self).awaits_peer, false);
    LearnAddress(self, fd);
  }
  return result;
}

template <size_t kIndex>
PyObject* Recorded(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return Record<kIndex>(self, args, count, [=] { return CallStandard(methods_of_standard[kIndex], self, args, count, names); });
}

// If the base class's method is a C function of a tuple, as most are, the interpreter's tuple is passed on unchanged.
template <size_t kIndex>
PyObject* RecordedTuple(PyObject* self, PyObject* args) {
  PyObject* const* items = reinterpret_cast<PyTupleObject*>(args)->ob_item;
  const PyCFunction function = functions_of_standard[kIndex];
  return Record<kIndex>(self, items, PyTuple_GET_SIZE(args), [=] { return function(self, args); });
}

// ---- Creation and closing
// ----------------------------------------------------------------------------------------------------------------

// Registers the name. Returns the full name, or nullptr and a Python exception.
PyObject* KeyOf(PyObject* name, uint32_t* key) {
  return Guarded([&] {
    const std::string text = BytesOf(name);
    *key = RegisterName(NameFamily::kSocket, text);
    return Decoded(FullName(NameFamily::kSocket, text)).Release();
  });
}

// _start(name, family, type, proto, fileno, is_followed): implements __init__. `is_followed`: pfs made fileno itself. Returns the full
// name.
PyObject* SocketStart(PyObject* self, PyObject* args) {
  PyObject *name, *fileno;
  int family, type, proto, is_followed;
  if (!PyArg_ParseTuple(args, "UiiiOp:_start", &name, &family, &type, &proto, &fileno, &is_followed)) return nullptr;
  uint32_t key = 0;
  PyObject* full = KeyOf(name, &key);
  if (full == nullptr) return nullptr;
  int made = -1;
  if (fileno == Py_None) {
    if (family == -1) family = AF_INET;
    if (type == -1) type = SOCK_STREAM;
    if (proto == -1) proto = 0;
    const CallSite site = FindCallSite();
    made = WithoutGil([&] { return pfs_socket_at(key, family, type | SOCK_CLOEXEC, proto, site.file, site.line); });
    if (made < 0) {
      Py_DECREF(full);
      return PyErr_SetFromErrno(PyExc_OSError);
    }
  }
  PyObject* fd = made < 0 ? Py_NewRef(fileno) : PyLong_FromLong(made);
  PyObject* type_object = reinterpret_cast<PyObject*>(standard);
  PyObject* done = fd == nullptr ? nullptr : PyObject_CallMethod(type_object, "__init__", "OiiiO", self, family, type, proto, fd);
  Py_XDECREF(fd);
  if (done == nullptr) {
    if (made >= 0) pfs_close_at(made, nullptr, 0);
    Py_DECREF(full);
    return nullptr;
  }
  Py_DECREF(done);
  if (made < 0) made = PyObject_AsFileDescriptor(self);
  if (made < 0) {
    Py_DECREF(full);
    return nullptr;
  }
  if (fileno != Py_None && is_followed == 0) pfs_socket_bind(key, made);
  FieldsOf(self) = {made + 1, false};
  return full;
}

// Begins a close. Every end of a descriptor comes here: it is not instrumented from the begin of the close on.
void BeginClose(PyObject* self, pfs_wait_t* wait) {
  wait->instance = nullptr;
  const int fd = Exchange(FieldsOf(self).fd_plus_1, 0) - 1;
  if (fd < 0) return;
  if (MayBeginEvent(fd)) BeginEvent(wait, fd, PFS_SOCKET_CLOSE, 0);
  if (wait->instance == nullptr) pfs_socket_unbind(fd);
}

PyObject* SocketRealClose(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  pfs_wait_t wait;
  PyObject* method = PyObject_GetAttrString(reinterpret_cast<PyObject*>(standard), "_real_close");
  if (method == nullptr) return nullptr;
  BeginClose(self, &wait);
  PyObject* result = CallStandard(method, self, args, count, names);
  pfs_socket_wait_end(&wait, -1);
  Py_DECREF(method);
  return result;
}

PyObject* SocketDetach(PyObject* self, PyObject*) {
  const int fd = Exchange(FieldsOf(self).fd_plus_1, 0) - 1;
  if (fd >= 0) pfs_socket_unbind(fd);
  return PyObject_CallMethod(reinterpret_cast<PyObject*>(standard), "detach", "O", self);
}

// Finalizes a socket that was not closed.
void SocketFinalize(PyObject* self) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  pfs_wait_t wait;
  BeginClose(self, &wait);
  PyObject* done = PyObject_CallMethod(reinterpret_cast<PyObject*>(standard), "__del__", "O", self);
  if (done == nullptr) PyErr_WriteUnraisable(self);
  Py_XDECREF(done);
  pfs_socket_wait_end(&wait, -1);
  PyErr_Restore(type, error, trace);
}

PyObject* SocketRepr(PyObject* self) {
  ++t_unseen;
  PyObject* text = PyObject_CallMethod(reinterpret_cast<PyObject*>(standard), "__repr__", "O", self);
  --t_unseen;
  return text;
}

template <size_t kIndex>
PyMethodDef Method() {
  PyObject* method = methods_of_standard[kIndex] =
      Checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(standard), kCalls[kIndex].name)).Release();
  PyObject* const doc = Checked(PyObject_GetAttrString(method, "__doc__")).Release();  // valid as long as the method
  const char* text = doc == Py_None ? nullptr : PyUnicode_AsUTF8(doc);
  if (Py_IS_TYPE(method, &PyMethodDescr_Type)) {
    const PyMethodDef* its = reinterpret_cast<PyMethodDescrObject*>(method)->d_method;
    if (its->ml_flags == METH_VARARGS) {
      functions_of_standard[kIndex] = its->ml_meth;
      return {kCalls[kIndex].name, RecordedTuple<kIndex>, METH_VARARGS, text};
    }
  }
  return {kCalls[kIndex].name, AsMethod(Recorded<kIndex>), METH_FASTCALL | METH_KEYWORDS, text};
}

template <size_t... kIndices>
std::array<PyMethodDef, kCallCount + 4> Methods(std::index_sequence<kIndices...>) {
  return {Method<kIndices>()..., PyMethodDef{"_start", SocketStart, METH_VARARGS, nullptr},
          PyMethodDef{"_real_close", AsMethod(SocketRealClose), METH_FASTCALL | METH_KEYWORDS, nullptr},
          PyMethodDef{"detach", SocketDetach, METH_NOARGS, nullptr}, PyMethodDef{nullptr, nullptr, 0, nullptr}};
}

// Makes the base class. `its`: socket.socket of the standard library. Throws PythonError.
PyObject* MakeSocketBase(PyObject* its) {
  if (base == nullptr) {
    standard = reinterpret_cast<PyTypeObject*>(Py_NewRef(its));
    static auto methods = Methods(std::make_index_sequence<kCallCount>());
    static PyType_Slot slots[] = {{Py_tp_finalize, reinterpret_cast<void*>(SocketFinalize)},
                                  {Py_tp_repr, reinterpret_cast<void*>(SocketRepr)},
                                  {Py_tp_methods, methods.data()},
                                  {0, nullptr}};
    constexpr Py_ssize_t kAlignment = alignof(Fields);
    fields_offset = (standard->tp_basicsize + kAlignment - 1) / kAlignment * kAlignment;
    PyType_Spec spec = {"pfs._core.socket", static_cast<int>(fields_offset + sizeof(Fields)), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                        slots};
    base = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, reinterpret_cast<PyObject*>(standard)));
    if (base == nullptr) throw PythonError();
  }
  return Py_NewRef(reinterpret_cast<PyObject*>(base));
}

PyObject* SocketBase(PyObject*, PyObject* its) {
  if (!PyType_Check(its)) return PyErr_Format(PyExc_TypeError, "socket_base() takes a class, not %.100s", Py_TYPE(its)->tp_name);
  return Guarded([&] { return MakeSocketBase(its); });
}

// ---- Functions
// -----------------------------------------------------------------------------------------------------------------------------

PyObject* SocketPair(PyObject*, PyObject* args) {
  PyObject* name;
  int family, type, proto, fds[2];
  if (!PyArg_ParseTuple(args, "Uiii:socket_pair", &name, &family, &type, &proto)) return nullptr;
  uint32_t key = 0;
  PyObject* full = KeyOf(name, &key);
  if (full == nullptr) return nullptr;
  Py_DECREF(full);
  const CallSite site = FindCallSite();
  const int rc = WithoutGil([&] { return pfs_socketpair_at(key, family, type | SOCK_CLOEXEC, proto, fds, site.file, site.line); });
  return rc < 0 ? PyErr_SetFromErrno(PyExc_OSError) : Py_BuildValue("ii", fds[0], fds[1]);
}

// Records os.sendfile(out_fd, in_fd, offset, count) as a send of the socket.
PyObject* SocketSendfile(PyObject*, PyObject* args) {
  int out, in, error;
  long long start;
  Py_ssize_t size, sent;
  if (!PyArg_ParseTuple(args, "iiLn:socket_sendfile", &out, &in, &start, &size)) return nullptr;
  pfs_wait_t wait;
  wait.instance = nullptr;
  if (MayBeginEvent(out)) BeginEvent(&wait, out, PFS_SOCKET_SEND, size);
  bool raised = false;
  do {
    off_t offset = start;
    sent = WithoutGil([&] { return sendfile(out, in, &offset, static_cast<size_t>(size)); });
    error = errno;
    raised = sent < 0 && error == EINTR && PyErr_CheckSignals() != 0;
  } while (sent < 0 && error == EINTR && !raised);
  pfs_socket_wait_end(&wait, sent);
  if (raised) return nullptr;
  errno = error;
  return sent < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromSsize_t(sent);
}

}  // namespace

void BindSockets(PyObject* module) {
  static PyMethodDef functions[] = {{"socket_base", SocketBase, METH_O, nullptr},
                                    {"socket_pair", SocketPair, METH_VARARGS, nullptr},
                                    {"socket_sendfile", SocketSendfile, METH_VARARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};
  if (PyModule_AddFunctions(module, functions) != 0) throw PythonError();
}

}  // namespace perfschema::bindings
