/* A program whose allocator takes a mutex of its own inside malloc(), as jemalloc does. It aborts if it is entered again under that mutex:
 * a probe that allocated would do so, or would hang. A signal handler forks in the midst of malloc(), too: the child opens a file, and
 * ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t arena_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside;
static char memory[64 << 20] __attribute__((aligned(64)));
static size_t used;
static volatile int forks_in_malloc;

static void fork_here(int unused) {
  (void)unused;
  pid_t child = fork();
  if (child == 0) _exit(close(open("/dev/null", O_RDONLY)) == 0 ? 0 : 96);
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) _exit(95);
}

void* malloc(size_t bytes) {
  if (inside) {
    static const char text[] = "allocated inside the allocator's lock\n";
    if (write(2, text, sizeof text - 1) < 0) _exit(99);
    _exit(98);
  }
  inside = 1;
  if (forks_in_malloc) raise(SIGUSR1);
  pthread_mutex_lock(&arena_lock);
  char* block = memory + used;
  used += (bytes + 63) / 64 * 64 + 64;
  pthread_mutex_unlock(&arena_lock);
  inside = 0;
  if (used > sizeof memory) _exit(97);
  *(size_t*)block = bytes;
  return block + 64;
}
void free(void* block) {
  if (block == NULL) return;
  inside = 1;
  pthread_mutex_lock(&arena_lock);
  pthread_mutex_unlock(&arena_lock);
  inside = 0;
}
void* calloc(size_t count, size_t bytes) { return memset(malloc(count * bytes), 0, count * bytes); }
void* realloc(void* old, size_t bytes) {
  void* block = malloc(bytes);
  if (old != NULL) memcpy(block, old, *(size_t*)((char*)old - 64) < bytes ? *(size_t*)((char*)old - 64) : bytes);
  return block;
}
void* aligned_alloc(size_t alignment, size_t bytes) { return (void*)(((uintptr_t)malloc(bytes + alignment) + alignment - 1) & -alignment); }
void* memalign(size_t alignment, size_t bytes) { return aligned_alloc(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) { return *block = aligned_alloc(alignment, bytes), 0; }

static void* worker(void* unused) {
  for (int i = 0; i < 100; ++i) {
    void* volatile block = malloc(10); /* the compiler must not leave both out */
    free(block);
  }
  FILE* file = fopen("/dev/null", "w");
  fprintf(file, "%d", 1);
  fclose(file);
  return unused;
}

int main(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, worker, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  signal(SIGUSR1, fork_here);
  for (int i = 0; i < 20; ++i) {
    forks_in_malloc = 1;
    void* volatile block = malloc(10);
    forks_in_malloc = 0;
    free(block);
  }
  puts("done");
  return 0;
}
