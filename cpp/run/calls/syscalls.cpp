// run/calls/syscalls.cpp: replaces syscall(): waits for futexes, and I/O that a program asks of the kernel itself.
//
// The locks of Rust's std wait here; libuv closes and asks for files here. A futex is no object of the tables: it is any word of memory.
// The place of the call stands for it: a condition with a name such as futex-code+0x1f3b. The call is made as the program makes it, and not
// by read() and the like, which are cancellation points.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <type_traits>
#include <utility>

#include "run/calls/file_calls.h"
#include "run/calls/sandbox.h"
#include "run/calls/wait_calls.h"

#ifndef FUTEX_LOCK_PI2  // since Linux 5.14: a wheel is compiled with older headers
#define FUTEX_LOCK_PI2 13
#endif

using perfschema::Operation;
using namespace perfschema::run;
namespace capi = perfschema::capi;
using capi::EndName;
using capi::kNoOffset;

namespace {

struct Arguments {
  long words[6];
};

#ifndef SYS_pidfd_open  // since Linux 5.3
#define SYS_pidfd_open 434
#endif
#ifndef SYS_io_uring_enter  // since Linux 5.1
#define SYS_io_uring_enter 426
#endif
#ifndef SYS_io_pgetevents  // since Linux 4.18
#if defined(__aarch64__)
#define SYS_io_pgetevents 292
#else
#define SYS_io_pgetevents 333
#endif
#endif
// These are not on arm64, and no number of a call.
#ifndef SYS_open
#define SYS_open (-1)
#define SYS_stat (-2)
#define SYS_lstat (-3)
#endif

// The rows of calls.def that have a system call: PFS_SEEN(SYS_name, shape, type, name, ...) for each.
#define PFS_IF_SYSTEM_CALL_(...)
#define PFS_IF_SYSTEM_CALL_1(...) PFS_SEEN_NAMED(__VA_ARGS__)
#define PFS_SEEN_NAMED(name, ...) PFS_SEEN(SYS_##name, __VA_ARGS__)
#define PFS_HAS_SYSTEM_CALL(...) PFS_IF_SYSTEM_CALL_##__VA_OPT__(1)
#define PFS_PASTED(...) __VA_ARGS__
#define PFS_OF_ROW(system_call, ...) PFS_PASTED(PFS_HAS_SYSTEM_CALL system_call(PFS_LIST system_call, __VA_ARGS__))

// Returns whether a call has a case below.
constexpr bool IsSeen(long number) {
  switch (number) {
    case SYS_futex:
    case SYS_prctl:
    case SYS_seccomp:
#define PFS_SEEN(number, ...) case number:
#define CALL(who, system_call, ...) PFS_OF_ROW(system_call, __VA_ARGS__)
#include "capi/calls.def"
#undef PFS_SEEN
      return true;
    default:
      return false;
  }
}

bool IsWait(long operation) {
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_WAIT_REQUEUE_PI:
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
      return true;
    default:
      return false;
  }
}

template <typename Call>
long OnFutex(const Arguments& with, const void* caller, Call call) {
  const Operation operation = with.words[3] != 0 ? Operation::kCondTimedWait : Operation::kCondWait;
  return WaitedAtPlace(Kind::kFutex, IsWait(with.words[1]), caller, call, operation);
}

// Calls body(...) with the first words as the types of its parameters.
template <typename Type>
Type WordAs(long word) {
  if constexpr (std::is_pointer_v<Type>) {
    return reinterpret_cast<Type>(word);
  } else {
    return static_cast<Type>(word);
  }
}
template <typename... Types, typename Body, size_t... kPlaces>
[[gnu::always_inline]] inline long WithWords(const Arguments& with, const Body& body, std::index_sequence<kPlaces...>) {
  return body(WordAs<Types>(with.words[kPlaces])...);
}
template <typename Body, typename Result, typename... Types>
[[gnu::always_inline]] inline long WithWords(const Arguments& with, const Body& body, Result (Body::*)(Types...) const) {
  return WithWords<Types...>(with, body, std::index_sequence_for<Types...>());
}
template <typename Body, typename Result, typename... Types>
[[gnu::always_inline]] inline long WithWords(const Arguments& with, const Body& body, Result (Body::*)(Types..., ...) const) {
  return WithWords<Types...>(with, body, std::index_sequence_for<Types...>());
}
template <typename Body>
[[gnu::always_inline]] inline long OnWords(const Arguments& with, const Body& body) {
  return WithWords(with, body, &Body::operator());
}

