/* perfschema/transaction.h: transactions. Included by pfs.h only.
 *
 *     pfs_transaction_t transaction;
 *     pfs_transaction_begin(&transaction, PFS_REPEATABLE_READ, 0, 0);
 *     ... statements, whose rows have this transaction as their NESTING_EVENT ...
 *     pfs_transaction_end(&transaction, 1);
 *
 * Instrument "transaction". Rows of events_transactions_*; events_transactions_summary_* count read-write and read-only transactions
 * separately. A transaction is nested in the statement that runs when it begins. A thread shows one at a time: the one that began last.
 *
 * Thread-safe: each thread has its own. A program may hand a pfs_transaction_t to another thread, which ends it; other calls do nothing
 * there. The row stays in the thread that began the transaction; it counts for the thread that ends it. No call fails or allocates; only an
 * end in another thread locks; errno is preserved.
 */
#ifndef PERFSCHEMA_TRANSACTION_H
#define PERFSCHEMA_TRANSACTION_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* An active transaction. It belongs to the library between begin and end. */
typedef struct pfs_transaction {
  uint64_t opaque[8];
} pfs_transaction_t;

enum pfs_isolation {
  PFS_ISOLATION_UNKNOWN = 0, /* ISOLATION_LEVEL is NULL */
  PFS_READ_UNCOMMITTED = 1,
  PFS_READ_COMMITTED = 2,
  PFS_REPEATABLE_READ = 3,
  PFS_SERIALIZABLE = 4
};

#ifndef PFS_DISABLE

/* int pfs_transaction_begin(pfs_transaction_t* transaction, enum pfs_isolation isolation, int read_only, int autocommit): sets STATE to
 * ACTIVE. Returns 1 if it is instrumented. */
PFS_API int pfs_transaction_begin_at(pfs_transaction_t* transaction, enum pfs_isolation isolation, int read_only, int autocommit,
                                     PFS_SITE_);
#define pfs_transaction_begin(...) pfs_transaction_begin_at(__VA_ARGS__, __FILE__, __LINE__)
/* Ends the transaction: COMMITTED, or ROLLED BACK if `committed` is 0. A second end does nothing. */
PFS_API void pfs_transaction_end(pfs_transaction_t* transaction, int committed);

/* Count in NUMBER_OF_SAVEPOINTS, NUMBER_OF_ROLLBACK_TO_SAVEPOINT, NUMBER_OF_RELEASE_SAVEPOINT. */
PFS_API void pfs_transaction_add_savepoints(pfs_transaction_t* transaction, uint64_t more);
PFS_API void pfs_transaction_add_rollbacks(pfs_transaction_t* transaction, uint64_t more);
PFS_API void pfs_transaction_add_releases(pfs_transaction_t* transaction, uint64_t more);

#else /* PFS_DISABLE */

static inline int pfs_transaction_begin(pfs_transaction_t* transaction PFS_UNUSED_, enum pfs_isolation isolation PFS_UNUSED_,
                                        int read_only PFS_UNUSED_, int autocommit PFS_UNUSED_) {
  return 0;
}
static inline void pfs_transaction_end(pfs_transaction_t* transaction PFS_UNUSED_, int committed PFS_UNUSED_) {}
static inline void pfs_transaction_add_savepoints(pfs_transaction_t* transaction PFS_UNUSED_, uint64_t more PFS_UNUSED_) {}
static inline void pfs_transaction_add_rollbacks(pfs_transaction_t* transaction PFS_UNUSED_, uint64_t more PFS_UNUSED_) {}
static inline void pfs_transaction_add_releases(pfs_transaction_t* transaction PFS_UNUSED_, uint64_t more PFS_UNUSED_) {}

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_TRANSACTION_H */
