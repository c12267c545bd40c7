// run/python/python_bytecode.h: which variables an instruction of a code of Python has loaded, from the bytes of the code alone.
//
// The numbers of instructions differ between versions of CPython, and so does what they take from the stack and leave there. The Python
// layer reads both from the interpreter's module opcode (python/pfs/_auto/_pfs_run/variables.py). An instruction that it does not know
// leaves a stack of which nothing is known: a variable is named only if that is certain.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perfschema::run {

// What an instruction does. The Python layer has these numbers, too.
enum class Does : uint8_t {
  kHides,          // how long it is, is not known: nothing is known of its code
  kOther,          // no more is known of it than how long it is
  kPlain,          // takes values from the stack, and leaves values without a name
  kLeavesNothing,  // the place of a value without one
  kExtends,        // has the upper bits of the next one's argument
  kJumps,          // to a place behind it, or goes on
  kJumpsAlways,    // to a place behind it
  kBranches,       // to a place behind it, or goes on: what is on the stack there is not known
  kJumpsBack,      // to a place before it
  kLocal,          // loads a local variable
  kCell,           // the same, of one that inner functions use, too
  kTwoLocals,      // loads two: four bits of the argument for each, the first one in the upper bits
  kSecondLocal,    // stores one, and loads the second one of those
  kGlobal,         // loads a global variable: the lowest bit of the argument adds such a place
  kName,           // the same, without that bit
  kAttribute,      // loads an attribute in place of its owner: the lowest bit of the argument adds the owner
  kCopies,         // a value to the top
  kSwaps,          // a value with that at the top
  kSetsAttribute,  // stores or deletes it
  kSetsName,       // stores or deletes a global variable, or one of a class
};

struct Instruction {
  Does does;
  uint8_t caches;              // units behind it that the interpreter keeps for itself
  uint8_t takes;               // from the stack
  uint8_t takes_per_argument;  // times the argument, as well
  uint8_t leaves;
  // Not 0: it goes on in a function of Python. Once that is over, and drops its variables, the values that it takes are gone.
  uint8_t enters;
};
constexpr size_t kOpcodes = 256;
constexpr size_t kBytesOfInstructions = kOpcodes * sizeof(Instruction);

// A value on the stack: the variable that it was loaded from, with up to two attributes behind it.
struct Loaded {
  enum class From : uint8_t { kUnknown, kNothing, kLocal, kCell, kName };
  From from;
  // It is that variable's value only if the value below it is a method of that name, of the type: else the method has another owner.
  bool is_owner_of_method;
  uint8_t attributes;  // how many
  uint16_t index;      // of the local variable, or in the names
  uint16_t names[2];   // of the attributes
  uint16_t method;     // its name
  bool is_variable() const { return from != From::kUnknown && from != From::kNothing; }
  bool operator==(const Loaded&) const = default;
};

// What is known when an instruction begins.
struct Before {
  static constexpr int kMost = 16;
  Loaded stack[kMost];  // the uppermost values, the last one at the top
  int count;
  Does does;
  uint32_t argument;
};

// Reads `bytes` of instructions up to the one that begins at the byte `at`. Returns false if nothing is known of the code.
bool ReadInstructions(const Instruction* known, const char* code, size_t bytes, size_t at, Before* before);

}  // namespace perfschema::run
