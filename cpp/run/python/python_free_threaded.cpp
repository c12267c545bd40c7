// run/python/python_free_threaded.cpp: see python_free_threaded.h.
#include "run/python/python_free_threaded.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "base/placement.h"
#include "record/family/file_name.h"
#include "run/loader/exported.h"
#include "run/python/python_bytecode.h"
#include "run/python/python_offsets.h"

namespace perfschema::run {

PFS_SET_IN_EVERY_PROCESS bool g_reads_free_threads = false;

namespace {

// What the interpreter exports and is read here. Constant after start.
struct Exports {
  PythonOffsets at;
  const char* runtime;  // _PyRuntime
  PyThreadState* (*state_of_thread)();
  const void *type_of_types, *type_of_dicts, *type_of_code, *type_of_texts, *type_of_bytes, *type_of_methods, *type_of_slots;
};
PFS_SET_IN_EVERY_PROCESS Exports python = {};
// Whether these are known, and what they say is right. Constant after start.
PFS_SET_IN_EVERY_PROCESS bool knows_parks = false;

template <typename Value>
Value At(const void* object, uint64_t offset) {
  Value value;
  std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
  return value;
}

const void* TypeOf(const void* object) { return At<const void*>(object, python.at.object.type); }

// ---- Texts, lines and modules ---------------------------------------------------------------------------------------------------------

// The beginning of a text of Python, as UTF-8.
class Utf8 {
 public:
  explicit Utf8(const void* object) {
    if (object == nullptr || TypeOf(object) != python.type_of_texts) return;
    const uint32_t state = At<uint32_t>(object, python.at.text.state) >> python.at.text.width;
    const bool is_compact = (state & 1u << 3) != 0, is_ascii = (state & 1u << 4) != 0;
    const uint32_t width = state & 7;
    if (!is_compact) return;
    constexpr uint64_t kSizeOfCopy = 16;  // the length and the address of a copy in UTF-8
    const char* from = static_cast<const char*>(object) + python.at.text.ascii_size + (is_ascii ? 0 : kSizeOfCopy);
    for (auto left = At<intptr_t>(object, python.at.text.length); left > 0 && bytes_ + 4 <= sizeof text_; --left, from += width) {
      Add(width == 1 ? At<uint8_t>(from, 0) : width == 2 ? At<uint16_t>(from, 0) : At<uint32_t>(from, 0));
    }
  }
  std::string_view view() const { return {text_, bytes_}; }

 private:
  void Add(uint32_t character) {
    const auto add = [this](uint32_t bits) { text_[bytes_++] = static_cast<char>(bits); };
    if (character < 0x80) return add(character);
    if (character >= 0x10000) {
      add(0xf0 | character >> 18);
      add(0x80 | (character >> 12 & 0x3f));
    } else if (character >= 0x800) {
      add(0xe0 | character >> 12);
    } else {
      return add(0xc0 | character >> 6), add(0x80 | (character & 0x3f));
    }
    add(0x80 | (character >> 6 & 0x3f));
    add(0x80 | (character & 0x3f));
  }

