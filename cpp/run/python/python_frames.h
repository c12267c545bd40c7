// run/python/python_frames.h: the Python frames of this thread, and what is remembered of them.
//
// A search goes from the innermost frame outwards, and ends after a few of them. Programs go through the same frames again and again, so
// what they say is remembered by their code. There are two ways to go:
//
//   RawFrames      reads the interpreter's own structs: some loads for a frame. It can say nothing that is not remembered.
//   FrameObjects   asks CPython for an object of each frame, and for its line. A thread has no such objects otherwise: CPython makes them,
//                  and frees each when its function returns.
//
// A search takes the second way if the first one meets something new. The first one needs the layout of the structs, which each version of
// CPython has of its own. It is trusted once both ways have agreed in a row of searches. If they disagree too often, or if the version is
// not known, all searches take the second way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "run/loader/sites.h"
#include "run/python/python_api.h"
#include "run/python/python_offsets.h"
#include "shm/cell.h"

namespace perfschema::run {

// A frame in a search.
struct Frame {
  PyObject* code;
  PyObject* globals;
  int at;           // of the instruction, as PyFrame_GetLasti() counts
  PyFrame* object;  // nullptr in a raw walk
};

// Is what is known of a function's code in a module.
struct Code {
  // What a function of threading does with a lock that it makes.
  enum class Role : uint8_t { kNone, kWaits, kIsJoined, kStarts };

  PyObject* code;     // with a reference, so that no other code comes to that address
  PyObject* globals;  // the module's; without a reference
  const char* skipped;
  bool is_skipped;  // of waiting, or of a package in `skipped`
  bool is_end;      // of one there that ends the search
  Role role;
  bool is_of_all;  // in a module of waiting that says nothing of the user: threading or queue
  // How far the code is from the user's own.
  enum class Whose : uint8_t { kUser, kPackage, kStandardLibrary, kNobody };
  Whose whose;
  const Site* file;     // nullptr if it is skipped, or has no file
  const Site* waiting;  // the name of a module of waiting; nullptr for others
};

// Texts of a frame. `function` is needed in threading only.
struct CodeTexts {
  std::string_view module, file, function;
};
// Returns what the texts say of a frame's code.
Code CodeOfTexts(const Frame& frame, const char* skipped, const CodeTexts& texts);
// Returns the site MODULE:LINE, or nullptr if there are too many.
const Site* SiteOfLock(std::string_view module, int line);

// Is what is known of a place in a function.
struct Line {
  PyObject* code;  // with a reference
  PyObject* globals;
  int at, line;
  const Site* lock;  // name of a lock made there, MODULE:LINE; nullptr if nobody asked for it
};

// What frames have said. To ask CPython each time costs a search in the code's table of lines and some texts for each frame. Direct-mapped:
// the last one has the entry. REQUIRES: the GIL.
class Remembered {
 public:
  // Both return nullptr if it is not remembered and the frame has no object. If the frame has one, what they return is in `copy`: code of
  // the program may run before they return, and come back here. `skipped`: as of PythonLineOfThread().
  const Code* CodeOf(const Frame& frame, const char* skipped, Code* copy) {
    Code& entry = codes_[(Mixed(frame.code) + reinterpret_cast<uintptr_t>(skipped)) % kCodes];
    const bool is_known = entry.code == frame.code && entry.globals == frame.globals && entry.skipped == skipped;
    return Known(frame, is_known, skipped, &entry, copy);
  }
  const Line* LineOf(const Frame& frame, bool with_lock, Line* copy) {
    Line& entry = lines_[(Mixed(frame.code) + static_cast<unsigned>(frame.at) / 2) % kLines];
    const bool is_known =
        entry.code == frame.code && entry.globals == frame.globals && entry.at == frame.at && (entry.lock != nullptr || !with_lock);
    return Known(frame, is_known, with_lock, &entry, copy);
  }

 private:
  static constexpr size_t kCodes = 512, kLines = 256;
  static uintptr_t Mixed(const PyObject* code) { return reinterpret_cast<uintptr_t>(code) / 16; }
  template <typename Asked, typename Entry>
  PFS_ALWAYS_INLINE static const Entry* Known(const Frame& frame, bool is_known, Asked asked, Entry* entry, Entry* copy) {
    if (__builtin_expect(frame.object == nullptr, 1)) return is_known ? entry : nullptr;
    *copy = is_known ? *entry : Ask(frame, asked);
    if (!is_known) Keep(*copy, entry);
    return copy;
  }
  static Code Ask(const Frame& frame, const char* skipped);
  static Line Ask(const Frame& frame, bool with_lock);
  // Keeps an entry in place of another one, whose code it drops.
  template <typename Entry>
  static void Keep(const Entry& fresh, Entry* entry) {
    g_py.Py_IncRef(fresh.code);
    const Reference<PyObject> dropped(entry->code);
    *entry = fresh;
  }

