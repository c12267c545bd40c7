// What calls take of a stack.
//   small_stacks depths    prints for each operation the bytes of a stack that it has written to
//   small_stacks handler   makes its first calls in a signal handler, on an alternate stack as small as the system says, above a page that
//                          cannot be written to; then the same in a forked child
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static unsigned char stack[512 << 10];
static ucontext_t back, there;
static void (*operation)(void);

static void Begin(void) { operation(); }

static size_t DepthOf(void (*what)(void)) {
  operation = what;
  memset(stack, 0xaa, sizeof stack);
  getcontext(&there);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = sizeof stack;
  there.uc_link = &back;
  makecontext(&there, Begin, 0);
  swapcontext(&back, &there);
  size_t untouched = 0;
  while (untouched < sizeof stack && stack[untouched] == 0xaa) ++untouched;
  return sizeof stack - untouched;
}

static int directory = -1, file = -1, pair[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void ReadWhatWasThere(void) { (void)!read(0, &(char){0}, 1); }
static void Open(void) { file = open("./a", O_RDWR | O_CREAT, 0600); }
static void OpenBelow(void) { close(openat(directory, "a", O_RDONLY)); }
static void Rename(void) { rename("./a", "b"); }
static void RenameBelow(void) { renameat(directory, "b", directory, "c"); }
static void Remove(void) { unlink("c"); }
static void RemoveNothing(void) { unlink("nothing"); }
static void Close(void) { close(file); }
static void Lock(void) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
}
static void Talk(void) {
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  (void)!write(pair[0], "a", 1);
  (void)!read(pair[1], &(char){0}, 1);
}
static void* FirstEvent(void* argument) {
  *(size_t*)argument = DepthOf(Lock);
  return NULL;
}

static void Show(const char* name, void (*what)(void)) { printf("%s %zu\n", name, DepthOf(what)); }

static void InChild(const char* name, void (*what)(void)) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    Show(name, what);
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static void Handle(int signal) {
  (void)signal;
  (void)!write(1, "handled\n", 8);
  const int made = open("./made", O_WRONLY | O_CREAT | O_APPEND, 0600);
  (void)!write(made, "x", 1);
  close(made);
  rename("./made", "renamed");
  rename("renamed", "./made");
}

static int HandleOnSmallStack(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = ((size_t)sysconf(_SC_SIGSTKSZ) + page - 1) / page * page;
  char* memory = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) return 1;
  const stack_t alternate = {.ss_sp = memory + page, .ss_size = bytes};
  struct sigaction action = {.sa_handler = Handle, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&alternate, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0) return 1;
  raise(SIGUSR1);
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGUSR1);
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status;
}

int main(int count, char** words) {
  if (count > 1 && strcmp(words[1], "handler") == 0) return HandleOnSmallStack();
  size_t depth = 0;
  pthread_t thread;
  Show("first", ReadWhatWasThere);
  directory = open(".", O_RDONLY | O_DIRECTORY);
  Show("open", Open);
  Show("open below", OpenBelow);
  Show("rename", Rename);
  Show("rename below", RenameBelow);
  Show("remove", Remove);
  Show("remove nothing", RemoveNothing);
  Show("close", Close);
  Show("lock", Lock);
  Show("talk", Talk);
  pthread_create(&thread, NULL, FirstEvent, &depth);
  pthread_join(thread, NULL);
  printf("thread %zu\n", depth);
  InChild("child opens", Open);
  InChild("child locks", Lock);
  return 0;
}
