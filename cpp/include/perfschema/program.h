/* perfschema/program.h: meters, metrics and loggers of the program. Included by pfs.h only.
 *
 *     pfs_key_t meter, logger;
 *     pfs_register_meter("myapp.queue", 10, 1, "The queue.", &meter);                                   setup_meters
 *     pfs_register_metric("depth", "myapp.queue", PFS_METRIC_GAUGE, 0, "items", "Items that wait.");    setup_metrics
 *     pfs_register_logger("myapp/queue", PFS_LOG_LEVEL_INFO, NULL, &logger);                            setup_loggers
 *     if (pfs_logger_level(logger) >= PFS_LOG_LEVEL_DEBUG) ...                                          the level in setup_loggers
 *
 * The program itself acts on these rows. Functions that register take a lock: they are not for hot paths or signal handlers.
 * pfs_meter_frequency() and pfs_logger_level() are a few loads. Names are case-sensitive. Registering a name again changes its description;
 * FREQUENCY, ENABLED and LEVEL, which belong to the user, stay. Errors: PFS_E_INVALID_ARGUMENT for a name that is empty or too long
 * [bytes], PFS_E_NOT_FOUND for an unregistered name; PFS_E_FULL, PFS_E_STATE as in variable.h. The functions do nothing if pfs is off.
 */
#ifndef PERFSCHEMA_PROGRAM_H
#define PERFSCHEMA_PROGRAM_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* METRIC_TYPE: a counter only grows; an up-down counter goes both ways; a gauge is the present value. */
enum pfs_metric_type { PFS_METRIC_COUNTER = 0, PFS_METRIC_UPDOWN = 1, PFS_METRIC_GAUGE = 2 };

/* LEVEL of setup_loggers. */
enum pfs_log_level {
  PFS_LOG_LEVEL_NONE = 0,
  PFS_LOG_LEVEL_ERROR = 1,
  PFS_LOG_LEVEL_WARN = 2,
  PFS_LOG_LEVEL_INFO = 3,
  PFS_LOG_LEVEL_DEBUG = 4
};

/* Selects the table whose row pfs_unregister_row() removes. */
enum pfs_row_kind { PFS_ROW_METER = 0, PFS_ROW_METRIC = 1, PFS_ROW_LOGGER = 2, PFS_ROW_TASK = 3, PFS_ROW_FUNCTION = 4 };

#ifndef PFS_DISABLE

/* Registers a meter [63]: a group of metrics that are read every `frequency` seconds, 1 to 16777215, if it is enabled. *key (may be
 * NULL) gets its key, 0 if pfs is off or it was refused. PFS_E_FULL: performance_schema_max_meter_classes; Performance_schema_meter_lost
 * counts. */
PFS_API int pfs_register_meter(const char* name, uint32_t frequency, int enabled, const char* description, pfs_key_t* key);

/* Returns FREQUENCY of the meter now; 0 if it is disabled, or does not exist. */
PFS_API uint32_t pfs_meter_frequency(pfs_key_t key);

/* Registers a metric [63] of a meter. is_double: NUM_TYPE. unit, description: NULL = NULL. `pfs metrics` exports it if the status
 * variable METER.NAME (status.h) has its value. PFS_E_NOT_FOUND: no such meter; PFS_E_FULL: performance_schema_max_metric_classes,
 * Performance_schema_metric_lost. */
PFS_API int pfs_register_metric(const char* name, const char* meter, enum pfs_metric_type type, int is_double, const char* unit,
                                const char* description);

/* Registers a logger [128] and its initial level. PFS_E_FULL: performance_schema_max_logger_classes, Performance_schema_logger_lost. */
PFS_API int pfs_register_logger(const char* name, enum pfs_log_level level, const char* description, pfs_key_t* key);

/* Returns LEVEL of the logger now; PFS_LOG_LEVEL_NONE if there is none. */
PFS_API enum pfs_log_level pfs_logger_level(pfs_key_t key);

/* Removes the row of this name; a meter's metrics are removed with it. */
PFS_API int pfs_unregister_row(enum pfs_row_kind kind, const char* name);

#else /* PFS_DISABLE */

static inline int pfs_register_meter(const char* name PFS_UNUSED_, uint32_t frequency PFS_UNUSED_, int enabled PFS_UNUSED_,
                                     const char* description PFS_UNUSED_, pfs_key_t* key PFS_UNUSED_) {
  if (key != NULL) *key = 0;
  return 0;
}
static inline uint32_t pfs_meter_frequency(pfs_key_t key PFS_UNUSED_) { return 0; }
static inline int pfs_register_metric(const char* name PFS_UNUSED_, const char* meter PFS_UNUSED_, enum pfs_metric_type type PFS_UNUSED_,
                                      int is_double PFS_UNUSED_, const char* unit PFS_UNUSED_, const char* description PFS_UNUSED_) {
  return 0;
}
static inline int pfs_register_logger(const char* name PFS_UNUSED_, enum pfs_log_level level PFS_UNUSED_,
                                      const char* description PFS_UNUSED_, pfs_key_t* key PFS_UNUSED_) {
  if (key != NULL) *key = 0;
  return 0;
}
static inline enum pfs_log_level pfs_logger_level(pfs_key_t key PFS_UNUSED_) { return PFS_LOG_LEVEL_NONE; }
static inline int pfs_unregister_row(enum pfs_row_kind kind PFS_UNUSED_, const char* name PFS_UNUSED_) { return 0; }

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_PROGRAM_H */
