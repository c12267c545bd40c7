/* A program that uses pfs a little, and does some work of its own: the cost of pfs under valgrind, where instructions
 * are slow.
 *   gcc small.c $(pkg-config --cflags --libs perfschema) -o small
 * Exits with 0. */
#include <perfschema/pfs.h>

enum { kLocks = 100, kWords = 1 << 16, kRounds = 500 };

static pfs_key_t key_lock;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "lock", 0, NULL}};

int main(void) {
  static unsigned words[kWords];
  pfs_mutex_t mutex;
  unsigned sum = 0;
  int i, round;
  if (pfs_register_mutex("small", mutexes, 1) != PFS_OK || pfs_mutex_init(key_lock, &mutex, NULL) != 0) return 1;
  for (i = 0; i < kLocks; ++i) {
    pfs_mutex_lock(&mutex);
    pfs_mutex_unlock(&mutex);
  }
  for (round = 0; round < kRounds; ++round) {
    for (i = 0; i < kWords; ++i) sum += words[i] = words[(i * 7) % kWords] * 31 + (unsigned)i;
  }
  pfs_mutex_destroy(&mutex);
  return sum == 1;
}
