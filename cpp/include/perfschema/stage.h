/* perfschema/stage.h: stages: the present activity of a thread, in a statement or outside. Included by pfs.h only.
 *
 *     static pfs_key_t key_parse, key_load;
 *     static pfs_stage_info_t stages[] = {{&key_parse, "parsing", 0, "Reads the grammar."},
 *                                         {&key_load, "loading rows", PFS_PROGRESS, NULL}};
 *     pfs_register_stage("myapp", stages, 2);                 stage/myapp/parsing, stage/myapp/loading rows
 *     pfs_stage_begin(key_parse);
 *     pfs_stage_begin(key_load);                              ends "parsing"
 *     pfs_stage_set_estimated(rows);
 *     for (...) pfs_stage_add_completed(1);
 *     pfs_stage_end();
 *
 * A thread is in one stage at a time: the end of one is the start of the next, and they share a reading of the timer. Stages have rows in
 * events_stages_* and events_stages_summary_*. PROCESSLIST_STATE of threads and processlist is the name of the stage, even if its
 * instrument is disabled. Waits that begin in a stage are nested in it; a stage is nested in the running statement.
 *
 * Thread-safe: each thread has its own. No call fails, allocates or locks; errno is preserved.
 */
#ifndef PERFSCHEMA_STAGE_H
#define PERFSCHEMA_STAGE_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfs_instrument_info pfs_stage_info_t;

#ifndef PFS_DISABLE

/* Registers stages as pfs_register_mutex() does mutexes. PFS_PROGRESS: the stage reports its progress; for others WORK_COMPLETED and
 * WORK_ESTIMATED are NULL. */
PFS_API int pfs_register_stage(const char* component, pfs_stage_info_t* info, int count); /* stage/COMPONENT/NAME */

/* void pfs_stage_begin(pfs_key_t key): puts the calling thread into this stage, and ends the previous one. Key 0 = pfs_stage_end(). */
PFS_API void pfs_stage_begin_at(pfs_key_t key, PFS_SITE_);
#define pfs_stage_begin(...) pfs_stage_begin_at(__VA_ARGS__, __FILE__, __LINE__)
PFS_API void pfs_stage_end(void);

/* Set WORK_COMPLETED and WORK_ESTIMATED, in units of the program, at any time during the stage. */
PFS_API void pfs_stage_set_completed(uint64_t completed);
PFS_API void pfs_stage_add_completed(uint64_t more);
PFS_API void pfs_stage_set_estimated(uint64_t estimated);

#else /* PFS_DISABLE */

static inline int pfs_register_stage(const char* component PFS_UNUSED_, pfs_stage_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}
static inline void pfs_stage_begin(pfs_key_t key PFS_UNUSED_) {}
static inline void pfs_stage_end(void) {}
static inline void pfs_stage_set_completed(uint64_t completed PFS_UNUSED_) {}
static inline void pfs_stage_add_completed(uint64_t more PFS_UNUSED_) {}
static inline void pfs_stage_set_estimated(uint64_t estimated PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_STAGE_H */
