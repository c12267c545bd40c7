// record/family/file_events.h: operations on descriptors that nearly all are, written out: everything on, not within another wait. What is not as usual is a
// call, as in record/family/lock_events.h. Here it is not the instructions that cost but where they lie: after a system call, in a program that does
// something, little of the code is in the processor's cache.
#pragma once

#include "record/probe/cells.h"
#include "record/family/files.h"
#include "record/probe/usual_events.h"

namespace perfschema {

// From the second reading of the timer on, inside the probe. `version`: VersionFor() when the operation began. `bytes`: as in EndFileWait.
[[gnu::noinline]] void FinishUncommonFile(ThreadState& thread, ShmWaitRecord& record, ShmFile& file, Operation operation, uint32_t version,
                                         int64_t bytes, uint64_t end_ticks);
// Of an event without a record, outside it. `ticks`: kNotTimed, or how long it took.
[[gnu::noinline]] void FinishUnrecordedFile(ThreadState& thread, uint32_t class_index, ShmFile& file, Operation operation, uint32_t version, int64_t bytes,
                                            uint64_t ticks);

// Where an operation on a file counts that this thread has counted there before.
PFS_ALWAYS_INLINE ShmCell* CommonFileCell(const ThreadState& thread, ShmFile& file, Operation operation, uint32_t version) {
  ShmCell* const cell = OwnCellAtHead(thread, file.lanes[LaneOf(operation)]);
  const bool is_common = cell != nullptr && IsSameObject(file, operation, version);
  return is_common && LoadOwn(cell->gen) == Generation(ObjectDomain(IoGroupOf(operation))) ? cell : nullptr;
}

// REQUIRES: CommonFileCell(), and a time within what both have seen.
template <Unrecorded kWay>
PFS_ALWAYS_INLINE void AddTransfer(ShmCell& cell, ShmCell& own, uint64_t wait_ps, int64_t bytes) {
  {
    const CellWriter writer(cell.seq);
    if constexpr (kWay == Unrecorded::kTimed) {
      AddCommonInside(cell.stat, wait_ps);
    } else {
      AddCount(cell.stat);
    }
    if (bytes > 0) cell.amount.store(LoadOwn(cell.amount) + Moved(bytes), kRelease);
  }
  if constexpr (kWay == Unrecorded::kTimed) {
    AddCommon(own.seq, own.stat, wait_ps);
  } else {
    AddCounted(own.seq, own.stat);
  }
}

template <Unrecorded kWay, typename Call, typename Bytes>
[[gnu::noinline]] auto UnrecordedFileOperation(ShmFile* file, Operation operation, int64_t requested_bytes, int64_t offset, const char* source_file,
                                               uint32_t line, Call call, Bytes bytes) {
  constexpr bool kIsTimed = kWay == Unrecorded::kTimed;
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(!IsCommonThread(thread), 0)) {
    return AnyFileOperation(file, operation, requested_bytes, offset, source_file, line, call, bytes);
  }
  const uint32_t class_index = file->class_index.load(kRelaxed);
  const uint32_t version = VersionFor(*file, operation);
  const uint64_t start_ticks = kIsTimed ? ReadCycle() : 0;
  decltype(call()) result;
  try {
    result = call();
  } catch (...) {  // the unwinding of pthread_cancel
    FinishUnrecordedFile(*thread, class_index, *file, operation, version, -1, kIsTimed ? ReadCycle() - start_ticks : kNotTimed);
    throw;
  }
  const uint64_t ticks = kIsTimed ? ReadCycle() - start_ticks : 0;
  const int64_t result_bytes = bytes(result);
  const uint64_t nesting = thread->nesting;
  EnterProbe(*thread);
  const uint64_t wait_ps = ShortPicos(ticks);
  ShmCell& own = thread->cells[class_index];
  ShmCell* const cell = CommonFileCell(*thread, *file, operation, version);
  if (__builtin_expect(ticks >= kShortTicks || class_index >= thread->cell_count || !IsOfEpoch(own) || cell == nullptr ||
                           (kIsTimed && WidensEither(cell->stat, own.stat, wait_ps)),
                       0)) {
    LeaveProbe(*thread, nesting);
    FinishUnrecordedFile(*thread, class_index, *file, operation, version, result_bytes, kIsTimed ? ticks : kNotTimed);
    return result;
  }
  AddTransfer<kWay>(*cell, own, wait_ps, result_bytes);
  LeaveProbe(*thread, nesting);
  return result;
}

