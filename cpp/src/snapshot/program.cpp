// snapshot/program.cpp: reads rows that the program declared, and its error log. shm/layout_program.h says who writes what.
#include <sched.h>

#include "record/declared/log.h"
#include "shm/fact.h"
#include "snapshot/snapshot.h"
#include "snapshot/try_read.h"

namespace perfschema {

void Snapshot::ForEachFact(FactKind kind, const std::function<void(const FactRow&)>& use) const {
  const auto wanted = static_cast<uint32_t>(kind);
  std::string bytes;
  uint64_t bytes_left = (2 * fact_blocks_.used() + 10'000) * kFactBlockBytes;  // chains of a damaged file may meet, or be circles
  for (uint64_t i = 1; i < facts_.used(); ++i) {
    const ShmFact* shm = facts_.at(i);
    if (shm == nullptr) break;
    if (shm->kind.load(kAcquire) != wanted) continue;
    bool is_one = false, is_readable = true;
    FactRow row{};
    if (!TryRead(shm->seq, [&] {  // pairs with StoreFact
          is_one = shm->kind.load(kAcquire) == wanted;
          row.owner = shm->owner.load(kAcquire);
          row.setting = shm->setting.load(kAcquire);
          is_readable = !is_one ||
                        ReadChain(
                            shm->block.load(kAcquire), shm->bytes.load(kAcquire), [&](uint32_t at) { return fact_blocks_.at(at); }, &bytes);
        })) {
      ++skipped_;
      continue;
    }
    if (!is_one) continue;  // dropped meanwhile
    if (bytes.size() > bytes_left) {
      ++skipped_;
      break;
    }
    bytes_left -= bytes.size();
    is_readable = is_readable && DecodeFact(
                                     bytes, [&](uint64_t number) { row.numbers.push_back(number); },
                                     [&](std::optional<std::string_view> text) {
                                       row.texts.push_back(text ? std::optional<LongText>(Keep(*text)) : std::nullopt);
                                     });
    if (is_readable) {
      use(row);
    } else {
      ++skipped_;  // a damaged file
    }
  }
}

void Snapshot::ForEachStep(const std::function<void(const StepRow&)>& use) const {
  if (!ok_) return;
  const ShmGovernor& shared = governor();
  const uint64_t made = shared.steps_made.load(kAcquire);  // pairs with ApplySteps
  const uint64_t kept = std::min<uint64_t>(made, kKeptSteps);
  for (uint64_t i = 0; i < kept; ++i) {
    const uint64_t number = made - kept + 1 + i;
    const ShmStep& step = shared.steps[(number - 1) % kKeptSteps];
    StepRow row{};
    uint32_t what = 0;
    const bool is_whole = TryRead(step.seq, [&] {
      what = step.class_and_steps.load(kAcquire);
      row.number = step.number.load(kAcquire);
      row.micros = step.micros.load(kAcquire);
      row.overhead_ppm = step.overhead_ppm.load(kAcquire);
      row.class_ppm = step.class_ppm.load(kAcquire);
      row.limit_ppm = step.limit_ppm.load(kAcquire);
      row.events_per_second = step.events_per_second.load(kAcquire);
    });
    const auto step_in = [&](int shift) { return static_cast<Step>(std::min(what >> shift & 0xff, static_cast<uint32_t>(kLastStep))); };
    row.instrument = ClassAt(what & 0xffff);
    row.from = step_in(16);
    row.to = step_in(24);
    if (!is_whole) ++skipped_;
    if (is_whole && row.number == number && row.instrument != nullptr) use(row);  // else a younger one has its place
  }
}

void Snapshot::ForEachLogEvent(const std::function<void(const LogRow&)>& use) const {
  if (!ok_) return;
  const uint64_t end = program().log_end.load(kAcquire);  // pairs with WriteLog
  uint64_t place = program().log_begin.load(kAcquire);
  // Asked after the end: while the ring grows, its units are where they would be in a larger one.
  const uint64_t ring = std::clamp<uint64_t>(log_units_.UsedNow(), 2, kLogUnits + 1) - 1;
  std::string bytes;
  while (place < end && end - place <= ring) {
    const auto unit_at = [&](uint64_t at) { return log_units_.at(1 + at % ring); };
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
    if (const uint64_t begin = program().log_begin.load(kAcquire); begin > place) {
      place = begin;
      continue;
    }
#endif
    if (!is_good) {
      ++skipped_;  // a damaged file
      return;
    }
    const std::string_view text = Keep(std::string_view(bytes).substr(sizeof head, head.bytes() - sizeof head));
    LogRow row{head.logged, {}, head.priority(), {}, {}, text.substr(head.code_bytes() + head.subsystem_bytes())};
    if (head.thread_id != 0) row.thread_id = head.thread_id;
    if (head.code_bytes() != 0) row.code = text.substr(0, head.code_bytes());
    if (head.subsystem_bytes() != 0) row.subsystem = text.substr(head.code_bytes(), head.subsystem_bytes());
    use(row);
    place += head.units();
  }
}

}  // namespace perfschema
