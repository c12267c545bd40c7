/* sqlite_bench WORKLOAD DATABASE OPERATIONS: one workload on a database, then a line of JSON: what it took and a checksum of what it read.
 *
 *   fill       makes the database: OPERATIONS rows. All others need one, and find out how many rows it has.
 *   insert     OPERATIONS more rows, 100 in a transaction
 *   select     a row by its key, prepared once
 *   range      100 rows in order of the key
 *   update     a row, each in a transaction of its own
 *   threads    two threads with a connection each: nine selects, then an update
 *   statements a row by its key, each a text of its own that is parsed; each a pfs statement with text, rows and digest
 *   scan       everything, in order: OPERATIONS does not matter
 */
#include <perfschema/pfs.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim.h"

static pfs_key_t key_worker, key_select;
static pfs_thread_info_t threads[] = {{&key_worker, "worker", 0, "Has a connection of its own."}};
static pfs_statement_info_t statements[] = {{&key_select, "select", 0, "A row by its key."}};

typedef unsigned long long number;

/* One of the threads that do a workload. */
typedef struct work {
  const char* path;
  number operations, rows, dice, sum;
  sqlite3* db;
} work;

static number now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (number)t.tv_sec * 1000000000u + (number)t.tv_nsec;
}

static void check(sqlite3* db, int good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, db != NULL ? sqlite3_errmsg(db) : "failed");
  exit(1);
}

static number add(number sum, number value) { return (sum ^ value) * 1099511628211u; }
static number add_text(number sum, const unsigned char* text) {
  while (text != NULL && *text != 0) sum = add(sum, *text++);
  return sum;
}

/* 0 .. limit - 1; the same in every run. */
static number roll(work* w, number limit) {
  w->dice = w->dice * 6364136223846793005u + 1442695040888963407u;
  return (w->dice >> 33) % limit;
}

static void run(sqlite3* db, const char* sql) { check(db, sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, sql); }

static sqlite3_stmt* prepare(sqlite3* db, const char* sql) {
  sqlite3_stmt* statement;
  check(db, sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, sql);
  return statement;
}

static void open_database(work* w) {
  check(NULL, sqlite3_open(w->path, &w->db) == SQLITE_OK, w->path);
  sqlite3_busy_timeout(w->db, 60000);
}

/* Rows of three columns: number, text, number. */
static number read_rows(work* w, sqlite3_stmt* statement) {
  number rows = 0;
  int rc;
  while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
    w->sum = add(w->sum, (number)sqlite3_column_int64(statement, 0));
    w->sum = add_text(w->sum, sqlite3_column_text(statement, 1));
    w->sum = add(w->sum, (number)sqlite3_column_int64(statement, 2));
    ++rows;
  }
  check(w->db, rc == SQLITE_DONE, "select");
  sqlite3_reset(statement);
  return rows;
}

static void insert(work* w) {
  sqlite3_stmt* statement = prepare(w->db, "INSERT INTO items (id, name, amount) VALUES (?, ?, ?)");
  number i;
  for (i = 0; i < w->operations; ++i) {
    char name[100];
    if (i % 100 == 0) run(w->db, "BEGIN");
    snprintf(name, sizeof name, "item %llu, described in some words that make it as long as many are, %llu", w->rows + i, roll(w, 1000));
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)(w->rows + i));
    sqlite3_bind_text(statement, 2, name, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(statement, 3, (sqlite3_int64)roll(w, 1000));
    check(w->db, sqlite3_step(statement) == SQLITE_DONE, "insert");
    sqlite3_reset(statement);
    if (i % 100 == 99 || i + 1 == w->operations) run(w->db, "COMMIT");
  }
  sqlite3_finalize(statement);
}

static void fill(work* w) {
  run(w->db, "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT, amount INTEGER)");
  insert(w);
}

static void select_rows(work* w, const char* sql) {
  sqlite3_stmt* statement = prepare(w->db, sql);
  number i;
  for (i = 0; i < w->operations; ++i) {
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)roll(w, w->rows));
    read_rows(w, statement);
  }
  sqlite3_finalize(statement);
}
static void select_one(work* w) { select_rows(w, "SELECT id, name, amount FROM items WHERE id = ?"); }
static void range(work* w) { select_rows(w, "SELECT id, name, amount FROM items WHERE id >= ? ORDER BY id LIMIT 100"); }

