/* A thread pool with sessions, and a fork in the middle of its work: parent and child both wait for a line on stdin, the child first.
 * Prints lines "name value". */
#define _GNU_SOURCE
#include <perfschema/pfs.h>
#include <semaphore.h>
#include <sys/wait.h>

static pfs_key_t key_session, key_lock;
static pfs_thread_info_t threads[] = {{&key_session, "session", PFS_USER, NULL}};
static pfs_mutex_info_t mutexes[] = {{&key_lock, "LOCK", 0, NULL}};
static pfs_mutex_t lock;
static pfs_thread_t sessions[3];
static sem_t attached, may_end;

static void locks(int count) {
  for (; count > 0; --count) {
    pfs_mutex_lock(&lock);
    pfs_mutex_unlock(&lock);
  }
}
static void show(const char* what, unsigned long long value) {
  printf("%s %llu\n", what, value);
  fflush(stdout);
}
static void wait_for_line(void) {
  char line[4];
  if (read(0, line, 2) < 0) abort();
}

static void* worker(void* argument) {
  pfs_thread_attach(sessions[1]);
  pfs_set_account("bob", "sofa");
  locks(2);
  sem_post(&attached);
  sem_wait(&may_end); /* ends with the session attached */
  return argument;
}

static void child(void) {
  printf("child_segment %s\n", pfs_segment_path());
  show("child_current", pfs_thread_id());
  locks(4);
  show("child_attach_of_others", (unsigned)pfs_thread_attach(sessions[1])); /* the thread that had it attached is not in the child */
  locks(8);
  show("child_delete", (unsigned)pfs_thread_delete(sessions[2]));
  show("child_gone", (unsigned)pfs_thread_attach(sessions[2]));
  show("child_own", (unsigned)pfs_thread_attach(pfs_thread_own()));
  locks(16);
  show("child_new", pfs_thread_id_of(pfs_thread_new(key_session, NULL, 0)));
  show("child_ready", 1);
  wait_for_line();
  exit(0);
}

int main(void) {
  pthread_t thread;
  pid_t pid;
  int i, status;
  if (pfs_register_thread("sessions", threads, 1) != PFS_OK || pfs_register_mutex("sessions", mutexes, 1) != PFS_OK) return 2;
  pfs_mutex_init(key_lock, &lock, NULL);
  sem_init(&attached, 0, 0);
  sem_init(&may_end, 0, 0);
  locks(1);
  show("own", pfs_thread_id());
  for (i = 0; i < 3; ++i) sessions[i] = pfs_thread_new(key_session, NULL, 0);
  show("first", pfs_thread_id_of(sessions[0]));
  show("second", pfs_thread_id_of(sessions[1]));
  show("third", pfs_thread_id_of(sessions[2]));
  pthread_create(&thread, NULL, worker, NULL);
  sem_wait(&attached);
  pfs_thread_attach(sessions[0]);
  pfs_set_account("anna", "desk");
  locks(3);
  pid = fork();
  if (pid == 0) child();
  printf("segment %s\n", pfs_segment_path());
  show("attach_of_others", (unsigned)pfs_thread_attach(sessions[1]));
  if (waitpid(pid, &status, 0) != pid) abort();
  show("child_exit", (unsigned)status);
  sem_post(&may_end);
  pthread_join(thread, NULL);
  locks(5);
  show("attach_of_what_an_ended_thread_had", (unsigned)pfs_thread_attach(sessions[1]));
  locks(6);
  show("ready", 1);
  wait_for_line();
  return 0;
}
