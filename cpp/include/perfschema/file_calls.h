/* perfschema/file_calls.h: the wrapped calls on files and streams. A part of pfs.h.
 * Made by `python -m pfs._generate` from cpp/src/capi/calls.def. Do not edit.
 */
#ifndef PERFSCHEMA_FILE_CALLS_H
#define PERFSCHEMA_FILE_CALLS_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#ifndef PFS_DISABLE

/* ---- Files by name -------------------------------------------------------------------------------------------------------------------
 * The key selects the instrument of the file. A file's row of file_instances appears at its first successful open. Each comment shows the
 * macro as the user calls it, then the event; MISC unless READ or WRITE.
 */

/* int pfs_open(key, const char* path, int flags, [mode_t mode]): open; FLAGS = flags. */
PFS_API int pfs_open_at(pfs_key_t key, PFS_SITE_, const char* path, int flags, ...);
#define pfs_open(key, ...) pfs_open_at((key), __FILE__, __LINE__, __VA_ARGS__)

/* int pfs_openat(key, int directory, const char* path, int flags, [mode_t mode]): open. */
PFS_API int pfs_openat_at(pfs_key_t key, PFS_SITE_, int directory, const char* path, int flags, ...);
#define pfs_openat(key, ...) pfs_openat_at((key), __FILE__, __LINE__, __VA_ARGS__)

/* int pfs_creat(key, const char* path, mode_t mode): create. */
PFS_API int pfs_creat_at(pfs_key_t key, const char* path, mode_t mode, PFS_SITE_);
#define pfs_creat(...) pfs_creat_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_mkstemp(key, char* pattern): create. The file's row disappears when it is closed. */
PFS_API int pfs_mkstemp_at(pfs_key_t key, char* pattern, PFS_SITE_);
#define pfs_mkstemp(...) pfs_mkstemp_at(__VA_ARGS__, __FILE__, __LINE__)

/* FILE* pfs_fopen(key, const char* path, const char* mode): create if mode begins with "w", else open. */
PFS_API FILE* pfs_fopen_at(pfs_key_t key, const char* path, const char* mode, PFS_SITE_);
#define pfs_fopen(...) pfs_fopen_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_stat(key, const char* path, struct stat* result): stat. */
PFS_API int pfs_stat_at(pfs_key_t key, const char* path, struct stat* result, PFS_SITE_);
#define pfs_stat(...) pfs_stat_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_lstat(key, const char* path, struct stat* result): stat. */
PFS_API int pfs_lstat_at(pfs_key_t key, const char* path, struct stat* result, PFS_SITE_);
#define pfs_lstat(...) pfs_lstat_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_truncate(key, const char* path, off_t length): chsize. */
PFS_API int pfs_truncate_at(pfs_key_t key, const char* path, off_t length, PFS_SITE_);
#define pfs_truncate(...) pfs_truncate_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_rename(key, const char* from, const char* to): rename. The file keeps its statistics under the new name. */
PFS_API int pfs_rename_at(pfs_key_t key, const char* from, const char* to, PFS_SITE_);
#define pfs_rename(...) pfs_rename_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_unlink(key, const char* path): delete. The row is removed; its statistics stay with the instrument. */
PFS_API int pfs_unlink_at(pfs_key_t key, const char* path, PFS_SITE_);
#define pfs_unlink(...) pfs_unlink_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_mkdir(key, const char* path, mode_t mode): mkdir. */
PFS_API int pfs_mkdir_at(pfs_key_t key, const char* path, mode_t mode, PFS_SITE_);
#define pfs_mkdir(...) pfs_mkdir_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_rmdir(key, const char* path): rmdir. */
PFS_API int pfs_rmdir_at(pfs_key_t key, const char* path, PFS_SITE_);
#define pfs_rmdir(...) pfs_rmdir_at(__VA_ARGS__, __FILE__, __LINE__)

/* ---- Files by descriptor -------------------------------------------------------------------------------------------------------------
 */

/* int pfs_close(int fd): close. */
PFS_API int pfs_close_at(int fd, PFS_SITE_);
#define pfs_close(...) pfs_close_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_read(int fd, void* buffer, size_t size): read, bytes (READ). */
PFS_API ssize_t pfs_read_at(int fd, void* buffer, size_t size, PFS_SITE_);
#define pfs_read(...) pfs_read_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_write(int fd, const void* buffer, size_t size): write, bytes (WRITE). */
PFS_API ssize_t pfs_write_at(int fd, const void* buffer, size_t size, PFS_SITE_);
#define pfs_write(...) pfs_write_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_pread(int fd, void* buffer, size_t size, off_t offset): read, bytes (READ). */
PFS_API ssize_t pfs_pread_at(int fd, void* buffer, size_t size, off_t offset, PFS_SITE_);
#define pfs_pread(...) pfs_pread_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_pwrite(int fd, const void* buffer, size_t size, off_t offset): write, bytes (WRITE). */
PFS_API ssize_t pfs_pwrite_at(int fd, const void* buffer, size_t size, off_t offset, PFS_SITE_);
#define pfs_pwrite(...) pfs_pwrite_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_readv(int fd, const struct iovec* parts, int count): read, bytes (READ). */
PFS_API ssize_t pfs_readv_at(int fd, const struct iovec* parts, int count, PFS_SITE_);
#define pfs_readv(...) pfs_readv_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_writev(int fd, const struct iovec* parts, int count): write, bytes (WRITE). */
PFS_API ssize_t pfs_writev_at(int fd, const struct iovec* parts, int count, PFS_SITE_);
#define pfs_writev(...) pfs_writev_at(__VA_ARGS__, __FILE__, __LINE__)

