#include "record/declared/log.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/text.h"
#include "record/context/threads.h"

namespace perfschema {
namespace {

constexpr int kTries = 1000;
// How far a burst of events, each a microsecond after the last, may run ahead of the clock. A longer lead means that
// the clock was set back.
constexpr uint64_t kBurstMicros = 1'000'000;

std::atomic<uint32_t> is_taken{0};
// The calling thread writes; a handler that interrupts it must not wait for it.
thread_local constinit bool t_writes __attribute__((tls_model("initial-exec"))) = false;

// The lock of a writer. It blocks signals, as ColdLock does.
// Threads: any thread. Not reentrant: it converts to false in a handler that interrupted a holder, and if the lock
// stays taken.
class LogLock {
 public:
  LogLock() {
    if (t_writes) return;
    no_signals_.emplace();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
    t_writes = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    for (int i = 0; i < kTries && !held_; ++i) {
      held_ = is_taken.exchange(1, kAcquire) == 0;  // pairs with ~LogLock
      if (!held_) sched_yield();
    }
    if (!held_) Leave();
  }
  ~LogLock() {
    if (!held_) return;
    is_taken.store(0, kRelease);
    Leave();
  }
  LogLock(const LogLock&) = delete;
  LogLock& operator=(const LogLock&) = delete;
  explicit operator bool() const { return held_; }

 private:
  void Leave() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_writes = false;
    pthread_setcancelstate(cancel_state_, nullptr);
    no_signals_.reset();
  }
  std::optional<NoSignals> no_signals_;
  bool held_ = false;
  int cancel_state_ = PTHREAD_CANCEL_ENABLE;
};

// The units of the ring. They grow until the first event wraps.
// Threads: external lock (LogLock).
uint64_t RingUnits() { return std::max<uint64_t>(g_runtime.segment.array(ArrayId::kErrorLog).used.load(kRelaxed), 1) - 1; }

ShmLogUnit& UnitAt(uint64_t place) { return *g_runtime.segment.element<ShmLogUnit>(ArrayId::kErrorLog, 1 + place % RingUnits()); }

LogHead HeadAt(uint64_t place) {
  const ShmLogUnit& unit = UnitAt(place);
  return {unit.words[0].load(kRelaxed), unit.words[1].load(kRelaxed), unit.words[2].load(kRelaxed), unit.words[3].load(kRelaxed)};
}

// Writes bytes into consecutive units, word by word.
// Threads: external lock (LogLock).
class UnitWriter {
 public:
  explicit UnitWriter(uint64_t place) : place_(place) {}
  void Add(const void* from, size_t bytes) {
    const char* at = static_cast<const char*>(from);
    for (; bytes != 0; --bytes) {
      word_ |= uint64_t{static_cast<unsigned char>(*at++)} << 8 * (count_++ % 8);
      if (count_ % 8 == 0) Flush();
    }
  }
  void Flush() {
    const uint64_t word = (count_ + 7) / 8 - 1;
    UnitAt(place_ + word / 8).words[word % 8].store(word_, kRelease);
    word_ = 0;
  }
  void Finish() {
    if (count_ % 8 != 0) Flush();
  }

