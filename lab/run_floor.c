/* The floor of run_price.py: the calls of servers that `pfs run` times, between two readings of the timer each, and nothing else.
 *
 * A library for LD_PRELOAD. It includes no header that declares these functions: some have other parameters there. */
#include <stddef.h>
#include <stdint.h>

#include "cpp/timer.h"

void* dlsym(void* handle, const char* name);
#define NEXT ((void*)-1L) /* RTLD_NEXT */

uint64_t pfs_floor_ticks; /* so that the compiler keeps the readings */

#define TIMED(type, name, parameters, ...)                 \
  type name parameters {                                   \
    static type(*real) parameters;                         \
    if (real == NULL) *(void**)&real = dlsym(NEXT, #name); \
    const uint64_t begin = read_timer();                   \
    const type result = real(__VA_ARGS__);                 \
    pfs_floor_ticks += read_timer() - begin;               \
    return result;                                         \
  }

TIMED(long, read, (int fd, void* to, size_t bytes), fd, to, bytes)
TIMED(long, write, (int fd, const void* from, size_t bytes), fd, from, bytes)
TIMED(long, pread64, (int fd, void* to, size_t bytes, long at), fd, to, bytes, at)
TIMED(long, pwrite64, (int fd, const void* from, size_t bytes, long at), fd, from, bytes, at)
TIMED(long, writev, (int fd, const void* parts, int count), fd, parts, count)
TIMED(long, recv, (int fd, void* to, size_t bytes, int flags), fd, to, bytes, flags)
TIMED(long, send, (int fd, const void* from, size_t bytes, int flags), fd, from, bytes, flags)
TIMED(int, open64, (const char* path, int flags, unsigned mode), path, flags, mode)
TIMED(int, fstat64, (int fd, void* to), fd, to)
TIMED(int, close, (int fd), fd)
TIMED(int, epoll_wait, (int fd, void* events, int count, int milliseconds), fd, events, count, milliseconds)
