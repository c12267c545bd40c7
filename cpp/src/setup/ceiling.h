// setup/ceiling.h: the ceiling of what pfs may cost. The governor (background/governor.cpp) decides; the functions here apply.
#pragma once

#include <optional>
#include <span>

#include "base/status.h"
#include "shm/layout.h"

namespace perfschema {

inline Step StepOf(const ShmClass& entry) {
  const uint32_t step = entry.step.load(kRelaxed);
  return step <= static_cast<uint32_t>(kLastStep) ? static_cast<Step>(step) : Step::kFull;
}

// Returns what the ceiling leaves of an instrument's flag word. An instrument that is traced keeps all.
uint32_t FlagsAfterStep(const ShmClass& entry, uint32_t flags);

// Returns the step of a new instrument: with a ceiling it is cheap until it is known that it may cost more.
Step FirstStep();

struct StepChange {
  uint32_t class_index;
  Step to;
  uint64_t overhead_ppm, class_ppm, events_per_second;
};
// Applies and notes the changes. Does nothing for instruments that have the step already. Takes the cold lock.
void ApplySteps(std::span<const StepChange> changes);

// Sets the ceiling. Without one (0) all instruments are as setup_instruments says, at once. kInvalidArgument: more than 100 %.
Status UpdateCeiling(std::optional<uint64_t> limit_ppm, std::optional<bool> may_disable);
Status CheckCeiling(std::optional<uint64_t> limit_ppm);

// Takes the option. REQUIRES: pfs starts.
void StartCeiling();

// Computes the flag words of these classes again. Defined in setup.cpp. REQUIRES: cold lock.
void RefreshClasses(std::span<const StepChange> changes);
void RefreshAllClasses();

// Starts the governor's thread in the program itself, if there is a ceiling. Defined in background/. REQUIRES: no lock.
void GovernorMayBegin();
// Forgets the parent's thread in a forked child. REQUIRES: only this thread runs.
void ForgetGovernorInChild();

}  // namespace perfschema
