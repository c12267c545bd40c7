// run/python/python_calls.cpp: functions that C has and Python calls: the line that calls time.sleep(), or the lock that is taken.
//
// Such a function lets the GIL go before it makes a system call: its frames cannot be asked then. So the entry of the function in its table
// of methods leads here first, with the GIL. The object that Python sees stays the same. Without the GIL the thread reads its own frames
// here (python_free_threaded.h), which nobody else changes, and several threads may be here at once.
#include "run/python/python_calls.h"

#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "run/loader/exported.h"
#include "run/loader/real.h"
#include "run/python/python_frames.h"
#include "run/python/python_free_threaded.h"

namespace perfschema::run {
namespace {

// Functions of tables have two to five parameters, all of which are in registers: the rest is passed on as it came.
constexpr size_t kMostCalls = 160;
// kLineOfSome: the function is over soon, and to find the line would take as long. So some calls have it: the first ones, and then one of
// kMostSoon. They are also the calls within which events at the places of the interpreter have the line.
struct Entry {  // PyMethodDef
  const char* name;
  AnyFunction function;
};
struct Noted {
  std::atomic<Entry*> method;  // nullptr: from here on all are free
  AnyFunction original;
  void* (*lock_call)(const NotedCall&);  // nullptr: it is no method of a lock
  bool is_soon;
  std::atomic<uint32_t> calls;  // two threads without a GIL may count one
};
constexpr uint32_t kMostSoon = 256;
constinit Noted noted[kMostCalls] = {};

// Returns the innermost frame of the user, else of a package, else of the standard library.
ScriptCall CallOfThread() {
  struct Found {
    ScriptCall call;
    Code::Whose whose;
  };
  const Found none = {{}, Code::Whose::kNobody};
  const auto visit = [](Found* found, const auto& frames, const Frame& frame, const Code& code) {
    if (code.whose >= found->whose) return Step::kGoOn;
    Line copy;
    const Line* const line = frames.LineOf(frame, true, &copy);
    if (line == nullptr) return Step::kUnknown;
    const Site* const file = code.file != nullptr ? code.file : code.waiting;
    if (file == nullptr || line->lock == nullptr || line->line <= 0) return Step::kGoOn;
    *found = {{{file->text, static_cast<uint32_t>(line->line)}, line->lock}, code.whose};
    return code.whose == Code::Whose::kUser ? Step::kDone : Step::kGoOn;
  };
  if (__builtin_expect(!g_is_python, 0)) return SearchFreeFrames(none, nullptr, visit).call;
  return SearchFrames(none, nullptr, visit).call;
}

// Returns whether an entry is a variable of a file's object. A function of an extension may have none that can be changed: its table is
// constant, or its object is not laid out as expected.
bool IsVariable(const Entry* entry) {
  const link_map* const object = entry != nullptr ? MapOf(entry) : nullptr;
  if (object == nullptr) return false;
  if (object->l_addr == 0) return true;  // the program, which is the interpreter
  const auto is_in = [=](const ElfW(Phdr) & segment) {
    return reinterpret_cast<uintptr_t>(entry) - (object->l_addr + segment.p_vaddr) < segment.p_memsz;
  };
  bool is_writable = false;
  for (const ElfW(Phdr) & segment : SegmentsOf(*object)) {
    if (segment.p_type == PT_GNU_RELRO && is_in(segment)) return false;
    is_writable |= segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0 && is_in(segment);
  }
  return is_writable;
}

template <size_t kIndex>
void* Called(void* a, void* b, void* c, void* d, void* e) {
  Noted& its = noted[kIndex];
  std::atomic_thread_fence(std::memory_order_acquire);  // the interpreter has read the address of this in NoteCall()'s entry
  if (its.lock_call != nullptr) return its.lock_call({its.original, {a, b, c, d, e}, PFS_CALLER});
  const uint32_t number = its.calls.load(std::memory_order_relaxed) + 1;
  its.calls.store(number, std::memory_order_relaxed);
  const bool is_sampled = number % kMostSoon == 0 || (number < kMostSoon && std::has_single_bit(number));
  if (its.is_soon && __builtin_expect(!is_sampled, 1)) return its.original(a, b, c, d, e);
  if (ThreadState* const thread = t_locals.state; is_sampled && thread != nullptr) thread->sources.Forget();
  struct Around {
    const ScriptCall before = std::exchange(t_script_call, IsPlain() ? ScriptCall{} : CallOfThread());
    ~Around() { t_script_call = before; }
  };
  const Around around;
  return its.original(a, b, c, d, e);
}

template <size_t... kIndexes>
AnyFunction ThunkAt(size_t index, std::index_sequence<kIndexes...>) {
  static constexpr AnyFunction kThunks[] = {Called<kIndexes>...};
  return kThunks[index];
}

constexpr void* (*kLockCalls[])(const NotedCall&) = {nullptr,          nullptr,       AroundMaking,      AroundTaking,
                                                     AroundTakingBack, AroundRelease, AroundWholeRelease};
static_assert(static_cast<size_t>(Around::kWholeRelease) + 1 == std::size(kLockCalls));

}  // namespace

bool NoteCall(PyObject* function, size_t entry, const char* name, Around around) {
  Entry* method;
  std::memcpy(&method, reinterpret_cast<const char*>(function) + entry, sizeof method);
  if (!IsVariable(method) || std::strcmp(method->name, name) != 0) return false;
  // Two threads may note something at once. A table that both note gets the same twice.
  size_t index = 0;
  for (Entry* known = nullptr; known != method; ++index) {
    if (index == kMostCalls) return false;
    known = nullptr;
    if (noted[index].method.compare_exchange_strong(known, method)) known = method;
  }
  Noted& its = noted[--index];  // known if it was forgotten
  const std::atomic_ref function_of(method->function);
  const AnyFunction thunk = ThunkAt(index, std::make_index_sequence<kMostCalls>());
  const AnyFunction original = function_of.load(std::memory_order_acquire);
  if (original == thunk) return false;
  its.original = original;
  its.lock_call = kLockCalls[static_cast<size_t>(around)];
  its.is_soon = around == Around::kLineOfSome;
  function_of.store(thunk, std::memory_order_release);
  return true;
}

void ForgetCalls() {
  for (size_t i = 0; i < kMostCalls; ++i) {
    Entry* const method = noted[i].method.load(std::memory_order_relaxed);
    if (method == nullptr) break;
    if (method->function == ThunkAt(i, std::make_index_sequence<kMostCalls>())) method->function = noted[i].original;
  }
}

bool AskForCall(ScriptCall* call) {
  if (StateWithGil() == nullptr) return false;
  *call = CallOfThread();
  return true;
}

const Site* SiteOfScript(const char* prefix) {
  char text[160];
  const int bytes = std::snprintf(text, sizeof text, "%s%s", prefix, t_script_call.place->name);
  return bytes > 0 && static_cast<size_t>(bytes) < sizeof text ? SiteOfText({text, static_cast<size_t>(bytes)}) : nullptr;
}

}  // namespace perfschema::run
