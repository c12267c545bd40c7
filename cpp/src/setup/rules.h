// setup/rules.h: the store of rules of instruments (setup_instrument_rules). setup.h has the calls that change rules and apply them.
//
// A rule is a pattern and settings. Rules are applied to a new instrument in their order, so the youngest rule wins. The presets of
// PFS_OPTIONS are the first rules, shortest pattern first: among them the longest pattern wins (semantics.md C8).
#pragma once

#include <string_view>

#include "base/families.h"
#include "base/status.h"
#include "perfschema/abi.h"
#include "shm/options.h"
#include "shm/rules.h"

namespace perfschema {

// All functions REQUIRE the cold lock, except MayMatch.

// Makes rules of the presets. REQUIRES: pfs starts.
void StartInstrumentRules(const Options& options);

// Returns the settings that the rules give to an instrument.
RuleSettings RulesFor(Family family, std::string_view full_name);

// Adds a rule behind the others. Older rules with this pattern lose the settings that it has. Returns false if the list is full.
bool AddInstrumentRule(std::string_view pattern, const RuleSettings& settings);
// Returns false if there is no such rule.
bool DropInstrumentRule(uint64_t ordinal);
void DropAllInstrumentRules();

// Returns whether the pattern can match a name of an instrument of a family that is wanted.
PFS_API bool MayMatch(std::string_view pattern, bool (*is_wanted)(Family));
inline bool IsAnyFamily(Family) { return true; }
inline bool HasDuration(Family family) { return TraitsOf(family).is_timed; }  // else TIMED has no effect

// Returns whether locks of the family can be tried first.
inline bool MayBeContended(Family family) { return family == Family::kMutex || family == Family::kRwlock; }

// Returns whether TIMED may be SAMPLED or STATE: for waits.
inline bool MayBeSampled(Family family) { return TraitsOf(family).kind == Kind::kWait; }
constexpr bool IsForWaits(std::optional<Timing> timing) { return timing == Timing::kSampled || timing == Timing::kState; }

}  // namespace perfschema
