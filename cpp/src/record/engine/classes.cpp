#include "record/engine/classes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shm/shapes.h"

namespace perfschema {

std::atomic<uint16_t> class_of_key[kFamilyCount][kMaxKeys + 1];

namespace {

uint32_t last_key[kFamilyCount];

// The classes of each family, linked when FindClass() needs them: a look-up touches no class of another family. Private to the process.
// Guarded by the cold lock.
constinit struct {
  uint64_t linked;  // classes that are in a chain; 0 = none: class 0 is unused
  uint16_t newest[kFamilyCount];
  uint16_t before[1 << 16];
} chains = {};
static_assert(sizeof(class_of_key[0][0]) == sizeof(chains.before[0]));

// One function registers rwlocks, prlocks and sxlocks: the key says which of them it is.
uint32_t RowOf(Family family) {
  return static_cast<uint32_t>(family == Family::kPrlock || family == Family::kSxlock ? Family::kRwlock : family);
}

}  // namespace

uint32_t FindClass(Family family, std::string_view full_name) {
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint64_t i = std::max<uint64_t>(chains.linked, 1); i < used; ++i) {
    const uint32_t its_family = g_runtime.classes[i].family;
    if (its_family < static_cast<uint32_t>(kFamilyCount))
      chains.before[i] = std::exchange(chains.newest[its_family], static_cast<uint16_t>(i));
  }
  chains.linked = used;
  uint32_t at = chains.newest[static_cast<uint32_t>(family)];
  while (at != 0 && NameOf(g_runtime.classes[at]) != full_name) at = chains.before[at];
  return at;
}

ShmClass* NewClass(Family family, std::string_view name, std::string_view documentation) {
  const int64_t index = g_runtime.segment.AllocateFresh(ArrayId::kClasses, ColumnsOf(TraitsOf(family).kind));
  if (index < 0) return nullptr;
  ShmClass& entry = g_runtime.classes[index];
  entry.index = static_cast<uint32_t>(index);
  entry.family = static_cast<uint32_t>(family);
  entry.name_bytes = static_cast<uint32_t>(std::min(name.size(), sizeof entry.name));
  std::memcpy(entry.name, name.data(), entry.name_bytes);
  entry.documentation_bytes = static_cast<uint32_t>(std::min(documentation.size(), sizeof entry.documentation));
  if (!documentation.empty()) std::memcpy(entry.documentation, documentation.data(), entry.documentation_bytes);
  return &entry;
}

uint32_t AcquireKey(Family family, uint32_t class_index) {
  const uint32_t row = RowOf(family);
  if (last_key[row] >= kMaxKeys) return 0;
  const uint32_t key = ++last_key[row];
  class_of_key[row][key].store(static_cast<uint16_t>(class_index), kRelease);
  return key;
}

void ReindexClasses() {
  chains.linked = 0;
  std::fill(std::begin(chains.newest), std::end(chains.newest), uint16_t{0});
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kAcquire);
  for (uint64_t i = 1; i < used; ++i) {
    const ShmClass& entry = g_runtime.classes[i];
    if (entry.ready.load(kAcquire) == 0 || entry.key == 0 || entry.key > kMaxKeys || entry.family >= static_cast<uint32_t>(kFamilyCount))
      continue;
    class_of_key[RowOf(static_cast<Family>(entry.family))][entry.key].store(static_cast<uint16_t>(i), kRelease);
  }
}

}  // namespace perfschema
