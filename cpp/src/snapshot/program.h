// snapshot/program.h: rows that the program declared, and its error log.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "shm/layout.h"
#include "snapshot/text.h"

namespace perfschema {

class Snapshot;

// A row that the program declared. record/declared/program.h and variables.h say what its numbers and texts are.
struct FactRow {
  uint64_t owner;  // THREAD_ID; 0 = the process
  uint64_t setting;
  std::vector<uint64_t> numbers;
  std::vector<std::optional<LongText>> texts;

  uint64_t number(size_t i) const { return i < numbers.size() ? numbers[i] : 0; }
  std::string_view text(size_t i) const { return i < texts.size() && texts[i] ? texts[i]->view() : std::string_view(); }
  template <typename T>
  std::optional<T> optional(size_t i) const {
    return i < texts.size() && texts[i] ? std::optional<T>(texts[i]->view()) : std::optional<T>();
  }
};

// An event of the error log.
struct LogRow {
  uint64_t logged;  // microseconds since 1970
  std::optional<uint64_t> thread_id;
  uint32_t priority;  // LogPriority
  std::optional<Text<10>> code;
  std::optional<Text<7>> subsystem;
  LongText data;
};

void ForEachFact(const Snapshot& snapshot, FactKind kind, const std::function<void(const FactRow&)>& use);
void ForEachLogEvent(const Snapshot& snapshot, const std::function<void(const LogRow&)>& use);  // oldest first

}  // namespace perfschema
