#ifndef PFS_SQLITE_MUTEXES_H
#define PFS_SQLITE_MUTEXES_H

#include <sqlite3.h>

const sqlite3_mutex_methods* shim_mutexes(void);
void shim_report_mutexes(void);

#endif
