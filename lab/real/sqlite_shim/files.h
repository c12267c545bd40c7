#ifndef PFS_SQLITE_FILES_H
#define PFS_SQLITE_FILES_H

#include <sqlite3.h>

/* The VFS "recorded". */
sqlite3_vfs* shim_files(void);

#endif
