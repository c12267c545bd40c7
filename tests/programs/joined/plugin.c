// A plugin that takes a lock of its own.
#include <pthread.h>

static pthread_mutex_t plugin_lock = PTHREAD_MUTEX_INITIALIZER;

int plugin(int times) {
  for (int i = 0; i < times; ++i) {
    pthread_mutex_lock(&plugin_lock);
    pthread_mutex_unlock(&plugin_lock);
  }
  return times;
}