 private:
  const uint64_t place_;
  uint64_t count_ = 0;  // bytes
  uint64_t word_ = 0;
};
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// The smallest LOGGED in the ring that is later than the newest event's. It exists only after the clock was set back.
// Threads: external lock (LogLock).
uint64_t next_taken = UINT64_MAX;

// Returns LOGGED of the next event, which is a key: the time, or the microsecond after the newest event if several
// share one. After the clock was set back, events have the new time, and skip the values that the ring already has.
// Threads: external lock (LogLock).
uint64_t NextLogged(const ShmDeclared& program) {
  const uint64_t now = WallClockMicros();
  const uint64_t latest = program.log_latest.load(kRelaxed);
  uint64_t logged = now <= latest && latest - now <= kBurstMicros ? latest + 1 : now;
  if (logged > latest && logged < next_taken) return logged;
  const uint64_t end = program.log_end.load(kRelaxed);
  for (;;) {
    bool is_free = true;
    uint64_t top = logged;
    next_taken = UINT64_MAX;
    for (uint64_t place = program.log_begin.load(kRelaxed); place < end;) {
      const LogHead head = HeadAt(place);
      place += head.units();
      if (head.logged == logged) is_free = false;
      if (head.logged > logged) next_taken = std::min(next_taken, head.logged);
      if (head.logged <= logged + kBurstMicros) top = std::max(top, head.logged);
    }
    if (is_free) return logged;
    logged = top + 1;
  }
}

// Makes positions up to `end` safe to store to: the ring grows, or the event will overwrite the oldest ones. A ring that has wrapped keeps
// its size, which tells where its events are. Returns false if the event is larger than the ring.
bool Reserve(uint64_t place, uint64_t end) {
  ShmArray& array = g_runtime.segment.array(ArrayId::kErrorLog);
  const uint64_t ring = RingUnits(), wanted = std::min(end, kLogUnits);
  if (place <= ring && ring < wanted && g_runtime.segment.ReserveUpTo(ArrayId::kErrorLog, 1 + wanted)) {
    array.used.store(1 + wanted, kRelease);
    return true;
  }
  return end - place <= ring;
}

}  // namespace

bool WriteLog(LogPriority priority, std::string_view code, std::string_view subsystem, std::string_view data) {
  if (!EnsureStarted()) return true;
  const int error = errno;
  const uint64_t thread_id = CurrentThreadId();
  code = CutText(code, kLogCodeBytes);
  subsystem = CutText(subsystem, kLogSubsystemBytes);
  data = CutText(data, kLogDataBytes);
  ShmDeclared& program = g_runtime.header->program;
  bool is_written = false;
  if (const LogLock lock; lock) {
    const uint64_t place = program.log_end.load(kRelaxed);
    LogHead head{
        place, 0, thread_id,
        static_cast<uint64_t>(priority) | uint64_t{code.size()} << 8 | uint64_t{subsystem.size()} << 16 | uint64_t{data.size()} << 32};
    const uint64_t end = place + head.units();
    if (Reserve(place, end)) {
      head.logged = NextLogged(program);
      uint64_t begin = program.log_begin.load(kRelaxed);
      uint64_t expired = 0;
      for (const uint64_t ring = RingUnits(); end - begin > ring; ++expired) begin += HeadAt(begin).units();
      program.log_expired.store(program.log_expired.load(kRelaxed) + expired, kRelaxed);
      // Stored before the oldest events are overwritten: a reader that finds a new word there also finds the new
      // begin.
      program.log_begin.store(begin, kRelease);
      UnitWriter writer(place);
      writer.Add(&head, sizeof head);
      writer.Add(code.data(), code.size());
      writer.Add(subsystem.data(), subsystem.size());
      writer.Add(data.data(), data.size());
      writer.Finish();
      program.log_latest.store(head.logged, kRelaxed);
      program.log_written.store(program.log_written.load(kRelaxed) + 1, kRelaxed);
      program.log_end.store(end, kRelease);  // last: pairs with ForEachLogEvent
      is_written = true;
    }
  }
  if (!is_written) CountLoss(Loss::kLogEvents);
  errno = error;
  return is_written;
}

void ForgetLogInChild() {
  ShmDeclared& program = g_runtime.header->program;
  for (Word* word : {&program.log_begin, &program.log_end, &program.log_written, &program.log_expired, &program.log_latest})
    word->store(0, kRelaxed);
  next_taken = UINT64_MAX;
  // The parent's writer does not exist here, unless it forks in a handler that interrupted it; then it goes on.
  if (!t_writes) is_taken.store(0, kRelaxed);
}

}  // namespace perfschema
