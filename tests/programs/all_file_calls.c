/* Every wrapped file call, failures included: one line a call, "name result errno bytes".
 *   all_file_calls DIRECTORY
 * The output of the instrumented program and that of the program built with -DPFS_DISABLE are equal byte for byte: nothing that varies
 * (descriptors, addresses, names, times) is printed. `errno` is set to 77 before each call, so a call that leaves it alone shows 77.
 * `bytes` is a checksum of what the call stored, or of the file as it is afterwards: a wrapper that drops an argument shows. */
#define _GNU_SOURCE
#include <errno.h>
#include <perfschema/pfs.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

static pfs_key_t key;
static pfs_file_info_t files[] = {{&key, "all", 0, "Every call."}};

static char buffer[256];

static unsigned long sum(const void* bytes, size_t size) {
  unsigned long hash = 5381;
  size_t i;
  for (i = 0; i < size; ++i) hash = (hash * 33 + ((const unsigned char*)bytes)[i]) % 1000003;
  return hash;
}

static void show(const char* name, long long result, unsigned long bytes) {
  const int error = errno;
  printf("%s %lld %d %lu\n", name, result, error, bytes);
}

static void clear(void) {
  memset(buffer, 0, sizeof buffer);
  errno = 77;
}

/* Results are numbers, descriptors (>= 0 is "open") or pointers. */
static long long result;
#define SHOW(name) show(name, result, sum(buffer, sizeof buffer))
#define NUMBER(name, call) (clear(), result = (long long)(call), SHOW(name))
#define OPENED(name, variable, call) (clear(), (variable) = (call), result = (variable) >= 0, SHOW(name))
#define STREAM(name, variable, call) (clear(), (variable) = (call), result = (variable) != NULL, SHOW(name))
#define VOID(name, call) (clear(), (call), result = 0, SHOW(name))

/* Values that are wrong on purpose; volatile, so that the compiler does not warn. */
static volatile int minus_one = -1;
static void* volatile nowhere = (void*)8;

/* Returns the content of a file, by plain calls. */
static void contents(const char* path) {
  static char all[65536];
  const int fd = open(path, O_RDONLY);
  const ssize_t n = fd >= 0 ? read(fd, all, sizeof all) : -1;
  if (fd >= 0) close(fd);
  printf("  holds %lld %lu\n", (long long)n, n > 0 ? sum(all, (size_t)n) : 0);
}

static void on_alarm(int signal) { (void)signal; }

static int formatted(FILE* stream, const char* format, ...) {
  va_list arguments;
  int n;
  va_start(arguments, format);
  n = pfs_vfprintf(stream, format, arguments);
  va_end(arguments);
  return n;
}

