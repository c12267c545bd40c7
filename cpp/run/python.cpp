// run/python.cpp: see python.h.
#include "run/python.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/placement.h"
#include "run/python_api.h"
#include "run/real.h"
#include "run/small_lock.h"

namespace perfschema::run {

PFS_SET_IN_EVERY_PROCESS bool g_is_python = false;

namespace {

// A lock that one of these modules makes is named by the line that calls the module. With a dot: a package.
constexpr std::string_view kModulesOfWaiting[] = {"threading", "queue", "asyncio.", "concurrent.futures.", "multiprocessing."};
constexpr int kMostFrames = 32;

bool IsOfWaiting(std::string_view module) {
  return std::any_of(std::begin(kModulesOfWaiting), std::end(kModulesOfWaiting), [=](std::string_view known) {
    return known.back() == '.' ? module.starts_with(known) || module == known.substr(0, known.size() - 1) : module == known;
  });
}

// What a list of packages says of a module.
enum class Listed : uint8_t { kNot, kSkipped, kEnd };
Listed ListedIn(const char* list, std::string_view module) {
  if (list == nullptr) return Listed::kNot;
  const std::string_view package = module.substr(0, module.find('.'));
  for (std::string_view rest = list; !rest.empty();) {
    std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const bool is_end = name.ends_with('!');
    if (is_end) name.remove_suffix(1);
    if (!name.empty() && (name == package || name == module)) return is_end ? Listed::kEnd : Listed::kSkipped;
  }
  return Listed::kNot;
}

// Keeps the collector from running while frames are read: it could run code of the program.
class WithoutCollection {
 public:
  WithoutCollection() : was_on_(g_py.PyGC_Disable()) {}
  ~WithoutCollection() {
    if (was_on_ != 0) g_py.PyGC_Enable();
  }
  WithoutCollection(const WithoutCollection&) = delete;
  WithoutCollection& operator=(const WithoutCollection&) = delete;

 private:
  const int was_on_;
};

PyThreadState* CurrentState() {
  return g_py.PyThreadState_GetUnchecked != nullptr ? g_py.PyThreadState_GetUnchecked() : g_py._PyThreadState_UncheckedGet();
}

// Returns the state of this thread if the thread has the GIL of the main interpreter, else nullptr. A subinterpreter may have a GIL of its
// own (3.12), which would not guard what is remembered here.
PyThreadState* StateWithGil() {
  PyThreadState* const own = g_py.PyGILState_GetThisThreadState();
  const bool has_gil = own != nullptr && own == CurrentState() && g_py.PyThreadState_GetInterpreter(own) == g_py.PyInterpreterState_Main();
  return has_gil && g_py.PyErr_Occurred() == nullptr ? own : nullptr;
}

std::string_view TextOf(PyObject* text) {
  constexpr unsigned long kIsText = 1ul << 28;  // Py_TPFLAGS_UNICODE_SUBCLASS
  struct Head {
    intptr_t references;
    PyObject* type;
  };
  if (text == nullptr || (g_py.PyType_GetFlags(reinterpret_cast<Head*>(text)->type) & kIsText) == 0) return {};
  intptr_t size = 0;
  const char* const bytes = g_py.PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) g_py.PyErr_Clear();
  return bytes != nullptr ? std::string_view(bytes, static_cast<size_t>(size)) : std::string_view();
}

// Names that are looked up, as objects of Python. They are never freed.
struct NamesOfPython {
  PyObject* module;
  PyObject* function;
  PyObject* file;
};

// REQUIRES: the GIL.
const NamesOfPython* Names() {
  static constinit NamesOfPython names = {};
  if (__builtin_expect(names.file == nullptr, 0)) {
    names = {g_py.PyUnicode_InternFromString("__name__"), g_py.PyUnicode_InternFromString("co_name"),
             g_py.PyUnicode_InternFromString("co_filename")};
  }
  return &names;
}

std::string_view ModuleOf(PyObject* globals) {
  const std::string_view name = TextOf(g_py.PyDict_GetItemWithError(globals, Names()->module));
  return name.empty() ? std::string_view("unknown") : name;
}

std::string_view Copied(std::string_view text, char* to, size_t size) {
  const size_t bytes = text.copy(to, size - 1);
  to[bytes] = 0;
  return {to, bytes};
}

// The texts that live as long as the process: names of locks, and files. Found by their hash; grows only.
struct Text {
  Site site;  // first
  size_t size;
  const Text* next;
};
constexpr size_t kPlaces = 4096, kMostTexts = 16384;
constinit std::atomic<const Text*> texts[kPlaces] = {};
std::atomic<size_t> text_count{0};

const Text* Find(const Text* at, std::string_view text) {
  while (at != nullptr && std::string_view(at->site.text, at->size) != text) at = at->next;
  return at;
}

// Returns the site of that text, or nullptr if there are too many. Lock-free.
const Site* SiteOfText(std::string_view text) {
  uint32_t hash = 2166136261u ^ static_cast<uint32_t>(text.size());
  for (const char c : text.substr(text.size() - std::min<size_t>(text.size(), 16))) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  std::atomic<const Text*>& first = texts[hash % kPlaces];
  const Text* head = first.load(std::memory_order_acquire);
  if (const Text* const known = Find(head, text); known != nullptr) return &known->site;
  if (text_count.fetch_add(1, std::memory_order_relaxed) >= kMostTexts) return nullptr;
  auto* const made = static_cast<Text*>(std::malloc(sizeof(Text) + text.size() + 1));
  if (made == nullptr) return nullptr;
  auto* const copy = reinterpret_cast<char*>(made + 1);
  copy[text.copy(copy, text.size())] = 0;
  made->site = {copy, nullptr, 0, copy};
  made->size = text.size();
  do {
    made->next = head;
  } while (!first.compare_exchange_weak(head, made, std::memory_order_release, std::memory_order_acquire));  // two may add it: harmless
  return &made->site;
}

// Is what is known of a function's code in a module.
struct Code {
  // What a function of threading does with a lock that it makes.
  enum class Role : uint8_t { kNone, kWaits, kIsJoined };

