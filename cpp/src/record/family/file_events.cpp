#include "record/family/file_events.h"

namespace perfschema {

template <bool kShowsBytes>
int64_t AnyDescriptorOperation(int fd, Operation operation, int64_t requested_bytes, int64_t offset, const char* source_file, uint32_t line,
                               const AnyFileCall& call) {
  return DescriptorOperation(
      fd, operation, kShowsBytes ? requested_bytes : -1, offset, source_file, line, [&] { return call.make(call.call); },
      [&](int64_t result) { return call.moved(call.call, result); });
}
template int64_t AnyDescriptorOperation<true>(int, Operation, int64_t, int64_t, const char*, uint32_t, const AnyFileCall&);
template int64_t AnyDescriptorOperation<false>(int, Operation, int64_t, int64_t, const char*, uint32_t, const AnyFileCall&);

void FinishSlowFile(ThreadState& thread, ShmWaitRecord& record, ShmFile& file, BegunOperation begun, int64_t bytes, uint64_t end_ticks) {
  const FileWait call{SlowWait(thread, record), &file, begun.operation, begun.version};
  EndFileWait(call, begun.operation, bytes, EndedBy(call.wait, end_ticks));
}

namespace {

// The hooks for the end of an event that was only counted.
template <bool kOnSocket>
struct CountedFile : FileHooks {
  uint8_t lane;

  PFS_ALWAYS_INLINE ShmCell* StatIn(const ThreadState& thread) const {
    return KnownCell(thread, file.lanes[lane], [&]() PFS_INLINE_LAMBDA {
      const uint32_t wanted = kOnSocket ? version : file.version.load(kRelaxed);
      return CellKey(CellKind::kFile, static_cast<uint32_t>(&file - g_runtime.files), wanted, lane);
    });
  }
  PFS_ALWAYS_INLINE bool IsReady(const ThreadState&, const ShmCell* cell) const {
    constexpr Operation kLike = kOnSocket ? Operation::kSend : Operation::kRead;
    return bytes >= 0 && cell != nullptr && IsSameObject(file, kLike, version) &&
           LoadOwn(cell->gen) == Generation(ObjectDomain(IoGroupOf(kLike)));
  }
  template <Counting kWay>
  PFS_ALWAYS_INLINE bool MustEnter() const {
    return true;
  }
};
// The same for an event that was not sampled.
template <bool kOnSocket>
struct UnsampledFile : CountedFile<kOnSocket> {
  template <Counting kWay>
  PFS_ALWAYS_INLINE void Add(ThreadState&, ShmCell* cell, ShmCell& own, uint64_t) const {
    {
      const CellWriter writer(cell->seq);
      AddCount(cell->stat);
      cell->amount.store(LoadOwn(cell->amount) + static_cast<uint64_t>(this->bytes), kRelease);  // pairs with ReadCell
      StoreUnsampledWord(*cell, LoadUnsampledWord(*cell) + kOneUnsampled);
    }
    AddUnsampledToAmount(own);
  }
};

// Counts the event of a thread that is new, or of a probe that a longjmp has left. Or not: in a signal handler that interrupted a probe.
[[gnu::noinline]] void CountSlowly(ShmFile& file, CountedOperation begun, int64_t bytes) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr || IsInterrupted(*thread) || !IsInstrumented(thread)) return;
  FinishUnrecordedFile(*thread, begun.class_index, file, {begun.operation, begun.version}, bytes,
                       begun.is_sampled ? kNotSampled : kNotTimed);
}

}  // namespace

template <bool kOnSocket>
void CountFileOperation(ShmFile& file, CountedOperation begun, int64_t bytes) {
  ThreadState* const thread = t_locals.state;
  if (IsInstrumented(thread)) {
    const CountedFile<kOnSocket> event{{file, begun.operation, -1, -1, begun.class_index, begun.version, bytes}, begun.lane};
    const bool is_done = begun.is_sampled
                             ? CountUnrecorded<Counting::kCounted>(UnsampledFile<kOnSocket>{event}, *thread, begun.class_index, 0)
                             : CountUnrecorded<Counting::kCounted>(event, *thread, begun.class_index, 0);
    if (__builtin_expect(is_done, 1)) return;
  }
  CountSlowly(file, begun, bytes);
}
template void CountFileOperation<false>(ShmFile&, CountedOperation, int64_t);
template void CountFileOperation<true>(ShmFile&, CountedOperation, int64_t);

void FinishUnrecordedFile(ThreadState& thread, uint32_t class_index, ShmFile& file, BegunOperation begun, int64_t bytes, uint64_t ticks) {
  const FileWait call{UnrecordedWait(thread, kAllOnFlags, class_index), &file, begun.operation, begun.version};
  EnterProbe(thread);
  EndFileWait(call, begun.operation, bytes, UnrecordedEnded(ticks));
}

void EndCancelledFileWait(const FileWait& call) { EndFileWait(call, call.operation, 0); }

}  // namespace perfschema
