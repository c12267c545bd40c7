/* sqlite3 on pfs: its files and its mutexes. SHIM_STOCK: nothing of it, sqlite3's own. */
#ifndef PFS_SQLITE_SHIM_H
#define PFS_SQLITE_SHIM_H

/* Before anything else of sqlite3. Ends the program if it cannot be done. */
void shim_install(void);

/* A line on stderr for each kind of mutex that was locked, "shim: count KIND locks N": with SHIM_COUNT only. */
void shim_report(void);

#endif
