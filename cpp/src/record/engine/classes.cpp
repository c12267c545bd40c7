#include "record/engine/classes.h"

#include <algorithm>
#include <cstring>

#include "shm/shapes.h"

namespace perfschema {

std::atomic<uint16_t> class_of_key[kFamilyCount][kMaxKeys + 1];

namespace {

uint32_t last_key[kFamilyCount];

// One function registers rwlocks, prlocks and sxlocks: the key says which of them it is.
uint32_t RowOf(Family family) {
  return static_cast<uint32_t>(family == Family::kPrlock || family == Family::kSxlock ? Family::kRwlock : family);
}

}  // namespace

uint32_t FindClass(Family family, std::string_view full_name) {
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint64_t i = 1; i < used; ++i) {
    const ShmClass& entry = g_runtime.classes[i];
    if (entry.family == static_cast<uint32_t>(family) && NameOf(entry) == full_name) return static_cast<uint32_t>(i);
  }
  return 0;
}

ShmClass* NewClass(Family family, std::string_view name, std::string_view documentation) {
  const int64_t index = g_runtime.segment.AllocateFresh(ArrayId::kClasses, ColumnsOf(FactsOf(family).kind));
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
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kAcquire);
  for (uint64_t i = 1; i < used; ++i) {
    const ShmClass& entry = g_runtime.classes[i];
    if (entry.ready.load(kAcquire) == 0 || entry.key == 0 || entry.key > kMaxKeys || entry.family >= static_cast<uint32_t>(kFamilyCount))
      continue;
    class_of_key[RowOf(static_cast<Family>(entry.family))][entry.key].store(static_cast<uint16_t>(i), kRelease);
  }
}

}  // namespace perfschema