  char text_[512];
  size_t bytes_ = 0;
};

// Returns the line of an instruction from a code's table of lines; 0 if it has none. The table is that of CPython 3.11 and later.
int LineAt(const void* code, int at) {
  const auto* const table = At<const char*>(code, python.at.code.lines);
  auto line = At<int>(code, python.at.code.first_line);
  if (at < 0 || TypeOf(table) != python.type_of_bytes) return line;
  const auto* entry = reinterpret_cast<const uint8_t*>(table + python.at.bytes.bytes);
  const uint8_t* const end = entry + At<intptr_t>(table, python.at.bytes.length);
  const auto delta_in = [end](const uint8_t* number) {  // six bits a byte, the lowest first; the first bit is the sign
    uint32_t bits = 0;
    for (uint32_t shift = 0; number < end && shift < 32; shift += 6) {
      bits |= (*number & 63u) << shift;
      if ((*number++ & 64u) == 0) break;
    }
    const int delta = static_cast<int>(bits >> 1);
    return (bits & 1u) != 0 ? -delta : delta;
  };
  constexpr int kSameLine = 10, kTwoBelow = 12, kWithoutColumns = 13, kLong = 14, kNone = 15;
  for (int code_end = 0; entry < end;) {
    const int kind = *entry >> 3 & 15;
    if (kind >= kSameLine && kind <= kTwoBelow) line += kind - kSameLine;
    if (kind == kWithoutColumns || kind == kLong) line += delta_in(entry + 1);
    code_end += ((*entry & 7) + 1) * 2;
    if (at < code_end) return kind == kNone ? 0 : line;
    do {
      ++entry;
    } while (entry < end && (*entry & 128) == 0);  // an entry begins with a byte that has the top bit
  }
  return 0;
}

constexpr std::string_view kFrozen = "<frozen ";

// The file of the program's module __main__; nullptr while it is not known.
std::atomic<const Site*> main_file{nullptr};

// Returns the part of a file's path that names its module.
std::string_view PathInFolders(std::string_view file) {
  const std::string_view layer = FolderOfPythonLayer();
  if (!layer.empty() && file.size() > layer.size() && file.starts_with(layer)) return file.substr(layer.size() + 1);
  for (const std::string_view folder : {std::string_view("/site-packages/"), std::string_view("/dist-packages/")}) {
    if (const size_t at = file.rfind(folder); at != file.npos) return file.substr(at + folder.size());
  }
  constexpr std::string_view kLibrary = "/lib/python3.";
  if (const size_t at = file.rfind(kLibrary); at != file.npos) return file.substr(file.find('/', at + kLibrary.size()) + 1);
  if (const Site* const main = main_file.load(std::memory_order_acquire); main != nullptr) {
    const std::string_view path(main->text), folder = path.substr(0, path.rfind('/') + 1);
    if (!folder.empty() && file.starts_with(folder)) return file.substr(folder.size());
  }
  return file.substr(file.rfind('/') + 1);
}

// Writes the name of the module that a file has. Returns its bytes. The dict of the module has the name, too, but other threads change it.
size_t ModuleOfFile(std::string_view file, char* out, size_t size) {
  const Site* const main = main_file.load(std::memory_order_acquire);
  std::string_view name = file;
  if (main != nullptr && file == main->text) {
    name = "__main__";
  } else if (file.starts_with(kFrozen)) {
    name = file.substr(kFrozen.size(), file.size() - kFrozen.size() - 1);
  } else {
    name = PathInFolders(file);
    for (const std::string_view ending : {std::string_view(".py"), std::string_view("/__init__")}) {
      if (name.ends_with(ending)) name.remove_suffix(ending.size());
    }
  }
  const size_t bytes = name.copy(out, size);
  std::replace(out, out + bytes, '/', '.');
  return bytes;
}

// ---- What a thread waits for --------------------------------------------------------------------------------------------------------

// The lock that this thread has made a semaphore for, and its state then: another thread may change the state later.
struct NotedPark {
  const void* semaphore;
  const char* lock;
  uint8_t state;
};
thread_local constinit NotedPark t_noted __attribute__((tls_model("initial-exec"))) = {};
constexpr uint8_t kLockedAndParked = 3;  // of a PyMutex. An event that is waited for has another state

constexpr uintptr_t kLeastPage = 4096;

// Copies memory that need not be there. Returns false if it is not.
bool ReadIfThere(const void* from, void* to, size_t size) {
  const auto first = reinterpret_cast<uintptr_t>(from);
  if (first < kLeastPage || !IsReadable(first, size)) return false;
  std::memcpy(to, from, size);
  return true;
}

// Returns the name of a type of objects, or nothing if there is no object.
bool NameOfType(const char* object, char* out, size_t size) {
  const void *type = nullptr, *type_of_type = nullptr;
  const char* name = nullptr;
  const auto field = [](const void* of, uint64_t at) { return static_cast<const char*>(of) + at; };
  const uint64_t at_type = python.at.object.type, at_flags = python.at.type.flags;
  if (!ReadIfThere(field(object, at_type), &type, sizeof type) || !ReadIfThere(field(type, at_type), &type_of_type, sizeof type_of_type))
    return false;
  unsigned long flags = 0;
  if (!ReadIfThere(field(type_of_type, at_flags), &flags, sizeof flags) || (flags & kIsType) == 0) return false;
  if (!ReadIfThere(field(type, python.at.type.name), &name, sizeof name)) return false;
  size_t bytes = 0;
  for (const char* at = name; bytes + 1 < size; ++at) {
    const bool is_in_known_page = at != name && reinterpret_cast<uintptr_t>(at) % kLeastPage != 0;
    if ((!is_in_known_page && !IsReadable(reinterpret_cast<uintptr_t>(at), 1)) || *at == 0) break;
    out[bytes++] = static_cast<unsigned char>(*at) <= ' ' || *at == '/' ? '_' : *at;
  }
  out[bytes] = 0;
  return bytes != 0;
}

// Returns whether this thread is about to enter a critical section of two objects. The thread's state has the address of the section, which
// is on the stack, with marks in the low bits: of two; it has been let go while the thread waits.
bool EntersSectionOfTwo(const char* thread, const void* semaphore) {
  constexpr uintptr_t kOfTwo = 2, kMarks = 3, kStackOfCall = 1 << 14;
  for (uint64_t at = 0; at + sizeof(uintptr_t) <= python.at.thread.size; at += sizeof(uintptr_t)) {
    const auto word = At<uintptr_t>(thread, at);
    const uintptr_t section = word & ~kMarks;
    if ((word & kOfTwo) == 0 || section - reinterpret_cast<uintptr_t>(semaphore) >= kStackOfCall) continue;
    constexpr uint64_t kLock = sizeof(uintptr_t);  // PyCriticalSection: the section around it, its lock once it is held
    return At<const void*>(reinterpret_cast<const void*>(section), kLock) == nullptr;
  }
  return false;
}

// Where an interpreter has locks that stand for something. CPython does not say it: known by the sizes of the structs, on x86-64.
struct KnownLocks {
  uint64_t runtime_size, interpreter_size;
  uint64_t stop_of_all, stop, types;
};
constexpr KnownLocks kKnownLocks[] = {
    {328320, 215616, 10336, 10744, 196152},  // 3.13
    {362368, 246720, 10552, 10848, 196456},  // 3.14
    {406016, 247104, 10672, 10808, 196616},  // 3.15
};

Parked ConditionOf(const char* what, bool is_for_gc, const char* of_gc) { return {SiteOfText(is_for_gc ? of_gc : what), Kind::kSemaphore}; }

// Returns what a lock of the interpreter itself protects.
Parked OfInterpreter(uint64_t in_runtime, uint64_t in_interpreter, bool is_mutex, bool is_collecting) {
  const Parked stop = ConditionOf("stop-the-world-other", is_collecting, "stop-the-world-gc");
  // The only event there is a byte behind others. A word counts the threads of C that the end of the interpreter waits for, from 3.15 on.
  const bool is_count = in_interpreter < python.at.interpreter.size && in_interpreter % alignof(void*) == 0;
  if (!is_mutex) return is_count ? Parked{SiteOfText("interpreter"), Kind::kSemaphore} : stop;
  for (const KnownLocks& known : kKnownLocks) {
    if (known.runtime_size != python.at.runtime.size || known.interpreter_size != python.at.interpreter.size) continue;
    if (in_runtime == known.stop_of_all || in_interpreter == known.stop) return stop;
    if (in_interpreter == known.types) return {SiteOfText("types"), Kind::kPythonObject};
  }
  return {SiteOfText("interpreter"), Kind::kPythonObject};
}

// Returns whether a type is one of the locks of threading.
bool IsTypeOfLock(std::string_view type) { return type == "_thread.lock" || type == "_thread.RLock"; }

// Writes the variable of this thread's innermost frame that is the object, or what of the object the frame changes. Returns the bytes; 0 if
// that is not certain.
size_t WriteVariable(const char* object, char* out, size_t size);

// Returns the site of a name with a variable; nullptr if there are too many: each is an instrument, and a program that writes code may have
// any number of variables. Lock-free.
const Site* SiteOfVariable(std::string_view name) {
  constexpr size_t kMost = 100;
  static constinit std::atomic<const Site*> sites[kMost] = {};
  static constinit std::atomic<size_t> taken{0};
  for (const std::atomic<const Site*>& each : sites) {
    const Site* const site = each.load(std::memory_order_acquire);
    if (site != nullptr && name == site->text) return site;
  }
  if (taken.load(std::memory_order_relaxed) >= kMost) return nullptr;
  const size_t place = taken.fetch_add(1, std::memory_order_relaxed);
  if (place >= kMost) return nullptr;
  const Site* const site = SiteOfText(name);
  sites[place].store(site, std::memory_order_release);
  return site;
}

// Returns what a lock protects that is not the interpreter's. A lock that `is_known` is a PyMutex that a thread waits for.
Parked OfMutex(const char* lock, bool is_known, bool is_of_two) {
  constexpr uintptr_t kLockInObject = 10;  // PyObject.ob_mutex
  const auto at = reinterpret_cast<uintptr_t>(lock) % alignof(void*);
  char type[64];
  const auto is_in = [&](uintptr_t offset) {
    return is_known && at == offset % alignof(void*) && NameOfType(lock - offset, type, sizeof type);
  };
  const bool guards_object = is_in(kLockInObject);
  if (!guards_object && !is_in(python.at.object.size)) return {SiteOfText("interpreter"), Kind::kPythonObject};
  if (!guards_object && IsTypeOfLock(type)) return {nullptr, Kind::kPythonObject};
  char name[192];
  const auto bytes =
      static_cast<size_t>(std::snprintf(name, sizeof name / 2, "%s-%s-", guards_object && is_of_two ? "two-objects" : "object", type));
  const char* const object = lock - (guards_object ? kLockInObject : python.at.object.size);
  const size_t bytes_of_variable = WriteVariable(object, name + bytes, sizeof name - bytes);
  const Site* const site = bytes_of_variable != 0 ? SiteOfVariable({name, bytes + bytes_of_variable}) : nullptr;
  return {site != nullptr ? site : SiteOfText({name, bytes - 1}), Kind::kPythonObject};
}

}  // namespace

PFS_IN_EVERY_PROCESS void StartParks(const link_map& interpreter) {
  const Exported exported(interpreter);
  const auto find = [&](std::string_view name) { return exported.Find(SymbolName(name)); };
  const auto* const runtime = static_cast<const char*>(find("_PyRuntime"));
  python = {OffsetsOf(runtime),
            runtime,
            reinterpret_cast<PyThreadState* (*)()>(find("PyGILState_GetThisThreadState")),
            find("PyType_Type"),
            find("PyDict_Type"),
            find("PyCode_Type"),
            find("PyUnicode_Type"),
            find("PyBytes_Type"),
            find("PyMethodDescr_Type"),
            find("PyWrapperDescr_Type")};
  const PythonOffsets& at = python.at;
  constexpr uint64_t kMostOffset = 64;
  if (at.version == 0 || python.state_of_thread == nullptr) return;
  if (at.object.type > kMostOffset || at.type.name > kMostOffset) return;
  const auto is_type = [](const void* type, const char* name) {
    return type != nullptr && TypeOf(type) == python.type_of_types && std::strcmp(At<const char*>(type, python.at.type.name), name) == 0;
  };
  knows_parks = is_type(python.type_of_types, "type") && is_type(python.type_of_dicts, "dict") && is_type(python.type_of_code, "code") &&
                is_type(python.type_of_texts, "str") && is_type(python.type_of_bytes, "bytes");
  g_reads_free_threads = knows_parks && at.is_free_threaded;
}

PFS_IN_EVERY_PROCESS bool TakesLayer() { return g_reads_free_threads && python.at.version >= kPython314; }

namespace {

const char* InnermostFrame() {
  const PyThreadState* const thread = python.state_of_thread();
  return thread != nullptr ? At<const char*>(thread, python.at.thread.frame) : nullptr;
}

const void* CodeIn(const char* frame) {
  const auto reference = At<uintptr_t>(frame, python.at.frame.executable) & ~kMarksOfReference;
  const auto* const executable = reinterpret_cast<const void*>(reference);
  return executable != nullptr && TypeOf(executable) == python.type_of_code ? executable : nullptr;  // else it stands for a call from C
}

// Returns where a frame is in its code, in bytes; less than 0 if that is not known. A thread may run a copy of the instructions, which an
// array of the code has by its number. Other threads replace that array when they make copies of their own.
int PlaceIn(const char* frame, const void* code, const char** instructions = nullptr) {
  const char* first = static_cast<const char*>(code) + python.at.code.instructions;
  const auto copy = python.at.frame.copy != 0 ? At<int32_t>(frame, python.at.frame.copy) : 0;
  if (copy != 0) {
    const auto* const copies = At<const char*>(code, python.at.code.copies);
    intptr_t count = 0;
    const bool is_there = ReadIfThere(copies, &count, sizeof count) && copy > 0 && copy < count;
    if (!is_there || !ReadIfThere(copies + sizeof count + static_cast<size_t>(copy) * sizeof first, &first, sizeof first)) return -1;
  }
  if (instructions != nullptr) *instructions = first;
  constexpr intptr_t kMostBytes = 1 << 30;
  const intptr_t at = At<intptr_t>(frame, python.at.frame.instruction) - reinterpret_cast<intptr_t>(first);
  return at >= 0 && at < kMostBytes ? static_cast<int>(at) : -1;
}

// ---- Variables ------------------------------------------------------------------------------------------------------------------------

// What the Python layer has said.
struct Instructions {
  Instruction known[kOpcodes];
  uint64_t names;  // where a code has its tuple of names
};
Instructions instructions;
std::atomic<bool> knows_instructions{false};

const void* ObjectIn(uintptr_t reference) {
  constexpr uintptr_t kNumber = 3;  // these marks say that it is no object
  return (reference & kMarksOfReference) == kNumber ? nullptr : reinterpret_cast<const void*>(reference & ~kMarksOfReference);
}

const void* ItemOf(const void* tuple, size_t index) {
  if (index >= At<uintptr_t>(tuple, python.at.tuple.length)) return nullptr;
  return At<const void*>(tuple, python.at.tuple.items + index * sizeof(void*));
}

// Returns whether an object has its attributes in that dict.
bool HasDict(const void* object, const char* dict) {
  constexpr unsigned long kHasDictInFront = 1ul << 4;                                // Py_TPFLAGS_MANAGED_DICT
  constexpr uint64_t kDict = 12 * sizeof(void*), kPlaceOfDict = 15 * sizeof(void*);  // of PyTypeObject, behind the flags
  const void* const type = TypeOf(object);
  const uint64_t flags = python.at.type.flags;
  if ((At<unsigned long>(type, flags) & kIsType) != 0) return At<const char*>(object, flags + kDict) == dict;
  if ((At<unsigned long>(type, flags) & kHasDictInFront) != 0)
    return At<const char*>(static_cast<const char*>(object) - sizeof(void*), 0) == dict;
  const auto place = At<intptr_t>(type, flags + kPlaceOfDict);
  return place > 0 && At<const char*>(object, static_cast<uint64_t>(place)) == dict;
}

// The innermost frame of this thread, in its instruction.
class Doing {
 public:
  // Returns whether the frame is known.
  bool Start() {
    frame_ = InnermostFrame();
    code_ = frame_ != nullptr ? CodeIn(frame_) : nullptr;
    if (code_ == nullptr || !knows_instructions.load(std::memory_order_acquire)) return false;
    names_ = At<const void*>(code_, instructions.names);
    locals_ = At<const void*>(code_, python.at.code.locals);
    count_of_locals_ = At<uintptr_t>(locals_, python.at.tuple.length);
    const char* first = nullptr;
    const int at = PlaceIn(frame_, code_, &first);
    const size_t bytes = At<uintptr_t>(code_, python.at.bytes.length) * 2;  // as of all objects of variable size
    is_known_ = at >= 0 && ReadInstructions(instructions.known, first, bytes, static_cast<size_t>(at), &before_) && IsInPlace();
    return true;
  }

