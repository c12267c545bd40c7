/* A program without pfs. Each letter of its argument does something that an interposed library can break, and prints what came of it. The
 * output with and without `pfs run` must be the same. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int pipe_fds[2];

static void ended(const char* what, pid_t pid) {
  int status;
  waitpid(pid, &status, 0);
  printf("%s: %s %d\n", what, WIFEXITED(status) ? "exit" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  fflush(stdout);
}

/* The child uses locks, files and pipes of its parent. */
static void forks(void) {
  pthread_mutex_lock(&lock);
  pid_t pid = fork();
  if (pid == 0) {
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&lock);
    int fd = open("/dev/null", O_WRONLY);
    _exit(write(fd, "x", 1) == 1 && close(fd) == 0 ? 3 : 4);
  }
  pthread_mutex_unlock(&lock);
  ended("fork", pid);
}

/* Many threads lock while others fork. */
static volatile int stop;
static void* locks_on(void* unused) {
  while (!stop) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    void* volatile block = malloc(100);
    free(block);
  }
  return unused;
}
static void forks_under_load(void) {
  pthread_t threads[3];
  int good = 0;
  stop = 0;
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, locks_on, NULL);
  for (int i = 0; i < 20; ++i) {
    pid_t pid = fork();
    if (pid == 0) {
      void* volatile block = malloc(10);
      free(block);
      int fd = open("/dev/null", O_WRONLY);
      _exit(fd >= 0 ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  stop = 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  printf("forks under load: %d\n", good);
}

/* The child of vfork() shares the parent's memory. Its closes are its own. */
static void vforks(void) {
  int fd = open("/dev/null", O_WRONLY);
  pid_t pid = vfork();
  if (pid == 0) {
    close(fd);
    dup2(2, 1);
    execl("/bin/sh", "sh", "-c", "exit 6", (char*)NULL);
    _exit(7);
  }
  ended("vfork", pid);
  printf("after vfork: %zd\n", write(fd, "y", 1));
  close(fd);
  pid = vfork();
  if (pid == 0) {
    execl("/nonexistent", "x", (char*)NULL);
    _exit(errno == ENOENT ? 8 : 9);
  }
  ended("vfork without exec", pid);
}

static void spawns(void) {
  char* arguments[] = {"sh", "-c", "exit 5", NULL};
  pid_t pid;
  printf("posix_spawn: %d\n", posix_spawn(&pid, "/bin/sh", NULL, NULL, arguments, environ));
  ended("spawned", pid);
  printf("system: %d\n", WEXITSTATUS(system("exit 4")));
  FILE* command = popen("echo from popen", "r");
  char line[100];
  printf("popen: %s", fgets(line, sizeof line, command));
  printf("pclose: %d\n", pclose(command));
}

static void loads(void) {
  void* library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
  printf("dlopen: %.1f\n", cosine(0));
  printf("deepbind: %d\n", dlopen("libm.so.6", RTLD_NOW | RTLD_DEEPBIND) != NULL);
}

static volatile int caught;
static void handler(int number) {
  int error = errno;
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&own);
  if (write(pipe_fds[1], "z", 1) == 1) ++caught;
  pthread_mutex_unlock(&own);
  errno = error;
  (void)number;
}
static void signals(void) {
  struct sigaction action = {.sa_handler = handler}; /* no SA_RESTART */
  sigaction(SIGALRM, &action, NULL);
  if (pipe(pipe_fds) != 0) return;
  int other[2];
  if (pipe(other) != 0) return;
  ualarm(20000, 20000); /* again and again: the first may come before read() on a busy machine */
  char c;
  errno = 0;
  ssize_t n = read(other[0], &c, 1);
  printf("interrupted read: %zd %s\n", n, strerrorname_np(errno));
  ualarm(0, 0);
  n = read(pipe_fds[0], &c, 1);
  printf("handler: %d %zd %c\n", caught > 0, n, c);
  caught = 0;
  for (int i = 0; i < 1000; ++i) {
    pthread_mutex_lock(&lock);
    if (i % 50 == 0) raise(SIGALRM);
    pthread_mutex_unlock(&lock);
  }
  printf("raised: %d\n", caught);
  close(pipe_fds[0]), close(pipe_fds[1]), close(other[0]), close(other[1]);
}

static sigjmp_buf back;
static void jumps_out(int number) { siglongjmp(back, number); }
static void jumps(void) {
  signal(SIGUSR1, jumps_out);
  int fds[2];
  if (pipe(fds) != 0) return;
  int got = sigsetjmp(back, 1);
  if (got == 0) {
    pthread_t self = pthread_self();
    pthread_kill(self, SIGUSR1);
  }
  printf("jumped: %d\n", got == SIGUSR1);
  printf("works: %d\n", (int)(write(fds[1], "a", 1) + (pthread_mutex_lock(&lock) == 0)));
  pthread_mutex_unlock(&lock);
  close(fds[0]), close(fds[1]);
}

static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static void release(void* held) { pthread_mutex_unlock(held); }
static void* reads_for_ever(void* fd) {
  char c;
  return (void*)read(*(int*)fd, &c, 1);
}
static void* waits_for_ever(void* unused) {
  pthread_mutex_lock(&lock);
  pthread_cleanup_push(release, &lock);
  pthread_cond_wait(&never, &lock);
  pthread_cleanup_pop(1);
  return unused;
}
static void* takes_for_ever(void* unused) {
  sem_wait(&semaphore);
  return unused;
}
static void cancels(void) {
  int fds[2];
  if (pipe(fds) != 0) return;
  sem_init(&semaphore, 0, 0);
  void* (*starts[])(void*) = {reads_for_ever, waits_for_ever, takes_for_ever};
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    void* result;
    pthread_create(&thread, NULL, starts[i], fds);
    usleep(20000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("canceled %d: %d\n", i, result == PTHREAD_CANCELED);
  }
  printf("free again: %d\n", pthread_mutex_trylock(&lock));
  pthread_mutex_unlock(&lock);
  close(fds[0]), close(fds[1]);
}

static void errors(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_t checked;
  pthread_mutex_init(&checked, &attributes);
  printf("unlock of a free one: %d\n", pthread_mutex_unlock(&checked));
  pthread_mutex_lock(&checked);
  printf("twice: %d %d\n", pthread_mutex_lock(&checked), pthread_mutex_trylock(&checked));
  printf("destroy of a held one: %d\n", pthread_mutex_destroy(&checked));
  pthread_mutex_unlock(&checked);
  printf("destroy: %d\n", pthread_mutex_destroy(&checked));
  struct timespec past = {0, 0};
  pthread_mutex_lock(&lock);
  pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
  printf("timed out: %d\n", pthread_cond_timedwait(&cond, &lock, &past));
  pthread_mutex_unlock(&lock);
#define SHOW(call) (errno = 0, rc = (long)(call), printf(#call ": %ld %s\n", rc, strerrorname_np(errno)))
  long rc;
  SHOW(open("/nonexistent/x", O_RDONLY));
  /* No names: the kernel says so, and nothing else reads them. */
  char* const bad[] = {NULL, (char*)1, (char*)0x600000000000};
  struct stat facts;
  for (int i = 0; i < 3; ++i) {
    SHOW(open(bad[i], O_RDONLY));
    SHOW(open(bad[i], O_RDWR | O_CREAT, 0600));
    SHOW(openat(AT_FDCWD, bad[i], O_RDONLY));
    SHOW(creat(bad[i], 0600));
    SHOW(stat(bad[i], &facts));
    SHOW(lstat(bad[i], &facts));
    SHOW(truncate(bad[i], 0));
    SHOW(unlink(bad[i]));
    SHOW(rename(bad[i], "/nonexistent/y"));
    SHOW(rename("/nonexistent/x", bad[i]));
    SHOW(mkdir(bad[i], 0700));
    SHOW(rmdir(bad[i]));
    SHOW(remove(bad[i]));
    SHOW(fopen(bad[i], "r"));
  }
  SHOW(read(-1, &past, 1));
  SHOW(close(12345));
  SHOW(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr*)&past, 2));
  SHOW(fopen("/nonexistent/x", "r"));
  SHOW(dup2(-1, 5));
  SHOW(unlink("/nonexistent/x"));
  SHOW(rename("/nonexistent/x", "/nonexistent/y"));
}

static void executes(const char* self) {
  fflush(stdout);
  execl(self, self, "e", (char*)NULL);
}

int main(int count, char** arguments) {
  (void)count;
  for (const char* letter = arguments[1]; *letter != 0; ++letter) {
    switch (*letter) {
      case 'f':
        forks();
        break;
      case 'F':
        forks_under_load();
        break;
      case 'v':
        vforks();
        break;
      case 'p':
        spawns();
        break;
      case 'd':
        loads();
        break;
      case 's':
        signals();
        break;
      case 'j':
        jumps();
        break;
      case 'c':
        cancels();
        break;
      case 'e':
        errors();
        break;
      case 'x':
        executes(arguments[0]);
        break;
    }
    fflush(stdout);
  }
  printf("%s %s\n", arguments[0], getenv("LD_PRELOAD") != NULL && arguments[2] != NULL ? "preloaded" : "");
  return 42;
}
