// bindings/common.cpp: errors, call sites and names.
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "bindings.h"
#include "perfschema/pfs.h"

namespace perfschema::bindings {

const char* StatusError::python_class() const {
  if (python_class_ != nullptr) return python_class_;
  switch (status_.code()) {
    case Code::kInvalidArgument: return "InvalidValue";
    case Code::kNotFound: return "UnknownName";
    case Code::kNotAllowed: return "OperationNotAllowed";
    case Code::kExists: return "AlreadyExists";
    case Code::kFull: return "LimitReached";
    case Code::kState: return "StateError";
    case Code::kIo:
    case Code::kCorrupt: return "AttachError";
    case Code::kOk: break;
  }
  return "Error";
}

namespace {

struct FileName {
  const char* text;
  bool ours;  // part of this package: not where the user called from
};

// The file of a code object. The library tells call sites apart by the address of the name, so each name is kept for ever, once.
const FileName& KeepFileName(PyObject* name) {
  // By object: the same code gives the same object. The reference that is kept makes sure that its address is not used again.
  static auto& by_object = *new std::unordered_map<PyObject*, FileName>;
  static auto& by_text = *new std::map<std::string, FileName>;
  static const std::string& package = *new std::string(
      py::str(py::module_::import("os.path").attr("dirname")(py::module_::import("pfs").attr("__file__"))).cast<std::string>() + "/");
  if (const auto known = by_object.find(name); known != by_object.end()) return known->second;
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &length);
  if (text == nullptr) {
    PyErr_Clear();
    text = "?";
    length = 1;
  }
  auto [place, is_new] = by_text.try_emplace(std::string(text, static_cast<size_t>(length)));
  if (is_new) place->second = {place->first.c_str(), place->first.starts_with(package)};
  if (by_object.size() < 4096) {  // code that is made again and again has a new object each time
    Py_INCREF(name);
    return by_object.emplace(name, place->second).first->second;
  }
  return place->second;
}

thread_local bool t_thread_has_name;

}  // namespace

void KeepThreadName() { t_thread_has_name = true; }

namespace {

// Threads of Python are shown as thread/python/<name in threading>. Those that Python does not know keep the name that they have.
void NameThisThread() {
  t_thread_has_name = true;
  std::string name = "MainThread";
  if (const auto threading = py::reinterpret_steal<py::object>(PyImport_GetModule(py::str("threading").ptr()))) {
    const py::dict active = threading.attr("_active");
    const py::int_ ident(PyThread_get_thread_ident());
    if (!active.contains(ident)) return;
    name = py::str(active[ident].attr("name")).cast<std::string>();
  }
  PyErr_Clear();
  pfs_set_thread_name(("python/" + name.substr(0, 100)).c_str());
}

}  // namespace

CallSite FindCallSite() {
  if (!t_thread_has_name) NameThisThread();
  CallSite site{nullptr, 0};
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  Py_XINCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const FileName& file = KeepFileName(code->co_filename);
    Py_DECREF(code);
    if (!file.ours) {
      const int line = PyFrame_GetLineNumber(frame);
      site = {file.text, line > 0 ? static_cast<uint32_t>(line) : 0};
      Py_DECREF(frame);
      break;
    }
    PyFrameObject* caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  return site;
}

namespace {

std::string_view Prefix(NameFamily family) { return family == NameFamily::kMutex ? "wait/synch/mutex/" : "wait/io/file/"; }

[[noreturn]] void RefuseName(NameFamily family, const std::string& name, const std::string& why) {
  throw StatusError(Status(Code::kInvalidArgument,
                           "bad name '" + name + "': " + why + "; legal is 'component/name' or '" + std::string(Prefix(family)) +
                               "component/name', at most 128 bytes in full, where the component has no '/'"));
}

// Component and name.
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

std::string FullName(NameFamily family, const std::string& name) {
  const auto [component, rest] = SplitName(family, name);
  return std::string(Prefix(family)) + component + "/" + rest;
}

uint32_t RegisterName(NameFamily family, const std::string& name) {
  static auto& keys = *new std::map<std::pair<NameFamily, std::string>, uint32_t>;  // registered names stay for ever
  if (const auto known = keys.find({family, name}); known != keys.end()) return known->second;
  const auto [component, rest] = SplitName(family, name);
  pfs_key_t key = 0;
  pfs_instrument_info info{&key, rest.c_str(), 0, nullptr};
  const int rc = family == NameFamily::kMutex ? pfs_register_mutex(component.c_str(), &info, 1) : pfs_register_file(component.c_str(), &info, 1);
  if (rc == PFS_E_INVALID_ARGUMENT) RefuseName(family, name, pfs_last_error());
  if (key != 0) keys[{family, name}] = key;
  return key;
}

}  // namespace perfschema::bindings
