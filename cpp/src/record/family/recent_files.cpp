// record/family/recent_files.cpp: files and passing names that are called by the same name again. An operation on one of them finds it
// without FileName and without the cold lock.
#include <cstring>

#include "base/hash.h"
#include "record/engine/names.h"
#include "record/family/file_index.h"
#include "record/family/files.h"
#include "record/family/passing_names.h"

namespace perfschema {
namespace {

// Files by the names that programs call them by, if that is how they are shown: the last one of each hash. Threads: any; a wrong one is not
// taken.
constexpr uint32_t kRecent = 1024;
constinit HalfWord recent_files[kRecent] = {};

// `hash`: HashByWords() of the name.
HalfWord& RecentFile(uint64_t hash) { return recent_files[hash >> 54]; }
static_assert(kRecent == 1u << (64 - 54));

bool MayFind(const char* path) {
  return path[0] == '/' && g_runtime.phase.load(kAcquire) == Phase::kStarted && __atomic_load_n(&g_runtime.on, __ATOMIC_ACQUIRE);
}

std::string_view TextOf(const char* path) { return {path, strnlen(path, kMaxObjectName + 1)}; }

// Returns the class of the file, or 0.
PFS_ALWAYS_INLINE uint32_t FindRecent(NamedFileWait* call, std::string_view text, uint64_t hash) {
  const uint32_t index = RecentFile(hash).load(kRelaxed);
  if (index == 0 || index >= g_runtime.segment.array(ArrayId::kFiles).used.load(kAcquire)) return 0;
  ShmFile& file = g_runtime.files[index];
  const uint64_t name = file.name.load(kAcquire);
  const uint32_t class_index = file.class_index.load(kAcquire);
  if (class_index == 0 || g_runtime.classes[class_index].family != static_cast<uint32_t>(Family::kFile) || !IsNameNow(name, text)) return 0;
  call->named = &file;
  call->name = name;
  return class_index;
}

// Returns the class of the calls on a passing name from `site`, or 0.
[[gnu::noinline]] uint32_t FindPassing(NamedFileWait* call, std::string_view text, uint64_t hash, const char* site) {
  uint64_t word = 0;
  const uint32_t place = HoldPassingName(text, NameHash(hash), &word);
  if (place == 0) return 0;
  const uint32_t class_index = ClassOfPassingName(place, site);
  if (class_index == 0) {
    LetPassingNameGo(place);
    return 0;
  }
  call->passing = place;
  call->name = word;
  return class_index;
}

}  // namespace

void NoteRecentFile(const NamedFileWait& call, const char* path) {
  if (call.named == nullptr || !call.is_readable || path[0] != '/') return;
  const std::string_view text = TextOf(path);
  if (text.size() <= kMaxObjectName && IsNameNow(call.name, text))
    RecentFile(HashByWords(text)).store(static_cast<uint32_t>(call.named - g_runtime.files), kRelaxed);
}

uint32_t FindRecentFile(NamedFileWait* call, const char* path) {
  if (!MayFind(path)) return 0;
  const std::string_view text = TextOf(path);
  return FindRecent(call, text, HashByWords(text));
}

uint32_t FindKnownName(NamedFileWait* call, const char* path, const char* site) {
  if (!MayFind(path)) return 0;
  const std::string_view text = TextOf(path);
  const uint64_t hash = HashByWords(text);
  const uint32_t class_index = FindRecent(call, text, hash);
  return class_index != 0 ? class_index : FindPassing(call, text, hash, site);
}

}  // namespace perfschema