static void descriptors(void) {
  char pattern[] = "temporary-XXXXXX", bad_pattern[] = "no-pattern";
  struct iovec parts[2] = {{buffer, 3}, {buffer + 100, 200 - 100}};
  struct iovec written[2] = {{(char[]){"scattered "}, 10}, {(char[]){"parts"}, 5}};
  struct stat facts;
  int fd, other, directory;

  OPENED("open O_CREAT", fd, pfs_open(key, "a", O_RDWR | O_CREAT | O_EXCL, 0640));
  NUMBER("fstat", pfs_fstat(fd, &facts));
  printf("  mode %o size %lld\n", (unsigned)facts.st_mode, (long long)facts.st_size);
  OPENED("open O_EXCL", other, pfs_open(key, "a", O_RDWR | O_CREAT | O_EXCL, 0640));
  OPENED("open missing", other, pfs_open(key, "missing", O_RDONLY));
  OPENED("open key 0", other, pfs_open(0, "a", O_RDONLY));
  NUMBER("read key 0", pfs_read(other, buffer, 1));
  NUMBER("close key 0", pfs_close(other));
  OPENED("open a directory to write", other, pfs_open(key, ".", O_RDWR));
  OPENED("open empty name", other, pfs_open(key, "", O_RDONLY));

  NUMBER("write", pfs_write(fd, "0123456789", 10));
  NUMBER("pwrite", pfs_pwrite(fd, "abc", 3, 20));
  NUMBER("pwrite bad offset", pfs_pwrite(fd, "abc", 3, minus_one));
  NUMBER("writev", pfs_writev(fd, written, 2));
  NUMBER("writev bad count", pfs_writev(fd, written, minus_one));
  NUMBER("writev bad address", pfs_writev(fd, (struct iovec*)nowhere, 1));
  NUMBER("tell", pfs_tell(fd));
  NUMBER("lseek", pfs_lseek(fd, 2, SEEK_SET));
  NUMBER("lseek end", pfs_lseek(fd, -1, SEEK_END));
  NUMBER("lseek current", pfs_lseek(fd, -5, SEEK_CUR));
  NUMBER("lseek bad", pfs_lseek(fd, -100, SEEK_SET));
  NUMBER("lseek bad whence", pfs_lseek(fd, 0, 99));
  NUMBER("read short", pfs_read(fd, buffer, sizeof buffer));
  NUMBER("read at the end", pfs_read(fd, buffer, sizeof buffer));
  NUMBER("read bad address", pfs_read(fd, nowhere, 5));
  NUMBER("pread", pfs_pread(fd, buffer, 4, 3));
  NUMBER("pread bad offset", pfs_pread(fd, buffer, 4, -3));
  NUMBER("lseek", pfs_lseek(fd, 1, SEEK_SET));
  NUMBER("readv short", pfs_readv(fd, parts, 2));
  NUMBER("readv bad count", pfs_readv(fd, parts, minus_one));
  NUMBER("readv bad address", pfs_readv(fd, (struct iovec*)nowhere, 1));
  NUMBER("fsync", pfs_fsync(fd));
  NUMBER("fdatasync", pfs_fdatasync(fd));
  NUMBER("ftruncate", pfs_ftruncate(fd, 7));
  NUMBER("ftruncate bad", pfs_ftruncate(fd, -7));
  contents("a");
  NUMBER("close", pfs_close(fd));
  NUMBER("close again", pfs_close(fd));
  NUMBER("read closed", pfs_read(fd, buffer, 1));
  NUMBER("write closed", pfs_write(fd, "x", 1));
  NUMBER("lseek closed", pfs_lseek(fd, 0, SEEK_SET));
  NUMBER("fsync closed", pfs_fsync(fd));
  NUMBER("ftruncate closed", pfs_ftruncate(fd, 0));
  NUMBER("fstat closed", pfs_fstat(fd, &facts));
  NUMBER("close -1", pfs_close(minus_one));
  NUMBER("read -1", pfs_read(minus_one, buffer, 1));
  NUMBER("tell -1", pfs_tell(minus_one));
  NUMBER("read a great number", pfs_read(1 << 30, buffer, 1));

  OPENED("open read-only", fd, pfs_open(key, "a", O_RDONLY));
  NUMBER("write read-only", pfs_write(fd, "x", 1));
  NUMBER("writev read-only", pfs_writev(fd, written, 2));
  NUMBER("ftruncate read-only", pfs_ftruncate(fd, 0));
  NUMBER("close", pfs_close(fd));

  OPENED("creat", fd, pfs_creat(key, "b", 0600));
  NUMBER("read write-only", pfs_read(fd, buffer, 1));
  NUMBER("write", pfs_write(fd, "created", 7));
  NUMBER("close", pfs_close(fd));
  contents("b");
  OPENED("creat missing directory", fd, pfs_creat(key, "missing/b", 0600));

  OPENED("open directory", directory, pfs_open(key, ".", O_RDONLY | O_DIRECTORY));
  NUMBER("read directory", pfs_read(directory, buffer, 1));
  OPENED("openat", fd, pfs_openat(key, directory, "b", O_RDONLY));
  NUMBER("read", pfs_read(fd, buffer, 3));
  NUMBER("close", pfs_close(fd));
  OPENED("openat O_CREAT", fd, pfs_openat(key, directory, "at", O_RDWR | O_CREAT, 0600));
  NUMBER("close", pfs_close(fd));
  OPENED("openat AT_FDCWD", fd, pfs_openat(key, AT_FDCWD, "at", O_RDONLY));
  NUMBER("close", pfs_close(fd));
  OPENED("openat missing", fd, pfs_openat(key, directory, "missing", O_RDONLY));
  OPENED("openat bad directory", fd, pfs_openat(key, 99999, "b", O_RDONLY));
  NUMBER("close directory", pfs_close(directory));

  OPENED("mkstemp", fd, pfs_mkstemp(key, pattern));
  NUMBER("write", pfs_write(fd, "temporary", 9));
  NUMBER("close", pfs_close(fd));
  contents(pattern);
  NUMBER("unlink temporary", pfs_unlink(key, pattern));
  OPENED("mkstemp bad pattern", fd, pfs_mkstemp(key, bad_pattern));

#ifdef O_TMPFILE
  OPENED("open O_TMPFILE in no directory", fd, pfs_open(key, "missing", O_TMPFILE | O_RDWR, 0600));
#endif
  OPENED("open /dev/full", fd, pfs_open(key, "/dev/full", O_WRONLY));
  NUMBER("write ENOSPC", pfs_write(fd, "x", 1));
  NUMBER("ftruncate a device", pfs_ftruncate(fd, 0));
  NUMBER("close", pfs_close(fd));

  /* A descriptor that is closed unnoticed, and then belongs to another file. */
  OPENED("open", fd, pfs_open(key, "a", O_RDONLY));
  close(fd);
  OPENED("open the same number", other, pfs_open(key, "b", O_RDONLY));
  printf("  same number %d\n", fd == other);
  NUMBER("read", pfs_read(other, buffer, 7));
  NUMBER("close", pfs_close(other));
}