  PyObject* code;     // with a reference, so that no other code comes to that address
  PyObject* globals;  // the module's; without a reference
  const char* skipped;
  bool is_skipped;  // of waiting, or of a package in `skipped`
  bool is_end;      // of one there that ends the search
  Role role;
  const Site* file;  // nullptr if it is skipped, or has no file
};

// Is what is known of a place in a function.
struct Line {
  PyObject* code;  // with a reference
  PyObject* globals;
  int at, line;
  const Site* lock;  // name of a lock made there, MODULE:LINE; nullptr if nobody asked for it
};

// Remembers what frames say. To ask CPython each time costs a search in the code's table of lines and some texts for each frame, and
// programs go through the same frames again and again. Direct-mapped: the last one has the entry. The functions return copies, because code
// that is dropped may run code of the program, which comes back here. REQUIRES: the GIL, around all calls.
class Frames {
 public:
  Code CodeOf(PyFrame* frame, const char* skipped) {
    const Reference<PyObject> code(g_py.PyFrame_GetCode(frame)), globals(g_py.PyFrame_GetGlobals(frame));
    Code& entry = codes_[(Mixed(code.get()) + reinterpret_cast<uintptr_t>(skipped)) % kCodes];
    if (entry.code == code.get() && entry.globals == globals.get() && entry.skipped == skipped) return entry;
    const std::string_view module = ModuleOf(globals.get());
    const Listed listed = ListedIn(skipped, module);
    Code fresh = {code.get(),        globals.get(), skipped, IsOfWaiting(module) || listed != Listed::kNot, listed == Listed::kEnd,
                  Code::Role::kNone, nullptr};
    if (!fresh.is_skipped) fresh.file = SiteOfFile(code.get());
    if (module == "threading") fresh.role = RoleOf(code.get());
    g_py.Py_IncRef(code.get());
    const Reference<PyObject> dropped(entry.code);
    entry = fresh;
    return fresh;
  }

