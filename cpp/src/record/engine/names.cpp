#include "record/engine/names.h"

#include <algorithm>
#include <cstring>

#include "shm/budget.h"

namespace perfschema {
namespace {

// Freed names of each size that wait at least before they are reused, for the other histories.
constexpr uint64_t kLeastQuarantine = 512;
constexpr uint32_t kOfAllSizes = 0;  // no name has this many granules

ShmNameGranule* At(uint32_t granule) { return g_runtime.segment.element<ShmNameGranule>(ArrayId::kNames, granule); }

constexpr size_t kHeaderBytes = offsetof(ShmNameGranule, text);

uint32_t GranulesFor(size_t bytes) {
  return static_cast<uint32_t>((kHeaderBytes + bytes + sizeof(ShmNameGranule) - 1) / sizeof(ShmNameGranule));
}

// Adds to the lengths of a free list and of all.
void AddToFree(uint32_t granules, int64_t names) {
  Word* const counts = g_runtime.header->names_free_count;
  counts[granules].store(counts[granules].load(kRelaxed) + static_cast<uint64_t>(names), kRelaxed);
  counts[kOfAllSizes].store(counts[kOfAllSizes].load(kRelaxed) + static_cast<uint64_t>(names) * granules, kRelaxed);
}

// Returns whether a freed name of this size is to wait longer. Each row of history_long may show another name. Names of many sizes would
// add up to much more than the rows need: all together have a limit, too.
bool MayWait(uint32_t granules) {
  const ShmHeader& header = *g_runtime.header;
  const uint64_t rows = std::max(header.options[static_cast<uint32_t>(OptionId::events_waits_history_long_size)], kLeastQuarantine);
  return header.names_free_count[granules].load(kRelaxed) < rows &&
         header.names_free_count[kOfAllSizes].load(kRelaxed) < kWaitingGranulesOfRow * rows &&
         g_runtime.segment.HasSpace(ArrayId::kNames, granules, kPartsOfLog + kPartsOfNewNames);
}

// Returns the first of this many granules, 0 if the segment is full. REQUIRES: cold lock.
uint32_t TakeGranules(uint32_t granules) {
  ShmHeader* header = g_runtime.header;
  Word& list = header->names_free[granules];
  const uint64_t ends = list.load(kRelaxed);
  auto first = static_cast<uint32_t>(ends >> 32);
  const auto last = static_cast<uint32_t>(ends);
  const int64_t fresh = first == 0 || MayWait(granules) ? g_runtime.segment.AllocateFresh(ArrayId::kNames, granules, kPartsOfLog) : -1;
  uint32_t granule = 0;
  if (fresh >= 0) {
    granule = static_cast<uint32_t>(fresh);
  } else if (first != 0) {
    granule = first;
    first = At(granule)->next;
    list.store(first == 0 ? 0 : (static_cast<uint64_t>(first) << 32 | last), kRelaxed);
    AddToFree(granules, -1);
  } else {
    return 0;
  }
  At(granule)->granules = granules;
  return granule;
}

// REQUIRES: the granules are the caller's.
void WriteName(uint32_t granule, std::string_view name) {
  ShmNameGranule* at = At(granule);
  at->version.store(at->version.load(kRelaxed) + 1, kRelease);  // odd while the text changes; readers check before and after
  at->bytes.store(static_cast<uint32_t>(name.size()), kRelease);
  CopyToShared(reinterpret_cast<char*>(at) + kHeaderBytes, name.data(), name.size());
  at->version.store(at->version.load(kRelaxed) + 1, kRelease);
}

uint64_t WordOf(uint32_t granule) { return uint64_t{NameVersion(granule)} << 32 | granule; }

}  // namespace

uint32_t AcquireName(std::string_view name) {
  name = name.substr(0, kMaxObjectName);
  const uint32_t granule = TakeGranules(GranulesFor(name.size()));
  if (granule == 0) {
    CountLoss(Loss::kNames);
  } else {
    WriteName(granule, name);
  }
  return granule;
}

uint64_t AcquireNameWord(std::string_view name) { return WordOf(AcquireName(name)); }

void ReleaseName(uint32_t granule) {
  if (granule == 0) return;
  ShmNameGranule* at = At(granule);
  at->next = 0;
  ShmHeader* header = g_runtime.header;
  Word& list = header->names_free[at->granules];
  const uint64_t ends = list.load(kRelaxed);
  const auto first = static_cast<uint32_t>(ends >> 32);
  if (first == 0) {
    list.store(static_cast<uint64_t>(granule) << 32 | granule, kRelaxed);
  } else {
    At(static_cast<uint32_t>(ends))->next = granule;
    list.store(static_cast<uint64_t>(first) << 32 | granule, kRelaxed);
  }
  AddToFree(at->granules, 1);
}

bool NameStash::MayReplace(size_t bytes) const {
  return ready_count[GranulesFor(std::min<size_t>(bytes, kMaxObjectName))] != 0 && released_count < kMost;
}

uint64_t NameStash::AcquireWord(std::string_view name) {
  name = name.substr(0, kMaxObjectName);
  const uint32_t granules = GranulesFor(name.size()), last = ready_count[granules] - 1u;
  const uint32_t granule = ready[granules][last];
  ready_count[granules] = static_cast<uint8_t>(last);  // first: a handler that does not return must leave no name in two places
  std::atomic_signal_fence(std::memory_order_seq_cst);
  WriteName(granule, name);
  return WordOf(granule);
}

void NameStash::Release(uint32_t granule) {
  if (granule == 0) return;
  released[released_count] = granule;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  ++released_count;
}

void NameStash::ReleaseAll() {
  for (uint32_t i = 0; i < released_count; ++i) ReleaseName(released[i]);
  released_count = 0;
}

void NameStash::Refill(size_t bytes) {
  ReleaseAll();
  const uint32_t granules = GranulesFor(std::min<size_t>(bytes, kMaxObjectName));
  uint8_t& count = ready_count[granules];
  wanted[granules] = static_cast<uint8_t>(std::min(kMost, std::max(1u, 2u * wanted[granules])));
  while (count < wanted[granules]) {
    const uint32_t granule = TakeGranules(granules);
    if (granule == 0) return;  // no loss: nobody needs it yet
    ready[granules][count++] = granule;
  }
}

void NameStash::ContinueInChild(bool was_closed) {
  const bool is_empty =
      released_count == 0 && std::all_of(std::begin(ready_count), std::end(ready_count), [](auto count) { return count == 0; });
  if (is_empty) return;  // a store would copy pages that the parent has, too
  was_closed ? ReleaseAll() : void(*this = {});
}

uint32_t NameVersion(uint32_t granule) { return granule == 0 ? 0 : At(granule)->version.load(kRelaxed); }

bool IsNameNow(uint64_t word, std::string_view name) {
  const auto granule = static_cast<uint32_t>(word);
  if (granule == 0) return false;
  const ShmNameGranule* const at = At(granule);
  const uint64_t version = word >> 32;
  // Pairs with AcquireName: a text of another version is another name's.
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