/* off_t pfs_lseek(int fd, off_t offset, int whence): seek. */
PFS_API off_t pfs_lseek_at(int fd, off_t offset, int whence, PFS_SITE_);
#define pfs_lseek(...) pfs_lseek_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_fsync(int fd): sync. */
PFS_API int pfs_fsync_at(int fd, PFS_SITE_);
#define pfs_fsync(...) pfs_fsync_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_fdatasync(int fd): sync. */
PFS_API int pfs_fdatasync_at(int fd, PFS_SITE_);
#define pfs_fdatasync(...) pfs_fdatasync_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_ftruncate(int fd, off_t length): chsize, bytes = length. */
PFS_API int pfs_ftruncate_at(int fd, off_t length, PFS_SITE_);
#define pfs_ftruncate(...) pfs_ftruncate_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_fstat(int fd, struct stat* result): stat. */
PFS_API int pfs_fstat_at(int fd, struct stat* result, PFS_SITE_);
#define pfs_fstat(...) pfs_fstat_at(__VA_ARGS__, __FILE__, __LINE__)

/* ---- Files by stream -----------------------------------------------------------------------------------------------------------------
 * One event for each call, whether or not it reaches the system. Streams without a descriptor (fmemopen) and NULL make the plain call.
 */

/* int pfs_fclose(FILE* stream): close. */
PFS_API int pfs_fclose_at(FILE* stream, PFS_SITE_);
#define pfs_fclose(...) pfs_fclose_at(__VA_ARGS__, __FILE__, __LINE__)

/* size_t pfs_fread(void* buffer, size_t size, size_t count, FILE* stream): read, bytes of the whole items (READ). */
PFS_API size_t pfs_fread_at(void* buffer, size_t size, size_t count, FILE* stream, PFS_SITE_);
#define pfs_fread(...) pfs_fread_at(__VA_ARGS__, __FILE__, __LINE__)

/* size_t pfs_fwrite(const void* buffer, size_t size, size_t count, FILE* stream): write, bytes of the whole items (WRITE). */
PFS_API size_t pfs_fwrite_at(const void* buffer, size_t size, size_t count, FILE* stream, PFS_SITE_);
#define pfs_fwrite(...) pfs_fwrite_at(__VA_ARGS__, __FILE__, __LINE__)

/* char* pfs_fgets(char* buffer, int size, FILE* stream): read, bytes = strlen of the result (READ). */
PFS_API char* pfs_fgets_at(char* buffer, int size, FILE* stream, PFS_SITE_);
#define pfs_fgets(...) pfs_fgets_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_fgetc(FILE* stream): read, 1 byte or 0 (READ). */
PFS_API int pfs_fgetc_at(FILE* stream, PFS_SITE_);
#define pfs_fgetc(...) pfs_fgetc_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_fputs(const char* text, FILE* stream): write, bytes (WRITE). */
PFS_API int pfs_fputs_at(const char* text, FILE* stream, PFS_SITE_);
#define pfs_fputs(...) pfs_fputs_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_fputc(int character, FILE* stream): write, 1 byte or 0 (WRITE). */
PFS_API int pfs_fputc_at(int character, FILE* stream, PFS_SITE_);
#define pfs_fputc(...) pfs_fputc_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_vfprintf(FILE* stream, const char* format, va_list arguments): write, bytes (WRITE). */
PFS_API int pfs_vfprintf_at(FILE* stream, const char* format, va_list arguments, PFS_SITE_) __attribute__((format(printf, 2, 0)));
#define pfs_vfprintf(...) pfs_vfprintf_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_fprintf(FILE* stream, const char* format, ...): write, bytes (WRITE). */
PFS_API int pfs_fprintf_at(FILE* stream, PFS_SITE_, const char* format, ...) __attribute__((format(printf, 4, 5)));
#define pfs_fprintf(stream, ...) pfs_fprintf_at((stream), __FILE__, __LINE__, __VA_ARGS__)