template <typename Call, typename Bytes>
[[gnu::noinline]] auto OtherFileOperation(ShmFile* file, Operation operation, int64_t requested_bytes, int64_t offset, const char* source_file, uint32_t line,
                                          Call call, Bytes bytes) {
  const uint32_t flags = file->flags.load(kRelaxed);
  if (((flags & kFlagSocket) != 0) == IsOfSocket(operation)) {
    if (IsTimedOnly(flags)) {
      return UnrecordedFileOperation<Unrecorded::kTimed>(file, operation, requested_bytes, offset, source_file, line, call, bytes);
    }
    if (IsCounted(flags)) {
      return UnrecordedFileOperation<Unrecorded::kCounted>(file, operation, requested_bytes, offset, source_file, line, call, bytes);
    }
  }
  return AnyFileOperation(file, operation, requested_bytes, offset, source_file, line, call, bytes);
}

template <typename Call, typename Bytes>
PFS_ALWAYS_INLINE auto TimedFileOperation(int fd, Operation operation, int64_t requested_bytes, int64_t offset, const char* source_file,
                                          uint32_t line, Call call, Bytes bytes) {
  ShmFile* const file = FileOfDescriptor(fd);
  if (file == nullptr) return call();
  const uint32_t flags = file->flags.load(kRelaxed);
  if (__builtin_expect(!IsAllOn(flags, IsOfSocket(operation) ? kFlagSocket : 0), 0)) {
    if ((flags & kFlagEnabled) == 0) return call();
    return OtherFileOperation(file, operation, requested_bytes, offset, source_file, line, call, bytes);
  }
  ThreadState* const thread = t_locals.state;
  if (__builtin_expect(thread == nullptr || thread->nesting != 0, 0)) {
    return AnyFileOperation(file, operation, requested_bytes, offset, source_file, line, call, bytes);
  }
  EnterProbe(*thread, 0);
  const uint32_t both_flags = flags & thread->shared->flags.load(kRelaxed);
  ShmWaitRecord* const record = static_cast<ShmWaitRecord*>(thread->waits.next);
  const SourceCache::Entry& source = thread->sources.PlaceOf(source_file, line);
  constexpr ptrdiff_t kPlaces = kPlacesWithDetails;
  if (__builtin_expect((both_flags & kThreadInstrumented) == 0 || static_cast<ShmWaitRecord*>(thread->waits.end) - record < kPlaces ||
                           !SourceCache::IsOf(source, source_file, line),
                       0)) {
    LeaveProbe(*thread, 0);
    return AnyFileOperation(file, operation, requested_bytes, offset, source_file, line, call, bytes);
  }

  const uint64_t event_id = OpenCommon(*thread, record, kPlaces);
  thread->wait_frames[0] = StackMark();
  const uint32_t version = VersionFor(*file, operation);
  WriteBegin(*record, event_id, ObjectOf(*file, offset), thread->parent_event_id,
             WhatOf(file->class_index.load(kRelaxed), operation, thread->parent_type, source.source));
  const WaitDetails details = DetailsOf(*file, requested_bytes);
  WriteDetails(*thread, *record, details);
  StartCommon(*thread, *record, CommonState(*thread, both_flags) | details.state_bits);

  decltype(call()) result;
  try {
    result = call();
  } catch (...) {  // the unwinding of pthread_cancel
    const uint64_t now = ReadCycle();
    EnterProbe(*thread);
    FinishUncommonFile(*thread, *record, *file, operation, version, -1, now);
    throw;
  }

  const uint64_t end_ticks = ReadCycle(), ticks = end_ticks - LoadOwn(record->start_ticks);
  EnterProbe(*thread);
  const int64_t result_bytes = bytes(result);
  const auto class_index = static_cast<uint16_t>(LoadOwn(record->what));
  const uint64_t wait_ps = ShortPicos(ticks);
  ShmCell& own = thread->cells[class_index];
  ShmCell* const cell = CommonFileCell(*thread, *file, operation, version);
  if (__builtin_expect(!IsLast(*thread, *record) || ticks >= kShortTicks || class_index >= thread->cell_count || !IsOfEpoch(own) || cell == nullptr ||
                           WidensEither(cell->stat, own.stat, wait_ps),
                       0)) {
    FinishUncommonFile(*thread, *record, *file, operation, version, result_bytes, end_ticks);
    return result;
  }
  if (requested_bytes >= 0) record->details().bytes.store(Moved(result_bytes), kRelease);
  CloseCommon(*record, end_ticks);
  AddTransfer<Unrecorded::kTimed>(*cell, own, wait_ps, result_bytes);
  if (__builtin_expect(static_cast<ShmWaitRecord*>(thread->waits.end) - record < 2 * kPlaces, 0)) {
    EnterProbe(*thread, 0);  // its wait is not open any more
    NextWaitChunk(*thread, 0);
  }
  LeaveProbe(*thread, 0);
  return result;
}

}  // namespace perfschema
