#include "setup/setup.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/like.h"
#include "record/engine/classes.h"
#include "record/engine/cold_lock.h"
#include "record/engine/runtime.h"
#include "record/family/metadata.h"
#include "record/family/program_tables.h"
#include "record/family/programs.h"
#include "record/probe/cells.h"
#include "record/probe/trace.h"
#include "setup/ceiling.h"
#include "setup/objects.h"
#include "setup/rules.h"
#include "shm/limits.h"
#include "shm/shapes.h"

namespace perfschema {
namespace {

bool ConsumerActs(Consumer consumer) {
  // A consumer acts if it and all its ancestors are enabled.
  for (Consumer at = consumer; at != Consumer::kCount; at = kConsumers[static_cast<uint32_t>(at)].parent) {
    if (g_runtime.header->consumers[static_cast<uint32_t>(at)].load(kRelaxed) == 0) return false;
  }
  return true;
}

bool HasEvents(const ShmClass& entry) {
  const auto family = static_cast<Family>(entry.family);
  return TraitsOf(family).is_instrument && static_cast<uint32_t>(TraitsOf(family).kind) < kEventKinds;
}

// Computes the flag word of a class, and so of its objects. REQUIRES: cold lock, as for all functions below.
uint32_t FlagsOf(const ShmClass& entry) {
  if (entry.enabled.load(kRelaxed) == 0 || !ConsumerActs(Consumer::global_instrumentation)) return 0;
  uint32_t flags = kFlagEnabled;
  const Kind kind = TraitsOf(static_cast<Family>(entry.family)).kind;
  const auto timing = static_cast<Timing>(entry.timed.load(kRelaxed));
  if (timing != Timing::kNo && timing != Timing::kState && static_cast<uint32_t>(kind) < kEventKinds) {
    const TimedClass timed_class = entry.family == static_cast<uint32_t>(Family::kIdle) ? TimedClass::kIdle : TimedClassOf(kind);
    const uint32_t timer = g_runtime.header->timer_of[static_cast<uint32_t>(timed_class)].load(kRelaxed) - 1;
    // A missing timer falls back to the closest one: the event uses that timer's scale from begin to end.
    const auto source = static_cast<uint32_t>(g_runtime.header->timers[timer].source);
    flags |= kFlagTimed | source << kFlagTimerShift;
    // A counter below 1 GHz (arm64) as well: the multiplication of the fast path (record/probe/fast_path.h) would overflow.
    const bool is_fast = source == static_cast<uint32_t>(TimerId::kCycle) && g_runtime.picos_per_tick[source] <= uint64_t{1} << 38;
    if (!is_fast) flags |= kFlagSlowTimer;
  }
  const bool is_tried = timing == Timing::kState && MayBeContended(static_cast<Family>(entry.family));
  if (timing == Timing::kContended || is_tried) flags |= kFlagContended;
  if (timing == Timing::kSampled) flags |= kFlagSampled;
  if (ConsumerActs(Consumer::thread_instrumentation) && (entry.properties & kPropertyGlobal) == 0) flags |= kFlagThread;
  if (entry.controlled.load(kRelaxed) != 0) flags |= kFlagControlled;
  const auto consumer_flags = [&](const KindConsumers& of) {
    if (ConsumerActs(of.current)) flags |= kFlagCurrent;
    if (ConsumerActs(of.history)) flags |= kFlagHistory;
    if (ConsumerActs(of.history_long)) flags |= kFlagHistoryLong;
  };
  if (static_cast<uint32_t>(kind) < kEventKinds) {
    consumer_flags(kConsumersOf[static_cast<uint32_t>(kind)]);
    if (HasOneHolder(static_cast<Family>(entry.family)) && ConsumerActs(Consumer::lock_holds)) flags |= kFlagHolds;
    if (kind == Kind::kStatement && ConsumerActs(Consumer::statements_digest)) flags |= kFlagDigest;
    if (kind == Kind::kStatement) flags |= (entry.properties >> kPropertyDialectShift << kFlagDialectShift) & kFlagDialectMask;
    if (kind == Kind::kStatement && ConsumerActs(Consumer::events_statements_cpu)) flags |= kFlagCpu;
  }
  if (entry.family == static_cast<uint32_t>(Family::kSocket)) flags |= kFlagSocket;
  if (entry.trace_enabled.load(kRelaxed) != 0 && (flags & kFlagThread) != 0) {
    NoteTrace();
    flags |= kFlagTrace;
    // The trace needs records, even if no other consumer reads them.
    if ((flags & kFlagCurrent) == 0) flags |= kFlagCurrent | kFlagTraceOnly;
  }
  return flags;
}

void RefreshClass(ShmClass& entry) { entry.flags.store(FlagsAfterStep(entry, FlagsOf(entry)), kRelaxed); }

// Guarded by the cold lock.
int open_batches = 0;
bool refresh_is_due = false;

}  // namespace

void RefreshObjects() {
  refresh_is_due = open_batches > 0;
  if (refresh_is_due) return;
  AwaitLockFreePath();  // objects that have the old flags are then among those below
  Segment& segment = g_runtime.segment;
  const uint64_t instances = segment.array(ArrayId::kInstances).used.load(kRelaxed);
  for (uint64_t i = 1; i < instances; ++i) {
    ShmInstance& object = g_runtime.instances[i];
    const uint32_t at = object.class_index.load(kRelaxed);
    if (at == 0) continue;
    const uint32_t of_class = g_runtime.classes[at].flags.load(kRelaxed);
    uint32_t flags = object.flags.load(kRelaxed);
    while (!object.flags.compare_exchange_weak(flags, of_class | (flags & (kFlagShared | kFlagDead)), kRelaxed)) {
    }
  }
  const uint64_t files = segment.array(ArrayId::kFiles).used.load(kRelaxed);
  for (uint64_t i = 1; i < files; ++i) {
    ShmFile& file = g_runtime.files[i];
    const uint32_t at = file.class_index.load(kRelaxed);
    if (at == 0) continue;
    const uint32_t dead = file.flags.load(kRelaxed) & kFlagDead;
    file.flags.store(g_runtime.classes[at].flags.load(kRelaxed) | dead, kRelaxed);
  }
  if (TakeObjectRulesChanged()) {
    ReapplyObjectRules();
    ReapplyRulesToPrograms();
  } else {
    RefreshTables();
  }
  RefreshMetadataLocks();
  NoteFlags();
}

namespace {

void RefreshAll() {
  const uint64_t classes = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint64_t i = 1; i < classes; ++i) {
    if (g_runtime.classes[i].family != 0) RefreshClass(g_runtime.classes[i]);
  }
  RefreshObjects();
}

// Holds the settings of an instrument that nobody changed: those of its registration, and of the rules.
struct DerivedSettings {
  bool enabled;
  Timing timed;
  bool traced;
  bool operator==(const DerivedSettings&) const = default;
};
DerivedSettings Derive(const ShmClass& entry) {
  const auto family = static_cast<Family>(entry.family);
  DerivedSettings derived{(entry.properties & kPropertyDisabled) == 0, Timing::kNo, false};
  if ((entry.properties & kPropertyUntimed) == 0 && TraitsOf(family).is_timed) derived.timed = Timing::kYes;
  const RuleSettings rules = RulesFor(family, NameOf(entry));
  derived.enabled = rules.enabled.value_or(derived.enabled);
  // HISTORY of threads, which `timed` is, has no presets.
  if (family != Family::kThread && TraitsOf(family).is_timed) derived.timed = rules.timed.value_or(derived.timed);
  derived.traced = rules.traced.value_or(StartOptionsLocked().Get(OptionId::trace_enabled) != 0) && HasEvents(entry) && derived.enabled;
  return derived;
}

void Apply(const DerivedSettings& settings, ShmClass& entry) {
  entry.enabled.store(settings.enabled ? 1 : 0, kRelaxed);
  entry.timed.store(static_cast<uint32_t>(settings.timed), kRelaxed);
  entry.trace_enabled.store(settings.traced ? 1 : 0, kRelaxed);
}

// Makes an instrument. Returns 0 if the table is full.
uint32_t MakeClass(Family family, std::string_view full_name, uint32_t flags, uint32_t volatility, std::string_view documentation) {
  ShmClass* const made = NewClass(family, full_name, documentation);
  if (made == nullptr || !MakeClassCells(*made)) return 0;
  ShmClass& entry = *made;
  const bool is_memory = family == Family::kMemory;
  entry.properties = ((flags & kRegisterSingleton) != 0 ? kPropertySingleton : 0) |
                     ((flags & kRegisterProgress) != 0 ? kPropertyProgress : 0) | ((flags & kRegisterUser) != 0 ? kPropertyUser : 0) |
                     (is_memory && (flags & kRegisterGlobal) != 0 ? kPropertyGlobal : 0) |
                     (is_memory && (flags & kRegisterControlled) != 0 ? kPropertyControlled : 0) |
                     ((flags & kRegisterMutable) != 0 ? kPropertyMutable : 0) | ((flags & kRegisterDisabled) != 0 ? kPropertyDisabled : 0);
  if (family != Family::kThread && (flags & (kRegisterDisabled | kRegisterUntimed)) != 0) entry.properties |= kPropertyUntimed;
  if (family == Family::kStatement) entry.properties |= (flags >> kRegisterDialectShift & 15) << kPropertyDialectShift;
  entry.volatility = std::min(volatility, 8u);
  Apply(Derive(entry), entry);
  if (HasEvents(entry)) entry.step.store(static_cast<uint32_t>(FirstStep()), kRelaxed);
  if (is_memory) {
    const bool controlled = (entry.properties & (kPropertyGlobal | kPropertyControlled)) == kPropertyControlled;
    entry.controlled.store(controlled ? 1 : 0, kRelaxed);
  }
  RefreshClass(entry);
  entry.key = AcquireKey(family, entry.index);
  entry.ready.store(1, kRelease);  // last: pairs with Snapshot::classes
  return entry.key;
}

}  // namespace

