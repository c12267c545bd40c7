// run/python/python_offsets.cpp: see python_offsets.h.
#include "run/python/python_offsets.h"

#include <cstring>

namespace perfschema::run {

namespace {

// Parts of _Py_DebugOffsets, in the order of their words. Their names are ours.
struct WordsOfHead {
  char cookie[8];
  uint64_t version, is_free_threaded;
  struct {
    uint64_t size, finalizing, interpreters;
  } runtime;
};
struct WordsOfInterpreter313 {
  uint64_t size, id, next, threads, collector, modules, sys, builtins, gil, gil_state, gil_enabled, gil_locked, gil_holder;
};
struct WordsOfInterpreter314 {
  uint64_t size, id, next, threads, main_thread, collector, modules, sys, builtins, gil, gil_state, gil_enabled, gil_locked, gil_holder,
      generation_of_code, generation_of_copies;
};
struct WordsOfThread313 {
  uint64_t size, previous, next, interpreter, frame, id, native_id, chunk, status;
};
struct WordsOfThread315 {
  uint64_t size, previous, next, interpreter, frame, base_frame, profiled[2], id, native_id, chunk, status, gil[2], exceptions[2];
};
struct WordsOfFrame313 {
  uint64_t size, previous, executable, instruction, locals, owner;
  static constexpr uint64_t stack = 0, copy = 0;
};
struct WordsOfFrame314 {
  uint64_t size, previous, executable, instruction, locals, owner, stack, copy;
};
struct WordsOfCode313 {
  uint64_t size, file, name, qualified_name, lines, first_line, arguments, names, kinds, instructions;
  static constexpr uint64_t copies = 0;
};
struct WordsOfCode314 {
  uint64_t size, file, name, qualified_name, lines, first_line, arguments, names, kinds, instructions, copies;
};
struct WordsOfObject {
  uint64_t size, type;
};
struct WordsOfType {
  uint64_t size, name, repr, flags;
};
struct WordsOfTuple {
  uint64_t size, items, length;
};
struct WordsOfBytes {
  uint64_t size, length, bytes;
};
struct WordsOfText {
  uint64_t size, state, length, ascii_size;
};
struct WordsOfCollector {
  uint64_t size, is_collecting;
};

struct Offsets313 {
  WordsOfHead head;
  WordsOfInterpreter313 interpreter;
  WordsOfThread313 thread;
  WordsOfFrame313 frame;
  WordsOfCode313 code;
  WordsOfObject object;
  WordsOfType type;
  WordsOfTuple tuple;
  uint64_t list[3], dict[3], float_number[2], long_number[3];
  WordsOfBytes bytes;
  WordsOfText text;
  WordsOfCollector collector;
};
struct Offsets314 {
  WordsOfHead head;
  WordsOfInterpreter314 interpreter;
  WordsOfThread313 thread;
  WordsOfFrame314 frame;
  WordsOfCode314 code;
  WordsOfObject object;
  WordsOfType type;
  WordsOfTuple tuple;
  uint64_t list[3], set[4], dict[3], float_number[2], long_number[3];
  WordsOfBytes bytes;
  WordsOfText text;
  WordsOfCollector collector;
};
struct Offsets315 {
  WordsOfHead head;
  WordsOfInterpreter314 interpreter;
  WordsOfThread315 thread;
  uint64_t exception;
  WordsOfFrame314 frame;
  WordsOfCode314 code;
  WordsOfObject object;
  WordsOfType type;
  uint64_t more_of_type[2], heap_type[2];
  WordsOfTuple tuple;
  uint64_t list[3], set[4], dict[3], float_number[2], long_number[3];
  WordsOfBytes bytes;
  WordsOfText text;
  uint64_t more_of_text;
  WordsOfCollector collector;
};

template <typename Words>
PythonOffsets Taken(const char* runtime, unsigned version) {
  Words from;
  std::memcpy(&from, runtime, sizeof from);
  PythonOffsets to;
  to.version = version;
  to.is_free_threaded = from.head.is_free_threaded != 0;
  to.runtime = {from.head.runtime.size};
  to.interpreter = {from.interpreter.size, from.interpreter.collector};
  to.thread = {from.thread.size, from.thread.interpreter, from.thread.frame};
  to.frame = {from.frame.previous, from.frame.executable, from.frame.instruction, from.frame.locals,
              from.frame.owner,    from.frame.stack,      from.frame.copy};
  to.code = {from.code.file,  from.code.name,         from.code.lines, from.code.first_line,
             from.code.names, from.code.instructions, from.code.copies};
  to.object = {from.object.size, from.object.type};
  to.type = {from.type.name, from.type.flags};
  to.tuple = {from.tuple.length, from.tuple.items};
  to.bytes = {from.bytes.length, from.bytes.bytes};
  constexpr uint64_t kBits = 2, kBitsOfByte = 8;  // in front, of what says whether a text is interned
  to.text = {from.text.state, from.text.length, from.text.ascii_size, to.is_free_threaded && version >= kPython314 ? kBitsOfByte : kBits};
  to.collector = {from.collector.is_collecting};
  return to;
}

}  // namespace

PythonOffsets OffsetsOf(const char* runtime) {
  WordsOfHead head;
  if (runtime == nullptr) return {};
  std::memcpy(&head, runtime, sizeof head);
  if (std::memcmp(head.cookie, "xdebugpy", sizeof head.cookie) != 0) return {};
  constexpr uint64_t kBelowMinor = 16;  // bits
  const auto version = static_cast<unsigned>(head.version >> kBelowMinor);
  if (version == kPython313) return Taken<Offsets313>(runtime, version);
  if (version == kPython314) return Taken<Offsets314>(runtime, version);
  return version == kPython315 ? Taken<Offsets315>(runtime, version) : PythonOffsets{};
}

}  // namespace perfschema::run
