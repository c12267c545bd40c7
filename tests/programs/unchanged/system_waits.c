// Waits in each way that MySQL has no instrument for, and for locks on a file. Prints of each kind how often, and how many nanoseconds by
// its own clock: KIND COUNT TIME.
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <mqueue.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum kind { CHILD, JOIN, SLEEP, SIGNAL, MESSAGE, MSYNC, RESOLVE, AIO, SYNC, FILE_LOCK, KINDS };
static const char* const names[KINDS] = {"child", "join", "sleep", "signal", "message", "msync", "resolve", "aio", "sync", "file"};
static long counts[KINDS], times[KINDS], before;

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}
#define WAIT(kind, call) (before = now(), (void)(call), times[kind] += now() - before, ++counts[kind])
#define MUST(what) ((what) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, strerror(errno)), exit(1)))

static const struct timespec brief = {0, 30000000};
// No function of this library: the program's own waits alone are counted.
static void nap(void) {
  const long end = now() + brief.tv_nsec;
  while (now() < end) sched_yield();
}
static void* naps(void* given) {
  nap();
  return given;
}
static int naps_c11(void* given) {
  (void)given;
  nap();
  return 7;
}
static pid_t child(void) {
  const pid_t pid = fork();
  if (pid == 0) {
    nap();
    _exit(0);
  }
  return pid;
}

static void children(void) {
  int status;
  siginfo_t info;
  struct rusage usage;
  pid_t pid = child();
  MUST(waitpid(pid, &status, WNOHANG) == 0);  // does not wait: no event
  WAIT(CHILD, waitpid(pid, &status, 0));
  child();
  WAIT(CHILD, wait(&status));
  child();
  WAIT(CHILD, wait3(&status, 0, &usage));
  pid = child();
  WAIT(CHILD, wait4(pid, &status, 0, &usage));
  pid = child();
  WAIT(CHILD, waitid(P_PID, (id_t)pid, &info, WEXITED));
  pid = child();
  WAIT(CHILD, syscall(SYS_wait4, pid, &status, 0, NULL));
  MUST(info.si_code == CLD_EXITED && status == 0);
  WAIT(CHILD, system("exit 3"));
  FILE* stream;
  WAIT(CHILD, stream = popen("exit 4", "r"));
  WAIT(CHILD, pclose(stream));
}

static int becomes_true(void* unused) {
  (void)unused;
  nap();
  execl("/bin/true", "true", NULL);
  _exit(127);
}

// The parent waits until the child runs its program, or ends.
static void spawned(void) {
  char* const arguments[] = {"true", NULL};
  static char stack[65536];
  int status;
  pid_t pid;
  before = now();
  pid = vfork();
  if (pid == 0) becomes_true(NULL);
  times[CHILD] += now() - before;
  ++counts[CHILD];
  WAIT(CHILD, waitpid(pid, &status, 0));
  MUST(status == 0);
  before = now();
  pid = vfork();
  if (pid == 0) _exit(5);
  times[CHILD] += now() - before;
  ++counts[CHILD];
  WAIT(CHILD, waitpid(pid, &status, 0));
  MUST(WEXITSTATUS(status) == 5);
  WAIT(CHILD, posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ));
  WAIT(CHILD, waitpid(pid, &status, 0));
  WAIT(CHILD, posix_spawnp(&pid, "true", NULL, NULL, arguments, environ));
  WAIT(CHILD, waitpid(pid, &status, 0));
  WAIT(CHILD, pid = clone(becomes_true, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
  WAIT(CHILD, waitpid(pid, &status, 0));
  MUST(status == 0);
}

static void threads(void) {
  pthread_t thread;
  void* result = NULL;
  MUST(pthread_create(&thread, NULL, naps, counts) == 0);
  WAIT(JOIN, pthread_join(thread, &result));
  MUST(result == counts);
  struct timespec deadline;
  MUST(pthread_create(&thread, NULL, naps, NULL) == 0);
  clock_gettime(CLOCK_REALTIME, &deadline);
  WAIT(JOIN, pthread_timedjoin_np(thread, NULL, &deadline));  // too late
  deadline.tv_sec += 60;
  WAIT(JOIN, pthread_timedjoin_np(thread, NULL, &deadline));
  MUST(pthread_create(&thread, NULL, naps, NULL) == 0);
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += 60;
  WAIT(JOIN, pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &deadline));
  thrd_t other;
  int code = 0;
  MUST(thrd_create(&other, naps_c11, NULL) == thrd_success);
  WAIT(JOIN, thrd_join(other, &code));
  MUST(code == 7);
}