bool StartSetup() {
  StartCeiling();
  StartInstrumentRules(StartOptionsLocked());
  for (int i = 1; i < kFamilyCount; ++i) {
    const auto family = static_cast<Family>(i);
    if (TraitsOf(family).is_single) MakeClass(family, TraitsOf(family).prefix, family == Family::kIdle ? kRegisterUser : 0, 0, {});
  }
  return StartObjectRules();
}

void RefreshClasses(std::span<const StepChange> changes) {
  for (const StepChange& change : changes) RefreshClass(g_runtime.classes[change.class_index]);
  RefreshObjects();
}
void RefreshAllClasses() { RefreshAll(); }

bool AdoptSetup() { return AdoptObjectRules(); }

void ReindexSetup() { ReindexObjectRules(); }

void RefreshSetup() {
  ObjectRulesChanged();
  RefreshAll();
}

Status RegisterInstrument(Family family, std::string_view component, std::string_view name, uint32_t flags, uint32_t volatility,
                          std::string_view documentation, uint32_t* key) {
  *key = 0;
  const std::string_view prefix = kFamilies[static_cast<uint32_t>(family)].prefix;
  const std::string shown = "'" + std::string(component) + "/" + std::string(name) + "'";
  if (component.empty() || component.find('/') != std::string_view::npos) {
    return Status(Code::kInvalidArgument, "bad component in " + shown + ": it must not be empty or contain '/'; a name is component/name");
  }
  if (name.empty()) return Status(Code::kInvalidArgument, "bad name " + shown + ": the part after the component is empty");
  if (family == Family::kMemory && component == "performance_schema") {
    return Status(Code::kInvalidArgument,
                  "component 'performance_schema' of memory is taken: its instruments are the arrays of pfs itself");
  }
  const std::string full = std::string(prefix) + "/" + std::string(component) + "/" + std::string(name);
  if (full.size() > 128) {
    return Status(Code::kInvalidArgument, "name '" + full + "' has " + std::to_string(full.size()) + " bytes: at most 128 are legal");
  }
  for (const char c : full) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '%') {
      return Status(Code::kInvalidArgument, "bad name " + shown + ": control characters and '%' are not legal");
    }
  }
  if (!EnsureStarted()) return {};
  const Options& options = StartOptions();
  const int error = errno;
  const FamilyLimits limits = LimitsOf(family);
  {
    const ColdLock lock;
    if (!lock) return {};
    Segment& segment = g_runtime.segment;
    const uint64_t used = segment.array(ArrayId::kClasses).used.load(kRelaxed);
    uint32_t of_family = 0;
    for (uint64_t i = 1; i < used; ++i) {
      const ShmClass& entry = g_runtime.classes[i];
      const auto other = static_cast<Family>(entry.family);
      if (other == Family::kNone) continue;  // a further column of the previous instrument
      of_family += !TraitsOf(other).is_single && LimitsOf(other).classes == limits.classes ? 1 : 0;
      if (other == family && NameOf(entry) == full) {
        *key = entry.key;
        return {};
      }
    }
    if (of_family < static_cast<uint64_t>(options.Get(limits.classes))) *key = MakeClass(family, full, flags, volatility, documentation);
  }
  TraceMayBegin();
  errno = error;
  if (*key == 0) CountLoss(limits.classes_lost);
  return {};
}

