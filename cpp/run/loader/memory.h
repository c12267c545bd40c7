/* run/loader/memory.h: what libperfschema-run-memory.so calls in libperfschema-run.so. C11 and C++. */
#ifndef PFS_RUN_MEMORY_H
#define PFS_RUN_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts a new block. `caller`: the return address of the allocation. */
__attribute__((visibility("default"))) void pfs_run_allocated(const void* block, size_t size, const void* caller);
/* Counts that a block will be freed. Returns its size, and 0 for a block that was not counted. */
__attribute__((visibility("default"))) size_t pfs_run_freed(const void* block);
/* Binds the calls of the object with this dynamic section to the C library (own_calls.h). */
__attribute__((visibility("default"))) void pfs_run_bind_calls(const void* dynamic_section);

#ifdef __cplusplus
}
#endif
#endif /* PFS_RUN_MEMORY_H */
