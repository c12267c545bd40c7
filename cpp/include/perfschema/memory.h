/* perfschema/memory.h: memory: which threads allocate it, how much is in use, and the maximum. Included by pfs.h only.
 *
 *     static pfs_key_t key_rows;
 *     static pfs_memory_info_t memory[] = {{&key_rows, "rows", 0, "Rows that wait to be written."}};
 *     pfs_register_memory("myapp", memory, 1);                memory/myapp/rows
 *     struct row* row = pfs_malloc(key_rows, sizeof *row);
 *     row = pfs_realloc(key_rows, row, 2 * sizeof *row);
 *     pfs_free(row);
 *
 * Rows of memory_summary_* show allocations, frees, the memory in use, and the minimum and maximum in use since the start or the last
 * TRUNCATE, which keeps the memory in use. Memory is never timed. TOTAL_MEMORY ... of threads are the bytes that a session uses.
 * CONTROLLED_MEMORY ... are those of instruments with the flag "controlled". MAX_SESSION_... of accounts, users and hosts are the maximum
 * of one of their sessions.
 *
 * A block belongs to the thread that allocated it. If another thread frees it, or its thread has ended, it counts as freed in
 * memory_summary_global_by_event_name only: its thread still shows it as in use. pfs_claim() moves a block between threads. A free is
 * counted if and only if the allocation was, even if the instrument was disabled meanwhile. A forked child does not count frees of its
 * parent's blocks.
 *
 * Watermarks of a thread are exact. Those of accounts, users, hosts and of the total are exact as well if one thread uses the instrument,
 * or none has changed it more than 64 times, and once more for each 4096 changes. Beyond that HIGH may be too high, by no more than twice
 * the change of each thread's use in its last 4096 changes, and LOW too low by as much. HIGH is never too low, nor LOW too high.
 *
 * Thread-safe, like malloc. No call allocates but for the caller, or fails where the plain call would not.
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

/* Registers memory instruments as pfs_register_mutex() does mutexes. Flags: PFS_GLOBAL_STATISTICS, PFS_CONTROLLED. The component
 * "performance_schema" is refused: memory/performance_schema/... shows the memory of pfs itself. */
PFS_API int pfs_register_memory(const char* component, pfs_memory_info_t* info, int count); /* memory/COMPONENT/NAME */

/* Work like the plain calls. pfs keeps its counts in 32 bytes before each block (more if it is aligned to more than 16): only pfs_free()
 * and pfs_realloc() may take such blocks, and these take no others. A foreign or freed block ends the program if pfs recognizes it. The
 * requested size is counted. Key 0: not counted, otherwise the same. */
PFS_API void pfs_free(void* block);
PFS_API void* pfs_malloc(pfs_key_t key, size_t size) __attribute__((malloc, alloc_size(2)));
PFS_API void* pfs_calloc(pfs_key_t key, size_t count, size_t size) __attribute__((malloc, alloc_size(2, 3)));
/* `alignment` must be a power of two; else NULL and EINVAL. `size` need not be a multiple of it. */
PFS_API void* pfs_aligned_alloc(pfs_key_t key, size_t alignment, size_t size) __attribute__((malloc, alloc_size(3)));
PFS_API char* pfs_strdup(pfs_key_t key, const char* text) __attribute__((malloc));
/* Counts as a free of the old size and an allocation of the new one, for `key`, by the calling thread. block == NULL: pfs_malloc(). size
 * == 0: pfs_free(), and NULL. As with realloc(), a block that moves keeps only the default alignment, and stays unchanged if there is no
 * memory. */
PFS_API void* pfs_realloc(pfs_key_t key, void* block, size_t size) __attribute__((alloc_size(3)));

/* Moves a block between threads. The giving thread calls pfs_claim(block, 0): a free of its own, and an allocation that only the total
 * has. The taking thread calls pfs_claim(block, 1): a free of the total, and an allocation of its own. The total in use does not change. */
PFS_API void pfs_claim(void* block, int takes);

/* ---- Accounting only: for memory that is allocated by other means. The program keeps with each block the results of these calls.
 */

/* Counts an allocation of `size` bytes. Returns the key to keep, 0 if it is not counted. *owner must be kept as well: it names the
 * thread and the process that the block belongs to. */
PFS_API pfs_key_t pfs_memory_alloc(pfs_key_t key, size_t size, uint64_t* owner);
/* Counts a free of old_size bytes and an allocation of new_size. `key` and *owner are the kept values. Returns the key to keep from now
 * on. 0 stays 0. */
PFS_API pfs_key_t pfs_memory_realloc(pfs_key_t key, size_t old_size, size_t new_size, uint64_t* owner);
/* Works like pfs_claim(). Returns the key to keep from now on. */
PFS_API pfs_key_t pfs_memory_claim(pfs_key_t key, size_t size, uint64_t* owner, int takes);
/* Counts a free. */
PFS_API void pfs_memory_free(pfs_key_t key, size_t size, uint64_t owner);

#else /* PFS_DISABLE */

static inline int pfs_register_memory(const char* component PFS_UNUSED_, pfs_memory_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}
static inline void pfs_free(void* block) { free(block); }
static inline void* pfs_malloc(pfs_key_t key PFS_UNUSED_, size_t size) { return malloc(size); }
static inline void* pfs_calloc(pfs_key_t key PFS_UNUSED_, size_t count, size_t size) { return calloc(count, size); }
#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L)
extern void* aligned_alloc(size_t alignment, size_t size); /* the C library has it; its header declares it from C11 on */
#endif
static inline void* pfs_aligned_alloc(pfs_key_t key PFS_UNUSED_, size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    errno = EINVAL;
    return NULL;
  }
  if (alignment <= 16 || size > SIZE_MAX - alignment) return malloc(size);
  return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1)); /* needs a multiple */
}
static inline char* pfs_strdup(pfs_key_t key PFS_UNUSED_, const char* text) {
  size_t size = strlen(text) + 1;
#ifdef __cplusplus
  char* copy = static_cast<char*>(malloc(size));
#else
  char* copy = malloc(size);
#endif
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
static inline pfs_key_t pfs_memory_realloc(pfs_key_t key PFS_UNUSED_, size_t old_size PFS_UNUSED_, size_t new_size PFS_UNUSED_,
                                           uint64_t* owner PFS_UNUSED_) {
  return 0;
}
static inline pfs_key_t pfs_memory_claim(pfs_key_t key PFS_UNUSED_, size_t size PFS_UNUSED_, uint64_t* owner PFS_UNUSED_,
                                         int takes PFS_UNUSED_) {
  return 0;
}
static inline void pfs_memory_free(pfs_key_t key PFS_UNUSED_, size_t size PFS_UNUSED_, uint64_t owner PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_MEMORY_H */