static void names(void) {
  struct stat facts;
  NUMBER("mkdir", pfs_mkdir(key, "d", 0700));
  NUMBER("mkdir again", pfs_mkdir(key, "d", 0700));
  NUMBER("mkdir missing", pfs_mkdir(key, "missing/d", 0700));
  NUMBER("stat", pfs_stat(key, "a", &facts));
  printf("  mode %o size %lld\n", (unsigned)facts.st_mode, (long long)facts.st_size);
  NUMBER("stat missing", pfs_stat(key, "missing", &facts));
  NUMBER("stat through a file", pfs_stat(key, "a/b", &facts));
  NUMBER("symlink", symlink("missing", "link"));
  NUMBER("lstat", pfs_lstat(key, "link", &facts));
  printf("  link %d\n", S_ISLNK(facts.st_mode) != 0);
  NUMBER("stat of a broken link", pfs_stat(key, "link", &facts));
  NUMBER("lstat missing", pfs_lstat(key, "missing", &facts));
  NUMBER("unlink link", pfs_unlink(key, "link"));
  NUMBER("truncate", pfs_truncate(key, "b", 3));
  contents("b");
  NUMBER("truncate missing", pfs_truncate(key, "missing", 3));
  NUMBER("truncate bad", pfs_truncate(key, "b", -3));
  NUMBER("rename", pfs_rename(key, "a", "d/c"));
  contents("d/c");
  NUMBER("rename missing", pfs_rename(key, "a", "d/c"));
  NUMBER("rename onto", pfs_rename(key, "b", "d/c"));
  contents("d/c");
  NUMBER("rename onto a directory", pfs_rename(key, "d/c", "d"));
  NUMBER("rename to itself", pfs_rename(key, "d/c", "d/c"));
  NUMBER("rename to nowhere", pfs_rename(key, "d/c", "missing/c"));
  NUMBER("rmdir full", pfs_rmdir(key, "d"));
  NUMBER("rmdir file", pfs_rmdir(key, "d/c"));
  NUMBER("unlink directory", pfs_unlink(key, "d"));
  NUMBER("unlink", pfs_unlink(key, "d/c"));
  NUMBER("unlink again", pfs_unlink(key, "d/c"));
  NUMBER("unlink at", pfs_unlink(key, "at"));
  NUMBER("unlink empty name", pfs_unlink(key, ""));
  NUMBER("rmdir", pfs_rmdir(key, "d"));
  NUMBER("rmdir again", pfs_rmdir(key, "d"));
  NUMBER("key 0: unlink", pfs_unlink(0, "missing"));
}

