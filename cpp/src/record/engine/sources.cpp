#include "record/engine/sources.h"

#include <sys/mman.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>

namespace perfschema {
namespace {

// Hash table (open addressing) of indices into kSources; guarded by the cold lock. Private memory: readers of the
// segment do not need it.
uint32_t* buckets = nullptr;
uint64_t bucket_mask = 0;

uint32_t HashText(const char* text, size_t bytes) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<uint8_t>(text[i])) * 16777619u;
  return hash;
}

}  // namespace

const char* (*g_text_of_code)(const void* address) = nullptr;

bool StartSources() {
  uint64_t size = 64;
  while (size < g_runtime.segment.array(ArrayId::kSources).capacity * 2) size *= 2;
  void* memory = mmap(nullptr, size * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  buckets = static_cast<uint32_t*>(memory);
  bucket_mask = size - 1;
  return true;
}

uint32_t InternSource(const char* file, uint32_t line) {
  const int error = errno;
  if (line == kIsCode) {
    file = g_text_of_code != nullptr ? g_text_of_code(file) : "unknown";
    line = kWholePlace;
  }
  const char* base = std::strrchr(file, '/');
  base = base == nullptr ? file : base + 1;
  char text[80];
  char number[16] = {':'};
  const size_t digits = line != kWholePlace ? static_cast<size_t>(std::to_chars(number + 1, std::end(number), line).ptr - number) : 0;
  // The column is 64 wide; the line number is the part that must not be cut.
  const size_t name_bytes = strnlen(base, sizeof(ShmSource::text) - digits);
  std::memcpy(text, base, name_bytes);
  std::memcpy(text + name_bytes, number, digits);
  const size_t bytes = name_bytes + digits;
  const uint32_t hash = HashText(text, bytes);

  uint32_t found = 0;
  if (ColdLock lock; lock) {
    for (uint64_t at = hash & bucket_mask;; at = (at + 1) & bucket_mask) {
      if (buckets[at] != 0) {
        const auto* source = g_runtime.segment.element<ShmSource>(ArrayId::kSources, buckets[at]);
        if (source->hash != hash || source->bytes.load(kRelaxed) != bytes || std::memcmp(source->text, text, bytes) != 0) continue;
        found = buckets[at];
        break;
      }
      const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kSources);
      if (fresh < 0) break;
      auto* source = g_runtime.segment.element<ShmSource>(ArrayId::kSources, static_cast<uint64_t>(fresh));
      std::memcpy(source->text, text, bytes);
      source->hash = hash;
      source->bytes.store(static_cast<uint32_t>(bytes), kRelease);  // pairs with Snapshot::source
      buckets[at] = found = static_cast<uint32_t>(fresh);
      break;
    }
  }
  if (found == 0) CountLoss(Loss::kSources);
  errno = error;
  return found;
}

}  // namespace perfschema
