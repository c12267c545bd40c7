#include "aggregate/resets.h"

#include "record/parties.h"

namespace perfschema {
namespace {

Status Interrupted() {
  return Status(Code::kState, "TRUNCATE in a signal handler that interrupted pfs: try again outside of it");
}

}  // namespace

Status BumpResets(std::initializer_list<ResetDomain> domains) {
  if (!EnsureStarted()) return {};
  // Under the lock no statistics move from an object to its class between two bumps; and objects come first, so that
  // what is folded next is empty already.
  const ColdLock lock;
  if (!lock) return Interrupted();
  for (const ResetDomain domain : domains) {
    OwnSegmentState().header()->resets[domain].fetch_add(1);  // pairs with Snapshot::Reset and the owners' next updates
  }
  return {};
}

namespace {

// The levels that TRUNCATE of one empties: itself and all below it (SEMANTICS F4-F6).
constexpr bool Empties(Level truncated, Level level) {
  switch (level) {
    case Level::kThread:
      return true;
    case Level::kAccount:
      return truncated != Level::kThread;
    default:
      return level == truncated;
  }
}

// REQUIRES: cold lock.
void BeginEpoch(Level truncated) {
  ShmEpochs& epochs = OwnSegmentState().header()->thread_waits;
  const uint32_t now = epochs.now.load(kRelaxed) + 1;
  // `since` first: a cell of the new epoch counts everywhere at once.
  for (uint32_t i = 0; i < kLevelCount; ++i) {
    if (Empties(truncated, static_cast<Level>(i))) epochs.since[i].store(now);  // pairs with Snapshot::Since
  }
  epochs.now.store(now);  // pairs with the owners' next updates
}

}  // namespace

Status TruncateLevel(Level level) {
  if (!EnsureStarted()) return {};
  const ColdLock lock;
  if (!lock) return Interrupted();
  BeginEpoch(level);
  return {};
}

Status TruncateParties(Level level) {
  if (!EnsureStarted()) return {};
  const ColdLock lock;
  if (!lock) return Interrupted();
  BeginEpoch(level);
  // Accounts first: they point to users and hosts.
  ForgetUnconnected(Level::kAccount);
  if (level != Level::kAccount) ForgetUnconnected(level);
  return {};
}

void HideWaitsOf(ShmChunk* chunks, const ShmWaitRecord* records, uint64_t used, uint32_t view) {
  for (uint64_t i = 1; i < used; ++i) {
    ShmChunk& chunk = chunks[i];
    const uint32_t lap = chunk.lap.load(kAcquire);
    // A chunk that changes hands has no record of its new lap yet, and those of its old one are gone.
    if (lap == 0 || (lap & 1) != 0) continue;
    uint32_t bits = 0;
    for (uint32_t j = 0; j < kRecordsPerChunk; ++j) {
      const uint64_t state = records[i * kRecordPitch + j].state.load(kAcquire);
      if (state >> 32 == lap && (state & (kRecordOpen | kRecordClosed)) != 0) bits |= 1u << j;
    }
    // Records of a lap only grow in number: the bits of an earlier TRUNCATE are among these. A mask of a lap that has
    // passed is ignored.
    chunk.hidden[view].store(uint64_t{lap} << 32 | bits, kRelease);  // pairs with Snapshot::CopyChunk
  }
}

Status HideWaits(uint32_t view) {
  if (!EnsureStarted()) return {};
  const ColdLock lock;
  if (!lock) return Interrupted();
  const Segment& segment = OwnSegmentState();
  HideWaitsOf(segment.element<ShmChunk>(ArrayId::kWaitChunks, 0),
              segment.element<ShmWaitRecord>(ArrayId::kWaitRecords, 0),
              segment.array(ArrayId::kWaitChunks).used.load(kAcquire), view);
  return {};
}

}  // namespace perfschema