static void update_one(work* w, sqlite3_stmt* statement) {
  sqlite3_bind_int64(statement, 1, (sqlite3_int64)roll(w, w->rows));
  check(w->db, sqlite3_step(statement) == SQLITE_DONE, "update");
  sqlite3_reset(statement);
}
#define UPDATE "UPDATE items SET amount = amount + 1 WHERE id = ?"
static void update(work* w) {
  sqlite3_stmt* statement = prepare(w->db, UPDATE);
  number i;
  for (i = 0; i < w->operations; ++i) update_one(w, statement);
  sqlite3_finalize(statement);
}

static void* thread(void* argument) {
  work* w = argument;
  sqlite3_stmt *read, *write;
  number i;
  open_database(w);
  read = prepare(w->db, "SELECT id, name, 0 FROM items WHERE id = ?"); /* the amount depends on the other thread */
  write = prepare(w->db, UPDATE);
  for (i = 0; i < w->operations; ++i) {
    if (i % 10 == 9) {
      update_one(w, write);
    } else {
      sqlite3_bind_int64(read, 1, (sqlite3_int64)roll(w, w->rows));
      read_rows(w, read);
    }
  }
  sqlite3_finalize(read);
  sqlite3_finalize(write);
  sqlite3_close(w->db);
  return NULL;
}
static void two_threads(work* w) {
  work each[2];
  pthread_t handle[2];
  int i;
  for (i = 0; i < 2; ++i) {
    each[i] = *w;
    each[i].operations = w->operations / 2;
    each[i].dice = (number)i + 11;
    check(NULL, pfs_thread_create(key_worker, &handle[i], NULL, thread, &each[i]) == 0, "thread");
  }
  for (i = 0; i < 2; ++i) {
    pthread_join(handle[i], NULL);
    w->sum = add(w->sum, each[i].sum);
  }
}

static void parsed(work* w) {
  number i;
  for (i = 0; i < w->operations; ++i) {
    char sql[100];
    pfs_statement_t statement;
    sqlite3_stmt* prepared;
    const int length = snprintf(sql, sizeof sql, "SELECT id, name, amount FROM items WHERE id = %llu", roll(w, w->rows));
    pfs_statement_begin(&statement, key_select);
    pfs_statement_set_schema(&statement, "items");
    pfs_statement_set_text(&statement, sql, (size_t)length);
    prepared = prepare(w->db, sql);
    pfs_statement_set(&statement, PFS_ROWS_SENT, read_rows(w, prepared));
    sqlite3_finalize(prepared);
    pfs_statement_end(&statement);
  }
}

static void scan(work* w) {
  sqlite3_stmt* statement = prepare(w->db, "SELECT id, name, amount FROM items ORDER BY id");
  w->operations = read_rows(w, statement);
  sqlite3_finalize(statement);
}

static const struct {
  const char* name;
  void (*run)(work*);
} workloads[] = {
    {"fill", fill},     {"insert", insert},       {"select", select_one}, {"range", range},
    {"update", update}, {"threads", two_threads}, {"statements", parsed}, {"scan", scan},
};

int main(int count, char** arguments) {
  work w = {0};
  void (*chosen)(work*) = NULL;
  number wall, cpu;
  size_t i;
  for (i = 0; count == 4 && i < sizeof workloads / sizeof *workloads; ++i) {
    if (strcmp(arguments[1], workloads[i].name) == 0) chosen = workloads[i].run;
  }
  if (chosen == NULL) return fprintf(stderr, "usage: sqlite_bench WORKLOAD DATABASE OPERATIONS\n"), 2;
  shim_install();
  pfs_register_thread("sqlite", threads, 1);
  pfs_register_statement("sqlite", statements, 1);
  w.path = arguments[2];
  w.operations = strtoull(arguments[3], NULL, 10);
  w.dice = 7;
  w.sum = 14695981039346656037u;
  open_database(&w);
  if (chosen != fill) {
    sqlite3_stmt* rows = prepare(w.db, "SELECT count(*) FROM items");
    check(w.db, sqlite3_step(rows) == SQLITE_ROW, "count");
    w.rows = (number)sqlite3_column_int64(rows, 0);
    sqlite3_finalize(rows);
  }
  wall = now(CLOCK_MONOTONIC);
  cpu = now(CLOCK_PROCESS_CPUTIME_ID);
  chosen(&w);
  cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  wall = now(CLOCK_MONOTONIC) - wall;
  check(w.db, sqlite3_close(w.db) == SQLITE_OK, "close");
  printf("{\"operations\": %llu, \"wall\": %llu, \"cpu\": %llu, \"checksum\": %llu, \"sqlite\": \"%s\"}\n", w.operations, wall, cpu, w.sum,
         sqlite3_libversion());
  shim_report();
  return 0;
}