  size_t Write(const char* object, char* out, size_t size) {
    out_ = {out, size};
    if (is_known_ && (WriteHolder(object) || WriteOperand(object))) return bytes_;
    for (size_t i = 0; i < count_of_locals_; ++i) {
      if (Local(i) == object && Add(ItemOf(locals_, i))) return bytes_;
    }
    return 0;
  }

 private:
  const void* Local(size_t index) const { return ObjectIn(At<uintptr_t>(frame_, python.at.frame.locals + index * sizeof(uintptr_t))); }
  // Returns a value of the stack, by its index in what is known.
  const void* Value(int index) const {
    const auto* const end = At<const char*>(frame_, python.at.frame.stack);
    return ObjectIn(At<uintptr_t>(end - static_cast<size_t>(before_.count - index) * sizeof(uintptr_t), 0));
  }

  // Returns whether the stack has what the instructions have left there. An instruction may have taken values before it waits: those of a
  // call, whose function is over and drops its variables.
  bool IsInPlace() const {
    const auto* const end = At<const char*>(frame_, python.at.frame.stack);
    const char* const first = frame_ + python.at.frame.locals + count_of_locals_ * sizeof(uintptr_t);
    const auto bytes = reinterpret_cast<uintptr_t>(end) - reinterpret_cast<uintptr_t>(first);
    constexpr uintptr_t kMostBytes = 1 << 20;
    if (bytes > kMostBytes || bytes / sizeof(uintptr_t) < static_cast<size_t>(before_.count)) return false;
    for (int i = 0; i < before_.count; ++i) {
      const Loaded& loaded = before_.stack[i];
      const bool has_method = Value(i) == nullptr || (i > 0 && IsMethod(Value(i - 1)));
      if (loaded.is_owner_of_method && !has_method) return false;
      if (loaded.from == Loaded::From::kNothing && Value(i) != nullptr) return false;
      const bool is_local = loaded.from == Loaded::From::kLocal && loaded.attributes == 0 && !loaded.is_owner_of_method;
      if (is_local && (loaded.index >= count_of_locals_ || Value(i) != Local(loaded.index))) return false;
    }
    return true;
  }

