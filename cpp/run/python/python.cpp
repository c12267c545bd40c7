// run/python/python.cpp: see python.h.
#include "run/python/python.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/placement.h"
#include "base/settings.h"
#include "run/loader/real.h"
#include "run/python/python_api.h"
#include "run/python/python_calls.h"
#include "run/python/python_frames.h"
#include "run/python/python_free_threaded.h"

namespace perfschema::run {

PFS_SET_IN_EVERY_PROCESS bool g_is_python = false, g_has_python_layer = false, g_has_python_locks = false;

namespace {

// The module that PyThread_allocate_lock() is in. Constant after start.
PFS_SET_IN_EVERY_PROCESS const link_map* interpreter = nullptr;

// The constructor of queue.SimpleQueue, and whether this thread is in it.
using Constructor = PyObject* (*)(PyObject* type, PyObject* arguments, PyObject* keywords);
PFS_SET_IN_EVERY_PROCESS Constructor constructor_of_queues = nullptr;
thread_local constinit bool t_makes_queue __attribute__((tls_model("initial-exec"))) = false;

PyObject* MakeQueue(PyObject* type, PyObject* arguments, PyObject* keywords) {
  t_makes_queue = true;
  PyObject* const made = constructor_of_queues(type, arguments, keywords);
  t_makes_queue = false;
  return made;
}

constinit const Site of_interpreter = {"interpreter", nullptr, 0, "interpreter"};

// Is what the frames say of a new lock.
struct Made {
  const Site* site;
  Kind kind;
  bool is_join = false;   // a thread's end is waited for
  bool is_first = true;   // no frame has been seen
  bool is_of_all = true;  // none has been seen but of threading or queue
};

// What a new lock learns of a frame: its name, and its kind. A lock in which a thread waits for a condition is not recorded.
struct VisitOfMade {
  template <typename Frames>
  Step operator()(Made* made, const Frames& frames, const Frame& frame, const Code& code) const {
    const bool is_first = made->is_first;
    made->is_first = false;
    if (is_first && code.role == Code::Role::kWaits) made->kind = Kind::kSemaphore;
    made->is_join = made->is_join || (is_first && code.role == Code::Role::kIsJoined);
    const char* const own_name = made->is_join                                         ? "threading.Thread.join"
                                 : made->is_of_all && code.role == Code::Role::kStarts ? "threading.Thread.start"
                                                                                       : nullptr;
    const bool is_better = made->is_of_all && code.waiting != nullptr && !code.is_of_all;
    if (is_first || is_better || !code.is_skipped || own_name != nullptr) {  // the first two: in case that all are of waiting
      made->is_of_all = code.is_of_all;
      Line copy;
      const Line* const line = own_name != nullptr ? nullptr : frames.LineOf(frame, true, &copy);
      if (line == nullptr && own_name == nullptr) return Step::kUnknown;
      const Site* const name = own_name != nullptr ? SiteOfText(own_name) : line->lock;
      if (name != nullptr) made->site = name;
    }
    return own_name != nullptr || !code.is_skipped ? Step::kDone : Step::kGoOn;
  }
};
constexpr Made kUnknown = {&of_interpreter, Kind::kPythonLock};

Made MadeByThread() { return SearchFrames(kUnknown, nullptr, VisitOfMade()); }
[[gnu::noinline, gnu::cold]] Made MadeByFreeThread() { return SearchFreeFrames(kUnknown, nullptr, VisitOfMade()); }

// As NotePythonLock(), of a free-threaded interpreter.
[[gnu::noinline, gnu::cold]] bool NoteFreeLock(const void* semaphore, unsigned value, const void* caller) {
  if (RunIsOff() || value > 1 || MapOf(caller) != interpreter) return false;
  if (value == 0) {
    NotePark(semaphore);
  } else {
    const int error = errno;
    const Made made = MadeByFreeThread();
    WakeObject(semaphore, made.kind, made.site);
    errno = error;
  }
  return true;
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

// The folder of the Python layer; empty if there is none, or if its name is long. Constant after start.
char layer[512];

// Puts the folder of the Python layer, which is beside the library's, in front of PYTHONPATH. The environment of the program is as before
// when its first line runs: the layer takes the folder out again (python/pfs/_auto/sitecustomize.py). A / at the end says
// that PYTHONPATH was empty: behind a colon it would be the working directory.
void AddPythonLayer() {
  const char* const parts = Setting("PFS_RUN_PYTHON");
  const char* const preload = Setting("PFS_RUN_PRELOAD");
  if (preload == nullptr || (parts != nullptr && std::strcmp(parts, "none") == 0)) return;
  std::string_view package(preload);  // [...:]/.../pfs/lib/libperfschema-run.so[:...]
  package = package.substr(0, package.find("/libperfschema-run.so"));
  package.remove_prefix(package.rfind(':') + 1);  // npos + 1 = 0
  package = package.substr(0, package.rfind('/'));
  const char* const before = secure_getenv("PYTHONPATH");
  char text[8192];
  const char* const between = before == nullptr ? "" : *before == 0 ? "/" : ":";
  const int bytes = std::snprintf(text, sizeof text, "%.*s/_auto%s%s", static_cast<int>(package.size()), package.data(), between,
                                  before != nullptr ? before : "");
  if (static_cast<size_t>(bytes) >= sizeof text) return;
  setenv("PYTHONPATH", text, 1);
  std::snprintf(layer, sizeof layer, "%.*s/_auto", static_cast<int>(package.size()), package.data());
  if (std::strlen(layer) == sizeof layer - 1) layer[0] = 0;
}

}  // namespace

PFS_IN_EVERY_PROCESS void StartPython(int count, char** arguments) {
  interpreter = FindPython();
  g_is_python = interpreter != nullptr && !g_python_is_free_threaded;
  if (g_is_python) g_ask_for_script_call = AskForCall;
  if (interpreter != nullptr) StartParks(*interpreter);
  g_has_python_layer = g_is_python || (TakesLayer() && g_py.PyModuleDef_Init != nullptr);
  g_has_python_locks = g_is_python || g_reads_free_threads;
  if (const char* const joined = Setting("PFS_RUN_LAYER"); joined != nullptr) {
    std::snprintf(layer, sizeof layer, "%s", joined);
  } else if (g_has_python_layer && ReadsPythonPath(count, arguments)) {
    AddPythonLayer();
  }
}

void NoteFreeThreadedPython() {
  if (__builtin_expect(!g_python_is_free_threaded, 1)) return;
  (void)pfs_log(
      PFS_LOG_WARNING, "PFS-RUN", "python",
      g_has_python_layer ? "a free-threaded Python: its locks are seen when a thread must wait"
      : g_reads_free_threads
          ? "a free-threaded Python: its waits have lines and names, and statements of SQLite, libpq and MySQL's library are recorded; "
            "names of threads, requests and statements of clients in Python are not"
          : "a free-threaded Python of an unknown version: recorded as a C program, without lines of Python");
}

std::string_view FolderOfPythonLayer() { return layer; }

bool IsOfPythonLayer(const char* path) {
  const size_t length = std::strlen(layer);
  return length != 0 && std::strncmp(path, layer, length) == 0 && (path[length] == '/' || path[length] == 0);
}

bool NotePythonLock(const void* semaphore, unsigned value, const void* caller, Object** awaited) {
  // The interpreter makes no other semaphores. The compiler may have put PyThread_allocate_lock() into its callers.
  if (!g_is_python) return g_reads_free_threads && NoteFreeLock(semaphore, value, caller);
  if (RunIsOff() || value > 1 || MapOf(caller) != interpreter) return false;
  const int error = errno;
  if (value == 0) *awaited = AwaitedLock(semaphore);
  if (*awaited != nullptr) {
    ForgetObject(semaphore);
    errno = error;
    return true;
  }
  Made made = MadeByThread();
  if (value == 0 && (made.is_join || (made.kind == Kind::kPythonLock && IsForLockOfThreading(semaphore)))) {
    ForgetObject(semaphore);
    *awaited = ObjectOfSite(made.site, Kind::kPythonObject);
  } else {
    if (value == 0 || t_makes_queue) made.kind = Kind::kSemaphore;
    WakeObject(semaphore, made.kind, made.site);
  }
  errno = error;
  return true;
}

void NoteLockAt(const void* place) {
  const int error = errno;
  const Made made = MadeByThread();
  WakeObject(place, made.kind, made.site);
  errno = error;
}

const Site* NameOfPark(const void* semaphore, const void* caller, Kind* kind) {
  if (MapOf(caller) != interpreter) return nullptr;
  const Parked parked = ParkedAt(semaphore);
  *kind = parked.kind;
  if (parked.site != nullptr) return parked.site;
  const Made made = MadeByFreeThread();
  if (made.kind == Kind::kSemaphore) *kind = made.kind;  // the lock of a threading.Condition
  if (made.is_join) *kind = Kind::kPythonObject;
  return made.site;
}

// PyTypeObject, unchanged from CPython 3.8 to 3.15.
constexpr size_t kNewOfType = 39 * sizeof(void*);
PFS_SET_IN_EVERY_PROCESS char* place_of_constructor = nullptr;

bool NoteQueueType(PyObject* type) {
  constexpr int kNewSlot = 65;  // of the stable ABI
  void* const original = g_py.PyType_GetSlot(type, kNewSlot);
  char* const place = reinterpret_cast<char*>(type) + kNewOfType;
  void* found;
  std::memcpy(&found, place, sizeof found);
  if (original == nullptr || found != original || place_of_constructor != nullptr) return false;
  place_of_constructor = place;
  constructor_of_queues = reinterpret_cast<Constructor>(original);
  const Constructor made = MakeQueue;
  std::memcpy(place, &made, sizeof made);
  return true;
}

void ForgetQueueType() {
  const Constructor made = MakeQueue;
  const bool is_ours = place_of_constructor != nullptr && std::memcmp(place_of_constructor, &made, sizeof made) == 0;
  if (is_ours) std::memcpy(place_of_constructor, &constructor_of_queues, sizeof constructor_of_queues);
  place_of_constructor = nullptr;
}

// CPython has its GIL's state in _PyRuntime: cond, mutex, switch_cond, switch_mutex, one after the other (3.9 to 3.13).
const char* NameOfGil(const void* address, Kind kind) {
  constexpr uintptr_t kMostBytes = 4 << 20, kPair = sizeof(pthread_cond_t) + sizeof(pthread_mutex_t);
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (g_gil != 0 && at - g_gil < 2 * kPair) return at - g_gil < kPair ? "gil" : "gil-switch";
  if (!g_is_python || at - reinterpret_cast<uintptr_t>(g_py._PyRuntime) > kMostBytes) return nullptr;
  const uintptr_t cond = kind == Kind::kMutex ? at - sizeof(pthread_cond_t) : at;
  const auto is_pair = [&](uintptr_t object) {
    if (KnownObject(reinterpret_cast<const void*>(object), Kind::kCond) == nullptr) return false;
    const auto* const mutex = reinterpret_cast<const pthread_mutex_t*>(object + sizeof(pthread_cond_t));
    return IsKnownTagged(mutex, TagWord(mutex));
  };
  if (!is_pair(cond)) return nullptr;
  if (is_pair(cond + kPair)) return "gil";
  return is_pair(cond - kPair) ? "gil-switch" : nullptr;
}

namespace {

// Returns the line that `search(start, visit)` finds: SearchFrames() or SearchFreeFrames().
template <typename Search>
PFS_ALWAYS_INLINE SourceLine FindLine(const char* skipped, Search search) {
  struct Found {
    SourceLine at, waiting;
    bool is_of_all = true;
  };
  const Found none = {{nullptr, 0}, {nullptr, 0}};
  const auto visit = [skipped](Found* found, const auto& frames, const Frame& frame, const Code& code) {
    // A thread whose frames are all of waiting, as a worker of a pool: what it waits in says more than the C function.
    const bool is_better = found->waiting.file == nullptr || (found->is_of_all && !code.is_of_all);
    const bool is_of_waiting = skipped == nullptr && code.waiting != nullptr && is_better;
    if (code.is_skipped && !is_of_waiting) return code.is_end ? Step::kDone : Step::kGoOn;
    const Site* const file = code.is_skipped ? code.waiting : code.file;
    if (file == nullptr) return Step::kDone;
    Line copy;
    const Line* const line = frames.LineOf(frame, false, &copy);
    if (line == nullptr) return Step::kUnknown;
    const SourceLine at = {file->text, static_cast<uint32_t>(std::max(line->line, 0))};
    if (!code.is_skipped) {
      found->at = at;
      return Step::kDone;
    }
    found->waiting = at;
    found->is_of_all = code.is_of_all;
    return Step::kGoOn;
  };
  const Found found = search(none, visit);
  return found.at.file != nullptr ? found.at : found.waiting;
}

[[gnu::noinline, gnu::cold]] SourceLine LineOfFreeThread(const char* skipped) {
  return FindLine(skipped, [skipped](const auto& none, const auto& visit) { return SearchFreeFrames(none, skipped, visit); });
}

}  // namespace

SourceLine PythonLineOfThread(const char* skipped) {
  if (!g_is_python) return LineOfFreeThread(skipped);
  return FindLine(skipped, [skipped](const auto& none, const auto& visit) { return SearchFrames(none, skipped, visit); });
}

}  // namespace perfschema::run