static void sleeps(void) {
  WAIT(SLEEP, nanosleep(&brief, NULL));
  WAIT(SLEEP, clock_nanosleep(CLOCK_MONOTONIC, 0, &brief, NULL));
  WAIT(SLEEP, usleep(30000));
  WAIT(SLEEP, thrd_sleep(&brief, NULL));
  WAIT(SLEEP, syscall(SYS_nanosleep, &brief, NULL));
  WAIT(SLEEP, sleep(1));
  MUST(sleep(0) == 0);  // no event
}

static void handler(int number) { (void)number; }
static void signals(void) {
  sigset_t set, none;
  siginfo_t info;
  int number = 0;
  sigemptyset(&none);
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  signal(SIGALRM, handler);
  sigprocmask(SIG_BLOCK, &set, NULL);
  const struct itimerval soon = {{0, 0}, {0, 30000}};
  setitimer(ITIMER_REAL, &soon, NULL);
  WAIT(SIGNAL, sigwait(&set, &number));
  MUST(number == SIGALRM);
  setitimer(ITIMER_REAL, &soon, NULL);
  WAIT(SIGNAL, sigwaitinfo(&set, &info));
  WAIT(SIGNAL, sigtimedwait(&set, &info, &brief));
  MUST(errno == EAGAIN);
  setitimer(ITIMER_REAL, &soon, NULL);
  WAIT(SIGNAL, sigsuspend(&none));
  MUST(errno == EINTR);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  setitimer(ITIMER_REAL, &soon, NULL);
  WAIT(SIGNAL, pause());
  MUST(errno == EINTR);
}

static void messages(void) {
  struct message {
    long type;
    char text[1];
  } message = {1, "x"};
  const int queue = msgget(IPC_PRIVATE, 0600), semaphore = semget(IPC_PRIVATE, 1, 0600);
  struct sembuf up = {0, 1, 0}, down = {0, -1, 0}, no_wait = {0, -1, IPC_NOWAIT};
  WAIT(MESSAGE, msgsnd(queue, &message, 1, 0));
  WAIT(MESSAGE, msgrcv(queue, &message, 1, 0, 0));
  MUST(msgrcv(queue, &message, 1, 0, IPC_NOWAIT) == -1 && errno == ENOMSG);  // no event
  MUST(semop(semaphore, &up, 1) == 0);                                       // no event
  WAIT(MESSAGE, semop(semaphore, &down, 1));
  WAIT(MESSAGE, semtimedop(semaphore, &down, 1, &brief));
  MUST(errno == EAGAIN && semop(semaphore, &no_wait, 1) == -1);  // no event
  msgctl(queue, IPC_RMID, NULL);
  semctl(semaphore, 0, IPC_RMID);
}

static void posix_messages(void) {
  struct mq_attr attributes = {0};
  attributes.mq_maxmsg = attributes.mq_msgsize = 1;
  char name[40], byte;
  snprintf(name, sizeof name, "/pfs-waits-%d", getpid());
  const mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
  MUST(queue >= 0 && mq_unlink(name) == 0);
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  WAIT(MESSAGE, mq_send(queue, "x", 1, 0));
  WAIT(MESSAGE, mq_timedsend(queue, "x", 1, 0, &deadline));
  MUST(errno == ETIMEDOUT);
  WAIT(MESSAGE, mq_receive(queue, &byte, 1, NULL));
  MUST(byte == 'x');
  WAIT(MESSAGE, mq_timedreceive(queue, &byte, 1, NULL, &deadline));
  MUST(errno == ETIMEDOUT);
  mq_close(queue);
}

