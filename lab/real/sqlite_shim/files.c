/* A VFS whose files are pfs's: wait/io/file/sqlite/database, journal ... What is no file (time, random bytes, full names) the default VFS
 * does.
 *
 * Version 1: rollback journals, no shared memory and so no write-ahead log. Locks between connections are those of open file descriptions
 * (F_OFD_SETLK), which also keep two connections of one process apart, on the bytes that the file format gives to locks.
 */
#define _GNU_SOURCE
#include "files.h"

#include <errno.h>
#include <limits.h>
#include <perfschema/pfs.h>
#include <string.h>

static pfs_key_t key_database, key_journal, key_temporary, key_directory, key_other;
static pfs_file_info_t infos[] = {
    {&key_database, "database", 0, "A database."},
    {&key_journal, "journal", 0, "What a transaction needs to be undone."},
    {&key_temporary, "temporary", 0, "Gone when it is closed."},
    {&key_directory, "directory", 0, "A folder."},
    {&key_other, "other", 0, "Anything else."},
};

/* Where locks lie, far behind the data. */
#define PENDING_AT 0x40000000
#define RESERVED_AT (PENDING_AT + 1)
#define SHARED_AT (PENDING_AT + 2)
#define SHARED_SIZE 510

typedef struct recorded_file {
  sqlite3_file base; /* first: sqlite3 knows it by that */
  int fd;
  int level; /* SQLITE_LOCK_... that it holds */
} recorded_file;

static sqlite3_vfs* below(sqlite3_vfs* vfs) { return vfs->pAppData; }

/* ---- Locks ------------------------------------------------------------------------------------------------------------------- */

/* F_RDLCK, F_WRLCK or F_UNLCK on some bytes, without waiting. */
static int lock_bytes(recorded_file* file, short type, off_t at, off_t size) {
  struct flock bytes = {0};
  bytes.l_type = type;
  bytes.l_whence = SEEK_SET;
  bytes.l_start = at;
  bytes.l_len = size;
  if (fcntl(file->fd, F_OFD_SETLK, &bytes) == 0) return SQLITE_OK;
  return errno == EAGAIN || errno == EACCES ? SQLITE_BUSY : SQLITE_IOERR_LOCK;
}

static int file_lock(sqlite3_file* base, int level) {
  recorded_file* file = (recorded_file*)base;
  int rc = SQLITE_OK;
  if (file->level >= level) return SQLITE_OK;
  if (level == SQLITE_LOCK_SHARED) {
    /* Nobody may come in while a writer waits for those inside to leave: it holds the pending byte. */
    rc = lock_bytes(file, F_RDLCK, PENDING_AT, 1);
    if (rc != SQLITE_OK) return rc;
    rc = lock_bytes(file, F_RDLCK, SHARED_AT, SHARED_SIZE);
    lock_bytes(file, F_UNLCK, PENDING_AT, 1);
  } else if (level == SQLITE_LOCK_RESERVED) {
    rc = lock_bytes(file, F_WRLCK, RESERVED_AT, 1);
  } else {
    if (file->level < SQLITE_LOCK_PENDING) {
      rc = lock_bytes(file, F_WRLCK, PENDING_AT, 1);
      if (rc != SQLITE_OK) return rc;
      file->level = SQLITE_LOCK_PENDING;
    }
    rc = lock_bytes(file, F_WRLCK, SHARED_AT, SHARED_SIZE);
  }
  if (rc == SQLITE_OK) file->level = level;
  return rc;
}

static int file_unlock(sqlite3_file* base, int level) {
  recorded_file* file = (recorded_file*)base;
  int rc = SQLITE_OK;
  if (file->level <= level) return SQLITE_OK;
  if (level == SQLITE_LOCK_SHARED) {
    if (file->level == SQLITE_LOCK_EXCLUSIVE) rc = lock_bytes(file, F_RDLCK, SHARED_AT, SHARED_SIZE);
    if (rc == SQLITE_OK) rc = lock_bytes(file, F_UNLCK, PENDING_AT, 2);
  } else {
    rc = lock_bytes(file, F_UNLCK, PENDING_AT, 2 + SHARED_SIZE);
  }
  if (rc == SQLITE_OK) file->level = level;
  return rc;
}