  Line LineOf(PyFrame* frame, const Code& of, bool with_lock) {
    const int at = g_py.PyFrame_GetLasti(frame);
    Line& entry = lines_[(Mixed(of.code) + static_cast<unsigned>(at) / 2) % kLines];
    const bool is_known = entry.code == of.code && entry.globals == of.globals && entry.at == at;
    if (is_known && (entry.lock != nullptr || !with_lock)) return entry;
    Line fresh = {of.code, of.globals, at, g_py.PyFrame_GetLineNumber(frame), nullptr};
    if (with_lock) fresh.lock = SiteOfLock(ModuleOf(of.globals), fresh.line);
    g_py.Py_IncRef(of.code);
    const Reference<PyObject> dropped(entry.code);
    entry = fresh;
    return fresh;
  }

 private:
  static constexpr size_t kCodes = 512, kLines = 256;
  static uintptr_t Mixed(const PyObject* code) { return reinterpret_cast<uintptr_t>(code) / 16; }

  static const Site* SiteOfFile(PyObject* code) {
    const Reference<PyObject> name(g_py.PyObject_GetAttr(code, Names()->file));
    const std::string_view text = TextOf(name.get());
    return text.empty() ? nullptr : SiteOfText(text);
  }

  static const Site* SiteOfLock(std::string_view module, int line) {
    char text[160];
    const std::string_view name = Copied(module, text, 128);
    text[name.size()] = ':';
    char* const end = std::to_chars(text + name.size() + 1, std::end(text), line).ptr;
    return SiteOfText({text, static_cast<size_t>(end - text)});
  }

  static Code::Role RoleOf(PyObject* code) {
    const Reference<PyObject> name(g_py.PyObject_GetAttr(code, Names()->function));
    const std::string_view function = TextOf(name.get());
    if (function == "wait") return Code::Role::kWaits;  // Condition.wait()
    return function == "_set_tstate_lock" ? Code::Role::kIsJoined : Code::Role::kNone;
  }

  Code codes_[kCodes] = {};
  Line lines_[kLines] = {};
};
constinit Frames frames = {};

// Calls `visit` with each frame of the thread and its code, from the innermost on, until it returns true. REQUIRES: the GIL.
template <typename Visit>
void VisitFrames(PyThreadState* state, const char* skipped, Visit visit) {
  Reference<PyFrame> frame(g_py.PyThreadState_GetFrame(state));
  for (int i = 0; i < kMostFrames && frame.get() != nullptr; ++i) {
    if (visit(frame.get(), frames.CodeOf(frame.get(), skipped))) return;
    frame = g_py.PyFrame_GetBack(frame.get());
  }
}

// The module that PyThread_allocate_lock() is in. Constant after start.
PFS_SET_IN_EVERY_PROCESS const link_map* interpreter = nullptr;

constinit const Text of_interpreter = {{"interpreter", nullptr, 0, "interpreter"}, 0, nullptr};

// Is what the frames say of a new lock.
struct Made {
  const Site* site;
  Kind kind;
};

// Returns the name of the lock that this thread makes, and its kind: a lock in which a thread waits for a condition is none.
Made MadeByThread() {
  Made made = {&of_interpreter.site, Kind::kPythonLock};
  PyThreadState* const state = StateWithGil();
  if (state == nullptr) return made;
  const WithoutCollection without_collection;
  bool is_first = true;
  VisitFrames(state, nullptr, [&](PyFrame* frame, const Code& code) {
    const bool is_joined = is_first && code.role == Code::Role::kIsJoined;
    if (is_first && code.role == Code::Role::kWaits) made.kind = Kind::kSemaphore;
    if (is_first || !code.is_skipped) {  // the first: in case that all are of waiting
      const Site* const name = is_joined ? SiteOfText("threading.Thread.join") : frames.LineOf(frame, code, true).lock;
      if (name != nullptr) made.site = name;
    }
    is_first = false;
    return is_joined || !code.is_skipped;
  });
  return made;
}

// Returns whether the interpreter will read PYTHONPATH and run sitecustomize: it has none of the options -I, -E and -S.
bool ReadsPythonPath(int count, char** arguments) {
  for (int i = 1; i < count && arguments[i] != nullptr && arguments[i][0] == '-' && arguments[i][1] != '-'; ++i) {
    for (const char* letter = arguments[i] + 1; *letter != 0; ++letter) {
      if (*letter == 'I' || *letter == 'E' || *letter == 'S') return false;
      if (*letter == 'c' || *letter == 'm') return true;  // the rest is the program's
      if (*letter == 'W' || *letter == 'X') {             // with a value: here or in the next argument
        i += letter[1] == 0 ? 1 : 0;
        break;
      }
    }
  }
  return true;
}

// Puts the folder of the Python layer, which is beside the library's, in front of PYTHONPATH. The environment of the program is as before
// when its first line runs: the layer takes the folder out again (python/pfs/_auto/sitecustomize.py).
void AddPythonLayer() {
  const char* const parts = secure_getenv("PFS_RUN_PYTHON");
  const char* const preload = secure_getenv("PFS_RUN_PRELOAD");
  if (preload == nullptr || (parts != nullptr && std::strcmp(parts, "none") == 0)) return;
  std::string_view package(preload);  // [...:]/.../pfs/lib/libperfschema-run.so[:...]
  package = package.substr(0, package.find("/libperfschema-run.so"));
  package.remove_prefix(package.rfind(':') + 1);  // npos + 1 = 0
  package = package.substr(0, package.rfind('/'));
  const char* const before = secure_getenv("PYTHONPATH");
  char text[8192];
  const int bytes = std::snprintf(text, sizeof text, "%.*s/_auto%s%s", static_cast<int>(package.size()), package.data(),
                                  before != nullptr ? ":" : "", before != nullptr ? before : "");
  if (static_cast<size_t>(bytes) < sizeof text) setenv("PYTHONPATH", text, 1);
}

}  // namespace

