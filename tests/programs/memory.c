/* Every call of memory.h: its result, the use of the result, and its statistics. Prints "NAME ALLOC FREE BYTES_ALLOC
 * BYTES_FREE" as the program itself has counted them; the test compares with the tables of the segment that remains.
 * With PFS_DISABLE: the plain calls. */
#include <assert.h>
#include <errno.h>
#include <perfschema/pfs.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static pfs_key_t key_rows, key_all, key_passed;
static pfs_memory_info_t instruments[] = {
    {&key_rows, "rows", PFS_CONTROLLED, "Rows."}, {&key_all, "all", PFS_GLOBAL_STATISTICS, NULL}, {&key_passed, "passed", 0, NULL}};

enum { kBlocks = 1000 };
static void* passed[kBlocks];

static void* take(void* nothing) {
  for (int i = 0; i < kBlocks; ++i) {
    if (i % 2 == 0) pfs_claim(passed[i], 1);
    pfs_free(passed[i]);
  }
  /* Blocks that are freed when the thread has almost ended, and one that outlives it. */
  return pfs_malloc(key_passed, 77) != NULL ? nothing : NULL;
}

int main(void) {
  assert(pfs_register_memory("program", instruments, 3) == 0);
  assert(pfs_set_account("anna", "desk") == 0);
  char* text = pfs_strdup(key_rows, "text");
  assert(strcmp(text, "text") == 0);
  text = pfs_realloc(key_rows, text, 1000);
  assert(strcmp(text, "text") == 0 && (uintptr_t)text % 16 == 0);
  char* zero = pfs_calloc(key_rows, 10, 10);
  for (int i = 0; i < 100; ++i) assert(zero[i] == 0);
  for (size_t alignment = 1; alignment <= 1 << 20; alignment *= 2) {
    char* block = pfs_aligned_alloc(key_all, alignment, 3);
    assert(block != NULL && (uintptr_t)block % alignment == 0);
    memset(block, 7, 3);
    block = pfs_realloc(key_all, block, 100);
    assert(block[2] == 7);
    pfs_free(block);
  }
  errno = 0;
  volatile size_t huge = SIZE_MAX;
  assert(pfs_malloc(key_rows, huge) == NULL && errno == ENOMEM);
  assert(pfs_calloc(key_rows, huge / 2, 3) == NULL);
  assert(pfs_realloc(key_rows, zero, huge) == NULL);
  errno = 0;
  assert(pfs_aligned_alloc(key_rows, 24, 3) == NULL && errno == EINVAL);
  pfs_free(NULL);
  pfs_claim(NULL, 1);
  pfs_free(zero);
  for (int i = 0; i < kBlocks; ++i) {
    passed[i] = pfs_malloc(key_passed, (size_t)i);
    if (i % 4 == 0) pfs_claim(passed[i], 0);
  }
  pthread_t thread;
  char done;
  void* result = NULL;
  assert(pthread_create(&thread, NULL, take, &done) == 0);
  assert(pthread_join(thread, &result) == 0 && result == &done);
  uint64_t owner;
  pfs_key_t key = pfs_memory_alloc(key_rows, 5, &owner);
  key = pfs_memory_realloc(key, 5, 6, &owner);
  key = pfs_memory_claim(key, 6, &owner, 1);
  pfs_memory_free(key, 6, owner);
  pfs_free(text);
  printf("rows 5 5 %d %d\n", 5 + 1000 + 100 + 5 + 6, 5 + 1000 + 100 + 5 + 6);
  printf("all 42 42 %d %d\n", 21 * 103, 21 * 103);
  /* Claims: 250 blocks were given and taken, 250 taken only. */
  printf("passed %d %d\n", kBlocks + 250 + 500 + 1, kBlocks + 250 + 500);
  return 0;
}
