/* perfschema/statement.h: statements: units of work that a client requests: SQL, a request, a command, a job. Included by pfs.h only.
 *
 *     static pfs_key_t key_query;
 *     static pfs_statement_info_t statements[] = {{&key_query, "query", 0, "A query of a user."}};
 *     pfs_register_statement("myapp", statements, 1);         statement/myapp/query
 *     pfs_statement_t statement;
 *     pfs_statement_begin(&statement, key_query);
 *     pfs_statement_set_schema(&statement, "shop");
 *     pfs_statement_set_text(&statement, sql, strlen(sql));
 *     ... stages and waits that begin here are nested in it ...
 *     pfs_statement_add(&statement, PFS_ROWS_SENT, rows);
 *     pfs_statement_end(&statement);
 *
 * Statements have rows in events_statements_*. Those that differ only in their literals, blanks and comments have one digest:
 * events_statements_summary_by_digest counts them together, with a histogram of their times. A statement inside another one is one level
 * deeper, and may end after it. More than performance_schema_max_statement_stack at a time are counted, not recorded. A statement that a
 * longjmp left is dropped (locker_lost).
 *
 * Thread-safe: each thread has its own. A program may hand a running pfs_statement_t to another thread, which counts, sets the error and
 * ends it; other calls do nothing there. The row stays in the thread that began the statement; the statement counts for the thread that
 * ends it, without CPU_TIME and memory. The first thread takes it off its stack when it begins another statement. If the first thread has
 * ended, there is no row, and no digest unless the statement was suspended. No probe fails. Only the first statement of a digest, and the
 * end in another thread, lock or allocate. errno is preserved.
 */
#ifndef PERFSCHEMA_STATEMENT_H
#define PERFSCHEMA_STATEMENT_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfs_instrument_info pfs_statement_info_t;

/* A running statement. It belongs to the library between begin and end. */
typedef struct pfs_statement {
  uint64_t opaque[48];
} pfs_statement_t;

/* Are handles of the program's own stored program, and of a prepared statement; NULL if the table is full. */
typedef struct pfs_program_ pfs_program_t;
typedef struct pfs_prepared pfs_prepared_t;
typedef struct pfs_program_call {
  uint64_t opaque[6];
} pfs_program_call_t;

/* Names the counters of a statement: the columns of that name. */
enum pfs_statement_counter {
  PFS_LOCK_TIME = 0, /* in picoseconds */
  PFS_ERRORS = 1,    /* pfs_statement_set_error() sets it */
  PFS_WARNINGS = 2,
  PFS_ROWS_AFFECTED = 3,
  PFS_ROWS_SENT = 4,
  PFS_ROWS_EXAMINED = 5,
  PFS_CREATED_TMP_DISK_TABLES = 6,
  PFS_CREATED_TMP_TABLES = 7,
  PFS_SELECT_FULL_JOIN = 8,
  PFS_SELECT_FULL_RANGE_JOIN = 9,
  PFS_SELECT_RANGE = 10,
  PFS_SELECT_RANGE_CHECK = 11,
  PFS_SELECT_SCAN = 12,
  PFS_SORT_MERGE_PASSES = 13,
  PFS_SORT_RANGE = 14,
  PFS_SORT_ROWS = 15,
  PFS_SORT_SCAN = 16,
  PFS_NO_INDEX_USED = 17,
  PFS_NO_GOOD_INDEX_USED = 18
};

/* The language of a text, one of the flags of an instrument. Without: SQL, or what performance_schema_digest_normalizer names. */
#define PFS_DIALECT_SHIFT 16
#define PFS_DIALECT_MYSQL (1u << PFS_DIALECT_SHIFT) /* MariaDB as well: the digest is that of the server */
#define PFS_DIALECT_POSTGRESQL (2u << PFS_DIALECT_SHIFT)
#define PFS_DIALECT_SQLITE (3u << PFS_DIALECT_SHIFT)
#define PFS_DIALECT_TSQL (4u << PFS_DIALECT_SHIFT)
#define PFS_DIALECT_ORACLE (5u << PFS_DIALECT_SHIFT)
#define PFS_DIALECT_DUCKDB (6u << PFS_DIALECT_SHIFT)
#define PFS_DIALECT_ANSI (7u << PFS_DIALECT_SHIFT) /* "text" is a name, and no backslash escapes */
#define PFS_DIALECT_REDIS (8u << PFS_DIALECT_SHIFT)
#define PFS_DIALECT_HTTP (9u << PFS_DIALECT_SHIFT) /* a request: "GET /users/17" */
#define PFS_DIALECT_PYTHON (10u << PFS_DIALECT_SHIFT)
/* OBJECT_TYPE. Tables (table.h) have one of the first two, programs one of the next four; metadata locks (metadata.h) may have any. */
enum pfs_object_type {
  PFS_OBJECT_TABLE = 4,
  PFS_OBJECT_TEMPORARY_TABLE = 6,
  PFS_OBJECT_EVENT = 1,
  PFS_OBJECT_FUNCTION = 2,
  PFS_OBJECT_PROCEDURE = 3,
  PFS_OBJECT_TRIGGER = 5,
  PFS_OBJECT_GLOBAL = 7,
  PFS_OBJECT_SCHEMA = 8,
  PFS_OBJECT_COMMIT = 9,
  PFS_OBJECT_USER_LEVEL_LOCK = 10,
  PFS_OBJECT_TABLESPACE = 11,
  PFS_OBJECT_LOCKING_SERVICE = 12,
  PFS_OBJECT_SRID = 13,
  PFS_OBJECT_ACL_CACHE = 14,
  PFS_OBJECT_COLUMN_STATISTICS = 15,
  PFS_OBJECT_BACKUP_LOCK = 16,
  PFS_OBJECT_RESOURCE_GROUPS = 17,
  PFS_OBJECT_FOREIGN_KEY = 18,
  PFS_OBJECT_CHECK_CONSTRAINT = 19
};

