// snapshot/slots.h: how the files of this folder read slots, which change hands while they are read.
#pragma once

#include "snapshot/snapshot.h"

namespace perfschema {

inline constexpr int kSlotAttempts = 8;  // for a slot or an object that changes hands while it is read

enum class Found { kFree, kRead, kTorn };

// Loads each word whole; the caller knows whether they belong together.
template <size_t N>
void LoadWords(const Word (&from)[N], uint64_t (&to)[N]) {
  for (size_t i = 0; i < N; ++i) to[i] = from[i].load(kAcquire);
}

// Shows a row that was found, and counts one that stays torn.
template <typename Row>
void Show(const Snapshot& snapshot, Found found, const Row& row, const std::function<void(const Row&)>& use) {
  if (found == Found::kRead) use(row);
  if (found == Found::kTorn) snapshot.CountSkipped();
}

// Shows the rows of all existing elements. `read`: Found(const Snapshot&, uint32_t index, Row* row), which sets all of a row that it has
// found.
template <typename Row, typename T, typename Read>
void ForEachSlot(const Snapshot& snapshot, const ArrayView<T>& array, Read read, const std::function<void(const Row&)>& use) {
  if (!snapshot.ok()) return;
  snapshot.StartWalks();
  Row row{};  // reused for all rows: its vectors keep their memory
  for (uint64_t i = 1; i < array.used(); ++i) Show(snapshot, read(snapshot, static_cast<uint32_t>(i), &row), row, use);
}

}  // namespace perfschema
