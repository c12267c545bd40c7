// bindings/other_process.h: the memory of another process, and the objects that its dynamic linker has loaded. Nothing there is changed.
//
// All is read from the process and not from files: a file may be another one by now, or lie in another container. The process may lie, so
// what is read has limits.
#pragma once

#include <elf.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perfschema::bindings {

// A part of the address space.
struct MappedRange {
  uint64_t begin, end, offset;
  std::string protection, path;
  bool Has(uint64_t address) const { return address - begin < end - begin; }
  bool operator==(const MappedRange&) const = default;
};

// The memory of a process, which the kernel lets this one trace. Threads: one.
class ProcessMemory {
 public:
  explicit ProcessMemory(pid_t pid);
  ~ProcessMemory();
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;
  bool is_open() const { return fd_ >= 0; }  // else errno says why
  bool Read(uint64_t from, void* to, size_t bytes) const;
  // Also where the program itself may not write.
  bool Write(uint64_t to, const void* from, size_t bytes) const;
  template <typename T>
  T Get(uint64_t from) const {
    T value{};
    return Read(from, &value, sizeof value) ? value : T{};
  }
  // Returns nothing if there are more than a program has.
  std::vector<MappedRange> Ranges() const;

 private:
  const pid_t pid_;
  const int fd_;
};

// A symbol that an object exports.
struct ExportedSymbol {
  std::string name;
  uint64_t begin, end;  // end: as the object says, or begin
};

// What may still be read of the objects of a process.
struct ReadingLimits {
  uint32_t objects = 4096;
  uint32_t functions = 1 << 19;
  uint64_t bytes = uint64_t{512} << 20;
  // Returns false if that is too much.
  bool Take(uint64_t more) {
    const bool is_within = more <= bytes;
    if (is_within) bytes -= more;
    return is_within;
  }
};

// An object that the process has mapped: a program or a library. Threads: immutable.
class MappedObject {
 public:
  // `is_valid` is false if there is no ELF object of this machine. `is_damaged`: its tables cannot be what they say.
  MappedObject(const ProcessMemory& memory, const MappedRange& first, ReadingLimits& limits);
  bool is_valid = false, is_damaged = false;
  std::string path;
  // The functions that it exports, by address.
  std::vector<ExportedSymbol> functions;
  // The segments, at their addresses.
  struct Part {
    uint64_t begin, end;
    uint32_t flags;  // PF_X ...
  };
  std::vector<Part> parts;
  uint64_t frames = 0;           // where its .eh_frame_hdr is, if it has one
  uint64_t single_threaded = 0;  // where its variable __libc_single_threaded is, if it exports one

  // Returns the function of that name, or nullptr.
  const ExportedSymbol* Find(std::string_view name) const;

 private:
  // Returns false if the object is damaged.
  bool ReadFunctions(const ProcessMemory& memory, uint64_t base, uint64_t dynamic, ReadingLimits& limits);
};

}  // namespace perfschema::bindings
