#include "record/engine/names.h"

#include <algorithm>
#include <cstring>

#include "shm/budget.h"

namespace perfschema {
namespace {

// Freed names of each size that wait before they are reused: about the number of names in a full history_long.
constexpr uint64_t kQuarantine = 512;

ShmNameGranule* At(uint32_t granule) { return g_runtime.segment.element<ShmNameGranule>(ArrayId::kNames, granule); }

constexpr size_t kHeaderBytes = offsetof(ShmNameGranule, text);

uint32_t GranulesFor(size_t bytes) {
  return static_cast<uint32_t>((kHeaderBytes + bytes + sizeof(ShmNameGranule) - 1) / sizeof(ShmNameGranule));
}

}  // namespace

uint32_t AcquireName(std::string_view name) {
  name = name.substr(0, kMaxObjectName);
  const uint32_t granules = GranulesFor(name.size());
  ShmHeader* header = g_runtime.header;
  Word& list = header->names_free[granules];
  Word& count = header->names_free_count[granules];
  const uint64_t ends = list.load(kRelaxed);
  auto first = static_cast<uint32_t>(ends >> 32);
  const auto last = static_cast<uint32_t>(ends);
  const bool may_wait = count.load(kRelaxed) < kQuarantine;
  int64_t fresh = first == 0 || may_wait ? g_runtime.segment.AllocateFresh(ArrayId::kNames, granules, kPartsOfLog) : -1;
  uint32_t granule = 0;
  if (fresh >= 0) {
    granule = static_cast<uint32_t>(fresh);
  } else if (first != 0) {
    granule = first;
    first = At(granule)->next;
    list.store(first == 0 ? 0 : (static_cast<uint64_t>(first) << 32 | last), kRelaxed);
    count.store(count.load(kRelaxed) - 1, kRelaxed);
  } else {
    CountLoss(Loss::kNames);
    return 0;
  }
  ShmNameGranule* at = At(granule);
  at->version.store(at->version.load(kRelaxed) + 1, kRelease);  // odd while the text changes; readers check before and after
  at->granules = granules;
  at->bytes.store(static_cast<uint32_t>(name.size()), kRelease);
  CopyToShared(reinterpret_cast<char*>(at) + kHeaderBytes, name.data(), name.size());
  at->version.store(at->version.load(kRelaxed) + 1, kRelease);
  return granule;
}

uint64_t AcquireNameWord(std::string_view name) {
  const uint32_t granule = AcquireName(name);
  return uint64_t{NameVersion(granule)} << 32 | granule;
}

void ReleaseName(uint32_t granule) {
  if (granule == 0) return;
  ShmNameGranule* at = At(granule);
  at->next = 0;
  ShmHeader* header = g_runtime.header;
  Word& list = header->names_free[at->granules];
  Word& count = header->names_free_count[at->granules];
  const uint64_t ends = list.load(kRelaxed);
  const auto first = static_cast<uint32_t>(ends >> 32);
  if (first == 0) {
    list.store(static_cast<uint64_t>(granule) << 32 | granule, kRelaxed);
  } else {
    At(static_cast<uint32_t>(ends))->next = granule;
    list.store(static_cast<uint64_t>(first) << 32 | granule, kRelaxed);
  }
  count.store(count.load(kRelaxed) + 1, kRelaxed);
}

uint32_t NameVersion(uint32_t granule) { return granule == 0 ? 0 : At(granule)->version.load(kRelaxed); }

bool IsNameNow(uint64_t word, std::string_view name) {
  const auto granule = static_cast<uint32_t>(word);
  if (granule == 0) return false;
  const ShmNameGranule* const at = At(granule);
  const uint64_t version = word >> 32;
  // Pairs with AcquireName: a text of another version is none.
  return at->version.load(kAcquire) == version && at->bytes.load(kAcquire) == name.size() &&
         EqualsShared(reinterpret_cast<const char*>(at) + kHeaderBytes, name.data(), name.size()) && at->version.load(kAcquire) == version;
}

size_t CopyNameNow(uint64_t word, char* to, size_t size) {
  const auto granule = static_cast<uint32_t>(word);
  if (granule == 0) return 0;
  const ShmNameGranule* const at = At(granule);
  const uint64_t version = word >> 32;
  if (at->version.load(kAcquire) != version) return 0;  // pairs with AcquireName, as in IsNameNow
  const size_t bytes = at->bytes.load(kAcquire);
  if (bytes > size) return 0;
  CopyFromShared(to, reinterpret_cast<const char*>(at) + kHeaderBytes, bytes);
  std::atomic_thread_fence(std::memory_order_acquire);
  return at->version.load(kRelaxed) == version ? bytes : 0;
}

std::string_view NameText(uint32_t granule) {
  if (granule == 0) return {};  // element 0 may have no memory
  const ShmNameGranule* at = At(granule);
  return {reinterpret_cast<const char*>(at) + kHeaderBytes, at->bytes.load(kRelaxed)};
}

}  // namespace perfschema
