#include "record/probe/trace.h"

#include "record/context/actors.h"
#include "record/engine/texts.h"

namespace perfschema {
namespace {

// Guarded by the cold lock. The n-th thread that ended is at n % kEndedKept.
constexpr uint64_t kEndedKept = 4096;
constinit EndedThread ended[kEndedKept] = {};
uint64_t ended_count = 0;

}  // namespace

void TellTraceOfEnd(const ThreadState& thread) {
  if (!TraceHasBegun()) return;
  EndedThread& entry = ended[ended_count % kEndedKept];
  uint64_t any = 0;
  for (uint32_t i = 0; i < kEventKinds; ++i) any |= entry.traced[i] = thread.holds[i].traced;
  if (any == 0) return;
  entry.thread_id = thread.thread_id;
  CopyFromShared(entry.name, thread.shared->name, sizeof entry.name);
  CopyFromShared(entry.user, thread.shared->user_name, sizeof entry.user);
  CopyFromShared(entry.host, thread.shared->host_name, sizeof entry.host);
  ++ended_count;
}

uint32_t TakeEndedThreads(uint64_t* next, EndedThread* out, uint32_t most) {
  if (ended_count - *next > kEndedKept) *next = ended_count - kEndedKept;
  uint32_t taken = 0;
  for (; *next < ended_count && taken < most; ++*next) out[taken++] = ended[*next % kEndedKept];
  return taken;
}

namespace {
bool IsAnyClassTraced() {
  const uint64_t classes = g_runtime.segment.array(ArrayId::kClasses).used.load(kRelaxed);
  for (uint64_t i = 1; i < classes; ++i) {
    if ((g_runtime.classes[i].flags.load(kRelaxed) & kFlagTrace) != 0) return true;
  }
  return false;
}
}  // namespace

bool TraceIsWanted() { return TraceHasBegun() && IsAnyActorTraced() && IsAnyClassTraced(); }

void NoteFlags() {
  const uint32_t wish = g_trace_wish.load(kRelaxed);
  if ((wish & 1) != 0 && !IsAnyClassTraced()) g_trace_wish.store(wish & ~1u, kRelease);  // after the flag words
}

void SetTraceStatus(std::string_view text) {
  ShmHeader& header = *g_runtime.header;
  const CellWriter writer(header.trace_status_seq);  // pairs with Snapshot::trace_status
  StoreText(header.trace_status, text);
}

}  // namespace perfschema