  static bool IsMethod(const void* object) {
    constexpr unsigned long kIsOfMethods = 1ul << 17;  // Py_TPFLAGS_METHOD_DESCRIPTOR
    return object != nullptr && (At<unsigned long>(TypeOf(object), python.at.type.flags) & kIsOfMethods) != 0;
  }

  // Returns whether a value is its variable's: of a method's owner, whether the method below is the type's.
  bool IsOfVariable(int index) const {
    const Loaded& loaded = before_.stack[index];
    if (!loaded.is_variable()) return false;
    if (!loaded.is_owner_of_method) return true;
    const void* const method = index > 0 ? Value(index - 1) : nullptr;
    if (method == nullptr) return false;
    const void* const type = TypeOf(method);
    const uint64_t name = python.at.object.size + sizeof(void*);  // PyDescrObject: behind the type that has the method
    return (type == python.type_of_methods || type == python.type_of_slots) &&
           At<const void*>(method, name) == ItemOf(names_, loaded.method);
  }

  // Adds a name. Returns false if a variable cannot have it.
  bool Add(const void* name) {
    const Utf8 text(name);
    const auto is_odd = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '/' || c == '.'; };
    const std::string_view view = text.view();
    if (view.empty() || view.size() > out_.size() - bytes_ || std::any_of(view.begin(), view.end(), is_odd)) return false;
    bytes_ += view.copy(out_.data() + bytes_, view.size());
    return true;
  }
  bool AddText(std::string_view text) {
    if (text.size() > out_.size() - bytes_) return false;
    bytes_ += text.copy(out_.data() + bytes_, text.size());
    return true;
  }
  bool AddVariable(const Loaded& loaded) {
    if (!Add(ItemOf(loaded.from == Loaded::From::kName ? names_ : locals_, loaded.index))) return false;
    for (int i = 0; i < loaded.attributes; ++i) {
      if (!AddText(".") || !Add(ItemOf(names_, loaded.names[i]))) return false;
    }
    return true;
  }

