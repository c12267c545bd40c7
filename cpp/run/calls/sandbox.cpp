#include "run/calls/sandbox.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "perfschema/pfs.h"
#include "run/calls/objects.h"

namespace perfschema::run {

bool g_is_sandboxed = false;

namespace {

#if defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#endif

// All that pfs calls after its start, also in a forked child.
constexpr uint32_t kOwnCalls[] = {
    SYS_clock_nanosleep, SYS_close,     SYS_faccessat,      SYS_fallocate,
    SYS_fchmod,          SYS_fchown,    SYS_fcntl,          SYS_fstat,
    SYS_fstatfs,         SYS_ftruncate, SYS_futex,          SYS_getcwd,
    SYS_getdents64,      SYS_getegid,   SYS_geteuid,        SYS_getpeername,
    SYS_getpid,          SYS_getppid,   SYS_getsockname,    SYS_getsockopt,
    SYS_gettid,          SYS_kill,      SYS_lseek,          SYS_madvise,
    SYS_membarrier,      SYS_mincore,   SYS_mkdirat,        SYS_mmap,
    SYS_mprotect,        SYS_mremap,    SYS_munmap,         SYS_newfstatat,
    SYS_openat,          SYS_pread64,   SYS_prlimit64,      SYS_process_vm_readv,
    SYS_pwrite64,        SYS_read,      SYS_rt_sigprocmask, SYS_sched_getaffinity,
    SYS_sched_yield,     SYS_symlinkat, SYS_unlinkat,       SYS_clock_gettime,
#ifdef SYS_readlink  // not on arm64
    SYS_access,          SYS_mkdir,     SYS_readlink,       SYS_unlink,
#else
    SYS_readlinkat,
#endif
};

// What is known of the accumulator of a filter where it comes to an instruction.
struct Accumulator {
  bool is_reached = false, is_known = false;
  uint32_t value = 0;
  void Join(const Accumulator& other) {
    is_known = other.is_known && (!is_reached || (is_known && value == other.value));
    value = other.value;
    is_reached = true;
  }
};

bool IsHarmless(uint32_t result) {
  switch (result & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_ERRNO:
    case SECCOMP_RET_LOG:
    case SECCOMP_RET_TRACE:  // without a tracer the call is refused
      return true;
    default:
      return false;
  }
}

// Computes the accumulator after an instruction that loads or computes.
Accumulator After(const sock_filter& instruction, Accumulator before, uint32_t call) {
  Accumulator after = before;
  after.is_known = false;
  const bool has_constant = BPF_SRC(instruction.code) == BPF_K;
  switch (BPF_CLASS(instruction.code)) {
    case BPF_LD:
      if (BPF_MODE(instruction.code) == BPF_IMM) return {true, true, instruction.k};
      if (BPF_MODE(instruction.code) != BPF_ABS) return after;
      if (instruction.k == offsetof(seccomp_data, nr)) return {true, true, call};
      if (instruction.k == offsetof(seccomp_data, arch)) return {true, true, kArchitecture};
      return after;  // an argument may have any value
    case BPF_ALU:
      if (!before.is_known || !has_constant) return after;
      switch (BPF_OP(instruction.code)) {
        case BPF_AND:
          return {true, true, before.value & instruction.k};
        case BPF_OR:
          return {true, true, before.value | instruction.k};
        case BPF_ADD:
          return {true, true, before.value + instruction.k};
        case BPF_SUB:
          return {true, true, before.value - instruction.k};
        default:
          return after;
      }
    case BPF_MISC:
      return BPF_MISCOP(instruction.code) == BPF_TAX ? before : after;
    default:  // loads of the other register, and stores
      return before;
  }
}

bool Jumps(const sock_filter& instruction, uint32_t value) {
  switch (BPF_OP(instruction.code)) {
    case BPF_JEQ:
      return value == instruction.k;
    case BPF_JGT:
      return value > instruction.k;
    case BPF_JGE:
      return value >= instruction.k;
    default:
      return (value & instruction.k) != 0;
  }
}

// Returns whether the filter lets the process live at a call, whatever its arguments are. Jumps lead forward only, so one pass sees all
// ways.
bool LetsLive(std::span<const sock_filter> filter, std::vector<Accumulator>& at, uint32_t call) {
  std::fill(at.begin(), at.end(), Accumulator{});
  at[0] = {true, false, 0};
  for (size_t i = 0; i < filter.size(); ++i) {
    const sock_filter& instruction = filter[i];
    const Accumulator here = at[i];
    if (!here.is_reached) continue;
    const auto lead = [&](size_t distance, const Accumulator& with) {
      if (i + 1 + distance < filter.size()) at[i + 1 + distance].Join(with);  // the system refuses a filter that leads elsewhere
    };
    if (BPF_CLASS(instruction.code) == BPF_RET) {
      if (BPF_RVAL(instruction.code) != BPF_K && !here.is_known) return false;
      if (!IsHarmless(BPF_RVAL(instruction.code) == BPF_K ? instruction.k : here.value)) return false;
    } else if (BPF_CLASS(instruction.code) != BPF_JMP) {
      lead(0, After(instruction, here, call));
    } else if (BPF_OP(instruction.code) == BPF_JA) {
      lead(instruction.k, here);
    } else if (here.is_known && BPF_SRC(instruction.code) == BPF_K) {
      lead(Jumps(instruction, here.value) ? instruction.jt : instruction.jf, here);
    } else {
      lead(instruction.jt, here);
      lead(instruction.jf, here);
    }
  }
  return true;
}

// Copies memory of the program, which may not be there. Returns false then.
bool Copy(const void* from, void* to, size_t bytes) {
  const iovec here{to, bytes}, there{const_cast<void*>(from), bytes};
  const int error = errno;
  const bool is_done = syscall(SYS_process_vm_readv, getpid(), &here, 1, &there, 1, 0) == static_cast<long>(bytes);
  errno = error;
  return is_done;
}

const char* WhyNotWith(const void* filter) {
  sock_fprog program{};
  if (IsPlain() || filter == nullptr || !Copy(filter, &program, sizeof program) || program.len == 0) return nullptr;
  std::vector<sock_filter> code(program.len);
  if (!Copy(program.filter, code.data(), code.size() * sizeof(sock_filter))) return nullptr;
  std::vector<Accumulator> at(program.len);
  const auto lets_live = [&](uint32_t call) { return LetsLive(code, at, call); };
  return std::all_of(std::begin(kOwnCalls), std::end(kOwnCalls), lets_live)
             ? nullptr
             : "a filter of seccomp kills calls that pfs makes: nothing is recorded from then on";
}

constexpr char kWhyNotStrict[] = "strict mode of seccomp: nothing is recorded from then on";

}  // namespace

const char* WhyNotAfterPrctl(int option, unsigned long mode, const void* filter) {
  if (option == PR_SET_TSC && mode == PR_TSC_SIGSEGV) return "PR_SET_TSC forbids the timer: nothing is recorded from then on";
  if (option != PR_SET_SECCOMP) return nullptr;
  return mode == SECCOMP_MODE_STRICT ? kWhyNotStrict : WhyNotWith(filter);
}

const char* WhyNotAfterSeccomp(unsigned operation, const void* filter) {
  if (operation == SECCOMP_SET_MODE_STRICT) return kWhyNotStrict;
  return operation == SECCOMP_SET_MODE_FILTER ? WhyNotWith(filter) : nullptr;
}

Sandboxing::Sandboxing(const char* why) {
  (void)pfs_log(PFS_LOG_WARNING, "PFS-RUN", "sandbox", why);
  g_runtime.run_is_off = true;  // before the call: a filter may hold for other threads at once
}

void Sandboxing::End(bool has_succeeded) {
  if (!has_succeeded) {
    g_runtime.run_is_off = false;
    const int error = errno;
    (void)pfs_log(PFS_LOG_WARNING, "PFS-RUN", "sandbox", "the system has refused that: recording goes on");
    errno = error;
    return;
  }
  g_is_sandboxed = true;
  StopTags();
  EndForGood();
}

}  // namespace perfschema::run
