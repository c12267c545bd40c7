/* Has the system kill it for calls that it never makes, and goes on.
 *   filtered HOW ALLOWED FIRST   FIRST events of each kind are made before
 * HOW: prctl, seccomp (all threads, one of which waits), raw (syscall(SYS_prctl)), errno (calls are refused, not killed), arguments (the
 * first argument decides), strict, tsc. ALLOWED: few, opens (and names of files, signal masks, threads). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, locks[200];
static pthread_cond_t may_end = PTHREAD_COND_INITIALIZER;
static int ends, waits_now;

static const int few[] = {SYS_read,  SYS_write, SYS_mmap,  SYS_munmap, SYS_mprotect, SYS_madvise,   SYS_brk,
                          SYS_futex, SYS_close, SYS_fstat, SYS_lseek,  SYS_exit,     SYS_exit_group};
static const int opens[] = {SYS_openat, SYS_gettid, SYS_rt_sigprocmask, SYS_clone, SYS_clone3, SYS_set_robust_list, SYS_rseq};

static void* wait_for_end(void* unused) {
  pthread_mutex_lock(&lock);
  __atomic_store_n(&waits_now, 1, __ATOMIC_RELEASE);
  while (!ends) pthread_cond_wait(&may_end, &lock);
  pthread_mutex_unlock(&lock);
  return unused;
}

static void* nothing(void* unused) { return unused; }

static void work(int is_strict, int has_opens, int count) {
  for (int i = 0; i < count; ++i) {
    pthread_mutex_lock(&locks[i % 200]);
    pthread_mutex_unlock(&locks[i % 200]);
    if (is_strict) continue;
    lseek(0, 0, SEEK_CUR);
    if (!has_opens) continue;
    char name[64];
    snprintf(name, sizeof name, "/nowhere/%d", i);
    if (open(name, O_RDONLY) >= 0) abort();
  }
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const char* how = argv[1];
  const int has_opens = strcmp(argv[2], "opens") == 0, first = atoi(argv[3]);
  const int is_strict = strcmp(how, "strict") == 0, is_tsc = strcmp(how, "tsc") == 0;
  const unsigned otherwise = strcmp(how, "errno") == 0 ? SECCOMP_RET_ERRNO | 1 : SECCOMP_RET_KILL_PROCESS;
  pthread_t waits, thread;
  char text[] = "first\n";
  if (!is_strict) pthread_create(&waits, 0, wait_for_end, 0);
  while (!is_strict && !__atomic_load_n(&waits_now, __ATOMIC_ACQUIRE)) usleep(1000);
  work(is_strict, has_opens, first);
  if (first) write(1, text, 6);

  struct sock_filter code[80];
  unsigned at = 0;
#define ADD(...) code[at++] = (struct sock_filter)__VA_ARGS__
  ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
  ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
  ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
  for (unsigned i = 0; i < sizeof few / sizeof *few + (has_opens ? sizeof opens / sizeof *opens : 0); ++i) {
    const int call = i < sizeof few / sizeof *few ? few[i] : opens[i - sizeof few / sizeof *few];
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  if (strcmp(how, "arguments") == 0) { /* any call with a small first argument, of which pfs has some */
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)));
    ADD(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 3, 1, 0));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  ADD(BPF_STMT(BPF_RET | BPF_K, otherwise));
  struct sock_fprog filter = {at, code};

  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) abort();
  /* Two that fail: pfs goes on. */
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0, 0) == 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, ~0, &filter) == 0) abort();
  work(is_strict, has_opens, first);
  long rc;
  if (is_strict) {
    rc = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
  } else if (is_tsc) {
    rc = prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
  } else if (strcmp(how, "seccomp") == 0) {
    rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter);
  } else if (strcmp(how, "raw") == 0) {
    rc = syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
  } else {
    rc = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
  }
  if (rc != 0) abort();
  work(is_strict, has_opens, 2000);
  write(1, "done\n", 5);
  if (is_strict) syscall(SYS_exit, 0);
  if (has_opens && (pthread_create(&thread, 0, nothing, 0) != 0 || pthread_join(thread, 0) != 0)) abort();
  if (has_opens || strcmp(how, "seccomp") != 0) { /* else the end of the other thread would be killed */
    pthread_mutex_lock(&lock);
    ends = 1;
    pthread_cond_signal(&may_end);
    pthread_mutex_unlock(&lock);
    if (has_opens) pthread_join(waits, 0);
  }
  return 0; /* exit() with what libraries have registered */
}
