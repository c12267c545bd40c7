#include "record/probe/call_sites.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "record/engine/sources.h"

namespace perfschema {
namespace {

// Hash table (open addressing) of indices into kCallSites, 0 = free. It grows only; written under the cold lock, read by any thread.
constexpr uint64_t kCallSiteBuckets = 2 * kCallSiteSlots;
constinit std::atomic<uint16_t> call_site_buckets[kCallSiteBuckets] = {};
static_assert((kCallSiteBuckets & (kCallSiteBuckets - 1)) == 0 && kCallSiteSlots <= UINT16_MAX);

ShmCallSite* CallSiteAt(uint64_t index) { return g_runtime.segment.element<ShmCallSite>(ArrayId::kCallSites, index); }
uint64_t UsedCallSites() { return g_runtime.segment.array(ArrayId::kCallSites).used.load(kRelaxed); }

// Returns the row, or nullptr. `at` becomes its bucket, or the free one where the search ended.
ShmCallSite* FindCallSite(uint64_t what, uint64_t& at) {
  for (at = what * 0x9e3779b97f4a7c15u >> 32;; ++at) {
    at &= kCallSiteBuckets - 1;
    const uint32_t index = call_site_buckets[at].load(kAcquire);  // pairs with AddCallSite
    if (index == 0) return nullptr;
    if (ShmCallSite* const row = CallSiteAt(index); row->what.load(kRelaxed) == what) return row;
  }
}

// Copies the last part of a path, as far as whole characters of it fit.
void CopyLastPart(const char* path, char (&to)[sizeof ShmCallSite::name]) {
  const std::string_view whole = path != nullptr ? path : "", name = whole.substr(whole.rfind('/') + 1);
  size_t bytes = std::min(name.size(), sizeof to);
  while (bytes < name.size() && bytes > 0 && (name[bytes] & 0xc0) == 0x80) --bytes;
  name.copy(to, bytes);
}

// Returns nullptr if the table is full. REQUIRES: cold lock.
ShmCallSite* AddCallSite(uint64_t what, const char* path) {
  uint64_t at = 0;
  if (ShmCallSite* const known = FindCallSite(what, at); known != nullptr) return known;  // another thread was faster
  const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kCallSites);
  if (fresh < 0) return nullptr;
  ShmCallSite* const row = CallSiteAt(static_cast<uint64_t>(fresh));
  CopyLastPart(path, row->name);
  row->what.store(what, kRelease);                                      // pairs with ForEachCallSite
  call_site_buckets[at].store(static_cast<uint16_t>(fresh), kRelease);  // pairs with FindCallSite
  return row;
}

void CountAtSite(uint64_t what, uint64_t wait_ps, const char* path) {
  uint64_t at = 0;
  ShmCallSite* row = FindCallSite(what, at);
  if (row == nullptr && UsedCallSites() < kCallSiteSlots) {
    const int error = errno;
    if (ColdLock lock; lock) row = AddCallSite(what, path);
    errno = error;
  }
  if (row == nullptr) return CountLoss(Loss::kCallSites);
  row->sum_ps.fetch_add(wait_ps, kRelaxed);
#if defined(PFS_BREAK_CALL_SITES)  // negative control of the stress test: threads take each other's counts away
  const uint64_t before = row->count.load(kRelaxed);
  sched_yield();
  row->count.store(before + 1, kRelaxed);
#else
  row->count.fetch_add(1, kRelaxed);
#endif
}

}  // namespace

void CountFailedWait(const Wait& wait, Operation operation, const EndedWait& ended, int error, const char* path) {
  if (error == EINPROGRESS) return;  // a connection that is on its way has not failed
  const ShmWaitRecord* const record = wait.record;
  const bool has_record = record != nullptr && record->state.load(kRelaxed) == wait.begun_state;
  const auto source = has_record ? static_cast<uint32_t>(record->what.load(kRelaxed) >> 32) : 0;
  CountAtSite(CallSiteOf(wait.class_index, operation, error != 0 ? error : kOtherError, source), ended.timed ? DurationOf(wait, ended) : 0,
              path);
}

void CountCallWithoutEvent(uint32_t class_index, Operation operation, int error, const char* file, uint32_t line) {
  if (class_index == 0 || (g_runtime.classes[class_index].flags.load(kRelaxed) & kFlagEnabled) == 0) return;
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return;
  const int saved = errno;
  if (IsInterrupted(*thread)) {  // a handler leaves the thread's cache alone
    CountAtSite(CallSiteOf(class_index, operation, error, file != nullptr ? InternSource(file, line) : 0), 0, nullptr);
  } else if ((thread->shared->flags.load(kRelaxed) & kThreadInstrumented) != 0) {
    const uint64_t nesting = thread->nesting;
    EnterProbe(*thread);
    CountAtSite(CallSiteOf(class_index, operation, error, thread->sources.Find(file, line)), 0, nullptr);
    LeaveProbe(*thread, nesting);
  }
  errno = saved;
}

void ForgetCallSites() {
  const uint64_t used = UsedCallSites();
  // A call that ends meanwhile is counted on one side of the TRUNCATE. Its time may be on the other.
  for (uint64_t i = 1; i < used; ++i) {
    CallSiteAt(i)->count.store(0, kRelaxed);
    CallSiteAt(i)->sum_ps.store(0, kRelaxed);
  }
}

void ForgetCallSitesInChild() {
  for (auto& bucket : call_site_buckets) {
    if (bucket.load(kRelaxed) != 0) bucket.store(0, kRelaxed);
  }
}

}  // namespace perfschema