  // Writes with-NAME if the instruction is for a variable or an attribute in the object or in its dict.
  bool WriteHolder(const char* object) {
    const auto name = before_.does == Does::kAttribute || before_.does == Does::kGlobal ? before_.argument >> 1 : before_.argument;
    bytes_ = 0;
    if (before_.does == Does::kGlobal || before_.does == Does::kName || before_.does == Does::kSetsName) {
      return IsNamespace(object) && AddText("with-") && Add(ItemOf(names_, name));
    }
    const bool is_of_attribute = before_.does == Does::kAttribute || before_.does == Does::kSetsAttribute;
    if (!is_of_attribute || before_.count == 0) return false;
    const int top = before_.count - 1;
    const void* const owner = Value(top);
    if (owner == nullptr || (owner != object && !HasDict(owner, object)) || !AddText("with-")) return false;
    if (IsOfVariable(top) && !AddVariable(before_.stack[top])) return false;
    return AddText(".") && Add(ItemOf(names_, name));
  }

  // Returns whether the frame has its global variables, or those of a class, in that dict: it lists them in front of its instruction.
  bool IsNamespace(const char* object) const {
    for (uint64_t at = python.at.frame.previous + sizeof(void*); at < python.at.frame.instruction; at += sizeof(void*)) {
      if (At<const char*>(frame_, at) == object) return true;
    }
    return false;
  }

