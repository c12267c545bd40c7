/* Included before all else in the program "floor": what is not recorded, between two readings of the timer, and nothing more. No library
 * that times these calls can cost less. Pairs with -DPFS_DISABLE. */
#ifndef PFS_REAL_FLOOR_H
#define PFS_REAL_FLOOR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <perfschema/pfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cpp/timer.h"

#define FLOOR(call)                                                      \
  __extension__({                                                        \
    const uint64_t floor_began = read_timer();                           \
    __typeof__(call) floor_result = (call);                              \
    __asm__ volatile("" : : "r"(read_timer() - floor_began) : "memory"); \
    floor_result;                                                        \
  })

#undef pfs_open
#undef pfs_mkstemp
#undef pfs_fopen
#undef pfs_stat
#undef pfs_rename
#undef pfs_unlink
#undef pfs_mkdir
#undef pfs_rmdir
#undef pfs_close
#undef pfs_read
#undef pfs_write
#undef pfs_pread
#undef pfs_pwrite
#undef pfs_lseek
#undef pfs_fsync
#undef pfs_fdatasync
#undef pfs_ftruncate
#undef pfs_fstat
#undef pfs_fclose
#undef pfs_fwrite
#undef pfs_fflush
#define pfs_open(key, ...) (pfs_unused_key_(key), FLOOR(open(__VA_ARGS__)))
#define pfs_mkstemp(key, ...) (pfs_unused_key_(key), FLOOR(mkstemp(__VA_ARGS__)))
#define pfs_fopen(key, ...) (pfs_unused_key_(key), FLOOR(fopen(__VA_ARGS__)))
#define pfs_stat(key, ...) (pfs_unused_key_(key), FLOOR(PFS_PLAIN_ stat(__VA_ARGS__)))
#define pfs_rename(key, ...) (pfs_unused_key_(key), FLOOR(PFS_PLAIN_ rename(__VA_ARGS__)))
#define pfs_unlink(key, ...) (pfs_unused_key_(key), FLOOR(PFS_PLAIN_ unlink(__VA_ARGS__)))
#define pfs_mkdir(key, ...) (pfs_unused_key_(key), FLOOR(PFS_PLAIN_ mkdir(__VA_ARGS__)))
#define pfs_rmdir(key, ...) (pfs_unused_key_(key), FLOOR(PFS_PLAIN_ rmdir(__VA_ARGS__)))
#define pfs_close(...) FLOOR(PFS_PLAIN_ close(__VA_ARGS__))
#define pfs_read(...) FLOOR(PFS_PLAIN_ read(__VA_ARGS__))
#define pfs_write(...) FLOOR(PFS_PLAIN_ write(__VA_ARGS__))
#define pfs_pread(...) FLOOR(PFS_PLAIN_ pread(__VA_ARGS__))
#define pfs_pwrite(...) FLOOR(PFS_PLAIN_ pwrite(__VA_ARGS__))
#define pfs_lseek(...) FLOOR(PFS_PLAIN_ lseek(__VA_ARGS__))
#define pfs_fsync(...) FLOOR(PFS_PLAIN_ fsync(__VA_ARGS__))
#define pfs_fdatasync(...) FLOOR(PFS_PLAIN_ fdatasync(__VA_ARGS__))
#define pfs_ftruncate(...) FLOOR(PFS_PLAIN_ ftruncate(__VA_ARGS__))
#define pfs_fstat(...) FLOOR(PFS_PLAIN_ fstat(__VA_ARGS__))
#define pfs_fclose(...) FLOOR(PFS_PLAIN_ fclose(__VA_ARGS__))
#define pfs_fwrite(...) FLOOR(PFS_PLAIN_ fwrite(__VA_ARGS__))
#define pfs_fflush(...) FLOOR(PFS_PLAIN_ fflush(__VA_ARGS__))

#define pfs_mutex_lock(m) FLOOR(pthread_mutex_lock(&(m)->mutex))
#define pfs_mutex_trylock(m) FLOOR(pthread_mutex_trylock(&(m)->mutex))
#define pfs_cond_wait(c, m) FLOOR(pthread_cond_wait(&(c)->cond, &(m)->mutex))

#endif
