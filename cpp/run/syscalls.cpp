// run/syscalls.cpp: replaces syscall(): waits for futexes, and I/O that a program asks of the kernel itself.
//
// The locks of Rust's std wait here; libuv closes and asks for files here. A futex is no object of the tables: it is any word of memory.
// The place of the call stands for it: a condition with a name such as futex-code+0x1f3b. The call is made as the program makes it, and not
// by read() and its like, which are cancellation points.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "run/file_calls.h"
#include "run/sandbox.h"
#include "run/wait_calls.h"

#ifndef FUTEX_LOCK_PI2  // since Linux 5.14: a wheel is compiled with older headers
#define FUTEX_LOCK_PI2 13
#endif

using perfschema::Operation;
using namespace perfschema::run;
namespace capi = perfschema::capi;

namespace {

struct Arguments {
  long a, b, c, d, e, f;
};

// Returns whether a call has a case below.
constexpr bool IsSeen(long number) {
  switch (number) {
    case SYS_futex:
    case SYS_read:
    case SYS_write:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_fstat:
    case SYS_copy_file_range:
    case SYS_splice:
    case SYS_sendfile:
    case SYS_close:
    case SYS_openat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_prctl:
    case SYS_seccomp:
#ifdef SYS_open  // not on arm64
    case SYS_open:
    case SYS_stat:
    case SYS_lstat:
#endif
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
  if (!IsWait(with.b)) return call();
  const Operation operation = with.d != 0 ? Operation::kCondTimedWait : Operation::kCondWait;
  const Waiting event(
      ObjectAt(caller, Kind::kFutex, caller), [=] { return SourceAt(caller); }, operation);
  return call();
}

[[gnu::noinline]] long Seen(long number, const Arguments& with, const void* caller) {
  const auto call = [&] { return PFS_REAL(syscall)(number, with.a, with.b, with.c, with.d, with.e, with.f); };
  const int fd = static_cast<int>(with.a);
  const auto text = [](long word) { return reinterpret_cast<const char*>(word); };
  const auto transfer = [&](Operation operation, int of, long size, long offset) {
    return static_cast<long>(capi::Transfer(of, operation, static_cast<size_t>(size), offset, KnownSite(of, caller), call));
  };
  const auto plain = [&](Operation operation) { return capi::Plain(fd, operation, capi::kNoOffset, KnownSite(fd, caller), call); };
  switch (number) {
    case SYS_futex:
      return OnFutex(with, caller, call);
    case SYS_read:
      return transfer(Operation::kRead, fd, with.c, capi::kNoOffset);
    case SYS_write:
      return transfer(Operation::kWrite, fd, with.c, capi::kNoOffset);
    case SYS_pread64:
      return transfer(Operation::kRead, fd, with.c, with.d);
    case SYS_pwrite64:
      return transfer(Operation::kWrite, fd, with.c, with.d);
    case SYS_readv:
      return transfer(Operation::kRead, fd, 0, capi::kNoOffset);
    case SYS_writev:
      return transfer(Operation::kWrite, fd, 0, capi::kNoOffset);
    case SYS_preadv:
    case SYS_preadv2:
      return transfer(Operation::kRead, fd, 0, with.d);
    case SYS_pwritev:
    case SYS_pwritev2:
      return transfer(Operation::kWrite, fd, 0, with.d);
    case SYS_copy_file_range:
    case SYS_splice:
      return transfer(Operation::kWrite, static_cast<int>(with.c), with.e, capi::kNoOffset);
    case SYS_sendfile:
      return transfer(Operation::kWrite, fd, with.d, capi::kNoOffset);
    case SYS_fsync:
    case SYS_fdatasync:
      return plain(Operation::kSync);
    case SYS_fstat:
      return plain(Operation::kStat);
    case SYS_close:
      return Closed(fd, caller, call);
    case SYS_openat:
      return OpenedByName(fd, text(with.b), static_cast<int>(with.c), caller, call);
#ifdef SYS_open
    case SYS_open:
      return OpenedByName(AT_FDCWD, text(with.a), static_cast<int>(with.b), caller, call);
    case SYS_stat:
    case SYS_lstat:
      return StatByName(0, AT_FDCWD, text(with.a), caller, call);
#endif
    case SYS_newfstatat:
      return StatByName(static_cast<int>(with.d), fd, text(with.b), caller, call);
    case SYS_statx:
      return StatByName(static_cast<int>(with.c), fd, text(with.b), caller, call);
    case SYS_prctl:
      return CallIntoSandbox(WhyNotAfterPrctl(fd, static_cast<unsigned long>(with.b), text(with.c)), call);
    case SYS_seccomp:
      return CallIntoSandbox(WhyNotAfterSeccomp(static_cast<unsigned>(with.a), text(with.c)), call);
    default:
      return call();
  }
}

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
  return Seen(number, {a, b, c, d, e, f}, PFS_CALLER);
}

// Makes a child that has a copy of this memory, and goes on where its parent does.
extern "C" __attribute__((used, visibility("hidden"), optimize("no-optimize-sibling-calls"))) long pfs_run_forking_syscall(  //
    long number, long a, long b, long c, long d, long e, long f) {
  const long child = PFS_REAL(syscall)(number, a, b, c, d, e, f);
  if (child == 0) InUnheardChild();
  return child;
}
