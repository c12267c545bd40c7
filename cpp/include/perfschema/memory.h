/* perfschema/memory.h: memory: who allocates it, how much is in use, how much was at most. Included by pfs.h only.
 *
 *     static pfs_key_t key_rows;
 *     static pfs_memory_info_t memory[] = {{&key_rows, "rows", 0, "Rows that wait to be written."}};
 *     pfs_register_memory("myapp", memory, 1);                memory/myapp/rows
 *     struct row* row = pfs_malloc(key_rows, sizeof *row);
 *     row = pfs_realloc(key_rows, row, 2 * sizeof *row);
 *     pfs_free(row);
 *
 * Rows of memory_summary_*: allocations, frees, what is in use, and the least and the most that was in use since the start or the last
 * TRUNCATE, which keeps what is in use. Memory is never timed. TOTAL_MEMORY ... of threads are the bytes that a session uses; CONTROLLED_MEMORY ...
 * those of instruments with the flag "controlled", and MAX_SESSION_... of accounts, users and hosts the most that one of their sessions has used.
 *
 * A block belongs to the thread that allocated it. Freed by another thread, or when its thread has ended, it counts as freed in
 * memory_summary_global_by_event_name only: its thread still shows it as in use. pfs_claim() moves a block between threads.
 * A free is counted if the allocation was, also if the instrument was disabled meanwhile, and never otherwise. A forked child does not count what
 * it frees of its parent's.
 *
 * Watermarks of a thread are exact. Those of accounts, users, hosts and of all are exact as well if one thread uses the instrument, or none has
 * changed it more than 64 times, and once more for each 4096 changes; beyond that HIGH may be above the truth, by no more than twice what each of the
 * threads' use has changed by in its last 4096 changes, and LOW below it by as much. HIGH is never below the truth, nor LOW above it.
 *
 * Thread-safe: as malloc. No call allocates but for the caller, or fails where the plain call would not.
 */
#ifndef PERFSCHEMA_MEMORY_H
#define PERFSCHEMA_MEMORY_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#include <errno.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfs_instrument_info pfs_memory_info_t;

#define PFS_GLOBAL_STATISTICS 128u /* counts in memory_summary_global_by_event_name only, for no thread, account, user or host */
#define PFS_CONTROLLED 4096u       /* starts with FLAGS = controlled: counts as controlled memory of the session */

#ifndef PFS_DISABLE

/* Registers memory instruments as pfs_register_mutex() does mutexes. PFS_GLOBAL_STATISTICS, PFS_CONTROLLED. The component "performance_schema" is
 * refused: memory/performance_schema/... is what pfs itself takes. */
PFS_API int pfs_register_memory(const char* component, pfs_memory_info_t* info, int count); /* memory/COMPONENT/NAME */

/* As the plain calls. Blocks have 32 bytes before them in which pfs keeps what it counted (more if they are aligned to more than 16): only pfs_free()
 * and pfs_realloc() may take them, and these take no others. A block that is not pfs_malloc's, or was freed, ends the program where it can be told.
 * What is counted is the size that was asked for. Key 0: not counted, and as good. */
PFS_API void pfs_free(void* block);
PFS_API void* pfs_malloc(pfs_key_t key, size_t size) __attribute__((malloc, alloc_size(2)));
PFS_API void* pfs_calloc(pfs_key_t key, size_t count, size_t size) __attribute__((malloc, alloc_size(2, 3)));
/* `alignment`: a power of two; else NULL and EINVAL. `size` need be no multiple of it. */
PFS_API void* pfs_aligned_alloc(pfs_key_t key, size_t alignment, size_t size) __attribute__((malloc, alloc_size(3)));
PFS_API char* pfs_strdup(pfs_key_t key, const char* text) __attribute__((malloc));
/* Counts as a free of the old size and an allocation of the new one, for `key`, by the calling thread. block == NULL: pfs_malloc(). size == 0:
 * pfs_free(), and NULL. As with realloc() a block that moves keeps no more than the usual alignment, and stays as it is if there is no memory. */
