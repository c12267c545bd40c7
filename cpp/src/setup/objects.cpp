#include "setup/objects.h"

#include <sys/mman.h>

#include <cstring>

#include "base/hash.h"
#include "record/engine/slots.h"
#include "record/family/program_tables.h"
#include "setup/setup.h"

namespace perfschema {
namespace {

// Guarded by the cold lock. Buckets of a hash of the key; chains run through ShmObjectRule::next.
constexpr uint32_t kBuckets = 1u << 12;
uint32_t* buckets = nullptr;
bool rules_changed = false;

constexpr std::string_view kAny = "%";

// Holds a schema or a name, padded as in the rules.
struct Padded {
  char bytes[kObjectNameWidth] = {};
  explicit Padded(std::string_view text) { text.copy(bytes, sizeof bytes); }
  std::string_view view() const { return {bytes, strnlen(bytes, sizeof bytes)}; }
};
static_assert(sizeof(Padded) == sizeof(ShmObjectRule::schema) && sizeof(Padded) == sizeof(ShmObjectRule::name));

bool IsText(const Word (&words)[8], const Padded& text) {
  Padded found{""};
  CopyFromShared(found.bytes, words, sizeof found.bytes);
  return std::memcmp(found.bytes, text.bytes, sizeof found.bytes) == 0;
}

uint32_t& BucketOf(const ObjectRuleKey& key) {
  return buckets[Hash(static_cast<uint64_t>(key.type)).AddPart(key.schema).AddPart(key.name).folded() % kBuckets];
}

// REQUIRES: cold lock, for all functions below.

ShmObjectRule* Rules() { return g_runtime.segment.element<ShmObjectRule>(ArrayId::kObjectRules, 0); }

// Returns the index of the rule with exactly this key, 0 if there is none. `link`: the word that points to it.
uint32_t FindRule(const ObjectRuleKey& key, HalfWord** link = nullptr) {
  const Padded schema(key.schema), name(key.name);
  HalfWord* pointer = nullptr;
  for (uint32_t at = BucketOf(key); at != 0; at = Rules()[at].next.load(kRelaxed)) {
    ShmObjectRule& rule = Rules()[at];
    if (rule.type.load(kRelaxed) == static_cast<uint32_t>(key.type) && IsText(rule.schema, schema) && IsText(rule.name, name)) {
      if (link != nullptr) *link = pointer;
      return at;
    }
    pointer = &rule.next;
  }
  return 0;
}

bool AddRule(const ObjectRuleKey& key, bool enabled, bool timed) {
  const auto index = static_cast<uint32_t>(AllocateSlot(ArrayId::kObjectRules, Rules(), &ShmObjectRule::next));
  if (index == 0) return false;
  ShmObjectRule& rule = Rules()[index];
  const Padded schema(key.schema), name(key.name);
  const CellWriter writer(rule.seq);
  CopyToShared(rule.schema, schema.bytes, sizeof schema.bytes);
  CopyToShared(rule.name, name.bytes, sizeof name.bytes);
  rule.enabled.store(enabled ? 1 : 0, kRelease);
  rule.timed.store(timed ? 1 : 0, kRelease);
  uint32_t& head = BucketOf(key);
  rule.next.store(head, kRelease);
  head = index;
  rule.type.store(static_cast<uint32_t>(key.type), kRelease);
  return true;
}

void GiveRule(uint32_t index) {
  ShmObjectRule& rule = Rules()[index];
  const CellWriter writer(rule.seq);
  rule.type.store(0, kRelease);
  FreeSlot(ArrayId::kObjectRules, Rules(), &ShmObjectRule::next, index);
}

// Runs `change` under the lock; live tables follow if it succeeds.
template <typename Change>
Status ChangeRules(Change change) {
  if (!EnsureStarted()) return {};
  const ColdLock lock;
  if (!lock)
    return Status(Code::kState, "setup_objects cannot be changed in a signal handler that interrupted pfs: try again outside of it");
  Status status = change();
  if (!status.ok()) return status;
  rules_changed = true;
  RefreshObjects();
  return status;
}

}  // namespace

bool AdoptObjectRules() {
  void* memory = mmap(nullptr, kBuckets * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  buckets = static_cast<uint32_t*>(memory);
  return true;
}

void ReindexObjectRules() {
  std::memset(buckets, 0, kBuckets * sizeof *buckets);
  const uint64_t used = g_runtime.segment.array(ArrayId::kObjectRules).used.load(kRelaxed);
  for (uint32_t i = 1; i < used; ++i) {
    ShmObjectRule& rule = Rules()[i];
    const uint32_t type = rule.type.load(kRelaxed);
    if (type == 0) continue;
    Padded schema{""}, name{""};
    CopyFromShared(schema.bytes, rule.schema, sizeof schema.bytes);
    CopyFromShared(name.bytes, rule.name, sizeof name.bytes);
    uint32_t& head = BucketOf({static_cast<ObjectType>(type), schema.view(), name.view()});
    rule.next.store(head, kRelease);
    head = i;
  }
}

bool StartObjectRules() {
  if (!AdoptObjectRules()) return false;
  for (auto type = static_cast<uint8_t>(ObjectType::kEvent); type <= static_cast<uint8_t>(ObjectType::kTrigger); ++type) {
    for (const std::string_view schema : {"mysql", "performance_schema", "information_schema"}) {
      (void)AddRule({static_cast<ObjectType>(type), schema, kAny}, false, false);
    }
    (void)AddRule({static_cast<ObjectType>(type), kAny, kAny}, true, true);
  }
  return true;
}

void ObjectRulesChanged() { rules_changed = true; }

bool TakeObjectRulesChanged() {
  const bool changed = rules_changed;
  rules_changed = false;
  return changed;
}

uint32_t ObjectBits(ObjectType type, std::string_view schema, std::string_view name) {
  // setup_objects treats a temporary table as a table.
  if (type == ObjectType::kTemporaryTable) type = ObjectType::kTable;
  uint32_t index = FindRule({type, schema, name});
  if (index == 0) index = FindRule({type, schema, kAny});
  if (index == 0) index = FindRule({type, kAny, kAny});
  if (index == 0) return 0;
  const ShmObjectRule& rule = Rules()[index];
  return (rule.enabled.load(kRelaxed) != 0 ? kTableEnabled : 0) | (rule.timed.load(kRelaxed) != 0 ? kTableTimed : 0);
}

Status InsertObjectRule(const ObjectRuleKey& key, bool enabled, bool timed) {
  return ChangeRules([&] {
    if (FindRule(key) != 0) {
      return Status(Code::kExists, "duplicate key: setup_objects has a row for " +
                                       std::string(kObjectTypeNames[static_cast<uint32_t>(key.type)]) + " '" + std::string(key.schema) +
                                       "'.'" + std::string(key.name) + "' already");
    }
    if (!AddRule(key, enabled, timed))
      return Status(Code::kFull, "setup_objects is full: performance_schema_setup_objects_size says how many rows it may have");
    return Status();
  });
}

Status UpdateObjectRule(const ObjectRuleKey& key, std::optional<bool> enabled, std::optional<bool> timed) {
  return ChangeRules([&] {
    const uint32_t index = FindRule(key);
    if (index == 0) return Status(Code::kNotFound, "the row is gone");
    ShmObjectRule& rule = Rules()[index];
    const CellWriter writer(rule.seq);
    if (enabled) rule.enabled.store(*enabled ? 1 : 0, kRelease);
    if (timed) rule.timed.store(*timed ? 1 : 0, kRelease);
    return Status();
  });
}

Status RemoveObjectRule(const ObjectRuleKey& key) {
  return ChangeRules([&] {
    HalfWord* link = nullptr;
    const uint32_t index = FindRule(key, &link);
    if (index == 0) return Status(Code::kNotFound, "the row is gone");
    const uint32_t next = Rules()[index].next.load(kRelaxed);
    if (link == nullptr) {
      BucketOf(key) = next;
    } else {
      link->store(next, kRelaxed);
    }
    GiveRule(index);
    return Status();
  });
}

Status TruncateObjectRules() {
  return ChangeRules([] {
    const uint64_t used = g_runtime.segment.array(ArrayId::kObjectRules).used.load(kRelaxed);
    for (uint32_t i = 1; i < used; ++i) {
      if (Rules()[i].type.load(kRelaxed) != 0) GiveRule(i);
    }
    std::memset(buckets, 0, kBuckets * sizeof *buckets);
    return Status();
  });
}

}  // namespace perfschema
