#include "aggregate/resets.h"

#include "record/context/principals.h"
#include "record/engine/free_lists.h"
#include "record/family/histograms.h"

namespace perfschema {
namespace {

Status Interrupted() { return Status(Code::kState, "TRUNCATE in a signal handler that interrupted pfs: try again outside of it"); }

}  // namespace

Status BumpResets(Part part, std::initializer_list<ResetGroup> groups) {
  if (!EnsureStarted()) return {};
  // Under the lock no statistics move from an object to its class between two bumps. Objects come first, so that a later fold finds them
  // empty.
  const ColdLock lock;
  if (!lock) return Interrupted();
  SettleFreeSlots();
  HalfWord* const resets = OwnSegmentState().header()->resets;
  for (const ResetGroup group : groups) {
    HalfWord& kept_since = resets[KeptSince(group)];
    const uint32_t before = resets[ObjectDomain(group)].load(kRelaxed);
    // The word is right before and after the bump: until it moves, what counted for the class still does.
    if (KeepsTotals(group) && kept_since.load(kRelaxed) == 0) kept_since.store(before + 1);
    resets[ObjectDomain(group)].fetch_add(1);  // pairs with Snapshot::Reset and the owners' next updates
    if (KeepsTotals(group) && part == Part::kAll) kept_since.store(before + 2);
  }
  for (const ResetGroup group : groups) {
    if (part == Part::kAll) resets[ClassDomain(group)].fetch_add(1);  // pairs with Snapshot::Reset
  }
  return {};
}

namespace {

// REQUIRES: cold lock.
void BeginEpoch(Kind kind, Level truncated) {
  if (kind == Kind::kMemory) return RebaseMemory(truncated);
  ShmEpochs& epochs = OwnSegmentState().header()->EpochsOf(kind);
  const uint32_t now = epochs.now.load(kRelaxed) + 1;
  // Stores `since` first: a cell of the new epoch then counts at all levels at once.
  for (uint32_t i = 0; i < kLevelCount; ++i) {
    if (Empties(truncated, static_cast<Level>(i))) epochs.since[i].store(now);  // pairs with Since
  }
  epochs.now.store(now);  // pairs with the owners' next updates
}

}  // namespace

Status UnderLock(void (*truncate)()) {
  if (!EnsureStarted()) return {};
  const ColdLock lock;
  if (!lock) return Interrupted();
  truncate();
  return {};
}

Status TruncateLevel(Kind kind, Level level) {
  if (!EnsureStarted()) return {};
  const ColdLock lock;
  if (!lock) return Interrupted();
  BeginEpoch(kind, level);
  if (kind == Kind::kStatement && level == Level::kGlobal) EmptyHistogram();  // semantics.md F7
  return {};
}

Status TruncatePrincipals(Level level) {
  if (!EnsureStarted()) return {};
  const ColdLock lock;
  if (!lock) return Interrupted();
  for (uint32_t kind = 0; kind < kKindCount; ++kind) BeginEpoch(static_cast<Kind>(kind), level);
  // Accounts first: they point to users and hosts.
  ForgetUnconnected(Level::kAccount);
  if (level != Level::kAccount) ForgetUnconnected(level);
  return {};
}

void HideEventsOf(const Segment& segment, Kind kind, uint32_t view) {
  const auto at = static_cast<uint32_t>(kind);
  const uint64_t used = segment.array(kChunksOf[at]).used.load(kAcquire), record_bytes = segment.header()->record_bytes[at];
  ShmChunk* const chunks = segment.element<ShmChunk>(kChunksOf[at], 0);
  const char* const records = segment.element<char>(kRecordsOf[at], 0);
  const uint64_t mapped = segment.MappedBytes(kRecordsOf[at]);
  for (uint64_t i = 1; i < used; ++i) {
    ShmChunk& chunk = chunks[i];
    const uint32_t lap = chunk.lap.load(kAcquire);
    // A chunk that changes hands has no record of its new lap yet, and those of its old lap are gone.
    if (lap == 0 || (lap & 1) != 0) continue;
    uint64_t bits = 0;
    const uint32_t ready = chunk.Ready(PerChunk(kind));
    const uint64_t begin = chunk.begin.load(kAcquire);  // pairs with MakeChunk
    if (!IsPlaceOfRecords(begin, ready * record_bytes, mapped)) continue;
    for (uint32_t j = 0; j < ready; ++j) {
      const auto* record = reinterpret_cast<const ShmRecord*>(records + begin + j * record_bytes);
      const uint64_t state = record->state.load(kAcquire);
      if (state >> 32 == lap && (state & (kRecordOpen | kRecordClosed)) != 0) bits |= uint64_t{1} << j;
    }
    // Records of a lap only grow in number: these bits include those of an earlier TRUNCATE. A mask of a past lap is ignored.
    chunk.hidden[view].Hide(lap, bits);
  }
}

Status HideEvents(Kind kind, uint32_t view) {
  if (!EnsureStarted()) return {};
  const ColdLock lock;
  if (!lock) return Interrupted();
  HideEventsOf(OwnSegmentState(), kind, view);
  return {};
}

}  // namespace perfschema