static void asynchronous(void) {
  int ends[2];
  char byte;
  MUST(pipe(ends) == 0);
  struct aiocb read = {0};
  read.aio_fildes = ends[0];
  read.aio_buf = &byte;
  read.aio_nbytes = 1;
  const struct aiocb* const list[] = {&read};
  MUST(aio_read(&read) == 0);
  WAIT(AIO, aio_suspend(list, 1, &brief));
  MUST(errno == EAGAIN && write(ends[1], "x", 1) == 1);
  WAIT(AIO, aio_suspend(list, 1, NULL));
  MUST(aio_return(&read) == 1);
  close(ends[0]);
  close(ends[1]);
  struct io_event event;
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 1, &context) == 0) WAIT(AIO, syscall(SYS_io_getevents, context, 1, 1, &event, &brief));
  if (context != 0) syscall(SYS_io_destroy, context);
  WAIT(AIO, syscall(SYS_io_getevents, 0, 1, 1, &event, &brief));   // of no context: an event all the same
  MUST(syscall(SYS_io_getevents, 0, 0, 1, &event, &brief) == -1);  // no event
}

static void mapped(int fd) {
  char* const there = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  MUST(there != MAP_FAILED);
  there[0] = 1;
  WAIT(MSYNC, msync(there, 4096, MS_SYNC));
  MUST(msync(there, 4096, MS_ASYNC) == 0);  // no event
  munmap(there, 4096);
}

static void host_names(void) {
  struct addrinfo hints = {0}, *found = NULL;
  hints.ai_flags = AI_NUMERICHOST;
  WAIT(RESOLVE, getaddrinfo("127.0.0.1", "80", &hints, &found));
  MUST(found != NULL);
  char host[64];
  WAIT(RESOLVE, getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, NULL, 0, NI_NUMERICHOST));
  MUST(strcmp(host, "127.0.0.1") == 0);
  freeaddrinfo(found);
  WAIT(RESOLVE, gethostbyname("127.0.0.2"));
  WAIT(RESOLVE, gethostbyname2("127.0.0.3", AF_INET));
  const unsigned char address[] = {127, 0, 0, 4};
  WAIT(RESOLVE, gethostbyaddr(address, sizeof address, AF_INET));
  struct hostent entry, *of_host = NULL;
  char room[4096];
  int error;
  WAIT(RESOLVE, gethostbyname_r("127.0.0.5", &entry, room, sizeof room, &of_host, &error));
  MUST(of_host == &entry);
  WAIT(RESOLVE, gethostbyname2_r("127.0.0.6", AF_INET, &entry, room, sizeof room, &of_host, &error));
  MUST(of_host == &entry);
  WAIT(RESOLVE, gethostbyaddr_r(address, sizeof address, AF_INET, &entry, room, sizeof room, &of_host, &error));
}

// A child holds the lock for a while.
static void locks(const char* path, int way) {
  int ready[2];
  char byte;
  MUST(pipe(ready) == 0);
  struct flock lock = {0};
  lock.l_type = F_WRLCK;
  const pid_t pid = fork();
  if (pid == 0) {
    const int fd = open(path, O_RDWR);
    MUST(way == 0 ? flock(fd, LOCK_EX | LOCK_NB) == 0 : fcntl(fd, way == 2 ? F_OFD_SETLK : F_SETLK, &lock) == 0);  // no events
    MUST(write(ready[1], "x", 1) == 1);
    nap();
    _exit(0);
  }
  const int fd = open(path, O_RDWR);
  MUST(read(ready[0], &byte, 1) == 1);
  if (way == 0) WAIT(FILE_LOCK, flock(fd, LOCK_EX));
  if (way == 1) WAIT(FILE_LOCK, fcntl(fd, F_SETLKW, &lock));
  if (way == 2) WAIT(FILE_LOCK, fcntl(fd, F_OFD_SETLKW, &lock));
  if (way == 3) WAIT(FILE_LOCK, lockf(fd, F_LOCK, 0));
  close(fd);
  close(ready[0]);
  close(ready[1]);
  WAIT(CHILD, waitpid(pid, NULL, 0));
}

int main(int argc, char** argv) {
  MUST(argc == 2);
  const int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  MUST(fd >= 0 && ftruncate(fd, 4096) == 0);
  children();
  spawned();
  threads();
  sleeps();
  signals();
  messages();
  posix_messages();
  asynchronous();
  mapped(fd);
  WAIT(SYNC, sync());
  host_names();
  for (int way = 0; way < 4; ++way) locks(argv[1], way);
  for (int kind = 0; kind < KINDS; ++kind) printf("%s %ld %ld\n", names[kind], counts[kind], times[kind]);
  return 0;
}
