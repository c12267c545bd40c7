// bindings/common.cpp: errors, call sites and names.
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "perfschema/pfs.h"
#include "tasks.h"  // Python.h comes first

namespace perfschema::bindings {

Dialect DialectNamed(std::string_view name) {
  Dialect dialect = Dialect::kSql;
  if (FindDialect(name, &dialect)) return dialect;
  std::string legal;
  for (const std::string_view each : kDialectNames) legal += (legal.empty() ? "" : ", ") + std::string(each);
  throw StatusError(Status(Code::kInvalidArgument, "unknown dialect '" + std::string(name) + "': legal are " + legal));
}

std::string BytesOf(PyObject* text) {
  Py_ssize_t size = 0;
  if (const char* const bytes = PyUnicode_AsUTF8AndSize(text, &size); bytes != nullptr) return {bytes, static_cast<size_t>(size)};
  PyErr_Clear();  // surrogates
  std::string result;
  const Py_ssize_t length = PyUnicode_GET_LENGTH(text);
  for (Py_ssize_t i = 0; i < length; ++i) {
    const Py_UCS4 point = PyUnicode_READ_CHAR(text, i);
    const auto rest = [&](int shift) { result += static_cast<char>(0x80 | (point >> shift & 0x3f)); };
    if (point < 0x80) {
      result += static_cast<char>(point);
    } else if (point >= 0xdc80 && point <= 0xdcff) {
      result += static_cast<char>(point & 0xff);
    } else if (point < 0x800) {
      result += static_cast<char>(0xc0 | point >> 6);
      rest(0);
    } else if (point < 0x10000) {
      result += static_cast<char>(0xe0 | point >> 12);
      rest(6), rest(0);
    } else {
      result += static_cast<char>(0xf0 | point >> 18);
      rest(12), rest(6), rest(0);
    }
  }
  return result;
}

Object Decoded(std::string_view bytes) {
  return Checked(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
}

void StatusError::SetPythonError() const {
  try {
    const Object errors = Checked(PyImport_ImportModule("pfs.errors"));
    const Object type = Checked(PyObject_GetAttrString(errors.get(), python_class()));
    PyErr_SetObject(type.get(), Decoded(status_.message()).get());
  } catch (const PythonError&) {  // its exception is set
  }
}

const char* StatusError::python_class() const {
  if (python_class_ != nullptr) return python_class_;
  switch (status_.code()) {
    case Code::kInvalidArgument:
      return "InvalidValue";
    case Code::kNotFound:
      return "UnknownName";
    case Code::kNotAllowed:
      return "OperationNotAllowed";
    case Code::kExists:
      return "AlreadyExists";
    case Code::kFull:
      return "LimitReached";
    case Code::kState:
      return "StateError";
    case Code::kIo:
    case Code::kCorrupt:
      return "AttachError";
    case Code::kOk:
      break;
  }
  return "Error";
}

namespace {

// Says whose code it is. A call through our package, or through a module of the standard library that is built on locks and sockets of
// its user, is its caller's call.
enum class Whose { kUsers, kStandard, kOurs };

struct FileName {
  const char* text;
  Whose whose;
};

// Holds the folders that determine Whose.
struct Folders {
  std::string ours;
  std::string standard;
};
Folders& TheFolders() {
  static auto& folders = *new Folders;
  return folders;
}

Whose WhoseFile(const std::string& name) {
  const Folders& folders = TheFolders();
  if (name.starts_with(folders.ours)) return Whose::kOurs;
  if (name.starts_with(folders.standard)) {
    const std::string_view rest = std::string_view(name).substr(folders.standard.size());
    for (std::string_view passes_on : {"threading.py", "queue.py", "socket.py"}) {
      if (rest == passes_on) return Whose::kStandard;
    }
  }
  return Whose::kUsers;
}

// Keeps the file of a code object. The library distinguishes call sites by the address of the name, so each name is kept forever, once.
// REQUIRES: alone.
const FileName& KeepFileName(PyObject* name) {
  // Searches by object first: the same code has the same object. The held reference keeps its address from being reused.
  static auto& by_object = *new std::unordered_map<PyObject*, FileName>;
  static auto& by_text = *new std::map<std::string, FileName>;
  if (const auto known = by_object.find(name); known != by_object.end()) return known->second;
  auto [place, is_new] = by_text.try_emplace(BytesOf(name));
  if (is_new) place->second = {place->first.c_str(), WhoseFile(place->first)};
  if (by_object.size() < 4096) {  // generated code has a new object each time
    Py_INCREF(name);
    return by_object.emplace(name, place->second).first->second;
  }
  return place->second;
}

thread_local bool t_thread_has_name;

}  // namespace

void KeepThreadName() { t_thread_has_name = true; }

namespace {

// Names a thread of Python thread/python/<name in threading>. Threads that Python does not know keep their name. Runs no code of Python:
// a signal handler might raise in it.
void NameThisThread() {
  if (pfs_thread_current() != pfs_thread_own()) return;  // it works for a session of C code, which has a name
  t_thread_has_name = true;
  std::string name = "MainThread";
  if (const Object threading{PyImport_GetModule(Checked(PyUnicode_FromString("threading")).get())}) {
    const Object active = Checked(PyObject_GetAttrString(threading.get(), "_active"));
    const Object ident = Checked(PyLong_FromUnsignedLong(PyThread_get_thread_ident()));
    if (!PyDict_Check(active.get())) return;
    const Item thread(active.get(), ident.get());
    if (thread.get() == nullptr) return PyErr_Clear();
    name = BytesOf(Checked(PyObject_Str(Checked(PyObject_GetAttrString(thread.get(), "_name")).get())).get());
  }
  pfs_set_thread_name(("python/" + name.substr(0, 100)).c_str());
}

}  // namespace

void NameThisThreadOnce() {
  if (t_thread_has_name) return;
  try {
    NameThisThread();
  } catch (const std::exception&) {  // a missing name is no reason to fail
    PyErr_Clear();
  }
}

namespace {

// A call site, cached by code and instruction: the longer the function, the longer the interpreter takes to find the line of an
// instruction.
struct KnownSite {
  CallSite site;
  Whose whose;
};

// Distinguishes code objects that have the same address one after the other; 0: it cannot.
uint32_t VersionOf([[maybe_unused]] const PyCodeObject* code) {
#ifdef Py_GIL_DISABLED
  return code->co_version;
#else
  return 0;
#endif
}

struct SiteEntry {
  PyCodeObject* code;  // nullptr = empty; with a GIL it is held, so that its address is not used again
  int instruction;
  uint32_t version;  // without a GIL: a thread that ends could not drop what it held
  KnownSite known;
};

// Finds a site and takes the reference to `code`. It is apart, so that SiteOf saves no registers for it.
__attribute__((noinline)) KnownSite Enter(SiteEntry& entry, PyFrameObject* frame, PyCodeObject* code, int instruction) {
  static Guard names;
  const FileName file = Alone(names, [code] { return KeepFileName(code->co_filename); });
  const int line = PyFrame_GetLineNumber(frame);
  const KnownSite known{{file.text, line > 0 ? static_cast<uint32_t>(line) : 0}, file.whose};
  PyCodeObject* old = kHasGil ? entry.code : code;
  entry = {kHasGil || VersionOf(code) != 0 ? code : nullptr, instruction, VersionOf(code), known};
  Py_XDECREF(old);  // last: it may run code that calls this function
  return known;
}

KnownSite SiteOf(PyFrameObject* frame) {
  constexpr size_t kEntries = kHasGil ? 1024 : 128;
  static PFS_LOCAL_WITHOUT_GIL SiteEntry entries[kEntries];
  PyCodeObject* code = PyFrame_GetCode(frame);
  const int instruction = PyFrame_GetLasti(frame);
  SiteEntry& entry = entries[(reinterpret_cast<uintptr_t>(code) >> 4 ^ static_cast<uintptr_t>(instruction) * 31) % kEntries];
  const bool is_known = entry.code == code && entry.instruction == instruction && (kHasGil || entry.version == VersionOf(code));
  if (__builtin_expect(!is_known, 0)) return Enter(entry, frame, code, instruction);
  Py_DECREF(code);
  return entry.known;
}

}  // namespace

CallSite FindCallSite() {
  NameThisThreadOnce();
  SwitchToRunningTask(Purpose::kWait);
  CallSite site{nullptr, 0};
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  Py_XINCREF(frame);
  while (frame != nullptr) {
    const KnownSite known = SiteOf(frame);
    const bool is_users = known.whose == Whose::kUsers;
    // If no user's code is on the stack, as in a thread whose function is a method of ours, the standard library is the caller.
    if (is_users || (known.whose == Whose::kStandard && site.file == nullptr)) site = known.site;
    PyFrameObject* caller = is_users ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  return site;
}

std::string NameOr(PyObject* given) {
  if (given != nullptr && given != Py_None) {
    if (!PyUnicode_Check(given)) {
      PyErr_Format(PyExc_TypeError, "name must be str or None, not %s", Py_TYPE(given)->tp_name);
      Checked(nullptr);  // throws
    }
    return BytesOf(given);
  }
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  Py_XINCREF(frame);
  std::string name = "python/unknown";
  while (frame != nullptr) {
    const KnownSite known = SiteOf(frame);
    const bool is_users = known.whose == Whose::kUsers;
    if (is_users) {
      const Object globals = Checked(PyFrame_GetGlobals(frame));
      const Item module(globals.get(), Checked(PyUnicode_InternFromString("__name__")).get());
      name = "python/" + (module.get() != nullptr && PyUnicode_Check(module.get()) ? BytesOf(module.get()) : "unknown");
      name += ":" + std::to_string(known.site.line);
    }
    PyFrameObject* caller = is_users ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  return name;
}

void StartCallSites() {
  const auto folder_of = [](const char* module) {
    const Object imported = Checked(PyImport_ImportModule(module));
    const std::string file = BytesOf(Checked(PyModule_GetFilenameObject(imported.get())).get());
    return file.substr(0, file.rfind('/') + 1);
  };
  TheFolders() = {folder_of("pfs"), folder_of("os")};
}

namespace {

struct FamilyOfNames {
  std::string_view prefix;
  int (*register_one)(const char* component, pfs_instrument_info* info, int count);
};
const FamilyOfNames& Traits(NameFamily family) {
  static const FamilyOfNames families[] = {
      {"wait/synch/mutex/", pfs_register_mutex}, {"wait/io/file/", pfs_register_file}, {"wait/synch/rwlock/", pfs_register_rwlock},
      {"wait/synch/cond/", pfs_register_cond},   {"thread/", pfs_register_thread},     {"wait/io/socket/", pfs_register_socket},
      {"memory/", pfs_register_memory},          {"stage/", pfs_register_stage},       {"statement/", pfs_register_statement},
      {"wait/app/", pfs_register_wait}};
  return families[static_cast<int>(family)];
}
std::string_view Prefix(NameFamily family) { return Traits(family).prefix; }

[[noreturn]] void RefuseName(NameFamily family, const std::string& name, const std::string& why) {
  throw StatusError(Status(Code::kInvalidArgument, "bad name '" + name + "': " + why + "; legal is 'component/name' or '" +
                                                       std::string(Prefix(family)) +
                                                       "component/name', at most 128 bytes in full, where the component has no '/'"));
}

// Splits a name into component and name.
std::pair<std::string, std::string> SplitName(NameFamily family, const std::string& name) {
  std::string_view rest = name;
  if (rest.starts_with(Prefix(family))) {
    rest.remove_prefix(Prefix(family).size());
  } else {
    for (std::string_view root : {"wait/", "stage/", "statement/", "transaction/", "thread/", "memory/", "idle/", "error/"}) {
      if (rest.starts_with(root)) RefuseName(family, name, "it is of another family than " + std::string(Prefix(family)) + "...");
    }
  }
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) RefuseName(family, name, "it has no component");
  if (slash == 0 || slash + 1 == rest.size()) RefuseName(family, name, "a part of it is empty");
  if (name.find('\0') != std::string::npos) RefuseName(family, name, "it has a NUL character");
  return {std::string(rest.substr(0, slash)), std::string(rest.substr(slash + 1))};
}

}  // namespace

std::string ShortName(NameFamily family, const std::string& name) {
  const auto [component, rest] = SplitName(family, name);
  return component + "/" + rest;
}

std::string FullName(NameFamily family, const std::string& name) { return std::string(Prefix(family)) + ShortName(family, name); }

uint32_t RegisterName(NameFamily family, const std::string& name, uint32_t flags) {
  static auto& keys = *new std::map<std::pair<NameFamily, std::string>, uint32_t>;  // registered names stay forever
  static Guard guard;
  return Alone(guard, [&]() -> uint32_t {
    if (const auto known = keys.find({family, name}); known != keys.end()) return known->second;
    const auto [component, rest] = SplitName(family, name);
    pfs_key_t key = 0;
    pfs_instrument_info info{&key, rest.c_str(), flags, nullptr};
    const int rc = Traits(family).register_one(component.c_str(), &info, 1);
    if (rc == PFS_E_INVALID_ARGUMENT) RefuseName(family, name, pfs_last_error());
    if (key != 0) keys[{family, name}] = key;
    return key;
  });
}

}  // namespace perfschema::bindings
