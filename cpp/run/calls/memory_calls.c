/* run/calls/memory_calls.c: libperfschema-run-memory.so, which `pfs run --only ...,memory` loads behind libperfschema-run.so: replaces the
 * functions that allocate memory.
 *
 * It is a library of its own because a function that is replaced stays so. Each function calls the one that the program would call without
 * it (RTLD_NEXT), and the block is as that one makes it. An allocator that is part of the program itself is called before any library, so
 * it is not seen. One whose `operator new` does not call malloc() is seen here, too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "run/loader/memory.h"

#define REPLACES __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

/* True in the thread while one of these functions calls another one: only the outer one counts. */
static __thread int inside __attribute__((tls_model("initial-exec")));

/* dlsym() may allocate while the functions are looked for: from here. These blocks are never freed. */
static char early[8192] __attribute__((aligned(16)));
static size_t early_used;
static int is_early(const void* block) { return (const char*)block >= early && (const char*)block < early + sizeof early; }
static void* early_block(size_t size) {
  const size_t at = __atomic_fetch_add(&early_used, (size + 31) & ~(size_t)15, __ATOMIC_RELAXED) + 16;
  if (at + size > sizeof early) return NULL;
  memcpy(early + at - sizeof size, &size, sizeof size);
  return early + at;
}

static struct {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*reallocarray)(void*, size_t, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
} real;
static int is_ready; /* 0: not yet; 1: a thread looks for the functions; 2: they are there */

static void find_all(void) {
  int none = 0;
  if (!__atomic_compare_exchange_n(&is_ready, &none, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) return;
  pfs_run_bind_calls(_DYNAMIC);
#define FIND(member, name) *(void**)(&real.member) = dlsym(RTLD_NEXT, name)
  FIND(malloc, "malloc");
  FIND(free, "free");
  FIND(calloc, "calloc");
  FIND(realloc, "realloc");
  FIND(reallocarray, "reallocarray");
  FIND(posix_memalign, "posix_memalign");
  FIND(aligned_alloc, "aligned_alloc");
  FIND(memalign, "memalign");
  FIND(valloc, "valloc");
  FIND(pvalloc, "pvalloc");
  __atomic_store_n(&is_ready, 2, __ATOMIC_RELEASE);
}

/* Returns whether the functions are there. Not so in dlsym() itself, which one thread calls before there are others. */
static inline int ready(void) {
  if (__builtin_expect(__atomic_load_n(&is_ready, __ATOMIC_ACQUIRE) == 2, 1)) return 1;
  find_all();
  return __atomic_load_n(&is_ready, __ATOMIC_ACQUIRE) == 2;
}

static inline void* counted(void* block, size_t size, const void* caller) {
  if (block != NULL && inside == 0) pfs_run_allocated(block, size, caller);
  return block;
}

REPLACES void* malloc(size_t size) { return ready() ? counted(real.malloc(size), size, CALLER) : early_block(size); }

REPLACES void free(void* block) {
  if (block == NULL || is_early(block) || !ready()) return;
  pfs_run_freed(block);
  real.free(block);
}

REPLACES void* calloc(size_t count, size_t size) {
  return ready() ? counted(real.calloc(count, size), count * size, CALLER) : early_block(count * size); /* early memory is zero */
}

/* The old block leaves the table first: another thread may get its address as soon as it is free. */
static void* reallocated(void* old, size_t size, const void* caller) {
  if (!ready() || is_early(old)) {
    void* block = malloc(size);
    size_t had;
    memcpy(&had, (char*)old - sizeof had, sizeof had);
    if (block != NULL) memcpy(block, old, had < size ? had : size);
    return block;
  }
  const size_t before = pfs_run_freed(old);
  void* block = real.realloc(old, size);
  if (block != NULL) return counted(block, size, caller);
  if (before != 0 && size != 0) pfs_run_allocated(old, before, caller); /* it is as it was */
  return NULL;
}
REPLACES void* realloc(void* old, size_t size) {
  return old == NULL ? (ready() ? counted(real.realloc(NULL, size), size, CALLER) : early_block(size)) : reallocated(old, size, CALLER);
}
REPLACES void* reallocarray(void* old, size_t count, size_t size) {
  size_t all;
  if (__builtin_mul_overflow(count, size, &all)) {
    errno = ENOMEM;
    return NULL;
  }
  return old == NULL ? (ready() ? counted(real.realloc(NULL, all), all, CALLER) : early_block(all)) : reallocated(old, all, CALLER);
}

REPLACES int posix_memalign(void** block, size_t alignment, size_t size) {
  if (!ready()) return ENOMEM;
  const int rc = real.posix_memalign(block, alignment, size);
  if (rc == 0) counted(*block, size, CALLER);
  return rc;
}
REPLACES void* aligned_alloc(size_t alignment, size_t size) {
  return ready() ? counted(real.aligned_alloc(alignment, size), size, CALLER) : NULL;
}
REPLACES void* memalign(size_t alignment, size_t size) { return ready() ? counted(real.memalign(alignment, size), size, CALLER) : NULL; }
REPLACES void* valloc(size_t size) { return ready() ? counted(real.valloc(size), size, CALLER) : NULL; }
REPLACES void* pvalloc(size_t size) { return ready() ? counted(real.pvalloc(size), size, CALLER) : NULL; }

/* ---- C++: new and delete ----------------------------------------------------------------------------------------------------------
 *
 * Without these, all memory of C++ would be libstdc++'s. A C++ library that a C program loads has its operators in a library that RTLD_NEXT
 * does not find. new may throw through here.
 */
static void* find_operator(const char* symbol) {
  void* found = dlsym(RTLD_NEXT, symbol);
  static const char* const libraries[] = {"libstdc++.so.6", "libc++.so.1", "libc++abi.so.1"};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries && found == NULL; ++i) {
    void* const library = dlopen(libraries[i], RTLD_NOLOAD | RTLD_LAZY);
    found = library != NULL ? dlsym(library, symbol) : NULL;
  }
  if (found == NULL) abort(); /* the caller cannot have been linked without it */
  return found;
}

