#include "record/context/identity.h"

#include <cerrno>

#include "record/context/actors.h"
#include "record/context/principals.h"
#include "record/engine/classes.h"
#include "record/engine/texts.h"
#include "record/probe/wait.h"

namespace perfschema {
namespace {

// A section in which the calling thread changes its own row or moves its own cells: events of its signal handlers do
// not come in between.
// Threads: owner thread only.
class OwnSection {
 public:
  explicit OwnSection(ThreadState& thread) : thread_(thread), entered_(!IsInterrupted(thread)), nesting_(thread.nesting) {
    if (entered_) EnterProbe(thread);
  }
  ~OwnSection() {
    if (entered_) LeaveProbe(thread_, nesting_);
  }
  OwnSection(const OwnSection&) = delete;
  OwnSection& operator=(const OwnSection&) = delete;
  explicit operator bool() const { return entered_; }  // false: in a signal handler that interrupted another such section

 private:
  ThreadState& thread_;
  const bool entered_;
  const uint64_t nesting_;
};

// Calls change(row) of the attached instrumentation. In a handler that interrupted pfs the change is lost, as an
// event is.
template <typename Change>
void ChangeOwnRow(Change change) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return;
  if (const OwnSection section(*thread); section) {
    change(*thread->shared);
  } else {
    CountLoss(Loss::kLockers);
  }
}

// Does the same under the cold lock.
template <typename Change>
void ChangeOwnRow(ThreadState& thread, Change change) {
  const int error = errno;
  const ColdLock lock;
  const OwnSection section(thread);
  if (lock && section) {
    change(*thread.shared);
  } else {
    CountLoss(Loss::kLockers);
  }
  errno = error;
}

void SetFlags(ShmThread& thread, uint32_t changed, uint32_t bits) {
  // These are two operations and not one store: UPDATE threads may come between.
  thread.flags.fetch_and(~(changed & ~bits), kRelaxed);
  thread.flags.fetch_or(changed & bits, kRelaxed);
}
constexpr uint32_t kSettings = kThreadInstrumented | kThreadHistory | kThreadTrace;

// REQUIRES: cold lock, OwnSection.
void BecomeOneOf(ShmThread& thread, uint32_t class_index, std::string_view user, std::string_view host) {
  thread.class_index.store(class_index, kRelaxed);
  SetFlags(thread, kSettings | kThreadForeground, FlagsAtBirth(class_index, user, host) | ForegroundFlag(class_index, user));
}

// REQUIRES: cold lock, OwnSection.
void SetAccountOf(ShmThread& thread, std::string_view user, std::string_view host) {
  ConnectThread(thread, user, host);
  const CellWriter writer(thread.seq);
  StoreText(thread.user_name, user);
  StoreText(thread.host_name, host);
}

// A private copy of a text of the thread's own row.
struct TextCopy {
  char bytes[256];
  template <size_t N>
  explicit TextCopy(const Word (&words)[N]) {
    static_assert(N * 8 <= sizeof bytes);
    CopyFromShared(bytes, words, N * 8);
    length = strnlen(bytes, N * 8);
  }
  std::string_view view() const { return {bytes, length}; }
  size_t length;
};

}  // namespace

Status FullThreadName(std::string_view name, std::string* full) {
  if (name.substr(0, 7) == "thread/") name.remove_prefix(7);
  if (name.empty() || name.size() > 120) return Status(Code::kInvalidArgument, "a thread's name has 1 to 120 bytes");
  *full = "thread/" + std::string(name);
  return {};
}

Status SetThreadName(std::string_view name) {
  std::string full;
  if (Status status = FullThreadName(name, &full); !status.ok()) return status;
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return {};
  ChangeOwnRow(*thread, [&](ShmThread& shared) {
    {
      const CellWriter writer(shared.seq);
      StoreText(shared.name, full);
    }
    const uint32_t class_index = FindClass(Family::kThread, full);
    if (class_index == 0 || class_index == shared.class_index.load(kRelaxed)) return;
    BecomeOneOf(shared, class_index, TextCopy(shared.user_name).view(), TextCopy(shared.host_name).view());
  });
  return {};
}

void SetAccount(std::string_view user, std::string_view host) {
  user = CutText(user, kUserBytes);
  host = CutText(host, kHostBytes);
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return;
  ChangeOwnRow(*thread, [&](ShmThread& shared) {
    SetAccountOf(shared, user, host);
    const uint32_t class_index = shared.class_index.load(kRelaxed);
    const bool has_no_account = user.empty() && host.empty();
    const uint32_t settings = has_no_account ? FlagsAtBirth(class_index, user, host) : FindActor(user, host).flags();
    SetFlags(shared, kSettings | kThreadForeground, settings | ForegroundFlag(class_index, user));
  });
}

void Rename(ThreadState& thread, const Birth& birth) {
  ChangeOwnRow(thread, [&](ShmThread& shared) {
    {
      const CellWriter writer(shared.seq);
      StoreText(shared.name, birth.name.empty() ? NameOf(g_runtime.classes[birth.class_index]) : birth.name);
    }
    shared.parent_thread_id.store(birth.parent_thread_id, kRelaxed);
    SetAccountOf(shared, CutText(birth.user, kUserBytes), CutText(birth.host, kHostBytes));
    BecomeOneOf(shared, birth.class_index, birth.user, birth.host);
  });
}

// Gives the slot of a thread its element of kThreadTexts, which stays. The calling thread has `thread` attached.
[[gnu::noinline]] static void MakeTexts(ThreadState& thread) {
  ChangeOwnRow(thread, [](ShmThread& shared) {
    if (shared.texts.load(kRelaxed) != 0) return;  // a signal handler came first
    const int64_t fresh = g_runtime.segment.AllocateFresh(ArrayId::kThreadTexts);
    if (fresh <= 0) return CountLoss(Loss::kLockers);
    shared.texts.store(static_cast<uint32_t>(fresh), kRelease);  // pairs with ThreadAt
  });
}

template <size_t N>
void SetThreadText(Word (ShmThreadTexts::*words)[N], std::string_view text) {
  ThreadState* const thread = CurrentThread();
  if (thread == nullptr) return;
  if (__builtin_expect(thread->shared->texts.load(kRelaxed) == 0, 0)) {
    if (text.empty()) return;
    MakeTexts(*thread);
    if (thread->shared->texts.load(kRelaxed) == 0) return;
  }
  ChangeOwnRow([&](ShmThread& shared) {
    const CellWriter writer(shared.seq);  // pairs with ReadWhole
    StoreText(g_runtime.thread_texts[shared.texts.load(kRelaxed)].*words, text);
  });
}
template void SetThreadText(Word (ShmThreadTexts::*)[2], std::string_view);
template void SetThreadText(Word (ShmThreadTexts::*)[8], std::string_view);
template void SetThreadText(Word (ShmThreadTexts::*)[128], std::string_view);

void SetThreadStart(uint64_t unix_seconds) {
  ChangeOwnRow([=](ShmThread& shared) { shared.start_seconds.store(unix_seconds, kRelaxed); });
}
void SetProcesslistId(uint64_t id) {
  ChangeOwnRow([=](ShmThread& shared) { shared.processlist_id.store(id, kRelaxed); });
}
void SetPeerPort(uint32_t port) {
  ChangeOwnRow([=](ShmThread& shared) { shared.peer_port.store(port, kRelaxed); });
}
void SetSecondaryEngine(bool is_secondary) {
  ChangeOwnRow([=](ShmThread& shared) { SetFlags(shared, kThreadSecondary, is_secondary ? kThreadSecondary : 0); });
}

}  // namespace perfschema