#ifndef PFS_DISABLE
/* Registers statements as pfs_register_mutex() does mutexes. PFS_MUTABLE: the kind is not known yet at the begin; pfs_statement_refine()
 * sets it (statement/abstract/...). PFS_DIALECT_...: the language of their texts. */
PFS_API int pfs_register_statement(const char* component, pfs_statement_info_t* info, int count); /* statement/COMPONENT/NAME */

/* int pfs_statement_begin(pfs_statement_t* statement, pfs_key_t key): returns 1 if it is instrumented. pfs_statement_begin_in(statement,
 * key, program): begins it as part of a stored program, whose name the row has as its object. */
PFS_API int pfs_statement_begin_at(pfs_statement_t* statement, pfs_key_t key, pfs_program_t* program, PFS_SITE_);
#define pfs_statement_begin(statement, key) pfs_statement_begin_at(statement, key, NULL, __FILE__, __LINE__)
#define pfs_statement_begin_in(statement, key, program) pfs_statement_begin_at(statement, key, program, __FILE__, __LINE__)
/* Ends the statement. A second end does nothing. */
PFS_API void pfs_statement_end(pfs_statement_t* statement);

/* Suspends the innermost statement of the thread while it waits for another participant, such as a client that fetches its rows. Nothing is
 * nested in it until it is resumed, in the thread that began it and inside the events that run there then; its time goes on. Another
 * thread resumes it in order to end it at once. `buffer` keeps its state. Returns how many bytes that takes. If that is more than `bytes`,
 * or 0 (it is not the innermost, or not instrumented), the call has done nothing. */
PFS_API size_t pfs_statement_suspend(pfs_statement_t* statement, void* buffer, size_t bytes);
PFS_API void pfs_statement_resume(pfs_statement_t* statement, const void* buffer);

/* Moves the statement to another instrument: EVENT_NAME changes, EVENT_ID and TIMER_START stay. If that one is disabled, nothing is
 * recorded or counted. */
PFS_API void pfs_statement_refine(pfs_statement_t* statement, pfs_key_t key);
/* Sets CURRENT_SCHEMA, at most 64 bytes. */
PFS_API void pfs_statement_set_schema(pfs_statement_t* statement, const char* schema);
/* Sets the language of the texts that are set later, PFS_DIALECT_..., if it is not that of the instrument. */
PFS_API void pfs_statement_set_dialect(pfs_statement_t* statement, uint32_t dialect);
/* Sets SQL_TEXT, any bytes; a text beyond performance_schema_max_sql_text_length ends in three dots. Computes its digest. */
PFS_API void pfs_statement_set_text(pfs_statement_t* statement, const char* text, size_t bytes);
PFS_API void pfs_statement_set(pfs_statement_t* statement, enum pfs_statement_counter counter, uint64_t value);
PFS_API void pfs_statement_add(pfs_statement_t* statement, enum pfs_statement_counter counter, uint64_t more);
/* Sets MYSQL_ERRNO, RETURNED_SQLSTATE (5 bytes), MESSAGE_TEXT (at most 128). number 0: no error; then sqlstate NULL is "00000". */
PFS_API void pfs_statement_set_error(pfs_statement_t* statement, int number, const char* sqlstate, const char* message);
/* Sets TRACEPARENT: the caller's span, as the header "traceparent" of W3C names it; SQL_TEXT stays. Returns 0, or -1 if the text is no
 * traceparent: then nothing changes. bytes 0: it has none. */
PFS_API int pfs_statement_set_traceparent(pfs_statement_t* statement, const char* text, size_t bytes);
PFS_API void pfs_statement_set_id(pfs_statement_t* statement, uint64_t statement_id); /* STATEMENT_ID; 0 = NULL */

/* Finds a stored program by name, or makes it: a procedure, function, trigger or event of the program. It gets a row of
 * events_statements_summary_by_program, if setup_objects enables it. The handle stays valid until it is dropped. */
PFS_API pfs_program_t* pfs_program(enum pfs_object_type type, const char* schema, const char* name);
PFS_API void pfs_program_drop(enum pfs_object_type type, const char* schema, const char* name);
/* Begin and end a call of it. */
PFS_API void pfs_program_begin(pfs_program_call_t* call, pfs_program_t* program);
PFS_API void pfs_program_end(pfs_program_call_t* call);

