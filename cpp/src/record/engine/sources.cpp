#include "record/engine/sources.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/clip.h"
#include "base/placement.h"
#include "base/private_memory.h"

namespace perfschema {
namespace {

// Hash table (open addressing) of indices into kSources, 0 = free. It grows only; written under the cold lock, read by any thread. Private
// memory: readers of the segment do not need it.
HalfWord* buckets = nullptr;
uint64_t bucket_mask = 0;

uint32_t HashText(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return hash;
}

// Writes MODULE+0xOFFSET, which readers resolve. Outside the cold lock: dladdr() takes a lock of the dynamic linker.
template <size_t N>
const char* TextOfCode(const void* address, char (&to)[N]) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const char* const name = slash == nullptr ? info.dli_fname : slash + 1;
  const char* const suffix = std::strstr(name, ".so");
  char module[40];
  CopyClipped(module, {name, suffix != nullptr ? static_cast<size_t>(suffix - name) : std::strlen(name)}, sizeof module - 1);
  const auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(info.dli_fbase);
  (void)std::snprintf(to, N, "%s+0x%lx", module, static_cast<unsigned long>(offset));
  return to;
}

// Returns the source of a text, or 0. `at` becomes its bucket, or the free one where the search ended.
uint32_t FindSource(std::string_view text, uint32_t hash, uint64_t& at) {
  for (at = hash & bucket_mask;; at = (at + 1) & bucket_mask) {
    const uint32_t index = buckets[at].load(kAcquire);  // pairs with AddSource
    if (index == 0) return 0;
    const auto* const source = g_runtime.segment.element<ShmSource>(ArrayId::kSources, index);
    const bool is_as_long = source->hash == hash && source->bytes.load(kRelaxed) == text.size();
    if (is_as_long && std::memcmp(source->text, text.data(), text.size()) == 0) return index;
  }
}

// Adds a text. Returns 0 if the array is full. REQUIRES: cold lock.
uint32_t AddSource(std::string_view text, uint32_t hash) {
  uint64_t at = 0;
  if (const uint32_t known = FindSource(text, hash, at); known != 0) return known;  // another thread was faster
  const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kSources);
  if (fresh < 0) return 0;
  auto* const source = g_runtime.segment.element<ShmSource>(ArrayId::kSources, static_cast<uint64_t>(fresh));
  for (size_t i = 0; i < text.size(); ++i) __atomic_store_n(source->text + i, text[i], __ATOMIC_RELAXED);  // no memcpy(), as CopyToShared
  source->hash = hash;
  source->bytes.store(static_cast<uint32_t>(text.size()), kRelease);  // pairs with Snapshot::source
  buckets[at].store(static_cast<uint32_t>(fresh), kRelease);          // pairs with FindSource
  return static_cast<uint32_t>(fresh);
}

}  // namespace

PFS_SET_IN_EVERY_PROCESS const char* (*g_text_of_code)(const void* address) = nullptr;
PFS_SET_IN_EVERY_PROCESS UserSite (*g_user_of_code)(const void* address, bool is_first, bool* ask_again) = nullptr;

bool StartSources() {
  uint64_t size = 64;
  while (size < g_runtime.segment.array(ArrayId::kSources).capacity * 2) size *= 2;
  void* const memory = MapPrivate(size * sizeof(HalfWord));
  if (memory == nullptr) return false;
  buckets = static_cast<HalfWord*>(memory);
  bucket_mask = size - 1;
  return true;
}

UserSite SourceCache::UserOf(const char* address) {
  const auto number = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(address));
  Borrowed& place = borrowed[(number ^ number >> 7) % kBorrowed];
  const bool is_first = place.address != address;
  if (!is_first && place.left != 0) return {};
  bool ask_again = false;
  const int error = errno;
  const UserSite user = g_user_of_code(address, is_first, &ask_again);
  errno = error;
  const auto distance = static_cast<uint8_t>(is_first ? 1 : std::min(place.distance * 2u, kMostChunks));
  place = ask_again ? Borrowed{address, distance, distance} : Borrowed{};
  has_borrowed |= ask_again;
  return user;
}

void SourceCache::CountDown() {
  has_borrowed = false;
  for (Borrowed& place : borrowed) {
    if (place.left == 0) continue;
    if (--place.left != 0) {
      has_borrowed = true;
    } else if (Entry& entry = PlaceOf(place.address, kIsCode); IsOf(entry, place.address, kIsCode)) {
      entry.file = nullptr;
    }
  }
}

uint32_t SourceCache::FindNew(Entry& entry, const char* file, uint32_t line) {
  const UserSite user = line == kIsCode && g_user_of_code != nullptr ? UserOf(file) : UserSite{};
  if (user.file != nullptr) return InternSource(user.file, user.line);  // of this event: the next one has another user
  const uint32_t source = InternSource(file, line);
  ChangeEntry<const char*>(entry.file, nullptr, file, [&] {
    entry.line = line;
    entry.source = source;
  });
  return source;
}

uint32_t InternSource(const char* file, uint32_t line) {
  const int error = errno;
  char place[80];
  if (line == kIsCode) {
    file = g_text_of_code != nullptr ? g_text_of_code(file) : TextOfCode(file, place);
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
  const std::string_view whole(text, name_bytes + digits);
  const uint32_t hash = HashText(whole);
  uint64_t at = 0;
  uint32_t found = FindSource(whole, hash, at);  // a thread that is new has seen none of the places that others know
  if (found == 0) {
    if (ColdLock lock; lock) found = AddSource(whole, hash);
  }
  if (found == 0) CountLoss(Loss::kSources);
  errno = error;
  return found;
}

}  // namespace perfschema
