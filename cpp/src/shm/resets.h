// shm/resets.h: what one TRUNCATE makes stale, and which generations of cells count then.
#pragma once

#include <cstdint>

#include "base/families.h"

namespace perfschema {

// One TRUNCATE makes a domain stale (cell.h): each ResetGroup has one for cells of live objects, and one for those that classes keep of
// dead ones.
inline constexpr uint32_t kResetDomainCount = 2 * static_cast<uint32_t>(ResetGroup::kCount);
using ResetDomain = uint32_t;
constexpr ResetDomain ObjectDomain(ResetGroup group) { return 2 * static_cast<uint32_t>(group); }
constexpr ResetDomain ClassDomain(ResetGroup group) { return 2 * static_cast<uint32_t>(group) + 1; }
constexpr ResetDomain ObjectDomain(Family family) { return ObjectDomain(TraitsOf(family).group); }
constexpr ResetDomain ClassDomain(Family family) { return ClassDomain(TraitsOf(family).group); }

// Says which generations of cells count. A table of objects shows the present one. The total of a class also has earlier ones, if only a
// table of objects was truncated since (semantics.md F11).
struct Generations {
  uint32_t now, since;
  constexpr Generations(uint32_t only) : now(only), since(only) {}  // NOLINT(google-explicit-constructor)
  constexpr Generations(uint32_t now_, uint32_t since_) : now(now_), since(since_) {}
  constexpr bool Has(uint32_t gen) const { return now - gen <= now - since; }
};
// Returns whether TRUNCATE of a table of objects leaves the totals of the group's classes. The word behind the domains that belongs to such
// a group is 1 + the first generation of objects that counts for the class; 0 = the group was never truncated.
constexpr bool KeepsTotals(ResetGroup group) { return group == ResetGroup::kTableIo || group == ResetGroup::kTableLock; }
constexpr ResetDomain KeptSince(ResetGroup group) { return kResetDomainCount + static_cast<uint32_t>(group); }
inline constexpr uint32_t kResetWordCount = kResetDomainCount + static_cast<uint32_t>(ResetGroup::kCount);
// Returns what counts for a class while its objects have generation `now`. `kept_since`: that word.
constexpr Generations OfClass(uint32_t now, uint32_t kept_since) { return {now, kept_since == 0 ? now : kept_since - 1}; }

}  // namespace perfschema
