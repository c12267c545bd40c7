/* Forbids itself to cut files off, as xz does from 5.6 on (Landlock: ftruncate fails with EACCES), then writes files.
 *   sandboxed FOLDER FILES FIRST   FIRST files are written before it does so
 * Ends with 77 where the kernel has no Landlock of version 3 (before Linux 6.2). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CREATE_RULESET = 444, RESTRICT_SELF = 446, VERSION = 1, TRUNCATE = 1 << 14 };

static void write_file(const char* folder, int number) {
  char name[600];
  int fd;
  snprintf(name, sizeof name, "%s/%d", folder, number);
  fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd < 0 || write(fd, name, 7) != 7) abort();
  close(fd);
}

int main(int argc, char** argv) {
  const uint64_t handled = TRUNCATE;
  int i, ruleset, files = argc > 2 ? atoi(argv[2]) : 0, first = argc > 3 ? atoi(argv[3]) : 0;
  if (argc < 4) return 2;
  if (syscall(CREATE_RULESET, NULL, 0, VERSION) < 3) return 77;
  for (i = 0; i < first; ++i) write_file(argv[1], i);
  ruleset = (int)syscall(CREATE_RULESET, &handled, sizeof handled, 0);
  if (ruleset < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(RESTRICT_SELF, ruleset, 0) != 0) abort();
  close(ruleset);
  for (; i < files; ++i) write_file(argv[1], i);
  if (truncate(argv[1], 0) == 0) return 3;
  return 0;
}
