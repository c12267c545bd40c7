/* Tasks whose memory was that of other tasks, 0 to 48 bytes beside it: this program's malloc() sees to it.
 *   gcc fiber_memory.c $(pkg-config --cflags --libs perfschema) -o fiber_memory */
#include <perfschema/pfs.h>
#include <string.h>

extern void* __libc_malloc(size_t bytes);
extern void __libc_free(void* memory);

enum { kPool = 1 << 18 };
static _Alignas(64) char pool[kPool];
static int is_for_tasks;
static size_t shift;

void* malloc(size_t bytes) { return is_for_tasks && bytes > 4096 && bytes < kPool - 64 ? pool + shift : __libc_malloc(bytes); }
void free(void* memory) {
  if ((char*)memory < pool || (char*)memory >= pool + kPool) __libc_free(memory);
}

int main(void) {
  static const char text[] = "select 1";
  pfs_key_t key;
  pfs_statement_info_t statements[] = {{&key, "task", 0, NULL}};
  pfs_register_statement("fiber_memory", statements, 1);
  for (int i = 0; i < 300; ++i) {
    shift = (size_t)(i * 7 % 4) * 16;
    is_for_tasks = 1;
    pfs_fiber_t* const task = pfs_fiber_create(NULL);
    is_for_tasks = 0;
    if (!pfs_fiber_switch(task)) return 1;
    for (int j = 0; j < 2; ++j) {
      pfs_statement_t statement;
      pfs_statement_begin(&statement, key);
      pfs_statement_set_text(&statement, text, strlen(text));
      pfs_statement_end(&statement);
    }
    pfs_fiber_switch(NULL);
    pfs_fiber_destroy(task);
  }
  return 0;
}
