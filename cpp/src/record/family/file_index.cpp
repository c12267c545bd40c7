#include "record/family/file_index.h"

#include "base/hash.h"
#include "record/engine/names.h"

namespace perfschema {
namespace {

// Heads of chains that run through ShmFile::hash_next. Stores are guarded by the cold lock.
HalfWord* file_buckets = nullptr;
// Counts the beginnings and the ends of changes: odd while one happens.
std::atomic<uint64_t> changes{0};
constexpr int kMostSteps = 16;  // of a search without the lock

uint32_t IndexIn(const ShmFile& file) { return static_cast<uint32_t>(&file - g_runtime.files); }

}  // namespace

void StartFileIndex(void* memory) { file_buckets = static_cast<HalfWord*>(memory); }

uint32_t HashName(std::string_view name) { return NameHash(HashByWords(name)); }

ShmFile* FindByName(std::string_view name, uint32_t hash) {
  for (uint32_t at = file_buckets[hash % kFileBuckets].load(kRelaxed); at != 0; at = g_runtime.files[at].hash_next.load(kRelaxed)) {
    ShmFile& file = g_runtime.files[at];
    if (file.hash.load(kRelaxed) == hash && NameText(static_cast<uint32_t>(file.name.load(kRelaxed))) == name) return &file;
  }
  return nullptr;
}

namespace {

// Marks a change of the index. Pairs with IsNoFile: a search that has met the change finds another number. REQUIRES: cold lock.
class Change {
 public:
  Change() {
    changes.store(changes.load(kRelaxed) + 1, kRelaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Change() { changes.store(changes.load(kRelaxed) + 1, kRelease); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;
};

}  // namespace

void AddToBucket(ShmFile& file) {
  const Change change;
  HalfWord& head = file_buckets[file.hash.load(kRelaxed) % kFileBuckets];
  file.hash_next.store(head.load(kRelaxed), kRelaxed);
  head.store(IndexIn(file), kRelease);  // pairs with FindWithoutLock
}

void TakeFromBucket(ShmFile& file) {
  const Change change;
  const uint32_t index = IndexIn(file);
  HalfWord& head = file_buckets[file.hash.load(kRelaxed) % kFileBuckets];
  if (head.load(kRelaxed) == index) {
    head.store(file.hash_next.load(kRelaxed), kRelaxed);
    return;
  }
  for (uint32_t at = head.load(kRelaxed); at != 0; at = g_runtime.files[at].hash_next.load(kRelaxed)) {
    if (g_runtime.files[at].hash_next.load(kRelaxed) == index) {
      g_runtime.files[at].hash_next.store(file.hash_next.load(kRelaxed), kRelaxed);
      return;
    }
  }
}

ShmFile* FindWithoutLock(std::string_view name, uint32_t hash, uint64_t* word) {
  uint32_t at = file_buckets[hash % kFileBuckets].load(kAcquire);  // pairs with AddToBucket
  for (int i = 0; at != 0 && i < kMostSteps; ++i) {
    ShmFile& file = g_runtime.files[at];
    *word = file.name.load(kAcquire);
    if (file.hash.load(kRelaxed) == hash && IsNameNow(*word, name)) return &file;
    at = file.hash_next.load(kAcquire);
  }
  return nullptr;
}

bool IsNoFile(std::string_view name, uint32_t hash) {
  const uint64_t before = changes.load(kAcquire);  // pairs with the end of a Change
  uint32_t at = file_buckets[hash % kFileBuckets].load(kAcquire);
  for (int i = 0; at != 0; ++i) {
    const ShmFile& file = g_runtime.files[at];
    if (i == kMostSteps || (file.hash.load(kRelaxed) == hash && IsNameNow(file.name.load(kAcquire), name))) return false;
    at = file.hash_next.load(kAcquire);
  }
  std::atomic_thread_fence(std::memory_order_acquire);  // pairs with the beginning of a Change
  return before % 2 == 0 && changes.load(kRelaxed) == before;
}

}  // namespace perfschema