// What a call of each shape records.
#define PFS_SEEN_ANYWHERE(operation, size) transfer(Operation::operation, fd, size, kNoOffset)
#define PFS_SEEN_TRANSFER(operation, size, offset) transfer(Operation::operation, fd, size, offset)
#define PFS_SEEN_SELDOM_TRANSFER(operation, size, offset) transfer(Operation::operation, fd, size, offset)
#define PFS_SEEN_COPY(operation, size) transfer(Operation::operation, fd, size, kNoOffset)
#define PFS_SEEN_SENDFILE(...) transfer(Operation::kWrite, fd, size, kNoOffset)
#define PFS_SEEN_PLAIN(operation, offset) plain(Operation::operation, fd)
#define PFS_SEEN_SELDOM_PLAIN(operation, offset) plain(Operation::operation, fd)
#define PFS_SEEN_FRESH(...) IsFresh(static_cast<int>(call()))
#define PFS_SEEN_CLOSE(...) Closed(fd, caller, call)
#define PFS_SEEN_OPEN(directory) OpenedByName(directory, path, flags, caller, call)
#define PFS_SEEN_STAT(...) StatByName(flags, directory, path, caller, call)
#define PFS_SEEN_WAIT(kind, waits) WaitedAtPlace(Kind::kind, waits, caller, call)
#define PFS_SEEN_FILE_LOCK(waits) LockedFile(fd, waits, caller, call)
#define PFS_SEEN_NAME(operation, directory, path, end) OnName(Operation::operation, directory, path, caller, call, end)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
[[gnu::noinline]] long Seen(long number, const Arguments& with, const void* caller) {
  const auto call = [&] {
    return PFS_REAL(syscall)(number, with.words[0], with.words[1], with.words[2], with.words[3], with.words[4], with.words[5]);
  };
  const auto transfer = [&](Operation operation, int of, size_t size, long offset) {
    return static_cast<long>(capi::Transfer(of, operation, size, offset, KnownSite(of, caller), call));
  };
  const auto plain = [&](Operation operation, int of) { return capi::Plain(of, operation, kNoOffset, KnownSite(of, caller), call); };
  switch (number) {
    case SYS_futex:
      return OnFutex(with, caller, call);
    case SYS_prctl:
      return CallIntoSandbox(
          WhyNotAfterPrctl(static_cast<int>(with.words[0]), static_cast<unsigned long>(with.words[1]), WordAs<const char*>(with.words[2])),
          call);
    case SYS_seccomp:
      return CallIntoSandbox(WhyNotAfterSeccomp(static_cast<unsigned>(with.words[0]), WordAs<const char*>(with.words[2])), call);
#define PFS_SEEN(number, shape, type, name, parameters, arguments, ...) \
  case number:                                                          \
    return OnWords(with, [&] parameters { return PFS_SEEN_##shape(__VA_ARGS__); });
#define CALL(who, system_call, ...) PFS_OF_ROW(system_call, __VA_ARGS__)
#include "capi/calls.def"
#undef PFS_SEEN
    default:
      return call();
  }
}
#pragma GCC diagnostic pop

}  // namespace

// Others must leave syscall() with the program's stack as it is: they may be a vfork(), and what lies where a seventh argument would be may
// be a variable that another thread writes to.
struct SeenCalls {
  uint64_t bits[8] = {};
  constexpr SeenCalls() {
    for (long number = 0; number < 512; ++number) bits[number / 64] |= uint64_t{IsSeen(number)} << number % 64;
  }
};
extern "C" constexpr SeenCalls pfs_run_seen_calls __attribute__((used, visibility("hidden"))) = {};
#if defined(__aarch64__)
asm(R"(
.pushsection .text.pfs_syscall,"ax"
.globl syscall
.type syscall, %function
syscall:
  cmp x0, #512
  b.hs 1f
  adrp x16, pfs_run_seen_calls
  add x16, x16, #:lo12:pfs_run_seen_calls
  lsr x17, x0, #6
  ldr x16, [x16, x17, lsl #3]
  lsr x16, x16, x0
  tbnz x16, #0, 2f
  cmp x0, #220 // clone
  b.ne 1f
  tbnz x1, #8, 1f // CLONE_VM
  cbz x2, 3f
1:
  adrp x16, pfs_real_syscall
  ldr x16, [x16, #:lo12:pfs_real_syscall]
  br x16
2:
  b pfs_run_seen_syscall
3:
  b pfs_run_forking_syscall
.size syscall, . - syscall
.popsection
)");
#else
asm(R"(
.pushsection .text.pfs_syscall,"ax"
.globl syscall
.type syscall, @function
syscall:
  cmp $512, %rdi
  jae 1f
  bt %rdi, pfs_run_seen_calls(%rip)
  jc pfs_run_seen_syscall
  cmp $57, %rdi # fork
  je pfs_run_forking_syscall
  cmp $56, %rdi # clone
  jne 1f
  test $0x100, %esi # CLONE_VM
  jnz 1f
  test %rdx, %rdx
  jz pfs_run_forking_syscall
1:
  jmp *pfs_real_syscall(%rip)
.size syscall, . - syscall
.popsection
)");
#endif

// The program passes as many arguments as its call has; the others are what lies there.
extern "C" __attribute__((used, visibility("hidden"), optimize("no-optimize-sibling-calls"))) long pfs_run_seen_syscall(  //
    long number, long a, long b, long c, long d, long e, long f) {
  if (IsPlain()) return PFS_REAL(syscall)(number, a, b, c, d, e, f);
  return Seen(number, {{a, b, c, d, e, f}}, PFS_CALLER);
}

// Makes a child that has a copy of this memory, and goes on where its parent does.
extern "C" __attribute__((used, visibility("hidden"), optimize("no-optimize-sibling-calls"))) long pfs_run_forking_syscall(  //
    long number, long a, long b, long c, long d, long e, long f) {
  const long child = PFS_REAL(syscall)(number, a, b, c, d, e, f);
  if (child == 0) InUnheardChild();
  return child;
}