Status RegisterInstrumentByName(Family family, std::string_view name, std::string_view documentation, uint32_t* key) {
  *key = 0;
  const std::string_view prefix = kFamilies[static_cast<uint32_t>(family)].prefix;
  std::string_view rest = name;
  if (rest.size() > prefix.size() && rest.substr(0, prefix.size()) == prefix && rest[prefix.size()] == '/')
    rest.remove_prefix(prefix.size() + 1);
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos) {
    return Status(Code::kInvalidArgument, "bad name '" + std::string(name) + "': legal is component/name, such as myapp/" +
                                              std::string(name) + ", or " + std::string(prefix) + "/component/name");
  }
  return RegisterInstrument(family, rest.substr(0, slash), rest.substr(slash + 1), 0, 0, documentation, key);
}

SetupBatch::SetupBatch() {
  if (const ColdLock lock; lock) ++open_batches;
}

SetupBatch::~SetupBatch() {
  if (const ColdLock lock; lock && --open_batches == 0 && refresh_is_due) RefreshObjects();
}

namespace {
// Checks whether the change is allowed. REQUIRES: cold lock.
Status CheckChange(const ShmClass& entry, const InstrumentChange& change) {
  const auto family = static_cast<Family>(entry.family);
  if (change.timed == Timing::kContended && TraitsOf(family).is_timed && !MayBeContended(family)) {
    return Status(Code::kInvalidArgument, "TIMED of " + std::string(NameOf(entry)) + " can be YES" +
                                              (MayBeSampled(family) ? ", NO, SAMPLED or STATE" : " or NO") +
                                              ": CONTENDED is for wait/synch/mutex/% and wait/synch/rwlock/%");
  }
  if (IsForWaits(change.timed) && TraitsOf(family).is_timed && !MayBeSampled(family)) {
    return Status(Code::kInvalidArgument,
                  "TIMED of " + std::string(NameOf(entry)) + " can be YES or NO: SAMPLED and STATE are for wait/% and idle");
  }
  if (change.traced && *change.traced && HasEvents(entry)) {
    if (!change.enabled.value_or(entry.enabled.load(kRelaxed) != 0)) {
      return Status(Code::kInvalidArgument, "TRACE_ENABLED of " + std::string(NameOf(entry)) + " can be YES only where ENABLED is YES");
    }
    if (IsOutsider()) return TraceIsInsidersOnly();
  }
  return {};
}

// REQUIRES: cold lock, CheckChange().
void ChangeInstrument(ShmClass& entry, const InstrumentChange& change) {
  const bool is_memory = entry.family == static_cast<uint32_t>(Family::kMemory);
  if (change.enabled) entry.enabled.store(*change.enabled ? 1 : 0, kRelaxed);
  if (HasEvents(entry)) {
    if (change.traced) entry.trace_enabled.store(*change.traced ? 1 : 0, kRelaxed);
    if (entry.enabled.load(kRelaxed) == 0) entry.trace_enabled.store(0, kRelaxed);
  }
  if (change.timed && !is_memory) entry.timed.store(static_cast<uint32_t>(*change.timed), kRelaxed);
  if (change.controlled && is_memory && (entry.properties & kPropertyGlobal) == 0)
    entry.controlled.store(*change.controlled ? 1 : 0, kRelaxed);
  RefreshClass(entry);
  RefreshObjects();
}

Status CheckAndChange(uint32_t class_index, const InstrumentChange& change, bool is_trial) {
  if (!EnsureStarted()) return Status(Code::kState, "pfs is off: " + StatusReason());
  if (class_index == 0) return {};
  const ColdLock lock;
  if (!lock || class_index >= g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed)) {
    return Status(Code::kNotFound, "no such instrument");
  }
  ShmClass& entry = g_runtime.classes[class_index];
  Status status = CheckChange(entry, change);
  if (status.ok() && !is_trial) ChangeInstrument(entry, change);
  return status;
}
}  // namespace

