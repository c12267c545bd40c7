// record/engine/classes.h: maps the keys that programs hold to classes of the segment.
#pragma once

#include <string_view>

#include "record/engine/runtime.h"

namespace perfschema {

// Keys are numbered per family from 1 and never reused. They are private: a key means nothing to another process.
// Threads: written under the cold lock, read by any thread (release/acquire on the entry).
inline constexpr uint32_t kMaxKeys = 1024;
extern std::atomic<uint16_t> class_of_key[kFamilyCount][kMaxKeys + 1];

// Returns 0 for an uninstrumented class: bad key, other family, pfs off. rwlocks, prlocks and sxlocks share their
// keys: the class says which of them it is.
inline uint32_t ClassOfKey(Family family, uint32_t key) {
  const auto row = static_cast<uint32_t>(family == Family::kPrlock || family == Family::kSxlock ? Family::kRwlock : family);
  return key == 0 || key > kMaxKeys ? 0 : class_of_key[row][key].load(kAcquire);
}

// Takes an entry for a countable class and fills in its name. The caller adds the rest, and publishes it with `ready`
// (release, pairs with Snapshot::classes). Returns nullptr if the array is full. REQUIRES: cold lock.
ShmClass* NewClass(Family family, std::string_view name, std::string_view documentation);

// Gives a new class the next key of the family. Returns 0 if the family's limit is reached. REQUIRES: cold lock.
uint32_t AcquireKey(Family family, uint32_t class_index);

// Rebuilds all keys from the classes of the segment. REQUIRES: the segment has been adopted, and CheckAdopted() found nothing wrong.
void ReindexClasses();

// Returns the full name, which is constant once the class is registered.
inline std::string_view NameOf(const ShmClass& entry) { return {reinterpret_cast<const char*>(entry.name), entry.name_bytes}; }

// Returns the instrument of a family with this name, 0 = none. REQUIRES: cold lock.
uint32_t FindClass(Family family, std::string_view full_name);

}  // namespace perfschema
