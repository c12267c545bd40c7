/* Knows nothing of pfs. What it does is known: test_interposer.py has the numbers. With an argument it hangs at the end, for a reader. */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static sem_t tokens;
static int is_there;

static void* sends(void* unused) {
  pthread_mutex_lock(&queue_lock);
  is_there = 1;
  pthread_cond_signal(&arrived);
  pthread_mutex_unlock(&queue_lock);
  sem_post(&tokens);
  return unused;
}

static void* hangs(void* unused) {
  pthread_mutex_lock(&queue_lock); /* hangs */
  return unused;
}

int main(int count, char** arguments) {
  pthread_t thread;
  sem_init(&tokens, 0, 0);
  for (int i = 0; i < 10; ++i) {
    pthread_mutex_t local; /* ten lives at one address */
    pthread_mutex_init(&local, NULL);
    pthread_mutex_lock(&local);
    pthread_mutex_unlock(&local);
  }
  pthread_mutex_lock(&queue_lock);
  pthread_create(&thread, NULL, sends, NULL);
  while (!is_there) pthread_cond_wait(&arrived, &queue_lock);
  pthread_mutex_unlock(&queue_lock);
  sem_wait(&tokens);
  pthread_join(thread, NULL);
  const int fd = open(arguments[1], O_CREAT | O_RDWR, 0644);
  char text[8] = "";
  if (write(fd, "abcdefg", 7) != 7 || fsync(fd) != 0 || lseek(fd, 0, SEEK_SET) != 0 || read(fd, text, sizeof text) != 7) return 1;
  if (write(1, text, 7) != 7 || close(fd) != 0) return 2;
  if (count > 2) {
    pthread_mutex_lock(&queue_lock); /* keeps it */
    pthread_create(&thread, NULL, hangs, NULL);
    pause();
  }
  return 42;
}
