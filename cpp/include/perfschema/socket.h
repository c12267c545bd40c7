/* perfschema/socket.h: sockets. A part of pfs.h, which the program includes.
 *
 *     static pfs_key_t key_listen, key_client;
 *     static pfs_socket_info_t sockets[] = {{&key_listen, "listen", 0, "Accepts clients."}, {&key_client, "client", 0, "A client."}};
 *
 *     pfs_register_socket("myapp", sockets, 2);                     wait/io/socket/myapp/listen
 *     int fd = pfs_socket(key_listen, AF_INET, SOCK_STREAM, 0);     then pfs_bind(fd, ...), pfs_listen(fd, ...)
 *     int client = pfs_accept(key_client, fd, NULL, NULL);          then pfs_recv(client, ...), pfs_send(client, ...), pfs_close(client)
 *
 * Sockets are found by descriptor, as files are (convention 9 of pfs.h): every call here on a descriptor that names a socket is an event
 * of it; on others it is the plain call. Calls that files and sockets share work on both: pfs_close, pfs_read, pfs_write, pfs_readv,
 * pfs_writev, and streams made by fdopen. On a socket these are the events close, recv and send; pfs_fstat is stat, a seek is seek.
 * Calls that no socket supports (fsync, ftruncate; fflush, which has no bytes of its own) make no event. A pfs_ call for sockets on a
 * file is the plain call.
 *
 * A row of socket_instances appears when a socket is made, even if its instrument is disabled, and is removed when it is closed; its
 * statistics stay with the instrument. IP and PORT are the address of the peer (an accepted socket, or one that has called connect), else
 * the socket's own once it is bound, else '' and 0. An AF_UNIX socket has a path instead, which shows as OBJECT_NAME of its events
 * ("@name" if it is abstract). THREAD_ID is NULL and STATE is ACTIVE until pfs_socket_set_thread and pfs_socket_set_state change them.
 * socket_calls.h has the wrapped calls.
 */
#ifndef PERFSCHEMA_SOCKET_H
#define PERFSCHEMA_SOCKET_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pfs_instrument_info pfs_socket_info_t;

/* Names the operation of a wait on a socket. Shown as OPERATION: create, connect ... */
enum pfs_socket_op {
  PFS_SOCKET_CREATE = 1,
  PFS_SOCKET_CONNECT = 2,
  PFS_SOCKET_BIND = 3, /* bind, getsockname, getpeername */
  PFS_SOCKET_CLOSE = 4,
  PFS_SOCKET_SEND = 5,     /* WRITE */
  PFS_SOCKET_RECV = 6,     /* READ */
  PFS_SOCKET_SENDTO = 7,   /* WRITE */
  PFS_SOCKET_RECVFROM = 8, /* READ */
  PFS_SOCKET_SENDMSG = 9,  /* WRITE */
  PFS_SOCKET_RECVMSG = 10, /* READ */
  PFS_SOCKET_SEEK = 11,
  PFS_SOCKET_OPT = 12,  /* getsockopt, setsockopt */
  PFS_SOCKET_STAT = 13, /* sockatmark */
  PFS_SOCKET_SHUTDOWN = 14,
  PFS_SOCKET_SELECT = 15, /* a wait until one can be used: select, poll */
  PFS_SOCKET_LISTEN = 16,
  PFS_SOCKET_ACCEPT = 17
};

/* STATE of socket_instances. */
enum pfs_socket_state { PFS_SOCKET_IDLE = 1, PFS_SOCKET_ACTIVE = 2 };

/* Passes addresses as the C library's own declarations take them: with _GNU_SOURCE that is any pointer to a kind of sockaddr. */
#ifdef __GLIBC__
#define PFS_ADDRESS_ __SOCKADDR_ARG
#define PFS_CONST_ADDRESS_ __CONST_SOCKADDR_ARG
#else
#define PFS_ADDRESS_ struct sockaddr*
#define PFS_CONST_ADDRESS_ const struct sockaddr*
#endif
struct mmsghdr;

#ifndef PFS_DISABLE

/* Registers sockets like pfs_register_mutex(). wait/io/socket/COMPONENT/NAME */
PFS_API int pfs_register_socket(const char* component, pfs_socket_info_t* info, int count);

/* ---- Details that only the program knows -------------------------------------------------------------------------------------------
 * No events. The functions do nothing on a descriptor that names no socket. Do not call them while another thread closes it.
 */

