#include "record/family/status_values.h"

#include <algorithm>
#include <cerrno>

#include "base/like.h"
#include "record/engine/classes.h"
#include "record/probe/nested.h"

namespace perfschema {

Status RegisterStatusVariable(std::string_view name, std::string_view documentation, uint32_t* key) {
  constexpr size_t kMostBytes = 64;
  constexpr std::string_view kOwn = "performance_schema_";
  *key = 0;
  const auto refuse = [&](const char* why) {
    return Status(Code::kInvalidArgument, "bad name '" + std::string(name) + "' of a status variable: " + why);
  };
  const auto is_bad = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '%'; };
  if (name.empty() || name.size() > kMostBytes) return refuse("it has 1 to 64 bytes");
  if (std::any_of(name.begin(), name.end(), is_bad)) return refuse("control characters and '%' are not legal");
  if (EqualsIgnoringCase(name.substr(0, kOwn.size()), kOwn)) return refuse("names that begin with Performance_schema_ are pfs's own");
  if (!EnsureStarted()) return {};
  const auto most = static_cast<uint64_t>(StartOptions().Get(OptionId::max_status_variables));
  const int error = errno;
  const ColdLock lock;
  if (!lock)
    return Status(Code::kState, "a status variable cannot be registered in a signal handler that interrupted pfs: try again outside of it");
  const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  uint64_t variables = 0;
  for (uint64_t i = 1; i < used; ++i) {
    const ShmClass& entry = g_runtime.classes[i];
    if (entry.family != static_cast<uint32_t>(Family::kStatus)) continue;
    ++variables;
    if (!EqualsIgnoringCase(NameOf(entry), name)) continue;
    *key = entry.key;
    return {};
  }
  ShmClass* const entry = variables < most ? NewClass(Family::kStatus, name, documentation) : nullptr;
  if (entry != nullptr) {
    *key = entry->key = AcquireKey(Family::kStatus, entry->index);
    entry->ready.store(1, kRelease);
  }
  errno = error;
  if (*key == 0) CountLoss(Loss::kStatusVariables);
  return {};
}

void AddToStatusVariable(uint32_t class_index, int64_t n) {
  if (class_index == 0) return;
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return;
  const NestedProbe probe(*thread);
  if (!probe) return;
  AddToSums<Kind::kStatus>(*thread, class_index, kFlagThread, [n](ShmCell& cell) {
    Word& value = CellWords(cell)[0];
    value.store(value.load(kRelaxed) + static_cast<uint64_t>(n), kRelease);
  });
}

}  // namespace perfschema
