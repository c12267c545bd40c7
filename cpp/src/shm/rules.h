// shm/rules.h: rules of instruments: settings that hold for instruments which register later.
#pragma once

#include <cstdint>
#include <optional>

#include "shm/cell.h"

namespace perfschema {

// TIMED of an instrument. kContended: an event of a lock is timed only if the thread must wait; else it counts as a wait of zero.
// kSampled: one event in N is timed, the others are only counted. kState: no event is timed, and one of a lock has a row only if the thread
// must wait.
enum class Timing : uint32_t { kNo = 0, kYes = 1, kContended = 2, kSampled = 3, kState = 4 };
inline constexpr Timing kLastTiming = Timing::kState;

inline constexpr uint64_t kMostInstrumentRules = 1024;
inline constexpr size_t kRulePatternBytes = 256;

// A row of setup_instrument_rules. Pattern and settings are constant while the rule lives; settings may also be taken out of it.
// Threads: changed under the cold lock.
struct alignas(64) ShmInstrumentRule {
  Word ordinal;       // 0 = free slot; last store of the creation, first store of the removal; never used again
  HalfWord settings;  // RuleSettings::Pack
  HalfWord next;      // free list
  Word pattern[kRulePatternBytes / 8];
};

// Holds the settings of a rule; nullopt: the rule leaves the setting alone.
struct RuleSettings {
  std::optional<bool> enabled;
  std::optional<Timing> timed;
  std::optional<bool> traced;
  bool is_preset = false;  // of PFS_OPTIONS: it holds for thread instruments, too

  bool is_empty() const { return !enabled && !timed && !traced; }

  uint32_t Pack() const {
    const auto code = [](std::optional<bool> value) { return !value ? 0u : *value ? 2u : 1u; };
    return code(enabled) | code(traced) << 2 | (timed ? static_cast<uint32_t>(*timed) + 1 : 0) << 4 | (is_preset ? 1u << 8 : 0);
  }
  static RuleSettings Unpack(uint32_t bits) {
    const auto value = [](uint32_t code) { return code == 0 ? std::optional<bool>() : code == 2; };
    RuleSettings settings{value(bits & 3), {}, value(bits >> 2 & 3), (bits & 1u << 8) != 0};
    if (const uint32_t timed = bits >> 4 & 15; timed >= 1 && timed <= static_cast<uint32_t>(kLastTiming) + 1)
      settings.timed = static_cast<Timing>(timed - 1);
    return settings;
  }
};

}  // namespace perfschema
