// record/family/file_events.h: operations on descriptors, by their settings: everything is on, timed or not; timed only, counted only,
// sampled. All of them take a fast path (record/probe/fast_path.h). What costs here is not the instructions but where they lie: after a
// system call, in a program that does something, little of the code is in the processor's cache.
#pragma once

#include "record/family/files.h"
#include "record/probe/fast_path.h"

namespace perfschema {

// An operation, and VersionFor() when it began: in one register.
struct BegunOperation {
  Operation operation;
  uint32_t version;
};
// Finishes an event on the slow path, from the second reading of the timer on. `bytes`: as in EndFileWait. REQUIRES: inside the probe.
[[gnu::noinline]] void FinishSlowFile(ThreadState& thread, ShmWaitRecord& record, ShmFile& file, BegunOperation begun, int64_t bytes,
                                      uint64_t end_ticks);
// The same for an event without a record, outside the probe. `ticks`: kNotTimed, kNotSampled, or how long it took.
[[gnu::noinline]] void FinishUnrecordedFile(ThreadState& thread, uint32_t class_index, ShmFile& file, BegunOperation begun, int64_t bytes,
                                            uint64_t ticks);

// The hooks of the fast path for the begin and the end of an operation on a file or a socket.
struct FileHooks {
  static constexpr uintptr_t kPlaces = kPlacesWithDetails;
  static constexpr uint64_t kEndBits = 0;

  ShmFile& file;
  Operation called;
  int64_t requested_bytes, offset;
  uint32_t class_of_file, version;  // when the operation began
  int64_t bytes = 0;                // less: the call failed

  PFS_ALWAYS_INLINE Operation operation() const { return called; }
  PFS_ALWAYS_INLINE uint32_t class_index() const { return class_of_file; }
  PFS_ALWAYS_INLINE uint64_t object() const { return ObjectOf(file, offset); }
  PFS_ALWAYS_INLINE uint64_t WriteDetails(ThreadState& thread, ShmWaitRecord& record) const {
    const WaitDetails details = DetailsOf(file, requested_bytes);
    perfschema::WriteDetails(thread, record, details);
    return details.state_bits;
  }
  PFS_ALWAYS_INLINE void WriteEnd(ShmWaitRecord& record) const {
    if (requested_bytes >= 0) record.details().bytes.store(static_cast<uint64_t>(bytes), kRelease);  // pairs with EventReader::CopyChunk
  }

  PFS_ALWAYS_INLINE ShmCell* StatIn(const ThreadState& thread) const {
    const uint8_t lane = LaneOf(called);
    return KnownCell(thread, file.lanes[lane], [&]() PFS_INLINE_LAMBDA {
      const uint32_t wanted = IsOfSocket(called) ? version : file.version.load(kRelaxed);
      return CellKey(CellKind::kFile, static_cast<uint32_t>(&file - g_runtime.files), wanted, lane);
    });
  }
  PFS_ALWAYS_INLINE bool IsReady(const ThreadState&, const ShmCell* cell) const {
    return bytes >= 0 && cell != nullptr && IsSameObject(file, called, version) &&
           LoadOwn(cell->gen) == Generation(ObjectDomain(IoGroupOf(called)));
  }
  template <Counting kWay>
  PFS_ALWAYS_INLINE void Add(ThreadState&, ShmCell* cell, ShmCell& own, uint64_t wait_ps) const {
    // The section of a CellWriter, which would lie on the stack here.
    const uint32_t inside = cell->seq.load(kRelaxed) | 1;
    cell->seq.store(inside, kRelaxed);
    if constexpr (kWay == Counting::kTimed) {
      AddCommonInside(cell->stat, wait_ps);
    } else {
      AddCount(cell->stat);
    }
    const bool moves_none = __builtin_constant_p(bytes) && bytes == 0;
    if (!moves_none) cell->amount.store(LoadOwn(cell->amount) + static_cast<uint64_t>(bytes), kRelease);  // pairs with ReadCell
    cell->seq.store(inside + 1, kRelease);  // pairs with ReadCell's first load
    AddOneFast<kWay>(own.seq, own.stat, wait_ps);
  }
};

// The hooks for a whole operation on a descriptor.
template <typename Operate, typename Bytes>
struct FileEvent : FileHooks {
  static constexpr bool kMayUnwind = true;  // pthread_cancel

  Operate call;
  Bytes bytes_of;