  Code codes_[kCodes] = {};
  Line lines_[kLines] = {};
};
extern Remembered g_remembered __attribute__((visibility("hidden")));

// Frames of which g_remembered says more.
struct RememberedFrames {
  static const Code* CodeOf(const Frame& frame, const char* skipped, Code* copy) { return g_remembered.CodeOf(frame, skipped, copy); }
  static const Line* LineOf(const Frame& frame, bool with_lock, Line* copy) { return g_remembered.LineOf(frame, with_lock, copy); }
};

// Returns the site of a text that lives as long as the process, or nullptr if there are too many. Lock-free.
const Site* SiteOfText(std::string_view text);

// Returns the state of this thread if the thread has the GIL of the main interpreter, else nullptr. A subinterpreter may have a GIL of its
// own (3.12), which would not guard what is remembered here.
PyThreadState* StateWithGil();

// Is where a version of CPython has what a raw walk needs: offsets in PyThreadState, _PyCFrame and _PyInterpreterFrame.
struct FrameLayout {
  unsigned version;       // as in PY_VERSION_HEX, without the last two bytes
  bool has_cframe;        // the state leads to a _PyCFrame, and that to the frame
  uint8_t state, cframe;  // to the innermost frame
  uint8_t code, globals, previous, instruction, owner;
};

// Says whether the layout of the interpreter is trusted. REQUIRES: the GIL.
struct FrameTrust {
  FrameLayout layout;  // version 0: there is none
  bool is_looked_for;
  int agreements, disagreements;  // of walks that were compared
  intptr_t code_offset;           // of the first instruction in a code object: learned from the first frame; 0 = not yet

  // CPython does not show a frame whose function is only about to begin: some walks may disagree.
  static constexpr int kAgreements = 32, kMostDisagreements = 8;
  bool is_trusted() const { return agreements >= kAgreements; }
};
extern FrameTrust g_frame_trust __attribute__((visibility("hidden")));

// Reads frames without objects. REQUIRES: the GIL, around its whole use, in which no Python code runs.
class RawFrames : public RememberedFrames {
 public:
  explicit RawFrames(const PyThreadState* state)
      : layout_(g_frame_trust.layout), code_offset_(g_frame_trust.code_offset), next_(At<const char*>(state, layout_.state)) {
    if (layout_.has_cframe && next_ != nullptr) next_ = At<const char*>(next_, layout_.cframe);
  }
  // Steps to the next frame, the innermost first. Returns false at the end.
  bool Next(Frame* frame) {
    const char* here = next_;
    while (here != nullptr && At<unsigned char>(here, layout_.owner) >= kOwnedByC) here = At<const char*>(here, layout_.previous);
    if (here == nullptr) return false;
    next_ = At<const char*>(here, layout_.previous);
    auto* const code = reinterpret_cast<PyObject*>(At<uintptr_t>(here, layout_.code) & ~kMarksOfReference);
    const intptr_t at = At<const char*>(here, layout_.instruction) - reinterpret_cast<const char*>(code) - code_offset_;
    *frame = {code, At<PyObject*>(here, layout_.globals), static_cast<int>(at), nullptr};
    return true;
  }
  // Returns the address of the frame that comes next, which may be one that stands for a call from C.
  const void* next() const { return next_; }

 private:
  template <typename Value>
  static Value At(const void* object, size_t offset) {
    Value value;
    __builtin_memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
    return value;
  }

  const FrameLayout layout_;
  const intptr_t code_offset_;
  const char* next_;
};

// Compares the frames of a search with those of a raw walk, until the layout is trusted. REQUIRES: as RawFrames.
class LayoutCheck {
 public:
  explicit LayoutCheck(PyThreadState* state);
  ~LayoutCheck();
  LayoutCheck(const LayoutCheck&) = delete;
  LayoutCheck& operator=(const LayoutCheck&) = delete;
  void Compare(const Frame& frame);

 private:
  bool Finds(const Frame& frame, Frame* raw);

  std::optional<RawFrames> raw_;  // nothing: there is nothing to compare any more
  bool is_first_ = true;
};

// Walks the frames by their objects. REQUIRES: the GIL.
class FrameObjects : public RememberedFrames {
 public:
  explicit FrameObjects(PyThreadState* state);
  ~FrameObjects();
  FrameObjects(const FrameObjects&) = delete;
  FrameObjects& operator=(const FrameObjects&) = delete;
  bool Next(Frame* frame);

 private:
  LayoutCheck check_;
  const int collector_was_on_;  // while frames are read it does not run: it could run code of the program
  Reference<PyFrame> frame_{nullptr};
  Reference<PyObject> code_{nullptr}, globals_{nullptr};
  PyThreadState* state_;
};

// What a search does after a frame.
enum class Step : uint8_t {
  kGoOn,
  kDone,
  kUnknown  // it is not remembered
};

// Calls `visit` as SearchFrames() does, with one way to go.
template <typename Frames, typename Result, typename Visit>
Step WalkFrames(Frames&& frames, const char* skipped, Visit visit, Result* result) {
  constexpr int kMostFrames = 32;
  Frame frame;
  Code copy;
  for (int i = 0; i < kMostFrames && frames.Next(&frame); ++i) {
    const Code* const code = frames.CodeOf(frame, skipped, &copy);
    const Step step = code != nullptr ? visit(result, frames, frame, *code) : Step::kUnknown;
    if (step != Step::kGoOn) return step;
  }
  return Step::kDone;
}

// Returns what `visit(Result*, Frames&, const Frame&, const Code&) -> Step` makes of `start` in this thread's frames; `start` if it has
// none, or not the GIL. A search that begins again begins with `start`.
template <typename Result, typename Visit>
Result SearchFrames(const Result& start, const char* skipped, Visit visit) {
  PyThreadState* const state = StateWithGil();
  Result result = start;
  if (state == nullptr) return result;
  if (__builtin_expect(g_frame_trust.is_trusted(), 1)) {
    if (__builtin_expect(WalkFrames(RawFrames(state), skipped, visit, &result) == Step::kDone, 1)) return result;
    result = start;
  }
  (void)WalkFrames(FrameObjects(state), skipped, visit, &result);
  return result;
}

}  // namespace perfschema::run
