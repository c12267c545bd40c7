/* A thread that is cancelled inside a call on a socket. It ends as it would without pfs, its cleanup handlers run
 * (and use pfs), and its open event gets an end. Prints the same with -DPFS_DISABLE. With an argument it waits for a
 * line at the end. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <perfschema/pfs.h>

static pfs_key_t key;
static pfs_socket_info_t sockets[] = {{&key, "socket", 0, "Nothing ever comes."}};
static int fds[2], listener;
static char buffer[8];

static void clean_up(void* name) { printf("cleanup of %s: send %ld\n", (const char*)name, (long)pfs_send(fds[1], "abc", 3, 0)); }

static void* in_recv(void* name) {
  pthread_cleanup_push(clean_up, name);
  printf("recv %ld\n", (long)pfs_recv(fds[0], buffer, 3, 0));
  pthread_cleanup_pop(1);
  return NULL;
}

static void* in_recvmsg(void* name) {
  struct iovec part = {buffer, 3};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  pthread_cleanup_push(clean_up, name);
  printf("recvmsg %ld\n", (long)pfs_recvmsg(fds[0], &message, 0));
  pthread_cleanup_pop(1);
  return NULL;
}

static void* in_accept(void* name) {
  pthread_cleanup_push(clean_up, name);
  printf("accept %d\n", pfs_accept(key, listener, NULL, NULL));
  pthread_cleanup_pop(1);
  return NULL;
}

static void cancel(const char* name, void* (*run)(void*)) {
  pthread_t thread;
  void* result;
  pthread_create(&thread, NULL, run, (void*)name);
  usleep(20000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("cancelled in %s %d, left in the socket %ld\n", name, result == PTHREAD_CANCELED, (long)pfs_recv(fds[0], buffer, 8, 0));
}

int main(int argc, char** argv) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  (void)argv;
  if (pfs_register_socket("cancelled", sockets, 1) != 0 || pfs_socketpair(key, AF_UNIX, SOCK_STREAM, 0, fds) != 0) return 2;
  listener = pfs_socket(key, AF_INET, SOCK_STREAM, 0);
  if (pfs_bind(listener, (struct sockaddr*)&address, sizeof address) != 0 || pfs_listen(listener, 1) != 0) return 2;
  cancel("recv", in_recv);
  cancel("recvmsg", in_recvmsg);
  cancel("accept", in_accept);
  if (argc > 1) {
    printf("segment %s\nready -\n", pfs_segment_path());
    fflush(stdout);
    (void)getchar();
  }
  return 0;
}
