// run/python/python_offsets.h: where a CPython has the fields of its structs.
//
// Each version has them elsewhere. From 3.13 on the interpreter says it itself, in the words that its variable _PyRuntime begins with
// (_Py_DebugOffsets). Which word says what differs between versions, too: 3.13, 3.14 and 3.15 are known.
#pragma once

#include <cstdint>

namespace perfschema::run {

// All that is read here. Offsets and sizes are those of the interpreter.
struct PythonOffsets {
  unsigned version;  // as in PY_VERSION_HEX, without the last two bytes; 0: not known
  bool is_free_threaded;
  struct {
    uint64_t size;
  } runtime;
  struct {
    uint64_t size, collector;
  } interpreter;
  struct {
    uint64_t size, interpreter, frame;
  } thread;
  // `locals`: the first one; behind them is the stack, up to what `stack` leads to: 0 in 3.13, which does not say it.
  // `copy`: which of the code's copies its instruction is in. Only free-threaded interpreters have them, from 3.14 on; else 0.
  struct {
    uint64_t previous, executable, instruction, locals, owner, stack, copy;
  } frame;
  struct {
    uint64_t file, name, lines, first_line, locals, instructions, copies;
  } code;
  struct {
    uint64_t size, type;
  } object;
  struct {
    uint64_t name, flags;
  } type;
  struct {
    uint64_t length, items;
  } tuple;
  struct {
    uint64_t length, bytes;
  } bytes;
  // `width`: the first of its bits in the state, which three bits have. The next two say that it is in one piece, and ASCII.
  struct {
    uint64_t state, length, ascii_size, width;
  } text;
  struct {
    uint64_t is_collecting;
  } collector;
};

constexpr unsigned kPython313 = 0x30D, kPython314 = 0x30E, kPython315 = 0x30F;

// Returns what the interpreter says; version 0 if it is of a version that is not known, or says nothing.
PythonOffsets OffsetsOf(const char* runtime);

// A frame has an address of an object with marks in these bits, from 3.14 on.
constexpr uintptr_t kMarksOfReference = 3;
// The owner of a frame that stands for a call from C is this one or a later one.
constexpr unsigned char kOwnedByC = 3;

}  // namespace perfschema::run
