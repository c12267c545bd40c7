/* The wrappers are expressions: nested, several on a line, in conditions, in comma and conditional expressions, without braces. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>

static int opened;

static pfs_key_t key(void) {
  ++opened;
  return 0;
}

int main(void) {
  char buffer[8] = {0};
  int fd = pfs_open(key(), "/dev/zero", O_RDONLY), null = pfs_open(key(), "/dev/null", O_WRONLY | O_CREAT, 0600);
  pfs_mutex_t a = PFS_MUTEX_INITIALIZER, b = PFS_MUTEX_INITIALIZER, *next = &a;
  ssize_t n;
  if (fd < 0 || null < 0) return 1;
  if (pfs_write(null, buffer, (size_t)pfs_read(fd, buffer, sizeof buffer)) != 8 || pfs_read(fd, buffer, 1) != 1) return 2;
  for (n = 0; n < 2; ++n)
    if (pfs_mutex_lock(&a) || pfs_mutex_lock(&b) || pfs_mutex_unlock(&b) || pfs_mutex_unlock(&a)) return 3;
  if (pfs_mutex_lock(next++) == 0)
    pfs_mutex_unlock(--next);
  else
    return 4; /* each argument once */
  n = fd >= 0 ? pfs_read(fd, buffer, 2) : pfs_pread(fd, buffer, 1, 0), n += pfs_readv(fd, &(struct iovec){buffer, 4}, 1);
  if (n != 6 || opened != 2 || next != &a) return 5;
  return pfs_close(fd) + pfs_close(null);
}
