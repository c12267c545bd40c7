/* Calls on files that pfs run replaces, each one with a result that it checks. Prints what it did with each file of its folder:
 *
 *     name reads bytes writes bytes other
 *
 * The one argument is a folder of its own.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
  char name[64];
  int reads, bytes_read, writes, bytes_written, other;
} files[64];
static int file_count;

static int find(const char* name) {
  for (int i = 0; i < file_count; ++i) {
    if (strcmp(files[i].name, name) == 0) return i;
  }
  strcpy(files[file_count].name, name);
  return file_count++;
}

/* These note a call that has been made, and return its result. */
static long did_read(const char* name, long n) {
  files[find(name)].reads += 1;
  files[find(name)].bytes_read += n > 0 ? (int)n : 0;
  return n;
}
static long did_write(const char* name, long n) {
  files[find(name)].writes += 1;
  files[find(name)].bytes_written += n > 0 ? (int)n : 0;
  return n;
}
static long did(const char* name, long n) {
  files[find(name)].other += 1;
  return n;
}

static int scan(FILE* stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int n = vfscanf(stream, format, arguments);
  va_end(arguments);
  return n;
}
static int print(int fd, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int n = vdprintf(fd, format, arguments);
  va_end(arguments);
  return n;
}

static void descriptors(void) {
  char buffer[64];
  struct iovec part = {buffer, 10};
  struct stat info;
  const int fd = (int)did("data", open("data", O_RDWR | O_CREAT | O_TRUNC, 0644));
  assert(did("data", fallocate(fd, 0, 0, 100)) == 0);
  assert(did("data", posix_fallocate(fd, 0, 200)) == 0);
  assert(did_write("data", pwritev2(fd, &part, 1, 0, 0)) == 10);
  assert(did_read("data", preadv2(fd, &part, 1, 0, 0)) == 10);
  assert(did_write("data", dprintf(fd, "%d", 12345)) == 5);
  assert(did_write("data", print(fd, "%d", 678)) == 3);
  assert(did("data", sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE)) == 0);
  assert(did("data", syncfs(fd)) == 0);
  assert(did("data", fstatat(fd, "", &info, AT_EMPTY_PATH)) == 0 && info.st_size == 200);
  struct statx more;
  assert(did("data", statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &more)) == 0 && more.stx_size == 200);

  const int copy = (int)did("copy", open("copy", O_RDWR | O_CREAT | O_TRUNC, 0644));
  off64_t from = 0;
  long n = copy_file_range(fd, &from, copy, NULL, 100, 0);
  assert(n == 100 || errno == EXDEV || errno == ENOSYS);
  did_write("copy", n);
  int ends[2];
  assert(pipe(ends) == 0);
  loff_t at = 0;
  assert(splice(fd, &at, ends[1], NULL, 50, 0) == 50);
  assert(did_write("copy", splice(ends[0], NULL, copy, NULL, 50, 0)) == 50);
  close(ends[0]);
  close(ends[1]);

  const int second = fcntl(copy, F_DUPFD, 100), third = fcntl(copy, F_DUPFD_CLOEXEC, 100);
  assert(second >= 100 && third > second);
  assert(did_write("copy", write(second, "abc", 3)) == 3);
  assert(did_write("copy", write(third, "de", 2)) == 2);
  assert(close_range((unsigned)second, (unsigned)third, 0) == 0); /* no event of a file */
  assert(write(second, "x", 1) == -1 && errno == EBADF);
  assert(did("copy", close(copy)) == 0);
  assert(did("data", close(fd)) == 0);

  const int memory = memfd_create("memory", 0);
  assert(write(memory, "1234", 4) == 4);
  close(memory);
}

/* A descriptor that nobody saw closed keeps its name until another call is seen to make that number. */
static void made_again(void) {
  struct stat info;
  for (int i = 0; i < 3; ++i) {
    const int fd = (int)did("closed_unseen", open("closed_unseen", O_RDWR | O_CREAT, 0644));
    if (syscall(SYS_close_range, fd, fd, 0) != 0) { /* an old kernel */
      assert(did("closed_unseen", close(fd)) == 0);
      continue;
    }
    const int made =
        i == 0 ? pidfd_open(getpid(), 0) : (int)(i == 1 ? syscall(SYS_pidfd_open, getpid(), 0) : syscall(SYS_memfd_create, "m", 0));
    assert(made == fd);
    assert(fstat(made, &info) == 0 && close(made) == 0);
  }
}

