/* Stages, statements and transactions from C: many, in signal handlers, and such as nobody ends. For test_facts_nested_robustness.py. */
#include <perfschema/pfs.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

/* statement/n/work with a text of `texts` kinds, a stage and a transaction in each, that many times. */
void n_work(uint32_t statement_key, uint32_t stage_key, int texts, int schemas, long times) {
  for (long i = 0; i < times; ++i) {
    pfs_statement_t statement;
    char text[64], schema[16];
    const int bytes = snprintf(text, sizeof text, "select c%ld from t where a = %ld", i % texts, i);
    snprintf(schema, sizeof schema, "s%ld", i % schemas);
    pfs_statement_begin(&statement, statement_key);
    pfs_statement_set_schema(&statement, schema);
    pfs_statement_set_text(&statement, text, (size_t)bytes);
    pfs_stage_begin(stage_key);
    pfs_transaction_t transaction;
    pfs_transaction_begin(&transaction, PFS_REPEATABLE_READ, (int)(i & 1), 0);
    pfs_statement_add(&statement, PFS_ROWS_SENT, 2);
    pfs_transaction_end(&transaction, 1);
    pfs_stage_end();
    pfs_statement_end(&statement);
  }
}

static uint32_t handler_key;
static volatile sig_atomic_t begun, refused, nested_begun;

static void handler(int number) {
  (void)number;
  pfs_statement_t outer, inner;
  pfs_transaction_t transaction;
  const int looked_at = pfs_statement_begin(&outer, handler_key);
  *(looked_at ? &begun : &refused) += 1;
  pfs_statement_set_text(&outer, "handle 1", 8);
  nested_begun += pfs_statement_begin(&inner, handler_key);
  pfs_statement_set_text(&inner, "handle inner", 12);
  pfs_transaction_begin(&transaction, PFS_SERIALIZABLE, 1, 0);
  pfs_transaction_end(&transaction, 0);
  pfs_statement_end(&inner);
  pfs_statement_add(&outer, PFS_ROWS_SENT, 1);
  pfs_statement_end(&outer);
}

/* n_work() that a handler with the same probes interrupts every now and then. out: handlers that could begin, those that could not, inner
 * ones. */
void n_interrupted(uint32_t statement_key, uint32_t stage_key, uint32_t key, long times, long out[3]) {
  handler_key = key;
  struct sigaction action, old;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &old);
  const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  n_work(statement_key, stage_key, 7, 1, times);
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &old, NULL);
  out[0] = begun;
  out[1] = refused;
  out[2] = nested_begun;
}

/* A statement, a transaction in it, which nobody ends: their memory is the next caller's. */
__attribute__((noinline)) void n_abandon(uint32_t statement_key, int depth) {
  char room[256];
  pfs_statement_t statement;
  pfs_transaction_t transaction;
  memset(room, depth, sizeof room);
  __asm__ volatile("" : : "r"(room) : "memory");
  pfs_statement_begin(&statement, statement_key);
  pfs_statement_set_text(&statement, "abandoned", 9);
  pfs_transaction_begin(&transaction, PFS_SERIALIZABLE, 0, 0);
  if (depth > 1) n_abandon(statement_key, depth - 1);
  __asm__ volatile("" : : "r"(room) : "memory");
}

/* Each time from the same place of the stack: an interpreter may call from two. */
void n_abandon_often(uint32_t statement_key, int depth, int times, void (*check)(void)) {
  while (times-- > 0) {
    n_abandon(statement_key, depth);
    check();
  }
}