  // Writes the variable that the instruction has the object from.
  bool WriteOperand(const char* object) {
    for (int i = before_.count - 1; i >= 0; --i) {
      bytes_ = 0;
      if (Value(i) == object && IsOfVariable(i) && AddVariable(before_.stack[i])) return true;
    }
    bytes_ = 0;
    return false;
  }

  const char* frame_ = nullptr;
  const void *code_ = nullptr, *names_ = nullptr, *locals_ = nullptr;
  size_t count_of_locals_ = 0;
  Before before_;
  bool is_known_ = false;
  std::span<char> out_;
  size_t bytes_ = 0;
};

size_t WriteVariable(const char* object, char* out, size_t size) {
  FreeFrames frames;
  Frame frame;
  Code copy;
  Doing doing;
  // SOURCE is not in a module of waiting, such as threading: nor is the variable.
  if (!doing.Start() || !frames.Next(&frame) || frames.CodeOf(frame, nullptr, &copy)->is_skipped) return 0;
  return doing.Write(object, out, size);
}

// Learns which file is __main__: the outermost frame of the main thread has it, but for runpy. While `site` is imported it has not begun.
void LearnMain(const char* frame) {
  if (syscall(SYS_gettid) != getpid()) return;
  const void* outermost = nullptr;
  for (; frame != nullptr; frame = At<const char*>(frame, python.at.frame.previous)) {
    const void* const code = CodeIn(frame);
    if (code != nullptr && Utf8(At<const void*>(code, python.at.code.file)).view() != "<frozen runpy>") outermost = code;
  }
  if (outermost == nullptr || Utf8(At<const void*>(outermost, python.at.code.name)).view() != "<module>") return;
  const Utf8 file(At<const void*>(outermost, python.at.code.file));
  if (!file.view().starts_with(kFrozen)) main_file.store(SiteOfText(file.view()), std::memory_order_release);
}

}  // namespace