static void by_syscall(void) {
  char buffer[64];
  struct iovec part = {buffer, 5};
  const int fd = (int)did("raw", syscall(SYS_openat, AT_FDCWD, "raw", O_RDWR | O_CREAT | O_TRUNC, 0644));
  assert(did_write("raw", syscall(SYS_write, fd, "hello", 5)) == 5);
  assert(did_write("raw", syscall(SYS_pwrite64, fd, "HE", 2, 0L)) == 2);
  assert(did_read("raw", syscall(SYS_pread64, fd, buffer, 5, 0L)) == 5);
  assert(memcmp(buffer, "HEllo", 5) == 0);
  assert(did_read("raw", syscall(SYS_preadv, fd, &part, 1, 0L, 0L)) == 5);
  assert(did_read("raw", syscall(SYS_read, fd, buffer, 5)) == 0);
  assert(did_write("raw", syscall(SYS_writev, fd, &part, 1)) == 5);
  assert(did("raw", syscall(SYS_fsync, fd)) == 0);
  struct stat info;
  assert(did("raw", syscall(SYS_fstat, fd, &info)) == 0 && info.st_size == 10);
  assert(did("raw", syscall(SYS_newfstatat, AT_FDCWD, "raw", &info, 0)) == 0 && info.st_size == 10);
  assert(did("raw", syscall(SYS_close, fd)) == 0);
  assert(did_read("raw", syscall(SYS_read, fd, buffer, 5)) == -1 || 1); /* no event: the descriptor is closed */
  files[find("raw")].reads -= 1;
  assert(syscall(SYS_getpid) == getpid());
  assert(syscall(SYS_close, -1) == -1 && errno == EBADF);
}

static void names(const char* folder) {
  struct stat info;
  const int here = open(folder, O_RDONLY | O_DIRECTORY);
  assert(here >= 0);
  int fd = (int)did("first", openat(here, "first", O_WRONLY | O_CREAT, 0644));
  assert(did_write("first", write(fd, "1", 1)) == 1);
  assert(did("first", close(fd)) == 0);
  assert(did("first", fstatat(here, "first", &info, 0)) == 0);
  assert(did("first", access("first", R_OK)) == 0);
  assert(did("first", faccessat(here, "first", R_OK, 0)) == 0);
  struct statx more;
  assert(did("first", statx(here, "first", 0, STATX_SIZE, &more)) == 0);
  assert(did("first", renameat(here, "first", here, "second")) == 0);
  strcpy(files[find("first")].name, "second"); /* the file keeps its numbers */
  assert(did("second", renameat2(here, "second", AT_FDCWD, "third", RENAME_NOREPLACE)) == 0);
  strcpy(files[find("second")].name, "third");
  assert(link("third", "hard") == 0); /* names that are no open files have no row */
  assert(linkat(here, "third", here, "harder", 0) == 0);
  assert(symlink("third", "soft") == 0);
  assert(symlinkat("third", here, "softer") == 0);
  assert(mkdirat(here, "folder", 0755) == 0);
  assert(unlinkat(here, "folder", AT_REMOVEDIR) == 0);
  assert(unlinkat(here, "hard", 0) == 0);
  assert(unlinkat(here, "missing", 0) == -1 && errno == ENOENT);
  assert(unlink("harder") == 0 && unlink("soft") == 0 && unlink("softer") == 0);
  close(here);

  DIR* listed = opendir(".");
  int entries = 0;
  while (readdir(listed) != NULL) ++entries;
  assert(entries >= 5);
  assert(closedir(listed) == 0);
  assert(opendir("missing") == NULL && errno == ENOENT);

  char plain[] = "temporary-XXXXXX", flags[] = "temporary-XXXXXX", suffix[] = "temporary-XXXXXX.tmp", both[] = "temporary-XXXXXX.tmp";
  const int made[] = {mkstemp(plain), mkostemp(flags, O_CLOEXEC), mkstemps(suffix, 4), mkostemps(both, 4, O_CLOEXEC)};
  const char* const made_names[] = {plain, flags, suffix, both};
  for (int i = 0; i < 4; ++i) {
    assert(made[i] >= 0 && strstr(made_names[i], "XXXXXX") == NULL);
    assert(write(made[i], "12345", 5) == 5);
    close(made[i]);
    unlink(made_names[i]);
  }
  FILE* unnamed = tmpfile();
  assert(unnamed != NULL && fputs("unnamed", unnamed) >= 0);
  fclose(unnamed);
}

static void streams(void) {
  FILE* out = fopen("text", "w");
  did("text", out != NULL);
  assert(fputs("12 34\nfifth\nsixth line\n", out) >= 0);
  did_write("text", 23);
  did("text", fclose(out));
  char word[32];
  int number = 0;
  char* line = NULL;
  size_t capacity = 0;
  FILE* in = fopen("text", "r");
  did("text", in != NULL);
  assert(did_read("text", 0 * fscanf(in, "%d", &number)) == 0 && number == 12);
  assert(did_read("text", 0 * scan(in, "%d\n", &number)) == 0 && number == 34);
  assert(fgets_unlocked(word, sizeof word, in) == word && strcmp(word, "fifth\n") == 0);
  did_read("text", 6);
  assert(did_read("text", getline(&line, &capacity, in)) == 11 && strcmp(line, "sixth line\n") == 0);
  free(line);
  did("text", fclose(in));
}

int main(int count, char** arguments) {
  assert(count == 2 && chdir(arguments[1]) == 0);
  descriptors();
  made_again();
  by_syscall();
  names(arguments[1]);
  streams();
  for (int i = 0; i < file_count; ++i) {
    printf("%s %d %d %d %d %d\n", files[i].name, files[i].reads, files[i].bytes_read, files[i].writes, files[i].bytes_written,
           files[i].other);
  }
  return 0;
}