  using Result = decltype(call());
  PFS_ALWAYS_INLINE Result Call() const { return call(); }
  PFS_ALWAYS_INLINE void SetResult(Result result) { bytes = bytes_of(result); }
  PFS_ALWAYS_INLINE void SetUnwound() { bytes = 0; }
  template <Counting kWay>
  PFS_ALWAYS_INLINE bool MustEnter() const {
    return true;
  }
  // The slow path gets the address of a copy: this event itself stays in registers.
  PFS_ALWAYS_INLINE Result SlowCall(const char* source_file, uint32_t line) const {
    const FileCall<Operate, Bytes> wanted{requested_bytes, offset, call, bytes_of};
    return SlowFileOperation(&file, called, wanted, source_file, line);
  }
  PFS_ALWAYS_INLINE Result FinishSlow(ThreadState& thread, ShmWaitRecord& record, uint64_t end_ticks, Result result) const {
    FinishSlowFile(thread, record, file, {called, version}, bytes, end_ticks);
    return result;
  }
  PFS_ALWAYS_INLINE Result FinishUnrecorded(ThreadState& thread, uint64_t ticks, Result result) const {
    FinishUnrecordedFile(thread, class_of_file, file, {called, version}, bytes, ticks);
    return result;
  }
};

template <typename Operate, typename Bytes>
PFS_ALWAYS_INLINE FileEvent<Operate, Bytes> EventOf(ShmFile& file, Operation operation, int64_t requested_bytes, int64_t offset,
                                                    Operate call, Bytes bytes_of) {
  return {{file, operation, requested_bytes, offset, file.class_index.load(kRelaxed), VersionFor(file, operation)}, call, bytes_of};
}

// kOnSocket: the call is of files, and the descriptor is a socket. The compiler makes a copy of these for the one operation that it finds.
template <bool kOnSocket, typename Operate, typename Bytes>
[[gnu::noinline]] auto TimedFileOperation(ShmFile* file, Operation operation, const FileCall<Operate, Bytes>& wanted,
                                          const char* source_file, uint32_t line) {
  FileEvent<Operate, Bytes> event = EventOf(*file, operation, wanted.requested_bytes, wanted.offset, wanted.call, wanted.bytes_of);
  return UnrecordedCall<Counting::kTimed>(event, source_file, line);
}

// An event that is only counted, when it begins: in one register.
struct CountedOperation {
  uint16_t class_index;
  Operation operation;
  uint8_t lane : 7, is_sampled : 1;  // it is one of those that TIMED = 'SAMPLED' does not choose
  uint32_t version;
};
static_assert(sizeof(CountedOperation) == sizeof(uint64_t));
// Counts it when the call is made: nothing need be known before. All calls share it, so it is in the cache as often as any of them.
// `bytes`: as in EndFileWait. Preserves errno.
template <bool kOnSocket>
[[gnu::noinline]] void CountFileOperation(ShmFile& file, CountedOperation begun, int64_t bytes);

// Returns whether the next event is only counted.
PFS_ALWAYS_INLINE bool IsOnlyCounted(uint32_t flags) { return IsCounted(flags) || (IsSampled(flags) && IsBetweenSamples()); }

// Makes the call of an event that is only counted.
template <bool kOnSocket, typename Operate, typename Bytes>
PFS_ALWAYS_INLINE auto CountedCall(ShmFile& file, uint32_t flags, Operation operation, Operate call, Bytes bytes_of) {
  const auto class_index = static_cast<uint16_t>(file.class_index.load(kRelaxed));
  const CountedOperation begun{class_index, operation, LaneOf(operation), (flags & kFlagSampled) != 0,
                               kOnSocket ? file.version.load(kRelaxed) : 0};
  decltype(call()) result;
  try {
    result = call();
  } catch (...) {  // the unwinding of pthread_cancel
    CountFileOperation<kOnSocket>(file, begun, 0);
    throw;
  }
  CountFileOperation<kOnSocket>(file, begun, bytes_of(result));
  return result;
}

// Does the operation, as an event if the file's instrument is enabled. `call` and `bytes_of`: as in FileCall. kMayBeSocket: operations of
// files on sockets are as common as on files, and have a fast path of their own here.
template <bool kMayBeSocket = false, typename Operate, typename Bytes>
PFS_ALWAYS_INLINE auto DescriptorOperation(int fd, Operation operation, int64_t requested_bytes, int64_t offset, const char* source_file,
                                           uint32_t line, Operate call, Bytes bytes_of) {
  ShmFile* const file = FileOfDescriptor(fd);
  if (file == nullptr) return call();
  const uint32_t flags = file->flags.load(kRelaxed);
  if constexpr (kMayBeSocket) {
    // Before the next condition: what is behind it is compiled as what seldom happens, and lies in lines of its own.
    if (__builtin_expect_with_probability(IsAllOn(flags, kFlagSocket), 1, 0.5) && __builtin_expect(requested_bytes >= 0, 1)) {
      FileEvent<Operate, Bytes> event = EventOf(*file, OnSocket(operation), requested_bytes, -1, call, bytes_of);
      return FastCall(event, flags, source_file, line);
    }
  }
  if (__builtin_expect(!IsAllOn(flags, IsOfSocket(operation) ? kFlagSocket : 0), 0)) {
    if ((flags & kFlagEnabled) == 0) return call();
    const bool is_own_kind = ((flags & kFlagSocket) != 0) == IsOfSocket(operation);
    if ((kMayBeSocket || is_own_kind) && __builtin_expect(IsOnlyCounted(flags), 0)) {
      if (is_own_kind && !IsOfSocket(operation)) return CountedCall<false>(*file, flags, operation, call, bytes_of);
      return CountedCall<true>(*file, flags, is_own_kind ? operation : OnSocket(operation), call, bytes_of);
    }
    if ((kMayBeSocket || is_own_kind) && IsUntimed(flags & ~kFlagSocket)) {
      FileEvent<Operate, Bytes> event =
          EventOf(*file, is_own_kind ? operation : OnSocket(operation), requested_bytes, offset, call, bytes_of);
      return FastCall<Untimed>(event, flags, source_file, line);
    }
    const FileCall<Operate, Bytes> wanted{requested_bytes, offset, call, bytes_of};
    if ((kMayBeSocket || is_own_kind) && IsTimedOnly(flags)) {
      if (is_own_kind) return TimedFileOperation<false>(file, operation, wanted, source_file, line);
      return TimedFileOperation<true>(file, OnSocket(operation), wanted, source_file, line);
    }
    return SlowFileOperation(file, operation, wanted, source_file, line);
  }
  FileEvent<Operate, Bytes> event = EventOf(*file, operation, requested_bytes, offset, call, bytes_of);
  // A size that no call accepts takes the slow path: the fast path need not ask whether NUMBER_OF_BYTES is NULL.
  if (!__builtin_constant_p(requested_bytes) && __builtin_expect(requested_bytes < 0, 0)) return event.SlowCall(source_file, line);
  return FastCall(event, flags, source_file, line);
}

}  // namespace perfschema
