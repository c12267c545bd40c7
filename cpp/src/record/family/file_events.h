// record/family/file_events.h: operations on descriptors, by their settings: everything is on, timed only, counted only. All of them take a fast path
// (record/probe/fast_path.h). What costs here is not the instructions but where they lie: after a system call, in a program that does something, little of the
// code is in the processor's cache.
#pragma once

#include "record/family/files.h"
#include "record/probe/fast_path.h"

namespace perfschema {

// Finishes an event on the slow path, from the second reading of the timer on, inside the probe. `version`: VersionFor() when the operation began. `bytes`: as in
// EndFileWait.
[[gnu::noinline]] void FinishSlowFile(ThreadState& thread, ShmWaitRecord& record, ShmFile& file, Operation operation, uint32_t version, int64_t bytes,
                                      uint64_t end_ticks);
// The same for an event without a record, outside the probe. `ticks`: kNotTimed, or how long it took.
[[gnu::noinline]] void FinishUnrecordedFile(ThreadState& thread, uint32_t class_index, ShmFile& file, Operation operation, uint32_t version, int64_t bytes,
                                            uint64_t ticks);

// The hooks of the fast path for an operation on a descriptor.
template <typename Operate, typename Bytes>
struct FileEvent {
  static constexpr uintptr_t kPlaces = kPlacesWithDetails;
  static constexpr uint64_t kEndBits = 0;
  static constexpr bool kMayUnwind = true;  // pthread_cancel

  ShmFile& file;
  Operation called;
  int64_t requested_bytes, offset;
  const Operate& call;
  const Bytes& bytes_of;
  uint32_t version = VersionFor(file, called);
  uint32_t class_of_file = file.class_index.load(kRelaxed);
  int64_t bytes = -1;

  PFS_ALWAYS_INLINE Operation operation() const { return called; }
  PFS_ALWAYS_INLINE uint32_t class_index() const { return class_of_file; }
  PFS_ALWAYS_INLINE uint64_t object() const { return ObjectOf(file, offset); }
  PFS_ALWAYS_INLINE uint64_t WriteDetails(ThreadState& thread, ShmWaitRecord& record) const {
    const WaitDetails details = DetailsOf(file, requested_bytes);
    perfschema::WriteDetails(thread, record, details);
    return details.state_bits;
  }
  PFS_ALWAYS_INLINE void WriteEnd(ShmWaitRecord& record) const {
    if (requested_bytes >= 0) record.details().bytes.store(Moved(bytes), kRelease);  // pairs with EventReader::CopyChunk
  }

  PFS_ALWAYS_INLINE ShmCell* StatIn(const ThreadState& thread) const { return OwnCellAtHead(thread, file.lanes[LaneOf(called)]); }
  PFS_ALWAYS_INLINE bool IsReady(const ThreadState&, const ShmCell* cell) const {
    return cell != nullptr && IsSameObject(file, called, version) && LoadOwn(cell->gen) == Generation(ObjectDomain(IoGroupOf(called)));
  }
  template <Counting kWay>
  PFS_ALWAYS_INLINE void Add(ThreadState&, ShmCell* cell, ShmCell& own, uint64_t wait_ps) const {
    {
      const CellWriter writer(cell->seq);
      if constexpr (kWay == Counting::kTimed) {
        AddUsualInside(cell->stat, wait_ps);
      } else {
        AddCount(cell->stat);
      }
      if (bytes > 0) cell->amount.store(LoadOwn(cell->amount) + Moved(bytes), kRelease);  // pairs with ReadCell
    }
    AddOneFast<kWay>(own.seq, own.stat, wait_ps);
  }

  PFS_ALWAYS_INLINE auto Call() const { return call(); }
  using Result = decltype(call());
  PFS_ALWAYS_INLINE void SetResult(Result result) { bytes = bytes_of(result); }
  PFS_ALWAYS_INLINE void SetUnwound() { bytes = -1; }
  template <Counting kWay>
  PFS_ALWAYS_INLINE bool MustEnter() const {
    return true;
  }
  PFS_ALWAYS_INLINE Result SlowCall(const char* source_file, uint32_t line) const {
    return SlowFileOperation(&file, called, requested_bytes, offset, source_file, line, call, bytes_of);
  }
  PFS_ALWAYS_INLINE Result FinishSlow(ThreadState& thread, ShmWaitRecord& record, uint64_t end_ticks, Result result) const {
    FinishSlowFile(thread, record, file, called, version, bytes, end_ticks);
    return result;
  }
  PFS_ALWAYS_INLINE Result FinishUnrecorded(ThreadState& thread, uint64_t ticks, Result result) const {
    FinishUnrecordedFile(thread, class_of_file, file, called, version, bytes, ticks);
    return result;
  }
};

template <Counting kWay, typename Call, typename Bytes>
[[gnu::noinline]] auto UnrecordedFileOperation(ShmFile* file, Operation operation, int64_t requested_bytes, int64_t offset, const char* source_file,
                                               uint32_t line, Call call, Bytes bytes) {
  return UnrecordedCall<kWay>(FileEvent<Call, Bytes>{*file, operation, requested_bytes, offset, call, bytes}, source_file, line);
}

// Chooses the path.
template <typename Call, typename Bytes>
[[gnu::noinline]] auto FileOperationBySettings(ShmFile* file, Operation operation, int64_t requested_bytes, int64_t offset, const char* source_file,
                                               uint32_t line, Call call, Bytes bytes) {
  const uint32_t flags = file->flags.load(kRelaxed);
  if (((flags & kFlagSocket) != 0) == IsOfSocket(operation)) {
    if (IsTimedOnly(flags)) {
      return UnrecordedFileOperation<Counting::kTimed>(file, operation, requested_bytes, offset, source_file, line, call, bytes);
    }
    if (IsCounted(flags)) {
      return UnrecordedFileOperation<Counting::kCounted>(file, operation, requested_bytes, offset, source_file, line, call, bytes);
    }
  }
  return SlowFileOperation(file, operation, requested_bytes, offset, source_file, line, call, bytes);
}

// Does the operation, as an event if the file's instrument is enabled. `call()` makes the call, `bytes(result)` says how much it moved, -1 = none.
template <typename Call, typename Bytes>
PFS_ALWAYS_INLINE auto DescriptorOperation(int fd, Operation operation, int64_t requested_bytes, int64_t offset, const char* source_file, uint32_t line,
                                           Call call, Bytes bytes) {
  ShmFile* const file = FileOfDescriptor(fd);
  if (file == nullptr) return call();
  const uint32_t flags = file->flags.load(kRelaxed);
  if (__builtin_expect(!IsAllOn(flags, IsOfSocket(operation) ? kFlagSocket : 0), 0)) {
    if ((flags & kFlagEnabled) == 0) return call();
    return FileOperationBySettings(file, operation, requested_bytes, offset, source_file, line, call, bytes);
  }
  return FastCall(FileEvent<Call, Bytes>{*file, operation, requested_bytes, offset, call, bytes}, flags, source_file, line);
}

}  // namespace perfschema