FreeFrames::FreeFrames() : next_(InnermostFrame()) {
  if (__builtin_expect(main_file.load(std::memory_order_relaxed) == nullptr, 0)) LearnMain(next_);
}

bool FreeFrames::Next(Frame* frame) {
  const char* here = next_;
  while (here != nullptr && CodeIn(here) == nullptr) here = At<const char*>(here, python.at.frame.previous);
  if (here == nullptr) return false;
  next_ = At<const char*>(here, python.at.frame.previous);
  const void* const code = CodeIn(here);
  *frame = {static_cast<PyObject*>(const_cast<void*>(code)), nullptr, PlaceIn(here, code), nullptr};
  return true;
}

const Code* FreeFrames::CodeOf(const Frame& frame, const char* skipped, Code* copy) {
  const Utf8 file(At<const void*>(frame.code, python.at.code.file)), function(At<const void*>(frame.code, python.at.code.name));
  module_bytes_ = ModuleOfFile(file.view(), module_, sizeof module_);
  *copy = CodeOfTexts(frame, skipped, {{module_, module_bytes_}, file.view(), function.view()});
  return copy;
}

const Line* FreeFrames::LineOf(const Frame& frame, bool with_lock, Line* copy) const {
  const int line = LineAt(frame.code, frame.at);
  *copy = {frame.code, nullptr, frame.at, line, with_lock ? SiteOfLock({module_, module_bytes_}, line) : nullptr};
  return copy;
}

