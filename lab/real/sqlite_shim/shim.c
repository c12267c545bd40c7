#include "shim.h"

#include <stdio.h>
#include <stdlib.h>

#include "files.h"
#include "mutexes.h"

#ifdef SHIM_STOCK
void shim_install(void) {}
void shim_report(void) {}
#else
static void check(int rc, const char* what) {
  if (rc == SQLITE_OK) return;
  fprintf(stderr, "%s: %s\n", what, sqlite3_errstr(rc));
  exit(1);
}

void shim_install(void) {
  /* Mutexes first: sqlite3_vfs_find() starts sqlite3. */
  check(sqlite3_config(SQLITE_CONFIG_MUTEX, shim_mutexes()), "mutexes");
  check(sqlite3_initialize(), "start");
  check(sqlite3_vfs_register(shim_files(), 1), "files");
}
void shim_report(void) { shim_report_mutexes(); }
#endif