PFS_IN_EVERY_PROCESS void StartPython(int count, char** arguments) {
  interpreter = FindPython();
  g_is_python = interpreter != nullptr;
  if (g_is_python && ReadsPythonPath(count, arguments)) AddPythonLayer();
}

bool NotePythonLock(const void* semaphore, unsigned value, const void* caller) {
  // The interpreter makes no other semaphores. The compiler may have put PyThread_allocate_lock() into its callers.
  if (!g_is_python || g_is_off || value > 1 || MapOf(caller) != interpreter) return false;
  const int error = errno;
  Made made = MadeByThread();
  if (value == 0) made.kind = Kind::kSemaphore;
  WakeObject(semaphore, made.kind, made.site);
  errno = error;
  return true;
}

// CPython has its GIL's state in _PyRuntime: cond, mutex, switch_cond, switch_mutex, one after the other (3.9 to 3.13).
const char* NameOfGil(const void* address, Kind kind) {
  constexpr uintptr_t kMostBytes = 4 << 20;
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (!g_is_python || at - reinterpret_cast<uintptr_t>(g_py._PyRuntime) > kMostBytes) return nullptr;
  const uintptr_t cond = kind == Kind::kMutex ? at - sizeof(pthread_cond_t) : at;
  constexpr uintptr_t kPair = sizeof(pthread_cond_t) + sizeof(pthread_mutex_t);
  const auto is_pair = [&](uintptr_t object) {
    if (KnownObject(reinterpret_cast<const void*>(object), Kind::kCond) == nullptr) return false;
    const auto* const mutex = reinterpret_cast<const pthread_mutex_t*>(object + sizeof(pthread_cond_t));
    return IsKnownTagged(mutex, TagWord(mutex));
  };
  if (!is_pair(cond)) return nullptr;
  if (is_pair(cond + kPair)) return "gil";
  return is_pair(cond - kPair) ? "gil-switch" : nullptr;
}

SourceLine PythonLineOfThread(const char* skipped) {
  SourceLine line = {nullptr, 0};
  PyThreadState* const state = g_is_python ? StateWithGil() : nullptr;
  if (state == nullptr) return line;
  const WithoutCollection without_collection;
  VisitFrames(state, skipped, [&](PyFrame* frame, const Code& code) {
    if (code.is_skipped) return code.is_end;
    if (code.file != nullptr) line = {code.file->text, static_cast<uint32_t>(std::max(frames.LineOf(frame, code, false).line, 0))};
    return true;
  });
  return line;
}

}  // namespace perfschema::run
