#include "snapshot/state.h"

#include <algorithm>
#include <cstring>

#include "shm/attach.h"
#include "snapshot/slots.h"

namespace perfschema {
namespace {

template <size_t N>
std::string_view ZeroPadded(const uint8_t (&bytes)[N]) {
  const char* text = reinterpret_cast<const char*>(bytes);
  return {text, strnlen(text, N)};
}

}  // namespace

TimerId TimerOf(const Snapshot& snapshot, TimedClass id) {
  const uint32_t stored = snapshot.header().timer_of[static_cast<uint32_t>(id)].load(kRelaxed);
  return stored >= 1 && stored <= static_cast<uint32_t>(kTimerCount) ? static_cast<TimerId>(stored - 1) : TimerId::kCycle;
}

std::string_view StatusReasonIn(const Snapshot& snapshot) { return snapshot.Keep(ZeroPadded(snapshot.header().status_reason)); }
std::string_view TraceStatusIn(const Snapshot& snapshot) {
  const ShmHeader& header = snapshot.header();
  uint64_t text[std::extent_v<decltype(ShmHeader::trace_status)>];
  return snapshot.TryRead(header.trace_status_seq, [&] { LoadWords(header.trace_status, text); }) ? snapshot.KeepWords(text)
                                                                                                  : std::string_view();
}
std::string_view TimerReasonIn(const Snapshot& snapshot) { return snapshot.Keep(ZeroPadded(snapshot.header().timer_reason)); }

std::vector<ArrayRow> Arrays(const SegmentView& view) {
  std::vector<ArrayRow> rows;
  const auto add = [&](ArrayId id, std::string_view name) {
    const ShmArray& array = view.header().arrays[static_cast<uint32_t>(id)];
    rows.push_back({name.substr(1), view.used(id), array.capacity, array.reserved.load(kRelaxed)});
  };
#define X(name, type) add(ArrayId::name, #name);
  PFS_FOR_EACH_ARRAY(X)
#undef X
  return rows;
}

uint64_t LossOf(const Snapshot& snapshot, Loss id) {
  const SegmentFile* const file = snapshot.view().file();
  const uint64_t counted = snapshot.header().losses[static_cast<uint32_t>(id)].load(kRelaxed);
  return counted + (id == Loss::kTornRows && file != nullptr ? file->rows_skipped() : 0);
}

uint64_t RepairedBefore(const Snapshot& snapshot) {
  const SegmentFile* const file = snapshot.view().file();
  return file != nullptr ? file->rows_repaired() : 0;
}

void ForEachCallSite(const Snapshot& snapshot, const std::function<void(const CallSiteRow&)>& use) {
  if (!snapshot.ok()) return;
  const auto& sites = snapshot.array<ArrayId::kCallSites>();
  for (uint64_t i = 1; i < sites.used(); ++i) {
    const ShmCallSite* const site = sites.at(i);
    const uint64_t what = site != nullptr ? site->what.load(kAcquire) : 0;  // pairs with AddCallSite
    const uint64_t count = what != 0 ? site->count.load(kRelaxed) : 0;
    const ClassRow* const instrument = snapshot.ClassAt(what & 0xffff);
    const uint64_t operation = what >> 16 & 0xff;
    if (count == 0 || instrument == nullptr || operation >= static_cast<uint64_t>(Operation::kCount)) continue;
    use({instrument, static_cast<Operation>(operation), snapshot.SourceText(what >> 32), static_cast<int>(what >> 24 & 0xff), count,
         site->sum_ps.load(kRelaxed), snapshot.Keep({site->name, strnlen(site->name, sizeof site->name)})});
  }
}

void ForEachStep(const Snapshot& snapshot, const std::function<void(const StepRow&)>& use) {
  if (!snapshot.ok()) return;
  const ShmGovernor& shared = snapshot.header().governor;
  const uint64_t made = shared.steps_made.load(kAcquire);  // pairs with ApplySteps
  const uint64_t kept = std::min<uint64_t>(made, kKeptSteps);
  for (uint64_t i = 0; i < kept; ++i) {
    const uint64_t number = made - kept + 1 + i;
    const ShmStep& step = shared.steps[(number - 1) % kKeptSteps];
    StepRow row{};
    uint32_t what = 0;
    const bool is_whole = snapshot.TryRead(step.seq, [&] {
      what = step.class_and_steps.load(kAcquire);
      row.number = step.number.load(kAcquire);
      row.micros = step.micros.load(kAcquire);
      row.overhead_ppm = step.overhead_ppm.load(kAcquire);
      row.class_ppm = step.class_ppm.load(kAcquire);
      row.limit_ppm = step.limit_ppm.load(kAcquire);
      row.events_per_second = step.events_per_second.load(kAcquire);
    });
    const auto step_in = [&](int shift) { return static_cast<Step>(std::min(what >> shift & 0xff, static_cast<uint32_t>(kLastStep))); };
    row.instrument = snapshot.ClassAt(what & 0xffff);
    row.from = step_in(16);
    row.to = step_in(24);
    if (!is_whole) snapshot.CountSkipped();
    if (is_whole && row.number == number && row.instrument != nullptr) use(row);  // else a younger one has its place
  }
}

}  // namespace perfschema
