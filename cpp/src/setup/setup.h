// setup/setup.h: instruments, consumers, timers: turns the users' settings into the flag word of every class and object.
//
// Every function takes the cold lock itself and acts at once on running threads: their next event reads the new word.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/consumers.h"
#include "base/families.h"
#include "base/status.h"
#include "shm/layout.h"

namespace perfschema {

// Bits of the `flags` of a registration.
inline constexpr uint32_t kRegisterSingleton = 1, kRegisterMutable = 2, kRegisterProgress = 8, kRegisterUser = 64, kRegisterGlobal = 128,
                          kRegisterControlled = 4096, kRegisterDisabled = 8192, kRegisterUntimed = 16384, kRegisterDialectShift = 16;

// Makes an instrument, or finds the one that has the name already (semantics.md C3). `key` is 0 if the instrument is refused, if the family
// is full (counted) or if pfs is off; the last two are not errors.
Status RegisterInstrument(Family family, std::string_view component, std::string_view name, uint32_t flags, uint32_t volatility,
                          std::string_view documentation, uint32_t* key);

// Does the same from a short name "component/name" or a full one "wait/synch/mutex/component/name".
Status RegisterInstrumentByName(Family family, std::string_view name, std::string_view documentation, uint32_t* key);

// Joins many updates into one pass over the objects: they get their new words when the last batch of the process ends.
// Threads: any thread.
class SetupBatch {
 public:
  SetupBatch();
  ~SetupBatch();
  SetupBatch(const SetupBatch&) = delete;
  SetupBatch& operator=(const SetupBatch&) = delete;
};

// Updates the words of all live objects to their classes', at the end of the last batch if there is one. REQUIRES: cold lock.
void RefreshObjects();

// Properties that the instrument lacks are ignored: TIMED of memory, FLAGS of one that counts only globally, TRACE_ENABLED of one without
// events. Class 0 is an instrument of pfs itself: nothing can be set, and the call does nothing. kInvalidArgument: the instrument would
// be traced without being enabled, get CONTENDED, which only a lock that can be tried first has,
// SAMPLED or STATE, which only waits have.
struct InstrumentChange {
  std::optional<bool> enabled;
  std::optional<Timing> timed;
  std::optional<bool> controlled, traced;
};
Status UpdateInstrument(uint32_t class_index, const InstrumentChange& change);
// Returns the result that UpdateInstrument would return; changes nothing.
Status CheckInstrument(uint32_t class_index, const InstrumentChange& change);

// Rules of instruments: settings for instruments that register later (setup/rules.h). A change of the rules also changes the instruments
// that are as the rules said before. kInvalidArgument: no instrument can match the pattern, or the settings are not legal for those that
// can. kFull, kNotFound.
Status InsertInstrumentRule(std::string_view pattern, const RuleSettings& settings);
Status RemoveInstrumentRule(uint64_t ordinal);
Status RemoveAllInstrumentRules();

Status UpdateConsumer(Consumer consumer, bool enabled);
Status UpdateTimer(TimedClass timed_class, TimerId timer);
// Does nothing if another thread has the slot by now.
Status UpdateThread(uint32_t slot, uint64_t thread_id, std::optional<bool> instrumented, std::optional<bool> history);

}  // namespace perfschema
