/* Makes pfs do most of what it does for itself, after getpriority(): objects, threads, names of files, descriptors, a child. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static void* work(void* unused) {
  for (int i = 0; i < 3000; ++i) {
    pthread_mutex_t* m = malloc(sizeof *m);
    pthread_mutex_init(m, 0);
    pthread_mutex_lock(m);
    pthread_mutex_unlock(m);
    char name[64];
    snprintf(name, sizeof name, i % 3 ? "nowhere/%d" : "../nowhere/%d", i);
    open(name, O_RDONLY);
  }
  return unused;
}
int main(void) {
  pthread_mutex_lock(&first);
  pthread_mutex_unlock(&first);
  getpriority(PRIO_PROCESS, 0);
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], 0);
  int pair[2], fd = socket(AF_INET, SOCK_STREAM, 0);
  char text[64];
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  write(pair[0], text, 1);
  read(pair[1], text, 1);
  close(fd);
  pipe(pair);
  write(pair[1], text, 1);
  read(pair[0], text, 1);
  FILE* file = fopen("/etc/passwd", "r");
  fgets(text, sizeof text, file);
  fclose(file);
  sem_t s;
  sem_init(&s, 0, 1);
  sem_wait(&s);
  sem_post(&s);
  dlopen("libz.so.1", RTLD_NOW);
  if (fork() == 0) {
    work(0);
    exit(0);
  }
  wait(0);
  if (fork() == 0) execl("/nowhere", "nowhere", (char*)0);
  wait(0);
  if (fork() == 0) execle("/bin/true", "true", (char*)0, (char*[]){0});
  wait(0);
  setuid(65534);
  return 0;
}
