/* perfschema/variable.h: variables of the program: their legal values, their present values, and the users that set them. Included by
 * pfs.h only.
 *
 *     static const pfs_variable_info_t variables[] = {
 *         {"myapp_threads", "4", PFS_VARIABLE_INTEGER, PFS_VARIABLE_GLOBAL, "1", "64", "Threads that work."},
 *         {"myapp_verbose", "OFF", PFS_VARIABLE_BOOLEAN, PFS_VARIABLE_SESSION, NULL, NULL, "Tell more."}};
 *
 *     pfs_register_variable(variables, 2);                                            variables_metadata, variables_info
 *     pfs_variable_set("myapp_threads", "8", PFS_VARIABLE_FROM_COMMAND_LINE, NULL);   global_variables
 *
 * pfs shows values, it does not provide them: the program reports each change. Not for hot paths or signal handlers. Names of variables
 * are case-insensitive. They are kept and shown even if pfs is off. Errors: PFS_E_INVALID_ARGUMENT for a name or value
 * that breaks its rule, PFS_E_NOT_FOUND for an unregistered variable, PFS_E_FULL (rows are limited by
 * performance_schema_max_program_rows; Performance_schema_program_rows_lost counts), PFS_E_STATE in a handler that interrupted pfs.
 * Nothing changes then.
 */
#ifndef PERFSCHEMA_VARIABLE_H
#define PERFSCHEMA_VARIABLE_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* DATA_TYPE. Values of the first two, and their ranges, are checked; BOOLEAN takes ON, OFF, 1, 0, TRUE, FALSE, YES, NO and shows ON or OFF.
 */
enum pfs_variable_type {
  PFS_VARIABLE_INTEGER = 0,
  PFS_VARIABLE_NUMERIC = 1,
  PFS_VARIABLE_STRING = 2,
  PFS_VARIABLE_ENUMERATION = 3,
  PFS_VARIABLE_BOOLEAN = 4,
  PFS_VARIABLE_SET = 5
};

/* VARIABLE_SCOPE: one global value; a global value and optional session values; session values only. */
enum pfs_variable_scope { PFS_VARIABLE_GLOBAL = 0, PFS_VARIABLE_SESSION = 1, PFS_VARIABLE_SESSION_ONLY = 2 };

/* VARIABLE_SOURCE: the origin of a global value. */
enum pfs_variable_source {
  PFS_VARIABLE_FROM_COMPILED = 0, /* its registration */
  PFS_VARIABLE_FROM_GLOBAL = 1,   /* configuration files: of the machine, */
  PFS_VARIABLE_FROM_SERVER = 2,   /* of the program, */
  PFS_VARIABLE_FROM_EXPLICIT = 3, /* a file that the command line names, */
  PFS_VARIABLE_FROM_EXTRA = 4,    /* a file that the command line adds, */
  PFS_VARIABLE_FROM_USER = 5,     /* of the user, */
  PFS_VARIABLE_FROM_LOGIN = 6,    /* of the user's login */
  PFS_VARIABLE_FROM_COMMAND_LINE = 7,
  PFS_VARIABLE_FROM_PERSISTED = 8, /* stored by an earlier run */
  PFS_VARIABLE_FROM_DYNAMIC = 9    /* set while the program runs */
};

/* Describes one variable to register. */
typedef struct pfs_variable_info {
  const char* name;  /* 1 to 64 bytes without blanks */
  const char* value; /* initial value; NULL = NULL. Cut at 1024 bytes, as all values are */
  enum pfs_variable_type type;
  enum pfs_variable_scope scope;
  const char *minimum, *maximum; /* as text; NULL = none */
  const char* documentation;     /* NULL = "" */
} pfs_variable_info_t;

#ifndef PFS_DISABLE

/* Registers `count` variables. A second registration replaces the description, and keeps values that are still legal. Returns 0, or the
 * error of the first refused row; the others are registered. PFS_E_EXISTS: an option of pfs has the name. */
PFS_API int pfs_register_variable(const pfs_variable_info_t* info, int count);

/* Sets the global value (NULL = NULL). SET_TIME is now, SET_USER and SET_HOST are those of the calling thread. path: VARIABLE_PATH, the
 * file that the value comes from; NULL = none. PFS_E_NOT_ALLOWED: SESSION_ONLY, or an option of pfs. */
PFS_API int pfs_variable_set(const char* name, const char* value, enum pfs_variable_source source, const char* path);

/* Removes a variable, its attributes and the values of threads. */
PFS_API int pfs_unregister_variable(const char* name);

#else  /* PFS_DISABLE */

static inline int pfs_register_variable(const pfs_variable_info_t* info PFS_UNUSED_, int count PFS_UNUSED_) { return 0; }
static inline int pfs_variable_set(const char* name PFS_UNUSED_, const char* value PFS_UNUSED_, enum pfs_variable_source source PFS_UNUSED_,
                                   const char* path PFS_UNUSED_) {
  return 0;
}
static inline int pfs_unregister_variable(const char* name PFS_UNUSED_) { return 0; }
#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_VARIABLE_H */
