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
  EndFileWait(call, begun.operation, bytes, EndedAt(call.wait, end_ticks));
}

void FinishUnrecordedFile(ThreadState& thread, uint32_t class_index, ShmFile& file, BegunOperation begun, int64_t bytes, uint64_t ticks) {
  const FileWait call{UnrecordedWait(thread, kAllOnFlags, class_index), &file, begun.operation, begun.version};
  EnterProbe(thread);
  EndFileWait(call, begun.operation, bytes, UnrecordedEnded(ticks));
}

void EndCancelledFileWait(const FileWait& call) { EndFileWait(call, call.operation, -1); }

}  // namespace perfschema
