#include "record/family/file_index.h"

#include "base/hash.h"
#include "record/engine/names.h"

namespace perfschema {
namespace {

// Heads of chains that run through ShmFile::hash_next. Stores are guarded by the cold lock, except one: a thread puts a file in front.
HalfWord* file_buckets = nullptr;
// Counts the beginnings and the ends of changes: odd while one happens. A file that is put in front does not count: it leads no search
// astray.
std::atomic<uint64_t> changes{0};
constexpr int kMostSteps = 16;  // of a search without the lock

uint32_t IndexIn(const ShmFile& file) { return static_cast<uint32_t>(&file - g_runtime.files); }

}  // namespace

void StartFileIndex(void* memory) { file_buckets = static_cast<HalfWord*>(memory); }

uint32_t HashName(std::string_view name) { return NameHash(HashByWords(name)); }

namespace {

HalfWord& BucketOf(uint32_t hash) { return file_buckets[hash % kFileBuckets]; }

// Makes a file live that a thread has put in front: the thread itself, or who finds it first. A handler of the thread may jump away.
void ShowFile(ShmFile& file) {
  uint16_t state = kFileReady;
  if (file.state.load(kRelaxed) == state) (void)file.state.compare_exchange_strong(state, kFileLive);  // pairs with KeepFile and BuryFile
}

// Returns the file of that name in a chain. REQUIRES: cold lock.
ShmFile* FindFrom(uint32_t at, std::string_view name, uint32_t hash) {
  for (; at != 0; at = g_runtime.files[at].hash_next.load(kRelaxed)) {
    ShmFile& file = g_runtime.files[at];
    if (file.hash.load(kRelaxed) != hash || NameText(static_cast<uint32_t>(file.name.load(kRelaxed))) != name) continue;
    ShowFile(file);
    return &file;
  }
  return nullptr;
}

}  // namespace

ShmFile* FindByName(std::string_view name, uint32_t hash) {
  return FindFrom(BucketOf(hash).load(kAcquire), name, hash);  // pairs with AddToBucketWithoutLock
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

ShmFile* AddToBucket(ShmFile& file, std::string_view name) {
  const Change change;
  const uint32_t hash = file.hash.load(kRelaxed);
  HalfWord& head = BucketOf(hash);
  uint32_t first = head.load(kAcquire);  // pairs with AddToBucketWithoutLock
  do {
    if (ShmFile* const found = FindFrom(first, name, hash); found != nullptr) return found;
    file.hash_next.store(first, kRelaxed);
  } while (!head.compare_exchange_weak(first, IndexIn(file), std::memory_order_acq_rel));  // pairs with FindWithoutLock
  return nullptr;
}

void TakeFromBucket(ShmFile& file) {
  const Change change;
  const uint32_t index = IndexIn(file), next = file.hash_next.load(kRelaxed);
  HalfWord& head = BucketOf(file.hash.load(kRelaxed));
  uint32_t at = index;
  if (head.compare_exchange_strong(at, next, std::memory_order_acq_rel)) return;
  for (; at != 0; at = g_runtime.files[at].hash_next.load(kRelaxed)) {
    if (g_runtime.files[at].hash_next.load(kRelaxed) != index) continue;
    g_runtime.files[at].hash_next.store(next, kRelaxed);
    return;
  }
}

bool AddToBucketWithoutLock(ShmFile& file, [[maybe_unused]] std::string_view name, bool* is_sure) {
  const uint64_t before = changes.load(kAcquire);
  const uint32_t hash = file.hash.load(kRelaxed);
  HalfWord& head = BucketOf(hash);
  uint32_t first = head.load(kAcquire);   // pairs with AddToBucket, and with itself
  file.hash_next.store(first, kRelease);  // pairs with IsNoFile: a search that stands on an earlier file of the slot meets its Change
#if defined(PFS_BREAK_NEW_FILES)          // negative control of the stress test: does not search the files that come meanwhile
  while (!head.compare_exchange_strong(first, IndexIn(file))) file.hash_next.store(first, kRelaxed);
#else
  if (!IsNoFile(name, hash) || !head.compare_exchange_strong(first, IndexIn(file))) return false;  // pairs with FindWithoutLock
#endif
  // A file that left this chain and came back to its front would hide one of that name behind it from both checks.
  *is_sure = changes.load() == before;
  ShowFile(file);
  return true;
}

ShmFile* FindSecond(const ShmFile& file, std::string_view name) {
  return FindFrom(file.hash_next.load(kRelaxed), name, file.hash.load(kRelaxed));
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