static void leave(int* unused) {
  (void)unused;
  --inside;
}

#define NEW(symbol, member, parameters, ...)                                                 \
  REPLACES void* pfs_run_##member parameters __asm__(symbol);                                \
  REPLACES void* pfs_run_##member parameters {                                               \
    static void*(*real_one)parameters;                                                       \
    if (__builtin_expect(real_one == NULL, 0)) *(void**)(&real_one) = find_operator(symbol); \
    void* block;                                                                             \
    {                                                                                        \
      int guard __attribute__((cleanup(leave), unused)) = ++inside;                          \
      block = real_one(__VA_ARGS__);                                                         \
    }                                                                                        \
    return counted(block, size, CALLER);                                                     \
  }
NEW("_Znwm", new_one, (size_t size), size)
NEW("_Znam", new_array, (size_t size), size)
NEW("_ZnwmRKSt9nothrow_t", new_one_nothrow, (size_t size, const void* no), size, no)
NEW("_ZnamRKSt9nothrow_t", new_array_nothrow, (size_t size, const void* no), size, no)
NEW("_ZnwmSt11align_val_t", new_one_aligned, (size_t size, size_t alignment), size, alignment)
NEW("_ZnamSt11align_val_t", new_array_aligned, (size_t size, size_t alignment), size, alignment)
NEW("_ZnwmSt11align_val_tRKSt9nothrow_t", new_one_aligned_nothrow, (size_t size, size_t alignment, const void* no), size, alignment, no)
NEW("_ZnamSt11align_val_tRKSt9nothrow_t", new_array_aligned_nothrow, (size_t size, size_t alignment, const void* no), size, alignment, no)

#define DELETE(symbol, member, parameters, ...)                                              \
  REPLACES void pfs_run_##member parameters __asm__(symbol);                                 \
  REPLACES void pfs_run_##member parameters {                                                \
    static void(*real_one) parameters;                                                       \
    if (__builtin_expect(real_one == NULL, 0)) *(void**)(&real_one) = find_operator(symbol); \
    pfs_run_freed(block);                                                                    \
    real_one(__VA_ARGS__);                                                                   \
  }
DELETE("_ZdlPv", delete_one, (void* block), block)
DELETE("_ZdaPv", delete_array, (void* block), block)
DELETE("_ZdlPvm", delete_one_sized, (void* block, size_t size), block, size)
DELETE("_ZdaPvm", delete_array_sized, (void* block, size_t size), block, size)
DELETE("_ZdlPvSt11align_val_t", delete_one_aligned, (void* block, size_t alignment), block, alignment)
DELETE("_ZdaPvSt11align_val_t", delete_array_aligned, (void* block, size_t alignment), block, alignment)
DELETE("_ZdlPvmSt11align_val_t", delete_one_sized_aligned, (void* block, size_t size, size_t alignment), block, size, alignment)
DELETE("_ZdaPvmSt11align_val_t", delete_array_sized_aligned, (void* block, size_t size, size_t alignment), block, size, alignment)
