// setup/objects.h: setup_objects: which tables of the program are watched (SEMANTICS G11, G12).
//
// The rule for an object is that of its type, schema and name; else of (type, schema, '%'); else of (type, '%', '%'); without one it is not
// watched. '%' is a name here, not a pattern.
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

// Private tables, and the rules that a process begins with. False: no memory. REQUIRES: cold lock, pfs starts.
bool StartObjectRules();

// Threads: any thread; each takes the cold lock and acts at once on live tables, or at the end of the SetupBatch.
// kExists, kFull.
Status InsertObjectRule(const ObjectRuleKey& key, bool enabled, bool timed);
// kNotFound: the rule is gone.
Status UpdateObjectRule(const ObjectRuleKey& key, std::optional<bool> enabled, std::optional<bool> timed);
Status RemoveObjectRule(const ObjectRuleKey& key);
Status TruncateObjectRules();

// The private tables alone; and what they hold anew from the segment. REQUIRES: cold lock.
bool AdoptObjectRules();
void ReindexObjectRules();

// What setup_objects says must be applied anew, at the next RefreshObjects(). REQUIRES: cold lock.
void ObjectRulesChanged();
// What setup_objects says must be applied anew since the last call? REQUIRES: cold lock.
bool TakeObjectRulesChanged();

}  // namespace perfschema
