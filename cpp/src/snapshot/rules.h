// snapshot/rules.h: what setup tables say of threads, instruments and objects of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "shm/layout.h"
#include "snapshot/text.h"

namespace perfschema {

class Snapshot;

// A row of setup_actors.
struct ActorRow {
  Text<255> host;
  Text<32> user, role;
  bool enabled, history, traced;
};

// A row of setup_instrument_rules.
struct InstrumentRuleRow {
  uint64_t ordinal;
  Text<kRulePatternBytes> pattern;
  RuleSettings settings;
};

// A row of setup_objects.
struct ObjectRuleRow {
  ObjectType type;  // kEvent ... kTrigger
  Text<64> schema, name;
  bool enabled, timed;
};

void ForEachActor(const Snapshot& snapshot, const std::function<void(const ActorRow&)>& use);
std::vector<InstrumentRuleRow> InstrumentRules(const Snapshot& snapshot);  // oldest first
void ForEachObjectRule(const Snapshot& snapshot, const std::function<void(const ObjectRuleRow&)>& use);

}  // namespace perfschema