/* int pfs_fseek(FILE* stream, long offset, int whence): seek. */
PFS_API int pfs_fseek_at(FILE* stream, long offset, int whence, PFS_SITE_);
#define pfs_fseek(...) pfs_fseek_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_fseeko(FILE* stream, off_t offset, int whence): seek. */
PFS_API int pfs_fseeko_at(FILE* stream, off_t offset, int whence, PFS_SITE_);
#define pfs_fseeko(...) pfs_fseeko_at(__VA_ARGS__, __FILE__, __LINE__)

/* long pfs_ftell(FILE* stream): tell. */
PFS_API long pfs_ftell_at(FILE* stream, PFS_SITE_);
#define pfs_ftell(...) pfs_ftell_at(__VA_ARGS__, __FILE__, __LINE__)

/* off_t pfs_ftello(FILE* stream): tell. */
PFS_API off_t pfs_ftello_at(FILE* stream, PFS_SITE_);
#define pfs_ftello(...) pfs_ftello_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_fflush(FILE* stream): flush. */
PFS_API int pfs_fflush_at(FILE* stream, PFS_SITE_);
#define pfs_fflush(...) pfs_fflush_at(__VA_ARGS__, __FILE__, __LINE__)

/* void pfs_rewind(FILE* stream): seek. */
PFS_API void pfs_rewind_at(FILE* stream, PFS_SITE_);
#define pfs_rewind(...) pfs_rewind_at(__VA_ARGS__, __FILE__, __LINE__)

#else /* PFS_DISABLE */

#define pfs_open(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ open(__VA_ARGS__))
#define pfs_openat(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ openat(__VA_ARGS__))
#define pfs_creat(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ creat(__VA_ARGS__))
#define pfs_mkstemp(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ mkstemp(__VA_ARGS__))
#define pfs_fopen(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ fopen(__VA_ARGS__))
#define pfs_stat(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ stat(__VA_ARGS__))
#define pfs_lstat(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ lstat(__VA_ARGS__))
#define pfs_truncate(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ truncate(__VA_ARGS__))
#define pfs_rename(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ rename(__VA_ARGS__))
#define pfs_unlink(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ unlink(__VA_ARGS__))
#define pfs_mkdir(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ mkdir(__VA_ARGS__))
#define pfs_rmdir(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ rmdir(__VA_ARGS__))
#define pfs_close(...) PFS_PLAIN_ close(__VA_ARGS__)
#define pfs_read(...) PFS_PLAIN_ read(__VA_ARGS__)
#define pfs_write(...) PFS_PLAIN_ write(__VA_ARGS__)
#define pfs_pread(...) PFS_PLAIN_ pread(__VA_ARGS__)
#define pfs_pwrite(...) PFS_PLAIN_ pwrite(__VA_ARGS__)
#define pfs_readv(...) PFS_PLAIN_ readv(__VA_ARGS__)
#define pfs_writev(...) PFS_PLAIN_ writev(__VA_ARGS__)
#define pfs_lseek(...) PFS_PLAIN_ lseek(__VA_ARGS__)
#define pfs_fsync(...) PFS_PLAIN_ fsync(__VA_ARGS__)
#define pfs_fdatasync(...) PFS_PLAIN_ fdatasync(__VA_ARGS__)
#define pfs_ftruncate(...) PFS_PLAIN_ ftruncate(__VA_ARGS__)
#define pfs_fstat(...) PFS_PLAIN_ fstat(__VA_ARGS__)
#define pfs_fclose(...) PFS_PLAIN_ fclose(__VA_ARGS__)
#define pfs_fread(...) PFS_PLAIN_ fread(__VA_ARGS__)
#define pfs_fwrite(...) PFS_PLAIN_ fwrite(__VA_ARGS__)
#define pfs_fgets(...) PFS_PLAIN_ fgets(__VA_ARGS__)
#define pfs_fgetc(...) PFS_PLAIN_ fgetc(__VA_ARGS__)
#define pfs_fputs(...) PFS_PLAIN_ fputs(__VA_ARGS__)
#define pfs_fputc(...) PFS_PLAIN_ fputc(__VA_ARGS__)
#define pfs_vfprintf(...) PFS_PLAIN_ vfprintf(__VA_ARGS__)
#define pfs_fprintf(...) PFS_PLAIN_ fprintf(__VA_ARGS__)
#define pfs_fseek(...) PFS_PLAIN_ fseek(__VA_ARGS__)
#define pfs_fseeko(...) PFS_PLAIN_ fseeko(__VA_ARGS__)
#define pfs_ftell(...) PFS_PLAIN_ ftell(__VA_ARGS__)
#define pfs_ftello(...) PFS_PLAIN_ ftello(__VA_ARGS__)
#define pfs_fflush(...) PFS_PLAIN_ fflush(__VA_ARGS__)
#define pfs_rewind(...) PFS_PLAIN_ rewind(__VA_ARGS__)

#endif /* PFS_DISABLE */
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_FILE_CALLS_H */
