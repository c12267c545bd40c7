// base/consumers.h: the consumers and their hierarchy. The order is that of setup_consumers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/families.h"
#include "base/like.h"

namespace perfschema {

// X(name, its parent, enabled by default). All are on but those that cost more than an event: a thread's CPU time, which is a system call,
// and the holds of locks, which read the timer twice more. The last one is not MySQL's.
#define PFS_FOR_EACH_CONSUMER(X)                                         \
  X(events_stages_current, thread_instrumentation, true)                 \
  X(events_stages_history, events_stages_current, true)                  \
  X(events_stages_history_long, events_stages_current, true)             \
  X(events_statements_cpu, global_instrumentation, false)                \
  X(events_statements_current, thread_instrumentation, true)             \
  X(events_statements_history, events_statements_current, true)          \
  X(events_statements_history_long, events_statements_current, true)     \
  X(events_transactions_current, thread_instrumentation, true)           \
  X(events_transactions_history, events_transactions_current, true)      \
  X(events_transactions_history_long, events_transactions_current, true) \
  X(events_waits_current, thread_instrumentation, true)                  \
  X(events_waits_history, events_waits_current, true)                    \
  X(events_waits_history_long, events_waits_current, true)               \
  X(global_instrumentation, kCount, true)                                \
  X(thread_instrumentation, global_instrumentation, true)                \
  X(statements_digest, global_instrumentation, true)                     \
  X(lock_holds, global_instrumentation, false)

enum class Consumer : uint32_t {
#define X(name, parent, enabled) name,
  PFS_FOR_EACH_CONSUMER(X)
#undef X
      kCount
};
inline constexpr uint32_t kConsumerCount = static_cast<uint32_t>(Consumer::kCount);

struct ConsumerTraits {
  std::string_view name;
  Consumer parent;  // kCount = none
  bool enabled;     // at start
};
inline constexpr ConsumerTraits kConsumers[kConsumerCount] = {
#define X(name, parent, enabled) {#name, Consumer::parent, enabled},
    PFS_FOR_EACH_CONSUMER(X)
#undef X
};

// Names the consumers that record the events of a kind.
struct KindConsumers {
  Consumer current, history, history_long;
};
inline constexpr KindConsumers kConsumersOf[kEventKinds] = {
    {Consumer::events_waits_current, Consumer::events_waits_history, Consumer::events_waits_history_long},
    {Consumer::events_stages_current, Consumer::events_stages_history, Consumer::events_stages_history_long},
    {Consumer::events_statements_current, Consumer::events_statements_history, Consumer::events_statements_history_long},
    {Consumer::events_transactions_current, Consumer::events_transactions_history, Consumer::events_transactions_history_long},
};

inline Consumer FindConsumer(std::string_view name) {
  for (uint32_t i = 0; i < kConsumerCount; ++i) {
    if (EqualsIgnoringCase(name, kConsumers[i].name)) return static_cast<Consumer>(i);
  }
  return Consumer::kCount;
}

inline std::string ConsumerNames() {
  std::string names;
  for (const ConsumerTraits& traits : kConsumers) names += (names.empty() ? "" : ", ") + std::string(traits.name);
  return names;
}

}  // namespace perfschema
