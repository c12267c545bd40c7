// bindings/call_frames.h: the calls that a thread of another process is in, by the tables that compilers write for exceptions (.eh_frame).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "other_process.h"

namespace perfschema::bindings {

// The registers of a thread, by their numbers in DWARF for x86-64.
struct Registers {
  static constexpr uint32_t kBx = 3, kBp = 6, kSp = 7, k12 = 12, k13 = 13, k14 = 14, k15 = 15, kIp = 16, kCount = 17;
  uint64_t values[kCount] = {};
  uint32_t known = 0;  // a bit of each
  void Set(uint32_t number, uint64_t value) {
    values[number] = value;
    known |= 1u << number;
  }
  bool Has(uint32_t number) const { return (known >> number & 1) != 0; }
};

// The calls that a thread is in.
struct Calls {
  enum End { kWhole, kNeedsRegister, kNoTable };
  std::vector<uint64_t> returns;  // addresses, from the innermost call on
  End end = kNoTable;             // why there are no more
  uint64_t rest = 0;              // where the stack of the calls begins that are not known
};

// Reads stacks of a process. The process may lie, so nothing is read without limits. Threads: one.
class CallFrames {
 public:
  CallFrames(const ProcessMemory& memory, const std::vector<MappedObject>& objects) : memory_(memory), objects_(objects) {}
  // Returns the calls of a thread with these registers and this stack. What it has read of the tables it keeps for the next walk.
  Calls Walk(Registers registers, const MappedRange& stack);

 private:
  // How the registers of the caller are found: at the address `base` + `offset`, which is where the caller's stack begins.
  struct Row {
    enum Kind : uint8_t { kSame, kAt, kUndefined, kUnknown };
    struct Rule {
      Kind kind = kSame;
      int32_t offset = 0;
    };
    bool is_known = false;  // the base and the offset
    uint32_t base = 0;
    int64_t offset = 0;
    Rule rules[Registers::kCount];
  };
  struct Place {
    bool is_behind_call = false, has_row = false;
    Row row;
  };
  class Table;
  const Place& PlaceOf(uint64_t address, bool is_return);
  bool FindRow(uint64_t address, Row* row) const;

  const ProcessMemory& memory_;
  const std::vector<MappedObject>& objects_;
  std::unordered_map<uint64_t, Place> places_[2];  // of instructions, and of return addresses
};

// Returns whether the bytes before this address end with a call. There are kMostCall of them.
constexpr uint64_t kMostCall = 7;
bool EndsWithCall(const uint8_t* end);

}  // namespace perfschema::bindings