PFS_API void* pfs_realloc(pfs_key_t key, void* block, size_t size) __attribute__((alloc_size(3)));

/* Moves a block between threads. The one that gives it calls pfs_claim(block, 0): a free of its own, and an allocation that only the total has. The one
 * that takes it calls pfs_claim(block, 1): a free of the total, and an allocation of its own. In use stays what it is in the total. */
PFS_API void pfs_claim(void* block, int takes);

/* ---- Accounting only: for memory that is allocated by other means. The program keeps with each block what these calls return.
 */

/* Counts an allocation of `size` bytes. Returns the key to keep, 0 if it is not counted; *owner is to be kept as well: it says which thread of
 * which process the block belongs to. */
PFS_API pfs_key_t pfs_memory_alloc(pfs_key_t key, size_t size, uint64_t* owner);
/* Counts a free of old_size bytes and an allocation of new_size. `key` and *owner are what is kept; returns the key to keep from now on. 0 stays 0. */
PFS_API pfs_key_t pfs_memory_realloc(pfs_key_t key, size_t old_size, size_t new_size, uint64_t* owner);
/* As pfs_claim(). Returns the key to keep from now on. */
PFS_API pfs_key_t pfs_memory_claim(pfs_key_t key, size_t size, uint64_t* owner, int takes);
/* Counts a free. */
PFS_API void pfs_memory_free(pfs_key_t key, size_t size, uint64_t owner);

#else /* PFS_DISABLE */

static inline int pfs_register_memory(const char* component PFS_UNUSED_, pfs_memory_info_t* info, int count) { return pfs_register_nothing_(info, count); }
static inline void pfs_free(void* block) { free(block); }
static inline void* pfs_malloc(pfs_key_t key PFS_UNUSED_, size_t size) { return malloc(size); }
static inline void* pfs_calloc(pfs_key_t key PFS_UNUSED_, size_t count, size_t size) { return calloc(count, size); }
#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L)
extern void* aligned_alloc(size_t alignment, size_t size); /* the C library has it; its header says so from C11 on */
#endif
static inline void* pfs_aligned_alloc(pfs_key_t key PFS_UNUSED_, size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    errno = EINVAL;
    return NULL;
  }
  if (alignment <= 16 || size > SIZE_MAX - alignment) return malloc(size);
  return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1)); /* wants a multiple */
}
static inline char* pfs_strdup(pfs_key_t key PFS_UNUSED_, const char* text) {
  size_t size = strlen(text) + 1;
  char* copy = (char*)malloc(size);
  if (copy != NULL) memcpy(copy, text, size);
  return copy;
}
static inline void* pfs_realloc(pfs_key_t key PFS_UNUSED_, void* block, size_t size) {
  if (block != NULL && size == 0) {
    free(block);
    return NULL;
  }
  return realloc(block, size);
}
static inline void pfs_claim(void* block PFS_UNUSED_, int takes PFS_UNUSED_) {}
static inline pfs_key_t pfs_memory_alloc(pfs_key_t key PFS_UNUSED_, size_t size PFS_UNUSED_, uint64_t* owner) {
  *owner = 0;
  return 0;
}
static inline pfs_key_t pfs_memory_realloc(pfs_key_t key PFS_UNUSED_, size_t old_size PFS_UNUSED_, size_t new_size PFS_UNUSED_, uint64_t* owner PFS_UNUSED_) {
  return 0;
}
static inline pfs_key_t pfs_memory_claim(pfs_key_t key PFS_UNUSED_, size_t size PFS_UNUSED_, uint64_t* owner PFS_UNUSED_, int takes PFS_UNUSED_) { return 0; }
static inline void pfs_memory_free(pfs_key_t key PFS_UNUSED_, size_t size PFS_UNUSED_, uint64_t owner PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_MEMORY_H */
