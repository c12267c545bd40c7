/* Tasks of a thread (fiber.h): nesting, switching, and events that are forgotten.
 *   gcc fibers.c $(pkg-config --cflags --libs perfschema) -o fibers
 * Prints what the calls return. With -DPFS_DISABLE, or pfs off, there are no tasks. */
#include <errno.h>
#include <perfschema/pfs.h>
#include <stdio.h>
#include <string.h>

static pfs_key_t key_outer, key_task, key_left, key_stage;
static pfs_fiber_t* theirs;

static void* other_thread(void* task) {
  pfs_statement_t statement;
  printf("another thread's task: %d\n", pfs_fiber_switch((pfs_fiber_t*)task));
  theirs = pfs_fiber_create(NULL);
  if (pfs_fiber_switch(theirs)) {
    pfs_statement_begin(&statement, key_left); /* never ended: its thread ends first */
    pfs_fiber_switch(NULL);
  }
  return NULL;
}

int main(void) {
  pfs_statement_info_t statements[] = {{&key_outer, "outer", 0, NULL}, {&key_task, "task", 0, NULL}, {&key_left, "left", 0, NULL}};
  pfs_stage_info_t stages[] = {{&key_stage, "working", 0, NULL}};
  pfs_statement_t outer, inner[2], left;
  pfs_fiber_parent_t parent;
  pfs_fiber_t* tasks[3];
  pthread_t thread;
  int i, turns = 0;

  pfs_register_statement("fibers", statements, 3);
  pfs_register_stage("fibers", stages, 1);
  errno = 123;
  pfs_statement_begin(&outer, key_outer);
  pfs_fiber_parent(&parent);
  for (i = 0; i < 3; ++i) tasks[i] = pfs_fiber_create(i < 2 ? &parent : NULL);
  for (i = 0; i < 2; ++i) { /* each is suspended inside its statement */
    turns += pfs_fiber_switch(tasks[i]);
    pfs_statement_begin(&inner[i], key_task);
    pfs_statement_set_text(&inner[i], i == 0 ? "first" : "second", i == 0 ? 5 : 6);
    pfs_stage_begin(key_stage);
  }
  turns += pfs_fiber_switch(tasks[2]);
  pfs_statement_begin(&left, key_left); /* forgotten with its task */
  turns += pfs_fiber_switch(NULL);
  pfs_statement_end(&outer); /* before the tasks that began in it */
  for (i = 0; i < 2; ++i) {
    turns += pfs_fiber_switch(tasks[i]);
    pfs_stage_end();
    pfs_statement_end(&inner[i]);
  }
  turns += pfs_fiber_switch(tasks[1]); /* already the running task */
  turns += pfs_fiber_switch(NULL);
  pthread_create(&thread, NULL, other_thread, tasks[0]);
  pthread_join(thread, NULL);
  printf("errno %d\n", errno);
  printf("turns %d\n", turns);
  printf("task of a thread that has ended: %d\n", pfs_fiber_switch(theirs));
  for (i = 0; i < 3; ++i) pfs_fiber_destroy(tasks[i]);
  pfs_fiber_destroy(theirs);
  pfs_fiber_destroy(NULL);
  pfs_statement_begin(&outer, key_outer);
  pfs_statement_end(&outer);
  return 0;
}
