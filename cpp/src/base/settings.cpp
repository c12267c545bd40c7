#include "base/settings.h"

#include <cstdlib>
#include <cstring>

#include "base/placement.h"

namespace perfschema {
namespace {

PFS_SET_IN_EVERY_PROCESS constinit const char* handed_over = nullptr;

}  // namespace

PFS_IN_EVERY_PROCESS const char* Setting(const char* name) {
  if (__builtin_expect(handed_over == nullptr, 1)) return secure_getenv(name);
  const size_t length = std::strlen(name);
  for (const char* entry = handed_over; *entry != 0; entry += std::strlen(entry) + 1) {
    if (std::strncmp(entry, name, length) == 0 && entry[length] == '=') return entry + length + 1;
  }
  return nullptr;
}

bool HandOverSettings(const char* text) {
  if (handed_over != nullptr) return true;
  const char* end = text;
  while (*end != 0) end += std::strlen(end) + 1;
  const auto bytes = static_cast<size_t>(end - text) + 1;
  auto* const copy = static_cast<char*>(std::malloc(bytes));
  if (copy != nullptr) std::memcpy(copy, text, bytes);
  handed_over = copy;
  return copy != nullptr;
}

}  // namespace perfschema
