// base/time_states.h: what a thread's time is split into: the states of thread_time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace perfschema {

// The states of waits, by the beginning of the names of their instruments. A call may compute, too: those that most likely do come first.
// New states come last, because segments hold these numbers.
#define PFS_FOR_EACH_WAIT_STATE(X)                                \
  X(kFile, "wait/io/file")                                        \
  X(kSocket, "wait/io/socket")                                    \
  X(kTable, "wait/io/table")                                      \
  X(kApp, "wait/app")                                             \
  X(kMapping, "wait/system/msync")                                \
  X(kResolve, "wait/system/resolve")                              \
  X(kMutex, "wait/synch/mutex")                                   \
  X(kRwlock, "wait/synch/rwlock")                                 \
  X(kPrlock, "wait/synch/prlock")                                 \
  X(kSxlock, "wait/synch/sxlock")                                 \
  X(kTableLock, "wait/lock/table")                                \
  X(kMetadata, "wait/lock/metadata")                              \
  X(kGil, "wait/synch/cond/python/gil")                           \
  X(kCond, "wait/synch/cond")                                     \
  X(kPythonJoin, "wait/synch/mutex/python/threading.Thread.join") \
  X(kMessage, "wait/system/message")                              \
  X(kSignal, "wait/system/signal")                                \
  X(kSystem, "wait/system")                                       \
  X(kIdle, "idle")                                                \
  X(kJoin, "wait/system/join")                                    \
  X(kChild, "wait/system/child")                                  \
  X(kSleep, "wait/system/sleep")                                  \
  X(kAio, "wait/system/aio")

enum class WaitState : uint32_t {
#define X(name, text) name,
  PFS_FOR_EACH_WAIT_STATE(X)
#undef X
      kCount
};
inline constexpr uint32_t kWaitStates = static_cast<uint32_t>(WaitState::kCount);
inline constexpr std::string_view kWaitStateNames[kWaitStates] = {
#define X(name, text) text,
    PFS_FOR_EACH_WAIT_STATE(X)
#undef X
};

// Returns the state of the waits of an instrument: the one with the longest name that begins the instrument's. The instruments of the
// system's waits have their kind behind the component: wait/system/COMPONENT/KIND-PLACE. A thread that accepts connections has nothing to
// do until there is one, so a listening socket (wait/io/socket/COMPONENT/listen) is idle, like a poll: is_accept in pfs._process.recorded.
constexpr uint32_t WaitStateOf(std::string_view instrument) {
  constexpr std::string_view kSystem = kWaitStateNames[static_cast<uint32_t>(WaitState::kSystem)];
  std::string_view kind;
  if (instrument.substr(0, kSystem.size()) == kSystem) {
    kind = instrument.substr(std::min(instrument.find('/', kSystem.size() + 1) + 1, instrument.size()));
    kind = kind.substr(0, kind.find('-'));
    instrument = kSystem;
  }
  uint32_t found = static_cast<uint32_t>(WaitState::kSystem);
  size_t longest = 0;
  for (uint32_t i = 0; i < kWaitStates; ++i) {
    const std::string_view name = kWaitStateNames[i];
    const bool is_kind = name.size() == kSystem.size() + 1 + kind.size() && name.substr(0, kSystem.size()) == kSystem &&
                         name.substr(kSystem.size() + 1) == kind;
    const bool begins = instrument.substr(0, name.size()) == name && (instrument.size() == name.size() || instrument[name.size()] == '/');
    if ((is_kind || begins) && name.size() > longest) {
      found = i;
      longest = name.size();
    }
  }
  if (kind == "sync") return static_cast<uint32_t>(WaitState::kFile);  // of all file systems: no file has the event
  constexpr std::string_view kListen = "/listen";
  const bool is_accept = instrument.size() >= kListen.size() && instrument.substr(instrument.size() - kListen.size()) == kListen;
  return is_accept && found == static_cast<uint32_t>(WaitState::kSocket) ? static_cast<uint32_t>(WaitState::kIdle) : found;
}
static_assert(WaitStateOf("wait/system/libc/sleep-main+0x1") == static_cast<uint32_t>(WaitState::kSleep));
static_assert(WaitStateOf("wait/system/libc/sync-main+0x1") == static_cast<uint32_t>(WaitState::kFile));
static_assert(WaitStateOf("wait/system") == static_cast<uint32_t>(WaitState::kSystem));
static_assert(WaitStateOf("wait/synch/cond/python/gil") == static_cast<uint32_t>(WaitState::kGil));
static_assert(WaitStateOf("wait/synch/cond/python/gilded") == static_cast<uint32_t>(WaitState::kCond));
static_assert(WaitStateOf("wait/io/socket/app/listen") == static_cast<uint32_t>(WaitState::kIdle));
static_assert(WaitStateOf("wait/io/socket/app/listener") == static_cast<uint32_t>(WaitState::kSocket));
static_assert(WaitStateOf("wait/io/file/app/listen") == static_cast<uint32_t>(WaitState::kFile));

// Writes the role of a thread: its name with '*' for each number that a program gives one of many threads, as in "worker-12", "Thread-3
// (run)" and "pool-1-thread-7". Addresses, versions and lines of sources stay. Returns its length. REQUIRES: `to` has as many bytes as the
// name.
constexpr size_t CopyRole(std::string_view name, char* to) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_word = [&](char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  size_t written = 0, word = 0;
  for (size_t at = 0; at < name.size();) {
    if (at == 0 || !is_word(name[at - 1])) word = at;
    size_t end = at;
    while (end < name.size() && is_digit(name[end])) ++end;
    const char before = at == 0 ? '/' : name[at - 1];
    const bool is_number = end != at && name.substr(word, 2) != "0x" && before != '+' && before != ':' && before != '.' && before != '/' &&
                           (end == name.size() || std::string_view(" -()").find(name[end]) != std::string_view::npos);
    if (is_number) {
      to[written++] = '*';
      at = end;
    } else {
      do to[written++] = name[at++];
      while (at < end);
    }
  }
  return written;
}

// The time of a thread, or of several. Picoseconds.
struct TimeSplit {
  uint64_t wall = 0, computing = 0, runnable = 0, elsewhere = 0;
  uint64_t waits[kWaitStates] = {};

  // Makes the parts add up to `wall`. The kernel knows how long the thread did not run. Waits have the time of their calls, in which a
  // thread computes and waits for a processor, too. They lose that: as much as it computed by those first that most likely did, and the
  // rest, which any wait may have had when it was over, in proportion. `elsewhere` is what no part has.
  void Settle() {
    computing = std::min(computing, wall);
    runnable = std::min(runnable, wall - computing);
    const uint64_t blocked = wall - computing - runnable;
    uint64_t waited = 0;
    for (const uint64_t wait : waits) waited += wait;
    uint64_t computed = std::min(computing, waited - std::min(waited, blocked));
    for (uint64_t& wait : waits) {
      const uint64_t inside = std::min(wait, computed);
      wait -= inside;
      waited -= inside;
      computed -= inside;
    }
    elsewhere = blocked;
    for (uint64_t& wait : waits) {
      if (waited > blocked) wait = static_cast<uint64_t>(static_cast<Wide>(wait) * blocked / waited);
      elsewhere -= wait;
    }
  }
};

}  // namespace perfschema
