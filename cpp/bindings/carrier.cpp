#include "carrier.h"

#if defined(__x86_64__)

#include <elf.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "snapshot/kernel_threads.h"

namespace perfschema::bindings {
namespace {

using Clock = std::chrono::steady_clock;

// Functions of the C library. Those of the allocator are one file: with static ones between them.
constexpr const char* kAllocator[] = {"malloc",         "free",    "calloc",       "realloc",     "memalign",           "aligned_alloc",
                                      "posix_memalign", "valloc",  "pvalloc",      "malloc_trim", "malloc_usable_size", "mallinfo",
                                      "mallinfo2",      "mallopt", "malloc_stats", "malloc_info"};
constexpr const char* kOthers[] = {
    "pthread_create",
    "pthread_exit",
    "dl_iterate_phdr",
    "fork",
    "_Fork",
    "vfork",
    "dlopen",
    "dlclose",
    "dlsym",
    "dladdr",
    "dlinfo",
    "dlmopen",
    "exit",
    "quick_exit",
    "abort",
    "__cxa_atexit",
    "__cxa_finalize",
    "__cxa_at_quick_exit",
    "pthread_getattr_np",
    "pthread_setattr_default_np",
    "pthread_getattr_default_np",
    "pthread_attr_setaffinity_np",
    "setuid",
    "setgid",
    "setresuid",
    "setresgid",
    "setreuid",
    "setregid",
    "setgroups",
    "posix_spawn",
    "posix_spawnp",
    "system",
    "popen",
    "__register_atfork",
    "setlocale",
};

}  // namespace

void UnsafeCode::Add(const ProcessMemory& memory, uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  if (end - begin > bytes_left_) {
    is_complete_ = false;
    return;
  }
  bytes_left_ -= end - begin;
  Code code{begin, end, std::string(end - begin + kMostCall, '\0')};
  if (!memory.Read(begin - kMostCall, code.bytes.data(), code.bytes.size())) {
    // Nothing is before the first page of an object.
    is_complete_ &= memory.Read(begin, code.bytes.data() + kMostCall, end - begin);
  }
  codes_.push_back(std::move(code));
  first_ = std::min(first_, begin);
  last_ = std::max(last_, end);
}

void UnsafeCode::AddObject(const ProcessMemory& memory, const MappedObject& object) {
  for (const MappedObject::Part& part : object.parts) {
    if ((part.flags & PF_X) != 0) Add(memory, part.begin, part.end);
  }
}

void UnsafeCode::AddCLibrary(const ProcessMemory& memory, const MappedObject& library) {
  const auto& all = library.functions;
  uint64_t first = ~uint64_t{0}, last = 0;
  for (const char* const name : kAllocator) {
    if (const ExportedSymbol* const function = library.Find(name); function != nullptr) {
      first = std::min(first, function->begin);
      last = std::max(last, function->end);
    }
  }
  // The file ends where the functions of others begin.
  uint64_t before = 0, after = ~uint64_t{0};
  for (const ExportedSymbol& function : all) {
    if (function.end <= first) before = std::max(before, function.end);
    if (function.begin >= last) after = std::min(after, function.begin);
  }
  if (last != 0) Add(memory, before, after);
  for (const char* const name : kOthers) {
    if (const ExportedSymbol* const function = library.Find(name); function != nullptr) Add(memory, function->begin, function->end);
  }
  for (const MappedObject::Part& part : library.parts) {
    if ((part.flags & PF_X) == 0) continue;
    c_library_.push_back(part);
    if (part.end - part.begin > bytes_left_) {
      is_complete_ = false;
      return;
    }
    std::string text(part.end - part.begin, '\0');
    constexpr std::string_view kReturn("\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9);  // rt_sigreturn()
    const size_t at = memory.Read(part.begin, text.data(), text.size()) ? text.find(kReturn) : std::string::npos;
    if (at != std::string::npos) restorers_.push_back(part.begin + at);
  }
}

bool UnsafeCode::Has(uint64_t address) const {
  return std::ranges::any_of(codes_, [=](const Code& code) { return address - code.begin < code.end - code.begin; });
}

bool UnsafeCode::IsInCLibrary(uint64_t address) const {
  return std::ranges::any_of(c_library_, [=](const MappedObject::Part& part) { return address - part.begin < part.end - part.begin; });
}

bool UnsafeCode::IsRestorer(uint64_t address) const { return std::ranges::find(restorers_, address) != restorers_.end(); }

bool UnsafeCode::IsReturnAddress(uint64_t address) const {
  if (address < first_ || address > last_) return false;  // most words
  return std::ranges::any_of(codes_, [=](const Code& code) {
    const uint64_t call = address - 1 - code.begin;  // the last instruction may be a call that does not return
    return call < code.end - code.begin && EndsWithCall(reinterpret_cast<const uint8_t*>(code.bytes.data()) + call + 1 + kMostCall);
  });
}

namespace {

// How a system call that a thread waits in shows that the thread was stopped: the less it shows, the better the thread carries.
enum Rank { kUnseen = 0, kRuns, kRetried, kRepeated, kNever };

// What /proc says of a thread.
struct Waiting {
  pid_t thread;
  Rank rank = kNever;
  uint64_t stack = 0, code = 0;
};

std::string TextOf(pid_t pid, pid_t thread, const char* name) {
  return TextInProc(static_cast<uint64_t>(pid), static_cast<uint64_t>(thread), name);
}

Rank RankOf(unsigned long number, const unsigned long* arguments) {
  switch (number) {
    case SYS_futex:
      return arguments[3] == 0 ? kUnseen : kRetried;
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_flock:
      return kRuns;
    case SYS_clock_nanosleep:
      return (arguments[1] & 1) != 0 ? kRetried : kRepeated;  // until a point in time, or for some time
    case SYS_select:
    case SYS_pselect6:
    case SYS_ppoll:
      return kRetried;
    case SYS_nanosleep:
    case SYS_poll:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return kRepeated;
    default:
      return kNever;
  }
}

Waiting Look(pid_t pid, pid_t thread) {
  Waiting found{thread};
  const std::string text = TextOf(pid, thread, "syscall");
  if (text.starts_with("running")) {
    found.rank = kRuns;
    return found;
  }
  unsigned long number, a[6], stack, code;
  if (std::sscanf(text.c_str(), "%lu 0x%lx 0x%lx 0x%lx 0x%lx 0x%lx 0x%lx 0x%lx 0x%lx", &number, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5],
                  &stack, &code) != 9) {
    return found;
  }
  found.rank = RankOf(number, a);
  found.stack = stack;
  found.code = code;
  return found;
}

std::vector<Waiting> ThreadsOf(pid_t pid) {
  std::vector<Waiting> threads;
  for (const uint64_t thread : ThreadsInProc(static_cast<uint64_t>(pid))) {
    const Waiting found = Look(pid, static_cast<pid_t>(thread));
    if (found.rank != kNever) threads.push_back(found);
  }
  std::ranges::stable_sort(threads, {}, &Waiting::rank);
  return threads;
}

// Is where the words of a signal's frame are, from its first one, as the kernel puts it on the stack (struct rt_sigframe).
struct SignalFrame {
  uint64_t restorer, flags, link, alternate, alternate_flags, alternate_bytes;
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip, eflags;
  uint16_t cs, gs, fs, ss;
  uint64_t error, trap, old_mask, cr2, fpu, reserved[8], mask;
};
static_assert(offsetof(SignalFrame, cs) == 192 && offsetof(SignalFrame, mask) == 304);
constexpr uint16_t kCodeSegment = 0x33;  // of 64 bits

constexpr uint64_t kMostStack = 1 << 20;
constexpr uint64_t kStackNeeded = 32 << 10;  // by pthread_create(), below the frame

Registers RegistersOf(const user_regs_struct& now) {
  Registers registers;
  registers.Set(Registers::kBx, now.rbx);
  registers.Set(Registers::kBp, now.rbp);
  registers.Set(Registers::kSp, now.rsp);
  registers.Set(Registers::k12, now.r12);
  registers.Set(Registers::k13, now.r13);
  registers.Set(Registers::k14, now.r14);
  registers.Set(Registers::k15, now.r15);
  registers.Set(Registers::kIp, now.rip);
  return registers;
}

// Returns whether the thread is in no call of unsafe code, and in no handler of a signal: it may have interrupted such code, on another
// stack. Where the calls are not known, each word counts that may be a return address. `is_stopped`: the registers are all known.
bool IsStackSafe(const Carried& carried, const std::vector<MappedRange>& ranges, const Registers& registers, bool is_stopped) {
  const uint64_t sp = registers.values[Registers::kSp];
  const auto range = std::ranges::find_if(ranges, [=](const MappedRange& one) { return one.Has(sp); });
  if (range == ranges.end() || carried.unsafe.Has(registers.values[Registers::kIp])) return false;
  if (range->path != "[stack]" && sp - range->begin < 2 * kStackNeeded) return false;
  const Calls calls = carried.frames.Walk(registers, *range);
  for (const uint64_t address : calls.returns) {
    if (carried.unsafe.IsRestorer(address) || carried.unsafe.IsReturnAddress(address)) return false;
  }
  if (calls.end == Calls::kWhole || (calls.end == Calls::kNeedsRegister && !is_stopped)) return true;
  std::vector<uint64_t> words(std::min(range->end - calls.rest, kMostStack) / sizeof(uint64_t));
  if (!carried.memory.Read(calls.rest, words.data(), words.size() * sizeof(uint64_t))) return false;
  constexpr size_t kSegments = offsetof(SignalFrame, cs) / sizeof(uint64_t);
  for (size_t i = 0; i < words.size(); ++i) {
    if (carried.unsafe.IsReturnAddress(words[i])) return false;
    const bool is_frame =
        carried.unsafe.IsRestorer(words[i]) && i + kSegments < words.size() && (words[i + kSegments] & 0xffff) == kCodeSegment;
    if (is_frame) return false;
  }
  return true;
}

// Returns whether a signal is about to come to the thread.
bool HasPendingSignal(pid_t pid, pid_t thread) {
  const std::string text = TextOf(pid, thread, "status");
  const auto mask = [&](const char* name) {
    const size_t at = text.find(name);
    return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + std::strlen(name), nullptr, 16);
  };
  return ((mask("SigPnd:") | mask("ShdPnd:")) & ~mask("SigBlk:")) != 0;
}

// A thread that this one traces and has stopped. The thread goes on when this ends.
class Stopped {
 public:
  explicit Stopped(pid_t thread) : thread_(thread) {
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return;
    is_traced_ = true;
    if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return;
    const auto end = Clock::now() + std::chrono::milliseconds(250);  // it may wait for a processor
    int status = 0;
    pid_t who;
    while ((who = waitpid(thread, &status, __WALL | WNOHANG)) == 0 && (since = Clock::now()) < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    if (who != thread || !WIFSTOPPED(status)) return;
    is_stopped_ = true;
    const bool is_event = status >> 16 == PTRACE_EVENT_STOP;
    signal_ = is_event ? 0 : WSTOPSIG(status);
    is_usable = is_event && WSTOPSIG(status) == SIGTRAP;  // else a signal has come, or the program is stopped
  }
  ~Stopped() { Detach(); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;
  void Detach() {
    if (is_traced_ && is_stopped_) ptrace(PTRACE_DETACH, thread_, nullptr, signal_);
    is_traced_ = false;
  }
  bool is_usable = false;
  Clock::time_point since = Clock::now();  // when it still ran

 private:
  const pid_t thread_;
  bool is_traced_ = false, is_stopped_ = false;
  long signal_ = 0;
};

template <typename T>
bool GetSet(long request, pid_t thread, long set, T* data, size_t bytes, size_t* got = nullptr) {
  iovec part{data, bytes};
  const bool is_done = ptrace(static_cast<__ptrace_request>(request), thread, set, &part) == 0;
  if (got != nullptr) *got = part.iov_len;
  return is_done;
}

// Returns the registers with which the thread goes on as if it had not been stopped. A call that it waited in is made again.
user_regs_struct AsBefore(const user_regs_struct& now, Rank rank) {
  constexpr long kRestart[] = {-512, -513, -514, -516};  // ERESTARTSYS and its kin: they never reach a program
  user_regs_struct before = now;
  const auto result = static_cast<long>(now.rax);
  const bool is_restarted = std::ranges::find(kRestart, result) != std::end(kRestart) || (result == -EINTR && rank != kNever);
  if (static_cast<long>(now.orig_rax) >= 0 && is_restarted) {
    before.rax = now.orig_rax;
    before.rip -= 2;
  }
  return before;
}

// Gives a stopped thread the frame of a signal whose handler is pthread_create(). rt_sigreturn() then puts all back, also if this process
// has died by then. Returns false if it cannot: nothing is changed.
bool GiveFrame(const Carried& carried, pid_t thread, const user_regs_struct& now, Rank rank) {
  constexpr long kXState = 0x202;
  constexpr size_t kBytesOfSoftware = 464;  // where the kernel looks for the layout, in the area of FXSAVE
  constexpr size_t kMostBytes = 32768;
  alignas(64) static thread_local uint8_t fpu[kMostBytes + 8];
  size_t bytes = 0;
  uint64_t mask = 0;
  if (!GetSet(PTRACE_GETREGSET, thread, kXState, fpu, kMostBytes, &bytes) || bytes < 576 || bytes >= kMostBytes) return false;
  if (ptrace(PTRACE_GETSIGMASK, thread, sizeof mask, &mask) != 0) return false;
  uint64_t features;
  std::memcpy(&features, fpu + kBytesOfSoftware, sizeof features);
  const struct {
    uint32_t magic, all_bytes;
    uint64_t features;
    uint32_t bytes, none[7];
  } software{0x46505853, static_cast<uint32_t>(bytes + 4), features, static_cast<uint32_t>(bytes), {}};
  static_assert(sizeof software == 48);
  std::memcpy(fpu + kBytesOfSoftware, &software, sizeof software);
  constexpr uint32_t kEnd = 0x46505845;
  std::memcpy(fpu + bytes, &kEnd, sizeof kEnd);

  constexpr uint64_t kRedZone = 128;
  const uint64_t at_fpu = (now.rsp - 2 * kRedZone - bytes - sizeof kEnd) & -uint64_t{64};
  const uint64_t at = ((at_fpu - 1024) & -uint64_t{16}) - 8;
  const uint64_t at_result = at + sizeof(SignalFrame) + 64;  // of pthread_create()
  const user_regs_struct b = AsBefore(now, rank);
  SignalFrame frame{};
  frame.restorer = carried.restorer;
  frame.flags = 1 | 2 | 4;                      // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
  frame.alternate = frame.alternate_bytes = 1;  // is refused, so that of the thread stays
  frame.r8 = b.r8, frame.r9 = b.r9, frame.r10 = b.r10, frame.r11 = b.r11, frame.r12 = b.r12, frame.r13 = b.r13, frame.r14 = b.r14;
  frame.r15 = b.r15, frame.di = b.rdi, frame.si = b.rsi, frame.bp = b.rbp, frame.bx = b.rbx, frame.dx = b.rdx, frame.ax = b.rax;
  frame.cx = b.rcx, frame.sp = b.rsp, frame.ip = b.rip, frame.eflags = b.eflags;
  frame.cs = static_cast<uint16_t>(b.cs), frame.ss = static_cast<uint16_t>(b.ss);
  frame.fpu = at_fpu;
  frame.mask = mask;
  user_regs_struct call = now;
  call.orig_rax = ~0ull;
  call.rsp = at;
  call.rdi = at_result;
  call.rsi = 0;
  call.rdx = carried.start;
  call.rcx = carried.argument;
  call.rax = 0;
  call.rip = carried.create;
  call.eflags &= ~uint64_t{0x400};  // the direction of strings
  if (!carried.memory.Write(at_fpu, fpu, bytes + sizeof kEnd) || !carried.memory.Write(at, &frame, sizeof frame)) return false;
  if (!GetSet(PTRACE_SETREGSET, thread, NT_PRSTATUS, &call, sizeof call)) return false;
  // The new thread gets this mask: no signal of the program comes to it. The frame has the old one.
  uint64_t blocked = ~uint64_t{0};
  (void)ptrace(PTRACE_SETSIGMASK, thread, sizeof blocked, &blocked);
  return true;
}

// Lets this thread run at once where the user may say that: a thread of the program stands while this one waits for a processor.
void HurryUp() {
  const sched_param first{1};
  (void)sched_setscheduler(0, SCHED_FIFO, &first);
  (void)prctl(PR_SET_TIMERSLACK, 1);
}

// Stops a thread, and calls act(registers, rank of its system call) if it is at a safe point. Returns false if it is not, or what act()
// returns: the thread has gone on then.
template <typename Act>
bool AtSafePoint(const Carried& carried, const Waiting& waiting, double* stopped, Act act) {
  const std::vector<MappedRange> ranges = carried.memory.Ranges();
  const bool must_check = carried.checks_thread;
  // First from outside: a thread that cannot carry is not stopped.
  if (must_check && waiting.stack != 0) {
    Registers registers;
    registers.Set(Registers::kSp, waiting.stack);
    registers.Set(Registers::kIp, waiting.code);
    if (!IsStackSafe(carried, ranges, registers, false)) return false;
  }
  Stopped thread(waiting.thread);
  if (!thread.is_usable) return false;
  user_regs_struct now{};
  if (!GetSet(PTRACE_GETREGSET, waiting.thread, NT_PRSTATUS, &now, sizeof now) || (now.cs & 0xffff) != kCodeSegment) return false;
  const bool is_in_call = static_cast<long>(now.orig_rax) >= 0;
  const unsigned long arguments[6] = {now.rdi, now.rsi, now.rdx, now.r10, now.r8, now.r9};
  const Rank rank = is_in_call ? RankOf(now.orig_rax, arguments) : kNever;
  if (must_check) {
    if (is_in_call ? rank == kNever : carried.unsafe.IsInCLibrary(now.rip)) return false;
    if (!IsStackSafe(carried, ranges, RegistersOf(now), true)) return false;
  }
  if (HasPendingSignal(carried.pid, waiting.thread) || !act(now, rank)) return false;
  thread.Detach();
  *stopped = std::chrono::duration<double>(Clock::now() - thread.since).count();
  return true;
}

// Tries one thread after the other until act(thread, registers, rank) returns true at a safe point of it. Returns false if the time is
// over.
template <typename Act>
bool TryThreads(const Carried& carried, double seconds, double* stopped, Act act) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    for (const Waiting& waiting : ThreadsOf(carried.pid)) {
      bool is_done = false;
      // A thread of its own traces: when that ends, what it traces goes on, also what did not stop in time.
      std::thread([&] {
        HurryUp();
        is_done =
            AtSafePoint(carried, waiting, stopped, [&](const user_regs_struct& now, Rank rank) { return act(waiting.thread, now, rank); });
      }).join();
      if (is_done) return true;
      if (Clock::now() > end) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  } while (Clock::now() < end);
  return false;
}

}  // namespace

Status Carry(const Carried& carried, double seconds, double* stopped) {
  const bool is_carried = TryThreads(carried, seconds, stopped, [&](pid_t thread, const user_regs_struct& now, Rank rank) {
    return GiveFrame(carried, thread, now, rank);
  });
  return is_carried ? Status() : Status(Code::kState, "no thread of it was at a safe point: not now");
}

bool WriteIfAlone(const Carried& carried, const std::vector<uint64_t>& places, double seconds) {
  double stopped;
  return TryThreads(carried, seconds, &stopped, [&](pid_t thread, const user_regs_struct& now, Rank rank) {
    // The one that could make another thread stands.
    if (ThreadsInProc(static_cast<uint64_t>(carried.pid)).size() != 1) return false;
    // The system makes most calls again by itself. Others would tell the program that they were interrupted.
    user_regs_struct before = AsBefore(now, rank);
    before.orig_rax = ~0ull;
    const bool is_told = static_cast<long>(now.orig_rax) >= 0 && static_cast<long>(now.rax) == -EINTR;
    if (is_told && !GetSet(PTRACE_SETREGSET, thread, NT_PRSTATUS, &before, sizeof before)) return false;
    constexpr char kYes = 1;
    return std::ranges::all_of(places, [&](uint64_t place) { return carried.memory.Write(place, &kYes, 1); });
  });
}

}  // namespace perfschema::bindings

#endif
