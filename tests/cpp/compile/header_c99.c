/* C99 is not promised, but works: the header uses nothing of C11. With POSIX requested, all calls are available in
 * both modes. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <sys/stat.h>

int main(void) {
  struct timespec soon = {0, 0};
  pfs_mutex_t m = PFS_MUTEX_INITIALIZER;
  FILE* stream = pfs_fopen(0, "/dev/null", "w");
  if (stream == NULL || pfs_fprintf(stream, "no arguments\n") < 0 || pfs_fprintf(stream, "%d %s\n", 1, "two") < 0) return 1;
  if (pfs_fputs("x", stream) < 0 || pfs_fputc('y', stream) != 'y' || pfs_fflush(stream) != 0 || feof(stream)) return 1;
  if (pfs_mutex_timedlock(&m, &soon) != 0 || pfs_mutex_unlock(&m) != 0) return 1;
  if (pfs_mutex_clocklock(&m, CLOCK_MONOTONIC, &soon) != 0 || pfs_mutex_unlock(&m) != 0) return 1;
  return pfs_fclose(stream);
}
