/* A library to be preloaded: refuses calls of libperfschema, and memory to libstdc++ on its behalf, as a machine without memory or a
 * sandbox does.
 *   REFUSE_CALL   a function at the end of this file, or fork-mmap (mmap and mremap inside of fork() only)
 *   REFUSE_ERRNO  the error; ENOMEM without it. 0: the process is killed instead
 *   REFUSE_FIRST  the first call that is refused, from 1 on
 *   REFUSE_COUNT  how many are refused; 0 = all from there on */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char* call;
static long first, count, seen;
static int error = ENOMEM;
static int inside_fork;
static const char *begin, *end, *begin_cpp, *end_cpp;

static int look(struct dl_phdr_info* info, size_t size, void* data) {
  const int is_pfs = strstr(info->dlpi_name, "libperfschema") != NULL, is_cpp = strstr(info->dlpi_name, "libstdc++") != NULL;
  int i;
  (void)size;
  (void)data;
  if (!is_pfs && !is_cpp) return 0;
  for (i = 0; i < info->dlpi_phnum; ++i) {
    const char *from = (const char*)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, *to = from + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    if (is_pfs && (begin == NULL || from < begin)) begin = from;
    if (is_pfs && to > end) end = to;
    if (is_cpp && (begin_cpp == NULL || from < begin_cpp)) begin_cpp = from;
    if (is_cpp && to > end_cpp) end_cpp = to;
  }
  return 0;
}

__attribute__((constructor)) static void start(void) {
  const char* text = getenv("REFUSE_CALL");
  dl_iterate_phdr(look, NULL);
  call = text != NULL ? text : "";
  first = getenv("REFUSE_FIRST") != NULL ? atol(getenv("REFUSE_FIRST")) : 1;
  count = getenv("REFUSE_COUNT") != NULL ? atol(getenv("REFUSE_COUNT")) : 1;
  if (getenv("REFUSE_ERRNO") != NULL) error = atoi(getenv("REFUSE_ERRNO"));
}

static int refuses(const char* what, const void* caller) {
  const char* from = (const char*)caller;
  long number;
  if (call == NULL) return 0;
  if (!((from >= begin && from < end) || (strcmp(what, "malloc") == 0 && from >= begin_cpp && from < end_cpp))) return 0;
  if (strcmp(call, what) != 0 && !(strcmp(call, "fork-mmap") == 0 && inside_fork && strcmp(what, "malloc") != 0)) return 0;
  number = __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED);
  if (number < first || (count != 0 && number >= first + count)) return 0;
  if (error == 0) raise(SIGKILL);
  errno = error;
  return 1;
}

void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  static void* (*plain)(void*, size_t, int, int, int, off_t);
  if (plain == NULL) plain = (void* (*)(void*, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  if (refuses("mmap", __builtin_return_address(0))) return MAP_FAILED;
  return plain(at, bytes, protection, flags, fd, offset);
}

void* mremap(void* old, size_t bytes, size_t wanted, int flags, ...) {
  static void* (*plain)(void*, size_t, size_t, int, ...);
  va_list more;
  void* to;
  va_start(more, flags);
  to = va_arg(more, void*);
  va_end(more);
  if (plain == NULL) plain = (void* (*)(void*, size_t, size_t, int, ...))dlsym(RTLD_NEXT, "mremap");
  if (refuses("mremap", __builtin_return_address(0))) return MAP_FAILED;
  return plain(old, bytes, wanted, flags, to);
}

extern void* __libc_malloc(size_t bytes);
void* malloc(size_t bytes) { return refuses("malloc", __builtin_return_address(0)) ? NULL : __libc_malloc(bytes); }

pid_t fork(void) {
  static pid_t (*plain)(void);
  pid_t child;
  if (plain == NULL) plain = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
  inside_fork = 1;
  child = plain();
  inside_fork = 0;
  return child;
}

/* Calls that are refused in the same way: `refused` is what they give then. */
#define REFUSABLE(type, name, parameters, arguments, refused)                       \
  type name parameters {                                                            \
    static type(*plain) parameters;                                                 \
    if (plain == NULL) plain = (type(*) parameters)dlsym(RTLD_NEXT, #name);         \
    return refuses(#name, __builtin_return_address(0)) ? refused : plain arguments; \
  }
REFUSABLE(int, ftruncate, (int fd, off_t length), (fd, length), -1)
REFUSABLE(int, posix_fallocate, (int fd, off_t offset, off_t length), (fd, offset, length), error)
REFUSABLE(int, mkdir, (const char* path, mode_t mode), (path, mode), -1)
REFUSABLE(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
REFUSABLE(int, munmap, (void* at, size_t bytes), (at, bytes), -1)
REFUSABLE(int, madvise, (void* at, size_t bytes, int advice), (at, bytes, advice), -1)
REFUSABLE(int, pthread_key_create, (pthread_key_t * key, void (*end)(void*)), (key, end), error)
REFUSABLE(int, pthread_setspecific, (pthread_key_t key, const void* value), (key, value), error)

/* The only call of syscall() that is refused is membarrier. */
long syscall(long number, ...) {
  static long (*plain)(long, long, long, long, long, long, long);
  long arguments[6];
  va_list more;
  int i;
  va_start(more, number);
  for (i = 0; i < 6; ++i) arguments[i] = va_arg(more, long);
  va_end(more);
  if (plain == NULL) plain = (long (*)(long, long, long, long, long, long, long))dlsym(RTLD_NEXT, "syscall");
  if (number == SYS_membarrier && refuses("membarrier", __builtin_return_address(0))) return -1;
  return plain(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

static mode_t mode_of(int flags, va_list more) { return (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0; }

int open(const char* path, int flags, ...) {
  static int (*plain)(const char*, int, ...);
  va_list more;
  mode_t mode;
  va_start(more, flags);
  mode = mode_of(flags, more);
  va_end(more);
  if (plain == NULL) plain = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
  return refuses("open", __builtin_return_address(0)) ? -1 : plain(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  static int (*plain)(int, const char*, int, ...);
  va_list more;
  mode_t mode;
  va_start(more, flags);
  mode = mode_of(flags, more);
  va_end(more);
  if (plain == NULL) plain = (int (*)(int, const char*, int, ...))dlsym(RTLD_NEXT, "openat");
  return refuses("openat", __builtin_return_address(0)) ? -1 : plain(folder, path, flags, mode);
}