/* Makes a prepared statement: a row of prepared_statements_instances until it is destroyed. `statement`: the running statement that
 * prepares it, or NULL; its time so far is TIMER_PREPARE. `identity`: OBJECT_INSTANCE_BEGIN. name may be NULL. */
PFS_API pfs_prepared_t* pfs_prepared_create(const void* identity, uint64_t statement_id, pfs_statement_t* statement, const char* name,
                                            const char* text, size_t bytes);
PFS_API void pfs_prepared_destroy(pfs_prepared_t* prepared);
PFS_API void pfs_prepared_set_text(pfs_prepared_t* prepared, const char* text, size_t bytes);
/* Says that the statement executes the prepared one, which then counts all that the statement counts. */
PFS_API void pfs_statement_executes(pfs_statement_t* statement, pfs_prepared_t* prepared);

#else /* PFS_DISABLE */

static inline int pfs_register_statement(const char* component PFS_UNUSED_, pfs_statement_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}
static inline int pfs_statement_begin(pfs_statement_t* statement PFS_UNUSED_, pfs_key_t key PFS_UNUSED_) { return 0; }
static inline int pfs_statement_begin_in(pfs_statement_t* statement PFS_UNUSED_, pfs_key_t key PFS_UNUSED_,
                                         pfs_program_t* program PFS_UNUSED_) {
  return 0;
}
static inline void pfs_statement_end(pfs_statement_t* statement PFS_UNUSED_) {}
static inline size_t pfs_statement_suspend(pfs_statement_t* statement PFS_UNUSED_, void* buffer PFS_UNUSED_, size_t bytes PFS_UNUSED_) {
  return 0;
}
static inline void pfs_statement_resume(pfs_statement_t* statement PFS_UNUSED_, const void* buffer PFS_UNUSED_) {}
static inline void pfs_statement_refine(pfs_statement_t* statement PFS_UNUSED_, pfs_key_t key PFS_UNUSED_) {}
static inline void pfs_statement_set_schema(pfs_statement_t* statement PFS_UNUSED_, const char* schema PFS_UNUSED_) {}
static inline void pfs_statement_set_dialect(pfs_statement_t* statement PFS_UNUSED_, uint32_t dialect PFS_UNUSED_) {}
static inline void pfs_statement_set_text(pfs_statement_t* statement PFS_UNUSED_, const char* text PFS_UNUSED_, size_t bytes PFS_UNUSED_) {}
static inline void pfs_statement_set(pfs_statement_t* statement PFS_UNUSED_, enum pfs_statement_counter counter PFS_UNUSED_,
                                     uint64_t value PFS_UNUSED_) {}
static inline void pfs_statement_add(pfs_statement_t* statement PFS_UNUSED_, enum pfs_statement_counter counter PFS_UNUSED_,
                                     uint64_t more PFS_UNUSED_) {}
static inline void pfs_statement_set_error(pfs_statement_t* statement PFS_UNUSED_, int number PFS_UNUSED_, const char* sqlstate PFS_UNUSED_,
                                           const char* message PFS_UNUSED_) {}
static inline int pfs_statement_set_traceparent(pfs_statement_t* statement PFS_UNUSED_, const char* text PFS_UNUSED_,
                                                size_t bytes PFS_UNUSED_) {
  return 0;
}
static inline void pfs_statement_set_id(pfs_statement_t* statement PFS_UNUSED_, uint64_t statement_id PFS_UNUSED_) {}
static inline pfs_program_t* pfs_program(enum pfs_object_type type PFS_UNUSED_, const char* schema PFS_UNUSED_,
                                         const char* name PFS_UNUSED_) {
  return NULL;
}
static inline void pfs_program_drop(enum pfs_object_type type PFS_UNUSED_, const char* schema PFS_UNUSED_, const char* name PFS_UNUSED_) {}
static inline void pfs_program_begin(pfs_program_call_t* call PFS_UNUSED_, pfs_program_t* program PFS_UNUSED_) {}
static inline void pfs_program_end(pfs_program_call_t* call PFS_UNUSED_) {}
static inline pfs_prepared_t* pfs_prepared_create(const void* identity PFS_UNUSED_, uint64_t statement_id PFS_UNUSED_,
                                                  pfs_statement_t* statement PFS_UNUSED_, const char* name PFS_UNUSED_,
                                                  const char* text PFS_UNUSED_, size_t bytes PFS_UNUSED_) {
  return NULL;
}
static inline void pfs_prepared_destroy(pfs_prepared_t* prepared PFS_UNUSED_) {}
static inline void pfs_prepared_set_text(pfs_prepared_t* prepared PFS_UNUSED_, const char* text PFS_UNUSED_, size_t bytes PFS_UNUSED_) {}
static inline void pfs_statement_executes(pfs_statement_t* statement PFS_UNUSED_, pfs_prepared_t* prepared PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_STATEMENT_H */
