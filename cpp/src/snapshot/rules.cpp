#include "snapshot/rules.h"

#include <algorithm>

#include "snapshot/slots.h"

namespace perfschema {
namespace {

Found ReadObjectRule(const Snapshot& snapshot, uint32_t index, ObjectRuleRow* row) {
  const ShmObjectRule* shm = snapshot.array<ArrayId::kObjectRules>().at(index);
  if (shm == nullptr) return Found::kFree;
  uint32_t type = 0;
  uint64_t schema[8], name[8];
  const bool whole = snapshot.TryRead(shm->seq, [&] {
    type = shm->type.load(kAcquire);
    LoadWords(shm->schema, schema);
    LoadWords(shm->name, name);
    row->enabled = shm->enabled.load(kAcquire) != 0;
    row->timed = shm->timed.load(kAcquire) != 0;
  });
  if (!whole) return Found::kTorn;
  if (type < static_cast<uint32_t>(ObjectType::kEvent) || type > static_cast<uint32_t>(ObjectType::kTrigger)) return Found::kFree;
  row->type = static_cast<ObjectType>(type);
  row->schema = snapshot.KeepWords(schema);
  row->name = snapshot.KeepWords(name);
  return Found::kRead;
}

}  // namespace

void ForEachActor(const Snapshot& snapshot, const std::function<void(const ActorRow&)>& use) {
  const auto& actors = snapshot.array<ArrayId::kActors>();
  for (uint64_t i = 1; i < actors.used(); ++i) {
    const ShmActor* shm = actors.at(i);
    if (shm == nullptr) break;
    if (shm->is_live.load(kAcquire) == 0) continue;  // pairs with InsertActor
    uint64_t host[32], user[4], role[4];
    ActorRow row;
    const bool whole = snapshot.TryRead(shm->seq, [&] {
      LoadWords(shm->host, host);
      LoadWords(shm->user, user);
      LoadWords(shm->role, role);
      row.enabled = shm->enabled.load(kAcquire) != 0;
      row.history = shm->history.load(kAcquire) != 0;
      row.traced = shm->traced.load(kAcquire) != 0;
    });
    if (shm->is_live.load(kAcquire) == 0) continue;  // deleted meanwhile
    if (!whole) {
      snapshot.CountSkipped();
      continue;
    }
    row.host = snapshot.KeepWords(host);
    row.user = snapshot.KeepWords(user);
    row.role = snapshot.KeepWords(role);
    use(row);
  }
}

std::vector<InstrumentRuleRow> InstrumentRules(const Snapshot& snapshot) {
  const auto& shared = snapshot.array<ArrayId::kInstrumentRules>();
  std::vector<InstrumentRuleRow> rows;
  for (uint64_t i = 1; i < shared.used(); ++i) {
    const ShmInstrumentRule* shm = shared.at(i);
    if (shm == nullptr) break;
    const uint64_t ordinal = shm->ordinal.load(kAcquire);  // pairs with AddInstrumentRule
    if (ordinal == 0) continue;
    uint64_t pattern[kRulePatternBytes / 8];
    LoadWords(shm->pattern, pattern);
    const RuleSettings settings = RuleSettings::Unpack(shm->settings.load(kAcquire));
    if (shm->ordinal.load(kAcquire) == ordinal)
      rows.push_back({ordinal, snapshot.KeepWords(pattern), settings});  // else it was removed meanwhile
  }
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.ordinal < b.ordinal; });
  return rows;
}

void ForEachObjectRule(const Snapshot& snapshot, const std::function<void(const ObjectRuleRow&)>& use) {
  ForEachSlot(snapshot, snapshot.array<ArrayId::kObjectRules>(), ReadObjectRule, use);
}

}  // namespace perfschema
