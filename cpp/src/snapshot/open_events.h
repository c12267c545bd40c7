// snapshot/open_events.h: the events of all kinds that run now, with the time so far. The tables of events show NULL for it: the program
// pays nothing for a time that only a reader wants.
#pragma once

#include <optional>
#include <vector>

#include "snapshot/events.h"

namespace perfschema {

// A row of `running`.
struct OpenEvent {
  Text<128> thread;  // its name
  NestingType kind;
  EventRow event;  // timer_wait: the time so far; not set if the event is not timed
  // Of a wait.
  std::optional<Text<32>> operation;
  std::optional<Text<512>> object_name;
  std::optional<uint64_t> object;
  // Of a wait for a table, or of a statement.
  std::optional<Text<64>> schema;
  // Of a statement.
  std::optional<LongText> sql_text, digest_text;
};

// Returns the open waits. `thread` is empty.
std::vector<OpenEvent> OpenWaits(const Snapshot& snapshot);
// Returns the open events of all threads, by thread, the outermost first.
std::vector<OpenEvent> OpenEvents(const Snapshot& snapshot);

}  // namespace perfschema
