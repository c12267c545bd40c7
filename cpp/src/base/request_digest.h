// base/request_digest.h: digests of texts that are no SQL: requests of HTTP, and Python code.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace perfschema {

// Counts the different names at each position of paths, so that a position with many of them becomes '?': user names, slugs. A position is
// the method and the path in front of it.
// Lock-free: a lost race may count a name twice. It has no other memory; once that is used up, new names are '?'.
class PathNames {
 public:
  static constexpr uint32_t kMost = 50;  // names of a position that are kept

  // Counts the name. Returns whether the position has too many names.
  bool IsOneOfMany(uint64_t position, uint64_t name);

 private:
  static constexpr size_t kPositionBits = 11, kNameBits = 14, kProbes = 16;
  static constexpr uint64_t kCountMask = 0xffff;

  std::atomic<uint64_t> positions_[size_t{1} << kPositionBits];  // a hash, and in its last bits how many names; 0 = free
  std::atomic<uint64_t> names_[size_t{1} << kNameBits];          // hashes of a position and a name; 0 = free
};

// Writes the tokens of a request: "GET /users/17?a=1" becomes "GET /users/? ?". `names` may be nullptr. For probes.
size_t HttpTokens(std::string_view request, PathNames* names, std::span<uint8_t> out);

// Writes the tokens of Python code: numbers and strings become '?', comments vanish. For probes.
size_t PythonTokens(std::string_view code, std::span<uint8_t> out);

}  // namespace perfschema