/* Bad name pointers: the kernel returns EFAULT, and so does pfs. volatile: the compiler must not know. */
static void no_names(void) {
  const char* volatile null = NULL;
  struct stat facts;
  int fd, fd_of_root = open("/", O_RDONLY | O_DIRECTORY);
  char* const edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (edge == MAP_FAILED || munmap(edge + 4096, 4096) != 0) return;
  OPENED("open NULL", fd, pfs_open(key, null, O_RDONLY));
  OPENED("openat NULL", fd, pfs_openat(key, AT_FDCWD, null, O_RDONLY));
  OPENED("creat NULL", fd, pfs_creat(key, null, 0600));
  NUMBER("stat NULL", pfs_stat(key, null, &facts));
  NUMBER("unlink NULL", pfs_unlink(key, null));
  NUMBER("mkdir NULL", pfs_mkdir(key, null, 0700));
  NUMBER("rmdir NULL", pfs_rmdir(key, null));
  NUMBER("truncate NULL", pfs_truncate(key, null, 0));
  NUMBER("rename NULL from", pfs_rename(key, null, "x"));
  NUMBER("rename NULL to", pfs_rename(key, "x", null));
  null = (const char*)nowhere;
  OPENED("open bad address", fd, pfs_open(key, null, O_RDONLY));
  OPENED("openat bad address", fd, pfs_openat(key, fd_of_root, null, O_RDONLY));
  NUMBER("rmdir bad address", pfs_rmdir(key, null));
  NUMBER("stat bad address", pfs_stat(key, null, &facts));
  NUMBER("unlink bad address", pfs_unlink(key, null));
  NUMBER("truncate bad address", pfs_truncate(key, null, 0));
  NUMBER("mkdir bad address", pfs_mkdir(key, null, 0700));
  NUMBER("rename bad address", pfs_rename(key, null, "x"));
  /* A name that ends where the memory does, and one that does not. */
  null = edge + 4096 - 5;
  memcpy(edge + 4096 - 5, "none", 5);
  OPENED("open at the edge", fd, pfs_open(key, null, O_RDONLY));
  OPENED("openat at the edge", fd, pfs_openat(key, fd_of_root, null, O_RDONLY));
  edge[4095] = 'x';
  OPENED("open over the edge", fd, pfs_open(key, null, O_RDONLY));
  NUMBER("mkdir over the edge", pfs_mkdir(key, null, 0700));
  close(fd_of_root);
}

static void pipes(void) {
  struct itimerval soon = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
  struct sigaction action;
  char* half;
  int ends[2];
  if (pipe2(ends, 0) != 0) return;
  pfs_file_bind(key, ends[0], "pipe, reading end");
  pfs_file_bind(key, ends[1], "pipe, writing end");
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm; /* without SA_RESTART */
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &soon, NULL);
  NUMBER("read EINTR", pfs_read(ends[0], buffer, 10));
  NUMBER("readv EINTR", pfs_readv(ends[0], &(struct iovec){buffer, 10}, 1));
  setitimer(ITIMER_REAL, &never, NULL);
  NUMBER("write pipe", pfs_write(ends[1], "hello", 5));
  NUMBER("read pipe short", pfs_read(ends[0], buffer, 10));
  NUMBER("lseek pipe", pfs_lseek(ends[0], 0, SEEK_SET));
  NUMBER("pread pipe", pfs_pread(ends[0], buffer, 1, 0));
  NUMBER("fsync pipe", pfs_fsync(ends[0]));
  /* A short write: a full pipe, an alarm. */
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  half = calloc(1, 100000);
  setitimer(ITIMER_REAL, &soon, NULL);
  NUMBER("write pipe short", pfs_write(ends[1], half, 100000));
  setitimer(ITIMER_REAL, &never, NULL);
  free(half);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  NUMBER("write EAGAIN", pfs_write(ends[1], "x", 1));
  NUMBER("close reading end", pfs_close(ends[0]));
  signal(SIGPIPE, SIG_IGN);
  NUMBER("write EPIPE", pfs_write(ends[1], "x", 1));
  pfs_file_unbind(ends[1]);
  NUMBER("write unbound", pfs_write(ends[1], "x", 1));
  NUMBER("close writing end", pfs_close(ends[1]));
}

