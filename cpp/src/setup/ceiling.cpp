#include "setup/ceiling.h"

#include <string>

#include "base/clock.h"
#include "record/engine/cold_lock.h"
#include "record/engine/runtime.h"
#include "record/probe/trace.h"
#include "setup/rules.h"

namespace perfschema {
namespace {

constexpr uint64_t kWhole = 1'000'000;

ShmGovernor& Shared() { return g_runtime.header->governor; }

// REQUIRES: cold lock.
void Note(const StepChange& change, Step from) {
  ShmGovernor& shared = Shared();
  const uint64_t number = shared.steps_made.load(kRelaxed) + 1;
  ShmStep& step = shared.steps[(number - 1) % kKeptSteps];
  {
    const CellWriter writer(step.seq);  // pairs with ForEachStep
    step.class_and_steps.store(change.class_index | static_cast<uint32_t>(from) << 16 | static_cast<uint32_t>(change.to) << 24, kRelease);
    step.number.store(number, kRelease);
    step.micros.store(WallClockMicros(), kRelease);
    step.overhead_ppm.store(change.overhead_ppm, kRelease);
    step.class_ppm.store(change.class_ppm, kRelease);
    step.limit_ppm.store(shared.limit_ppm.load(kRelaxed), kRelease);
    step.events_per_second.store(change.events_per_second, kRelease);
  }
  shared.steps_made.store(number, kRelease);
}

}  // namespace

uint32_t FlagsAfterStep(const ShmClass& entry, uint32_t flags) {
  const Step step = StepOf(entry);
  if (step == Step::kFull || (flags & (kFlagEnabled | kFlagTrace)) != kFlagEnabled) return flags;
  if (step == Step::kOff) return 0;
  const auto family = static_cast<Family>(entry.family);
  const bool is_wait = TraitsOf(family).kind == Kind::kWait;
  if (step == Step::kSampled) {
    if (!is_wait || (flags & kFlagTimed) == 0 || (flags & (kFlagContended | kFlagSampled)) != 0) return flags;
    return flags | (MayBeContended(family) ? kFlagContended : kFlagSampled);
  }
  flags &= ~(kFlagTimed | kFlagCurrent | kFlagContended | kFlagDigest | kFlagCpu);
  return is_wait ? flags | kFlagSampled : flags;
}

Step FirstStep() { return Shared().limit_ppm.load(kRelaxed) == 0 ? Step::kFull : Step::kCounted; }

void ApplySteps(std::span<const StepChange> changes) {
  const ColdLock lock;
  if (!lock || Shared().limit_ppm.load(kRelaxed) == 0) return;
  bool is_any = false;
  for (const StepChange& change : changes) {
    ShmClass& entry = g_runtime.classes[change.class_index];
    const Step from = StepOf(entry);
    if (from == change.to) continue;
    entry.step.store(static_cast<uint32_t>(change.to), kRelaxed);
    Note(change, from);
    is_any = true;
  }
  if (is_any) RefreshClasses(changes);
}

Status CheckCeiling(std::optional<uint64_t> limit_ppm) {
  if (!limit_ppm || *limit_ppm <= kWhole) return {};
  return Status(Code::kInvalidArgument,
                "LIMIT_PPM " + std::to_string(*limit_ppm) + " of setup_overhead is more than 1000000, which is 100 %");
}

Status UpdateCeiling(std::optional<uint64_t> limit_ppm, std::optional<bool> may_disable) {
  if (Status bad = CheckCeiling(limit_ppm); !bad.ok()) return bad;
  if (!EnsureStarted()) return Status(Code::kState, "pfs is off: " + StatusReason());
  {
    const ColdLock lock;
    if (!lock) return Status(Code::kState, "setup_overhead in a signal handler that interrupted pfs: try again outside of it");
    ShmGovernor& shared = Shared();
    if (may_disable) shared.may_disable.store(*may_disable ? 1 : 0, kRelaxed);
    if (limit_ppm) {
      const bool had_one = shared.limit_ppm.load(kRelaxed) != 0, has_one = *limit_ppm != 0;
      if (has_one && !had_one && IsOutsider() && shared.periods.load(kRelaxed) == 0) {
        return Status(Code::kNotAllowed,
                      "LIMIT_PPM of setup_overhead can be changed from another process once the program has had a ceiling: "
                      "performance_schema_overhead_limit");
      }
      shared.limit_ppm.store(*limit_ppm, kRelaxed);
      if (had_one != has_one) {
        const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
        for (uint64_t i = 1; i < used; ++i) {
          if (g_runtime.classes[i].family != 0) g_runtime.classes[i].step.store(static_cast<uint32_t>(FirstStep()), kRelaxed);
        }
        if (!has_one) shared.overhead_ppm.store(0, kRelaxed);
        RefreshAllClasses();
      }
    }
  }
  TraceMayBegin();
  return {};
}

void StartCeiling() {
  ShmGovernor& shared = Shared();
  shared.limit_ppm.store(static_cast<uint64_t>(StartOptionsLocked().Get(OptionId::overhead_limit)), kRelaxed);
}

}  // namespace perfschema
