// run/python/python_frames.cpp: see python_frames.h.
#include "run/python/python_frames.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

namespace perfschema::run {

namespace {

// A lock that one of these modules makes is named by the line that calls the module. With a dot: a package.
constexpr std::string_view kModulesOfWaiting[] = {"threading", "queue", "asyncio.", "concurrent.futures.", "multiprocessing."};

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

PyThreadState* CurrentState() {
  return g_py.PyThreadState_GetUnchecked != nullptr ? g_py.PyThreadState_GetUnchecked() : g_py._PyThreadState_UncheckedGet();
}

std::string_view TextOf(PyObject* text) {
  if (text == nullptr || !IsOfType(text, kIsText)) return {};
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

}  // namespace

PyThreadState* StateWithGil() {
  PyThreadState* const own = g_py.PyGILState_GetThisThreadState();
  const bool has_gil = own != nullptr && own == CurrentState() && g_py.PyThreadState_GetInterpreter(own) == g_py.PyInterpreterState_Main();
  return has_gil && g_py.PyErr_Occurred() == nullptr ? own : nullptr;
}

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

// ---- What frames say ---------------------------------------------------------------------------------------------------------------

constinit Remembered g_remembered = {};

const Site* SiteOfLock(std::string_view module, int line) {
  char text[160];
  const std::string_view name = Copied(module, text, 128);
  text[name.size()] = ':';
  char* const end = std::to_chars(text + name.size() + 1, std::end(text), line).ptr;
  return SiteOfText({text, static_cast<size_t>(end - text)});
}

namespace {

// Tells it by the file: packages are in folders of that name, the standard library is in lib/python3.11 or frozen. Code that a package
// writes while the program runs has no file: "<sqlalchemy generated ...>", "<attrs generated ...>", "<decorator-gen-0>".
Code::Whose WhoseIs(std::string_view text) {
  const auto has = [=](std::string_view part) { return text.find(part) != text.npos; };
  if (has("/site-packages/") || has("/dist-packages/")) return Code::Whose::kPackage;
  if (text.starts_with('<') && (has(" generated ") || has("-gen-"))) return Code::Whose::kPackage;
  return has("/lib/python3") || text.starts_with("<frozen ") ? Code::Whose::kStandardLibrary : Code::Whose::kUser;
}

Code::Role RoleOf(std::string_view function) {
  if (function == "wait") return Code::Role::kWaits;    // Condition.wait()
  if (function == "start") return Code::Role::kStarts;  // it waits until the thread runs
  // What join() waits for: made by a new thread, or by the wait itself from 3.13 on. _shutdown() joins all when the program ends.
  const bool is_joined = function == "_set_tstate_lock" || function == "join" || function == "_shutdown";
  return is_joined ? Code::Role::kIsJoined : Code::Role::kNone;
}

}  // namespace

Code CodeOfTexts(const Frame& frame, const char* skipped, const CodeTexts& texts) {
  const std::string_view module = texts.module;
  const Listed listed = ListedIn(skipped, module);
  Code code = {frame.code,
               frame.globals,
               skipped,
               IsOfWaiting(module) || listed != Listed::kNot,
               listed == Listed::kEnd,
               Code::Role::kNone,
               module == "threading" || module == "queue",
               WhoseIs(texts.file),
               nullptr,
               nullptr};
  if (!code.is_skipped && !texts.file.empty()) code.file = SiteOfText(texts.file);
  if (IsOfWaiting(module)) code.waiting = SiteOfText(module);
  if (module == "threading") code.role = RoleOf(texts.function);
  return code;
}

Code Remembered::Ask(const Frame& frame, const char* skipped) {
  const std::string_view module = ModuleOf(frame.globals);
  const Reference<PyObject> file(g_py.PyObject_GetAttr(frame.code, Names()->file));
  const Reference<PyObject> function(module == "threading" ? g_py.PyObject_GetAttr(frame.code, Names()->function) : nullptr);
  return CodeOfTexts(frame, skipped, {module, TextOf(file.get()), TextOf(function.get())});
}

Line Remembered::Ask(const Frame& frame, bool with_lock) {
  Line line = {frame.code, frame.globals, frame.at, g_py.PyFrame_GetLineNumber(frame.object), nullptr};
  if (with_lock) line.lock = SiteOfLock(ModuleOf(frame.globals), line.line);
  return line;
}

// ---- The layout --------------------------------------------------------------------------------------------------------------------

constinit FrameTrust g_frame_trust = {};

namespace {

constexpr FrameLayout kLayouts[] = {
    {0x30B, true, 56, 8, 32, 8, 48, 56, 69},
    {0x30C, true, 56, 0, 0, 24, 8, 56, 70},
};

// Returns what a later interpreter says itself; version 0 if it is of an unknown version, or if an offset is too large.
FrameLayout LayoutByInterpreter() {
  const PythonOffsets at = OffsetsOf(g_py._PyRuntime);
  // What is not said: between the code and the globals are the frame before and the function.
  const uint64_t code = at.frame.executable, globals = code + 3 * sizeof(void*);
  const uint64_t all[] = {at.thread.frame, code, globals, at.frame.previous, at.frame.instruction, at.frame.owner};
  if (at.version == 0 || *std::max_element(std::begin(all), std::end(all)) > UINT8_MAX) return {};
  const auto byte = [](uint64_t offset) { return static_cast<uint8_t>(offset); };
  return {at.version,          false,         byte(at.thread.frame),   0,
          byte(code),          byte(globals), byte(at.frame.previous), byte(at.frame.instruction),
          byte(at.frame.owner)};
}

FrameLayout LayoutOfInterpreter() {
  constexpr unsigned kBelowMinor = 16;  // bits
  for (const FrameLayout& known : kLayouts) {
    if (known.version == *g_py.Py_Version >> kBelowMinor) return known;
  }
  return LayoutByInterpreter();
}

// Returns whether the layout is still to be checked.
bool IsToCheck() {
  FrameTrust& trust = g_frame_trust;
  if (!trust.is_looked_for) trust.layout = LayoutOfInterpreter();
  trust.is_looked_for = true;
  return trust.layout.version != 0 && !trust.is_trusted() && trust.disagreements < FrameTrust::kMostDisagreements;
}

}  // namespace

LayoutCheck::LayoutCheck(PyThreadState* state) {
  if (IsToCheck()) raw_.emplace(state);
}

LayoutCheck::~LayoutCheck() {
  if (raw_.has_value() && !is_first_) ++g_frame_trust.agreements;
}

void LayoutCheck::Compare(const Frame& frame) {
  if (!raw_.has_value()) return;
  FrameTrust& trust = g_frame_trust;
  Frame raw;
  if (!Finds(frame, &raw)) {
    trust.agreements = 0;
    ++trust.disagreements;
    raw_.reset();
  } else if (trust.code_offset == 0) {
    if (frame.at > 0) trust.code_offset = raw.at - frame.at;
    raw_.reset();
  }
}

bool LayoutCheck::Finds(const Frame& frame, Frame* raw) {
  constexpr size_t kFrameOfObject = 24;  // in PyFrameObject: its _PyInterpreterFrame
  const void* address;
  std::memcpy(&address, reinterpret_cast<const char*>(frame.object) + kFrameOfObject, sizeof address);
  if (is_first_ && raw_->next() != address) return false;  // before anything of the frame is read
  is_first_ = false;
  return raw_->Next(raw) && raw->code == frame.code && raw->globals == frame.globals &&
         (raw->at == frame.at || g_frame_trust.code_offset == 0);
}

// ---- Objects of frames -------------------------------------------------------------------------------------------------------------

FrameObjects::FrameObjects(PyThreadState* state) : check_(state), collector_was_on_(g_py.PyGC_Disable()), state_(state) {}

FrameObjects::~FrameObjects() {
  frame_ = nullptr;
  if (collector_was_on_ != 0) g_py.PyGC_Enable();
}

bool FrameObjects::Next(Frame* frame) {
  frame_ = state_ != nullptr ? g_py.PyThreadState_GetFrame(state_) : g_py.PyFrame_GetBack(frame_.get());
  state_ = nullptr;  // only for the first
  if (frame_.get() == nullptr) return false;
  code_ = g_py.PyFrame_GetCode(frame_.get());
  globals_ = g_py.PyFrame_GetGlobals(frame_.get());
  *frame = {code_.get(), globals_.get(), g_py.PyFrame_GetLasti(frame_.get()), frame_.get()};
  check_.Compare(*frame);
  return true;
}

}  // namespace perfschema::run
