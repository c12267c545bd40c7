// shm/layout_program.h says who writes what.
#include "snapshot/program.h"

#include <sched.h>

#include "record/declared/log.h"
#include "shm/fact.h"
#include "snapshot/snapshot.h"

namespace perfschema {

void ForEachFact(const Snapshot& snapshot, FactKind kind, const std::function<void(const FactRow&)>& use) {
  const auto& facts = snapshot.array<ArrayId::kFacts>();
  const auto& blocks = snapshot.array<ArrayId::kFactBlocks>();
  const auto wanted = static_cast<uint32_t>(kind);
  std::string bytes;
  uint64_t bytes_left = (2 * blocks.used() + 10'000) * kFactBlockBytes;  // chains of a damaged file may meet, or be circles
  for (uint64_t i = 1; i < facts.used(); ++i) {
    const ShmFact* shm = facts.at(i);
    if (shm == nullptr) break;
    if (shm->kind.load(kAcquire) != wanted) continue;
    bool is_one = false, is_readable = true;
    FactRow row{};
    if (!snapshot.TryRead(shm->seq, [&] {  // pairs with StoreFact
          is_one = shm->kind.load(kAcquire) == wanted;
          row.owner = shm->owner.load(kAcquire);
          row.setting = shm->setting.load(kAcquire);
          is_readable =
              !is_one || ReadChain(
                             shm->block.load(kAcquire), shm->bytes.load(kAcquire), [&](uint32_t at) { return blocks.at(at); }, &bytes);
        })) {
      snapshot.CountSkipped();
      continue;
    }
    if (!is_one) continue;  // dropped meanwhile
    if (bytes.size() > bytes_left) {
      snapshot.CountSkipped();
      break;
    }
    bytes_left -= bytes.size();
    is_readable = is_readable && DecodeFact(
                                     bytes, [&](uint64_t number) { row.numbers.push_back(number); },
                                     [&](std::optional<std::string_view> text) {
                                       row.texts.push_back(text ? std::optional<LongText>(snapshot.Keep(*text)) : std::nullopt);
                                     });
    if (is_readable) {
      use(row);
    } else {
      snapshot.CountSkipped();  // a damaged file
    }
  }
}

void ForEachLogEvent(const Snapshot& snapshot, const std::function<void(const LogRow&)>& use) {
  if (!snapshot.ok()) return;
  const ShmDeclared& program = snapshot.header().program;
  const auto& log_units = snapshot.array<ArrayId::kErrorLog>();
  const uint64_t end = program.log_end.load(kAcquire);  // pairs with WriteLog
  uint64_t place = program.log_begin.load(kAcquire);
  // Asked after the end: while the ring grows, its units are where they would be in a larger one.
  const uint64_t ring = std::clamp<uint64_t>(log_units.UsedNow(), 2, kLogUnits + 1) - 1;
  std::string bytes;
  while (place < end && end - place <= ring) {
    const auto unit_at = [&](uint64_t at) { return log_units.at(1 + at % ring); };
    const auto copy = [&](uint64_t units) {
      bytes.resize(units * sizeof(ShmLogUnit));
      for (uint64_t i = 0; i < units; ++i) {
        const ShmLogUnit* const unit = unit_at(place + i);
        if (unit == nullptr) return false;
        CopyFromShared(bytes.data() + i * sizeof *unit, unit->words, sizeof *unit);
      }
      return true;
    };
    LogHead head{};
    bool is_good = copy(1);
#if defined(PFS_BREAK_SEQLOCK)  // lets a writer come between the head and the rest, on any machine
    sched_yield();
#endif
    if (is_good) {
      std::memcpy(&head, bytes.data(), sizeof head);
      is_good = head.place == place && head.priority() <= static_cast<uint32_t>(LogPriority::kNote) && head.data_bytes() <= kLogDataBytes &&
                head.units() <= end - place && copy(head.units());
    }
#if !defined(PFS_BREAK_SEQLOCK)  // negative control of the test of the log: the check removed
    // A writer that overwrites an event moves the begin first. Pairs with the release stores of WriteLog, by the acquire loads above.
    if (const uint64_t begin = program.log_begin.load(kAcquire); begin > place) {
      place = begin;
      continue;
    }
#endif
    if (!is_good) {
      snapshot.CountSkipped();  // a damaged file
      return;
    }
    const std::string_view text = snapshot.Keep(std::string_view(bytes).substr(sizeof head, head.bytes() - sizeof head));
    LogRow row{head.logged, {}, head.priority(), {}, {}, text.substr(head.code_bytes() + head.subsystem_bytes())};
    if (head.thread_id != 0) row.thread_id = head.thread_id;
    if (head.code_bytes() != 0) row.code = text.substr(0, head.code_bytes());
    if (head.subsystem_bytes() != 0) row.subsystem = text.substr(head.code_bytes(), head.subsystem_bytes());
    use(row);
    place += head.units();
  }
}

}  // namespace perfschema
