#include "record/family/histograms.h"

#include <cerrno>

namespace perfschema {
namespace {

// Guarded by the cold lock.
uint32_t slots_with_part = 0;
Buckets* parts[kHistogramParts] = {};  // nullptr: without memory so far

// REQUIRES: cold lock.
Buckets& NextPart() {
  Buckets& first = g_runtime.header->histogram.buckets;
  const uint32_t number = slots_with_part++ % kHistogramParts;
  if (number == 0) return first;
  if (parts[number] == nullptr) {
    const int64_t index = g_runtime.segment.AllocateFresh(ArrayId::kHistograms);
    if (index < 0) return first;
    parts[number] = &g_runtime.segment.element<ShmHistogramPart>(ArrayId::kHistograms, static_cast<uint64_t>(index))->buckets;
  }
  return *parts[number];
}

}  // namespace

Buckets& ChooseHistogramPart(ThreadState& thread) {
  const int error = errno;
  if (const ColdLock lock; lock) thread.histogram = &NextPart();
  errno = error;
  return thread.histogram != nullptr ? *thread.histogram : g_runtime.header->histogram.buckets;
}

void EmptyHistogram() { g_runtime.header->histogram_generation.fetch_add(1); }  // pairs with CountInHistogram and Snapshot

void ForgetHistogramsInChild() {
  slots_with_part = 0;
  for (Buckets*& part : parts) part = nullptr;
  g_runtime.header->histogram_generation.fetch_add(1, kRelaxed);
}

}  // namespace perfschema