static void streams(void) {
  FILE *f, *other;
  char line[64];
  int fd;

  STREAM("fopen w", f, pfs_fopen(key, "s", "w"));
  NUMBER("fputs", pfs_fputs("first line\n", f) >= 0);
  NUMBER("fputc", pfs_fputc('2', f));
  NUMBER("fprintf", pfs_fprintf(f, "nd %s %d%c", "line", 42, '\n'));
  NUMBER("fprintf plain", pfs_fprintf(f, "third\n"));
  NUMBER("vfprintf", formatted(f, "%05.1f|%x\n", 2.5, 255));
  NUMBER("fwrite", pfs_fwrite("abcdefgh", 2, 4, f));
  NUMBER("fwrite nothing", pfs_fwrite("abcdefgh", 0, 4, f));
  NUMBER("ftell", pfs_ftell(f));
  NUMBER("fflush", pfs_fflush(f));
  contents("s");
  NUMBER("fgetc write-only", pfs_fgetc(f));
  NUMBER("fread write-only", pfs_fread(buffer, 1, 4, f));
  NUMBER("fseek", pfs_fseek(f, 6, SEEK_SET));
  NUMBER("fputs", pfs_fputs("LINE", f) >= 0);
  NUMBER("fclose", pfs_fclose(f));
  contents("s");

  STREAM("fopen missing", f, pfs_fopen(key, "missing", "r"));
  STREAM("fopen bad mode", f, pfs_fopen(key, "s", "q"));
  STREAM("fopen wx", f, pfs_fopen(key, "s", "wx"));
  STREAM("fopen r", f, pfs_fopen(key, "s", "r"));
  STREAM("fgets", other, pfs_fgets(buffer, sizeof buffer, f) == NULL ? NULL : f);
  NUMBER("fgetc", pfs_fgetc(f));
  STREAM("fgets short", other, pfs_fgets(buffer, 3, f) == NULL ? NULL : f);
  NUMBER("fread", pfs_fread(buffer, 3, 4, f));
  NUMBER("ftello", pfs_ftello(f));
  NUMBER("ftell", pfs_ftell(f));
  NUMBER("fseeko end", pfs_fseeko(f, -2, SEEK_END));
  NUMBER("fread short", pfs_fread(buffer, 3, 4, f));
  NUMBER("feof", feof(f) != 0);
  NUMBER("fgetc at the end", pfs_fgetc(f));
  STREAM("fgets at the end", other, pfs_fgets(buffer, 3, f) == NULL ? NULL : f);
  VOID("rewind", pfs_rewind(f));
  NUMBER("feof", feof(f) != 0);
  NUMBER("fgetc", pfs_fgetc(f));
  NUMBER("fseek bad", pfs_fseek(f, -5, SEEK_SET));
  NUMBER("fseek bad whence", pfs_fseek(f, 0, 99));
  NUMBER("fputc read-only", pfs_fputc('x', f));
  NUMBER("fputs read-only", pfs_fputs("x", f));
  NUMBER("fprintf read-only", pfs_fprintf(f, "%d", 1));
  NUMBER("fwrite read-only", pfs_fwrite("x", 1, 1, f));
  NUMBER("fclose", pfs_fclose(f));

  STREAM("fopen a+", f, pfs_fopen(key, "s", "a+"));
  NUMBER("fputs", pfs_fputs("appended\n", f) >= 0);
  NUMBER("fclose", pfs_fclose(f));
  contents("s");

  OPENED("open", fd, pfs_open(key, "s", O_RDWR));
  STREAM("fdopen bad mode", f, fdopen(fd, "q"));
  STREAM("fdopen", f, fdopen(fd, "r+"));
  STREAM("fgets", other, pfs_fgets(buffer, sizeof buffer, f) == NULL ? NULL : f);
  NUMBER("fclose", pfs_fclose(f));
  NUMBER("close after fclose", pfs_close(fd));
  STREAM("fdopen closed", f, fdopen(fd, "r"));

  STREAM("fopen /dev/full", f, pfs_fopen(key, "/dev/full", "w"));
  NUMBER("fputc", pfs_fputc('x', f));
  NUMBER("fflush ENOSPC", pfs_fflush(f));
  NUMBER("fclose", pfs_fclose(f));
  STREAM("fopen /dev/full", f, pfs_fopen(key, "/dev/full", "w"));
  NUMBER("fputc", pfs_fputc('x', f));
  NUMBER("fclose ENOSPC", pfs_fclose(f));
  NUMBER("fflush NULL", pfs_fflush(NULL));

  /* The stream has no descriptor. */
  STREAM("fmemopen", f, fmemopen(line, sizeof line, "w+"));
  NUMBER("fputs memory", pfs_fputs("memory\n", f) >= 0);
  NUMBER("fflush memory", pfs_fflush(f));
  VOID("rewind memory", pfs_rewind(f));
  STREAM("fgets memory", other, pfs_fgets(buffer, sizeof buffer, f) == NULL ? NULL : f);
  NUMBER("ftell memory", pfs_ftell(f));
  NUMBER("fclose memory", pfs_fclose(f));
  NUMBER("unlink", pfs_unlink(key, "s"));
}

int main(int argc, char** argv) {
  umask(022);
  if (argc < 2 || chdir(argv[1]) != 0) {
    fprintf(stderr, "usage: %s DIRECTORY (empty, writable)\n", argv[0]);
    return 2;
  }
  if (pfs_register_file("programs", files, 1) != PFS_OK) return 2;
  fprintf(stderr, "pfs is %s\n", pfs_is_on() ? "on" : "off");
  descriptors();
  names();
  no_names();
  pipes();
  streams();
  /* "hold": waits, so that another process can look before the end. */
  if (argc > 2 && strcmp(argv[2], "hold") == 0) {
    fprintf(stderr, "ready\n");
    (void)getchar();
  }
  return 0;
}
