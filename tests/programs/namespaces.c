/* Children of fork() in other pid namespaces. Each process with an event prints its pid and the inode of its namespace, and leaves its
 * segment. Run it as the first process of a namespace: then its pid is 1, as is that of the first process in another one. */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static pfs_key_t key_lock;
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_mutex_t mutex;

static void event(void) {
  struct stat info;
  pfs_mutex_lock(&mutex);
  pfs_mutex_unlock(&mutex);
  if (stat("/proc/self/ns/pid", &info) != 0) abort();
  printf("%d %lu\n", (int)getpid(), (unsigned long)info.st_ino);
  fflush(stdout);
}

static void child(void (*work)(void)) {
  int status;
  const pid_t made = fork();
  if (made < 0) abort();
  if (made == 0) {
    work();
    _exit(0);
  }
  if (waitpid(made, &status, 0) != made || status != 0) abort();
}

/* Forks before its first event. */
static void late(void) {
  child(event);
  event();
}

static void early(void) {
  event();
  child(event);
}

static void elsewhere(void (*work)(void)) {
  if (unshare(CLONE_NEWPID) != 0) abort();
  child(work);
}

static void early_elsewhere(void) { elsewhere(early); }

static void event_and_early_elsewhere(void) {
  event();
  elsewhere(early);
}

int main(void) {
  pfs_register_mutex("namespaces", mutexes, 1);
  pfs_mutex_init(key_lock, &mutex, NULL);
  event();
  child(early);
  child(late);
  child(early_elsewhere);
  child(event_and_early_elsewhere);
  elsewhere(late);
  _exit(0);
}