Status CheckInstrument(uint32_t class_index, const InstrumentChange& change) { return CheckAndChange(class_index, change, true); }

Status UpdateInstrument(uint32_t class_index, const InstrumentChange& change) {
  Status status = CheckAndChange(class_index, change, false);
  if (status.ok()) TraceMayBegin();
  return status;
}

namespace {

// Calls change(), which changes rules. Instruments that are as the rules said before become as the rules say now; instruments that were
// changed otherwise stay as they are.
template <typename Change>
Status ChangeInstrumentRules(Change change) {
  if (!EnsureStarted()) return {};
  Status status;
  {
    const ColdLock lock;
    if (!lock) return Status(Code::kState, "setup_instrument_rules in a signal handler that interrupted pfs: try again outside of it");
    std::vector<ShmClass*> unchanged;
    const uint64_t used = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
    for (uint64_t i = 1; i < used; ++i) {
      ShmClass& entry = g_runtime.classes[i];
      const auto family = static_cast<Family>(entry.family);
      if (entry.ready.load(kRelaxed) == 0 || !TraitsOf(family).is_instrument || family == Family::kThread) continue;
      const DerivedSettings now{entry.enabled.load(kRelaxed) != 0, static_cast<Timing>(entry.timed.load(kRelaxed)),
                                entry.trace_enabled.load(kRelaxed) != 0};
      if (now == Derive(entry)) unchanged.push_back(&entry);
    }
    status = change();
    for (ShmClass* entry : unchanged) {
      DerivedSettings settings = Derive(*entry);
      if (IsOutsider()) settings.traced = settings.traced && entry->trace_enabled.load(kRelaxed) != 0;
      Apply(settings, *entry);
      RefreshClass(*entry);
    }
    RefreshObjects();
  }
  TraceMayBegin();
  return status;
}

}  // namespace