bool NoteInstructions(const PyObject* rows, const PyObject* code, const PyObject* names) {
  constexpr uint64_t kMostOfCode = 256;
  const bool are_bytes = g_reads_free_threads && TypeOf(rows) == python.type_of_bytes && TypeOf(code) == python.type_of_code;
  if (!are_bytes || At<size_t>(rows, python.at.bytes.length) != kBytesOfInstructions || python.at.frame.stack == 0) return false;
  constexpr uint64_t kFlagsBehindName = 18 * sizeof(void*);  // as HasDict() knows the fields behind them
  if (python.at.type.flags != python.at.type.name + kFlagsBehindName || knows_instructions.load(std::memory_order_relaxed)) return false;
  for (uint64_t at = python.at.object.size; at < kMostOfCode && instructions.names == 0; at += sizeof(void*)) {
    if (At<const void*>(code, at) == names) instructions.names = at;
  }
  if (instructions.names == 0) return false;
  std::memcpy(&instructions.known, reinterpret_cast<const char*>(rows) + python.at.bytes.bytes, sizeof instructions.known);
  knows_instructions.store(true, std::memory_order_release);
  return true;
}

const char* LockOf(const void* semaphore) { return At<const char*>(static_cast<const char*>(semaphore) - sizeof(char*), 0); }

bool IsForLockOfThreading(const void* semaphore) {
  if (!knows_parks) return false;
  const char* const lock = LockOf(semaphore);
  uint8_t state;
  char type[64];
  return reinterpret_cast<uintptr_t>(lock) % alignof(void*) == 0 && ReadIfThere(lock, &state, sizeof state) && state == kLockedAndParked &&
         NameOfType(lock - python.at.object.size, type, sizeof type) && IsTypeOfLock(type);
}

void NotePark(const void* semaphore) {
  const int error = errno;
  ForgetObject(semaphore);
  const char* const lock = LockOf(semaphore);
  t_noted = {semaphore, lock, 0};
  (void)ReadIfThere(lock, &t_noted.state, sizeof t_noted.state);
  errno = error;
}

Parked ParkedAt(const void* semaphore) {
  const int error = errno;
  const char* const lock = LockOf(semaphore);
  const auto* const thread = reinterpret_cast<const char*>(python.state_of_thread());
  const Parked by_line = {nullptr, Kind::kSemaphore};
  if (thread == nullptr) return by_line;
  const auto* const interpreter = At<const char*>(thread, python.at.thread.interpreter);
  const auto offset_in = [lock](const char* in) { return static_cast<uint64_t>(lock - in); };
  const bool is_collecting = At<int>(interpreter, python.at.interpreter.collector + python.at.collector.is_collecting) != 0;
  if (offset_in(thread) < python.at.thread.size) return ConditionOf("stopped-by-other", is_collecting, "stopped-by-gc");
  const bool is_known = t_noted.semaphore == semaphore && t_noted.lock == lock;  // else it is a lock that guards others
  const bool is_mutex = !is_known || t_noted.state == kLockedAndParked;
  if (offset_in(python.runtime) < python.at.runtime.size || offset_in(interpreter) < python.at.interpreter.size) {
    return OfInterpreter(offset_in(python.runtime), offset_in(interpreter), is_mutex, is_collecting);
  }
  Parked found = {nullptr, Kind::kSemaphore};
  if (is_mutex) found = OfMutex(lock, is_known, EntersSectionOfTwo(thread, semaphore));
  errno = error;
  return found;
}

}  // namespace perfschema::run
