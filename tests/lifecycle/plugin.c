/* A library that is loaded late and goes early: it has a mutex of its own. */
#include <perfschema/pfs.h>

static pfs_key_t key;
static pfs_mutex_info_t mutexes[] = {{&key, "LOCK_plugin", 0, NULL}};

int call(int times) {
  pfs_mutex_t lock;
  int done = 0;
  pfs_register_mutex("plugin", mutexes, 1);
  pfs_mutex_init(key, &lock, NULL);
  for (int i = 0; i < times; ++i) {
    pfs_mutex_lock(&lock);
    ++done;
    pfs_mutex_unlock(&lock);
  }
  pfs_mutex_destroy(&lock);
  return done;
}
