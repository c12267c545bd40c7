// setup/objects.h: setup_objects: selects the tables of the program that are instrumented (semantics.md G11, G12).
//
// The rule for an object is that of its type, schema and name; else of (type, schema, '%'); else of (type, '%', '%'). An object without a
// rule is not instrumented. '%' is a name here, not a pattern.
#pragma once

#include <optional>
#include <string_view>

#include "base/status.h"
#include "shm/layout.h"

namespace perfschema {

struct ObjectRuleKey {
  ObjectType type;  // kEvent ... kTrigger
  std::string_view schema, name;
};

// Makes the private tables, and the rules that a process begins with. Returns false if there is no memory. REQUIRES: cold lock, pfs
// starts.
bool StartObjectRules();

// Returns kExists or kFull on failure.
// Threads: any thread; each function takes the cold lock and acts at once on live tables, or at the end of the SetupBatch.
Status InsertObjectRule(const ObjectRuleKey& key, bool enabled, bool timed);
// Returns kNotFound if the rule is gone.
Status UpdateObjectRule(const ObjectRuleKey& key, std::optional<bool> enabled, std::optional<bool> timed);
Status RemoveObjectRule(const ObjectRuleKey& key);
Status TruncateObjectRules();

// Make the private tables only; fill them again from the segment. REQUIRES: cold lock.
bool AdoptObjectRules();
void ReindexObjectRules();

// Notes that setup_objects must be applied again, at the next RefreshObjects(). REQUIRES: cold lock.
void ObjectRulesChanged();
// Returns whether setup_objects has changed since the last call, and must be applied again. REQUIRES: cold lock.
bool TakeObjectRulesChanged();

}  // namespace perfschema