static int file_check_reserved(sqlite3_file* base, int* result) {
  recorded_file* file = (recorded_file*)base;
  struct flock bytes = {0};
  bytes.l_type = F_WRLCK;
  bytes.l_whence = SEEK_SET;
  bytes.l_start = RESERVED_AT;
  bytes.l_len = 1;
  *result = file->level >= SQLITE_LOCK_RESERVED;
  if (*result) return SQLITE_OK;
  if (fcntl(file->fd, F_OFD_GETLK, &bytes) != 0) return SQLITE_IOERR_CHECKRESERVEDLOCK;
  *result = bytes.l_type != F_UNLCK;
  return SQLITE_OK;
}

/* ---- Contents ---------------------------------------------------------------------------------------------------------------- */

static int file_close(sqlite3_file* base) {
  recorded_file* file = (recorded_file*)base;
  return pfs_close(file->fd) == 0 ? SQLITE_OK : SQLITE_IOERR_CLOSE;
}

static int file_read(sqlite3_file* base, void* bytes, int size, sqlite3_int64 at) {
  recorded_file* file = (recorded_file*)base;
  size_t done = 0;
  while (done < (size_t)size) {
    const ssize_t got = pfs_pread(file->fd, (char*)bytes + done, (size_t)size - done, at + (off_t)done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SQLITE_IOERR_READ;
    if (got == 0) break;
    done += (size_t)got;
  }
  if (done == (size_t)size) return SQLITE_OK;
  memset((char*)bytes + done, 0, (size_t)size - done);
  return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file* base, const void* bytes, int size, sqlite3_int64 at) {
  recorded_file* file = (recorded_file*)base;
  size_t done = 0;
  while (done < (size_t)size) {
    const ssize_t put = pfs_pwrite(file->fd, (const char*)bytes + done, (size_t)size - done, at + (off_t)done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 && errno != ENOSPC ? SQLITE_IOERR_WRITE : SQLITE_FULL;
    done += (size_t)put;
  }
  return SQLITE_OK;
}

static int file_truncate(sqlite3_file* base, sqlite3_int64 size) {
  return pfs_ftruncate(((recorded_file*)base)->fd, size) == 0 ? SQLITE_OK : SQLITE_IOERR_TRUNCATE;
}

static int file_sync(sqlite3_file* base, int flags) {
  const int fd = ((recorded_file*)base)->fd;
  return (flags & SQLITE_SYNC_DATAONLY ? pfs_fdatasync(fd) : pfs_fsync(fd)) == 0 ? SQLITE_OK : SQLITE_IOERR_FSYNC;
}

static int file_size(sqlite3_file* base, sqlite3_int64* size) {
  struct stat about;
  if (pfs_fstat(((recorded_file*)base)->fd, &about) != 0) return SQLITE_IOERR_FSTAT;
  *size = about.st_size;
  return SQLITE_OK;
}

static int file_control(sqlite3_file* base, int operation, void* argument) {
  (void)base, (void)operation, (void)argument;
  return SQLITE_NOTFOUND;
}
static int file_sector_size(sqlite3_file* base) { return (void)base, 4096; }
static int file_characteristics(sqlite3_file* base) { return (void)base, SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
};

/* ---- Names ------------------------------------------------------------------------------------------------------------------- */

static pfs_key_t key_of(int flags) {
  if (flags & SQLITE_OPEN_MAIN_DB) return key_database;
  if (flags & SQLITE_OPEN_MAIN_JOURNAL) return key_journal;
  if (flags & (SQLITE_OPEN_DELETEONCLOSE | SQLITE_OPEN_TEMP_DB | SQLITE_OPEN_TEMP_JOURNAL | SQLITE_OPEN_SUBJOURNAL)) return key_temporary;
  return key_other;
}

static int vfs_open(sqlite3_vfs* vfs, const char* path, sqlite3_file* base, int flags, int* flags_out) {
  recorded_file* file = (recorded_file*)base;
  const pfs_key_t key = key_of(flags);
  char pattern[] = "/tmp/sqlite-XXXXXX";
  int how = O_CLOEXEC | (flags & SQLITE_OPEN_READWRITE ? O_RDWR : O_RDONLY);
  (void)vfs;
  memset(file, 0, sizeof *file); /* no methods: not to be closed */
  if (flags & SQLITE_OPEN_CREATE) how |= O_CREAT;
  if (flags & SQLITE_OPEN_EXCLUSIVE) how |= O_EXCL;
  if (path == NULL) {
    file->fd = pfs_mkstemp(key, pattern);
    path = pattern;
    flags |= SQLITE_OPEN_DELETEONCLOSE;
  } else {
    file->fd = pfs_open(key, path, how, 0644);
  }
  if (file->fd < 0) return SQLITE_CANTOPEN;
  /* Its name can go at once. */
  if (flags & SQLITE_OPEN_DELETEONCLOSE) unlink(path);
  file->base.pMethods = &methods;
  if (flags_out != NULL) *flags_out = flags;
  return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs* vfs, const char* path, int sync_folder) {
  const size_t length = strlen(path);
  char folder[PATH_MAX];
  char* slash;
  int fd;
  (void)vfs;
  if (pfs_unlink(length > 8 && strcmp(path + length - 8, "-journal") == 0 ? key_journal : key_other, path) != 0) {
    return errno == ENOENT ? SQLITE_IOERR_DELETE_NOENT : SQLITE_IOERR_DELETE;
  }
  if (!sync_folder || length >= sizeof folder) return SQLITE_OK;
  memcpy(folder, path, length + 1);
  slash = strrchr(folder, '/');
  if (slash == NULL) return SQLITE_OK;
  *slash = 0;
  fd = pfs_open(key_directory, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    pfs_fsync(fd);
    pfs_close(fd);
  }
  return SQLITE_OK;
}

/* Whether a file is there and not empty: no call of pfs. */
static int vfs_access(sqlite3_vfs* vfs, const char* path, int flags, int* result) {
  return below(vfs)->xAccess(below(vfs), path, flags, result);
}
static int vfs_full_name(sqlite3_vfs* vfs, const char* path, int size, char* result) {
  return below(vfs)->xFullPathname(below(vfs), path, size, result);
}
static int vfs_randomness(sqlite3_vfs* vfs, int size, char* bytes) { return below(vfs)->xRandomness(below(vfs), size, bytes); }
static int vfs_sleep(sqlite3_vfs* vfs, int microseconds) { return below(vfs)->xSleep(below(vfs), microseconds); }
static int vfs_time(sqlite3_vfs* vfs, double* now) { return below(vfs)->xCurrentTime(below(vfs), now); }
static int vfs_last_error(sqlite3_vfs* vfs, int size, char* text) { return below(vfs)->xGetLastError(below(vfs), size, text); }

sqlite3_vfs* shim_files(void) {
  static sqlite3_vfs vfs = {
      .iVersion = 1,
      .szOsFile = sizeof(recorded_file),
      .mxPathname = PATH_MAX,
      .zName = "recorded",
      .xOpen = vfs_open,
      .xDelete = vfs_delete,
      .xAccess = vfs_access,
      .xFullPathname = vfs_full_name,
      .xRandomness = vfs_randomness,
      .xSleep = vfs_sleep,
      .xCurrentTime = vfs_time,
      .xGetLastError = vfs_last_error,
  };
  if (vfs.pAppData == NULL) {
    pfs_register_file("sqlite", infos, sizeof infos / sizeof *infos);
    vfs.pAppData = sqlite3_vfs_find(NULL);
  }
  return &vfs;
}