Status InsertInstrumentRule(std::string_view pattern, const RuleSettings& settings) {
  const std::string shown = "PATTERN '" + std::string(pattern) + "' of setup_instrument_rules";
  if (!MayMatch(pattern, IsAnyFamily)) {
    return Status(Code::kInvalidArgument, shown + " matches no instrument that can ever be: setup_instruments has their names");
  }
  if (settings.is_empty()) return Status(Code::kInvalidArgument, shown + ": give at least one of ENABLED, TIMED, TRACE_ENABLED");
  if (settings.timed == Timing::kContended && !MayMatch(pattern, MayBeContended) && MayMatch(pattern, HasDuration)) {
    return Status(Code::kInvalidArgument, shown + ": CONTENDED is for wait/synch/mutex/% and wait/synch/rwlock/%");
  }
  if (IsForWaits(settings.timed) && !MayMatch(pattern, MayBeSampled) && MayMatch(pattern, HasDuration)) {
    return Status(Code::kInvalidArgument, shown + ": SAMPLED and STATE are for wait/% and idle");
  }
  return ChangeInstrumentRules([&] {
    if (settings.traced.value_or(false) && IsOutsider()) return TraceIsInsidersOnly();
    if (AddInstrumentRule(pattern, settings)) return Status();
    return Status(Code::kFull, "setup_instrument_rules is full: it has " + std::to_string(kMostInstrumentRules) + " rows");
  });
}

Status RemoveInstrumentRule(uint64_t ordinal) {
  return ChangeInstrumentRules([&] { return DropInstrumentRule(ordinal) ? Status() : Status(Code::kNotFound, "the row is gone"); });
}

Status RemoveAllInstrumentRules() {
  return ChangeInstrumentRules([] {
    DropAllInstrumentRules();
    return Status();
  });
}

Status UpdateConsumer(Consumer consumer, bool enabled) {
  if (!EnsureStarted()) return Status(Code::kState, "pfs is off: " + StatusReason());
  {
    const ColdLock lock;
    if (!lock) return {};
    g_runtime.header->consumers[static_cast<uint32_t>(consumer)].store(enabled ? 1 : 0, kRelaxed);
    RefreshAll();
  }
  TraceMayBegin();
  return {};
}

Status UpdateTimer(TimedClass timed_class, TimerId timer) {
  if (!EnsureStarted()) return Status(Code::kState, "pfs is off: " + StatusReason());
  if (timer == TimerId::kThreadCpu) {
    return Status(Code::kInvalidArgument, "THREAD_CPU cannot time events: legal are CYCLE, NANOSECOND, MICROSECOND, MILLISECOND, TICK");
  }
  ColdLock lock;
  if (!lock) return {};
  g_runtime.header->timer_of[static_cast<uint32_t>(timed_class)].store(static_cast<uint32_t>(timer) + 1, kRelaxed);
  RefreshAll();
  return {};
}

Status UpdateThread(uint32_t slot, uint64_t thread_id, std::optional<bool> instrumented, std::optional<bool> history) {
  if (!EnsureStarted()) return Status(Code::kState, "pfs is off: " + StatusReason());
  ColdLock lock;
  if (!lock || slot == 0 || slot >= g_runtime.segment.array(ArrayId::kThreads).used.load(kRelaxed))
    return Status(Code::kNotFound, "no such thread");
  ShmThread& thread = g_runtime.threads[slot];
  if (thread.thread_id.load(kRelaxed) != thread_id) return {};
  const auto set = [&](std::optional<bool> value, uint32_t bit) {
    if (!value) return;
    if (*value) {
      thread.flags.fetch_or(bit, kRelaxed);
    } else {
      thread.flags.fetch_and(~bit, kRelaxed);
    }
  };
  set(instrumented, kThreadInstrumented);
  set(history, kThreadHistory);
  return {};
}

}  // namespace perfschema