/* Sets THREAD_ID of the socket to the calling thread. */
PFS_API void pfs_socket_set_thread(int fd);
/* Sets STATE of the socket. */
PFS_API void pfs_socket_set_state(int fd, enum pfs_socket_state state);
/* Sets IP and PORT (or path) of the socket. NULL: the address that the system has, the peer's before its own. */
PFS_API void pfs_socket_set_address(int fd, PFS_CONST_ADDRESS_ address, socklen_t length);

/* ---- Calls that the program makes itself: runtimes of other languages -----------------------------------------------------------
 *
 *     pfs_wait_t wait;
 *     pfs_socket_wait_begin(&wait, fd, PFS_SOCKET_RECV, size);
 *     ssize_t n = recv(fd, buffer, size, 0);
 *     pfs_socket_wait_end(&wait, n);
 */

/* Instruments a socket that pfs did not make, with the address that the system has. It takes an earlier name from the descriptor. No
 * event. Errors: PFS_E_INVALID_ARGUMENT (key 0, fd is no socket); PFS_E_STATE if it cannot be instrumented (unknown key, pfs off, table
 * full). */
PFS_API int pfs_socket_bind(pfs_key_t key, int fd);
/* Ends the instrumentation of a socket, which stays open. Its row is removed; its statistics stay with the instrument. No event. */
PFS_API void pfs_socket_unbind(int fd);

/* int pfs_socket_wait_begin(pfs_wait_t* wait, int fd, enum pfs_socket_op op, int64_t requested_bytes): begins an event of the socket.
 * requested_bytes is shown while the event runs (send, recv, sendto, recvfrom; ignored for others). PFS_SOCKET_CLOSE removes the name
 * from the descriptor at once, and the row at the end: begin before the close, since another thread may get the number at once. After a
 * connect or bind call pfs_socket_set_address(fd, NULL, 0). Returns 1 if the event is instrumented, else 0; pfs_socket_wait_end may be
 * called in both cases, and must be called after 1.
 *
 * void pfs_socket_wait_end(pfs_wait_t* wait, int64_t bytes): ends the event, in the same thread. -1 = the call failed, or transfers no
 * bytes.
 *
 * int pfs_socket_is_enabled(int fd): returns 1 if an event of the socket would be instrumented now, else 0. For callers whose call site
 * is expensive to find. */
PFS_API int pfs_socket_is_enabled(int fd);
PFS_API int pfs_socket_wait_begin_at(pfs_wait_t* wait, int fd, enum pfs_socket_op op, int64_t requested_bytes, PFS_SITE_);
PFS_API void pfs_socket_wait_end_(pfs_wait_t* wait, int64_t bytes);
static inline void pfs_socket_wait_end(pfs_wait_t* wait, int64_t bytes) {
  if (wait->instance != NULL) pfs_socket_wait_end_(wait, bytes);
}

#define pfs_socket_wait_begin(...) pfs_socket_wait_begin_at(__VA_ARGS__, __FILE__, __LINE__)

#else /* PFS_DISABLE */

static inline int pfs_register_socket(const char* component PFS_UNUSED_, pfs_socket_info_t* info, int count) {
  return pfs_register_nothing_(info, count);
}
static inline int pfs_socket_bind(pfs_key_t key PFS_UNUSED_, int fd PFS_UNUSED_) { return PFS_OK; }
static inline void pfs_socket_unbind(int fd PFS_UNUSED_) {}
static inline void pfs_socket_set_thread(int fd PFS_UNUSED_) {}
static inline void pfs_socket_set_state(int fd PFS_UNUSED_, enum pfs_socket_state state PFS_UNUSED_) {}
static inline void pfs_socket_set_address(int fd PFS_UNUSED_, PFS_CONST_ADDRESS_ address PFS_UNUSED_, socklen_t length PFS_UNUSED_) {}
static inline int pfs_socket_wait_begin(pfs_wait_t* wait PFS_UNUSED_, int fd PFS_UNUSED_, enum pfs_socket_op op PFS_UNUSED_,
                                        int64_t requested_bytes PFS_UNUSED_) {
  return 0;
}
static inline void pfs_socket_wait_end(pfs_wait_t* wait PFS_UNUSED_, int64_t bytes PFS_UNUSED_) {}
static inline int pfs_socket_is_enabled(int fd PFS_UNUSED_) { return 0; }

#endif /* PFS_DISABLE */

#ifdef __cplusplus
}
#endif

#include "perfschema/socket_calls.h"

#endif /* PERFSCHEMA_SOCKET_H */
