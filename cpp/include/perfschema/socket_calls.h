/* perfschema/socket_calls.h: the wrapped calls on sockets. A part of pfs.h.
 * Made by `python -m pfs._generate` from cpp/src/capi/calls.def. Do not edit.
 */
#ifndef PERFSCHEMA_SOCKET_CALLS_H
#define PERFSCHEMA_SOCKET_CALLS_H

#ifndef PERFSCHEMA_PFS_H
#error "include <perfschema/pfs.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#ifndef PFS_DISABLE

/* ---- Creation ------------------------------------------------------------------------------------------------------------------------
 */

/* int pfs_socket(key, int domain, int type, int protocol): create. A failed call counts for the instrument. */
PFS_API int pfs_socket_at(pfs_key_t key, int domain, int type, int protocol, PFS_SITE_);
#define pfs_socket(...) pfs_socket_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_socketpair(key, int domain, int type, int protocol, int fds[2]): create, one event, of the first socket; both are
 * instrumented. */
PFS_API int pfs_socketpair_at(pfs_key_t key, int domain, int type, int protocol, int fds[2], PFS_SITE_);
#define pfs_socketpair(...) pfs_socketpair_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_accept(key, int fd, struct sockaddr* address, socklen_t* length): accept, an event of fd. The new socket gets the instrument
 * `key`, or that of fd if key is 0. If it shall not be instrumented, call accept. */
PFS_API int pfs_accept_at(pfs_key_t key, int fd, PFS_ADDRESS_ address, socklen_t* length, PFS_SITE_);
#define pfs_accept(...) pfs_accept_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_accept4(key, int fd, struct sockaddr* address, socklen_t* length, int flags): the same. */
PFS_API int pfs_accept4_at(pfs_key_t key, int fd, PFS_ADDRESS_ address, socklen_t* length, int flags, PFS_SITE_);
#define pfs_accept4(...) pfs_accept4_at(__VA_ARGS__, __FILE__, __LINE__)

/* ---- Connecting ----------------------------------------------------------------------------------------------------------------------
 */

/* int pfs_bind(int fd, const struct sockaddr* address, socklen_t length): bind. */
PFS_API int pfs_bind_at(int fd, PFS_CONST_ADDRESS_ address, socklen_t length, PFS_SITE_);
#define pfs_bind(...) pfs_bind_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_listen(int fd, int backlog): listen. */
PFS_API int pfs_listen_at(int fd, int backlog, PFS_SITE_);
#define pfs_listen(...) pfs_listen_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_connect(int fd, const struct sockaddr* address, socklen_t length): connect. The socket has the address of the peer from here
 * on, even while the connection is still in progress (EINPROGRESS, EINTR). */
PFS_API int pfs_connect_at(int fd, PFS_CONST_ADDRESS_ address, socklen_t length, PFS_SITE_);
#define pfs_connect(...) pfs_connect_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_getsockname(int fd, struct sockaddr* address, socklen_t* length): bind. */
PFS_API int pfs_getsockname_at(int fd, PFS_ADDRESS_ address, socklen_t* length, PFS_SITE_);
#define pfs_getsockname(...) pfs_getsockname_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_getpeername(int fd, struct sockaddr* address, socklen_t* length): bind. */
PFS_API int pfs_getpeername_at(int fd, PFS_ADDRESS_ address, socklen_t* length, PFS_SITE_);
#define pfs_getpeername(...) pfs_getpeername_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_shutdown(int fd, int how): shutdown. */
PFS_API int pfs_shutdown_at(int fd, int how, PFS_SITE_);
#define pfs_shutdown(...) pfs_shutdown_at(__VA_ARGS__, __FILE__, __LINE__)

/* ---- Transfer of bytes ---------------------------------------------------------------------------------------------------------------
 * Bytes are the result of the call. A call that fails, or would have to wait (EAGAIN), is an event with 0 bytes.
 */

/* ssize_t pfs_send(int fd, const void* buffer, size_t size, int flags): send, bytes (WRITE). */
PFS_API ssize_t pfs_send_at(int fd, const void* buffer, size_t size, int flags, PFS_SITE_);
#define pfs_send(...) pfs_send_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_recv(int fd, void* buffer, size_t size, int flags): recv, bytes (READ). */
PFS_API ssize_t pfs_recv_at(int fd, void* buffer, size_t size, int flags, PFS_SITE_);
#define pfs_recv(...) pfs_recv_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_sendto(int fd, const void* buffer, size_t size, int flags, const struct sockaddr* to, socklen_t length): sendto, bytes
 * (WRITE). */
PFS_API ssize_t pfs_sendto_at(int fd, const void* buffer, size_t size, int flags, PFS_CONST_ADDRESS_ to, socklen_t length, PFS_SITE_);
#define pfs_sendto(...) pfs_sendto_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_recvfrom(int fd, void* buffer, size_t size, int flags, struct sockaddr* from, socklen_t* length): recvfrom, bytes (READ). */
PFS_API ssize_t pfs_recvfrom_at(int fd, void* buffer, size_t size, int flags, PFS_ADDRESS_ from, socklen_t* length, PFS_SITE_);
#define pfs_recvfrom(...) pfs_recvfrom_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_sendmsg(int fd, const struct msghdr* message, int flags): sendmsg (WRITE). NUMBER_OF_BYTES is NULL; the sums have the
 * bytes. */
PFS_API ssize_t pfs_sendmsg_at(int fd, const struct msghdr* message, int flags, PFS_SITE_);
#define pfs_sendmsg(...) pfs_sendmsg_at(__VA_ARGS__, __FILE__, __LINE__)

/* ssize_t pfs_recvmsg(int fd, struct msghdr* message, int flags): recvmsg (READ). Bytes as in pfs_sendmsg. */
PFS_API ssize_t pfs_recvmsg_at(int fd, struct msghdr* message, int flags, PFS_SITE_);
#define pfs_recvmsg(...) pfs_recvmsg_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_sendmmsg(int fd, struct mmsghdr* messages, unsigned count, int flags): sendmsg (WRITE), one event with the bytes of all sent
 * messages. */
PFS_API int pfs_sendmmsg_at(int fd, struct mmsghdr* messages, unsigned count, int flags, PFS_SITE_);
#define pfs_sendmmsg(...) pfs_sendmmsg_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_recvmmsg(int fd, struct mmsghdr* messages, unsigned count, int flags, struct timespec* timeout): recvmsg (READ), one event
 * with the bytes of all messages. */
PFS_API int pfs_recvmmsg_at(int fd, struct mmsghdr* messages, unsigned count, int flags, struct timespec* timeout, PFS_SITE_);
#define pfs_recvmmsg(...) pfs_recvmmsg_at(__VA_ARGS__, __FILE__, __LINE__)

/* ---- Other calls ---------------------------------------------------------------------------------------------------------------------
 * poll and select wait for many descriptors at once, and an event has one object: they are the plain calls. To record a wait for one
 * socket use pfs_socket_wait_begin with PFS_SOCKET_SELECT.
 */

/* int pfs_getsockopt(int fd, int level, int name, void* value, socklen_t* length): opt. */
PFS_API int pfs_getsockopt_at(int fd, int level, int name, void* value, socklen_t* length, PFS_SITE_);
#define pfs_getsockopt(...) pfs_getsockopt_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_setsockopt(int fd, int level, int name, const void* value, socklen_t length): opt. */
PFS_API int pfs_setsockopt_at(int fd, int level, int name, const void* value, socklen_t length, PFS_SITE_);
#define pfs_setsockopt(...) pfs_setsockopt_at(__VA_ARGS__, __FILE__, __LINE__)

/* int pfs_sockatmark(int fd): stat. */
PFS_API int pfs_sockatmark_at(int fd, PFS_SITE_);
#define pfs_sockatmark(...) pfs_sockatmark_at(__VA_ARGS__, __FILE__, __LINE__)

#else /* PFS_DISABLE */

#define pfs_socket(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ socket(__VA_ARGS__))
#define pfs_socketpair(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ socketpair(__VA_ARGS__))
#define pfs_accept(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ accept(__VA_ARGS__))
#define pfs_accept4(key, ...) (pfs_unused_key_(key), PFS_PLAIN_ accept4(__VA_ARGS__))
#define pfs_bind(...) PFS_PLAIN_ bind(__VA_ARGS__)
#define pfs_listen(...) PFS_PLAIN_ listen(__VA_ARGS__)
#define pfs_connect(...) PFS_PLAIN_ connect(__VA_ARGS__)
#define pfs_getsockname(...) PFS_PLAIN_ getsockname(__VA_ARGS__)
#define pfs_getpeername(...) PFS_PLAIN_ getpeername(__VA_ARGS__)
#define pfs_shutdown(...) PFS_PLAIN_ shutdown(__VA_ARGS__)
#define pfs_send(...) PFS_PLAIN_ send(__VA_ARGS__)
#define pfs_recv(...) PFS_PLAIN_ recv(__VA_ARGS__)
#define pfs_sendto(...) PFS_PLAIN_ sendto(__VA_ARGS__)
#define pfs_recvfrom(...) PFS_PLAIN_ recvfrom(__VA_ARGS__)
#define pfs_sendmsg(...) PFS_PLAIN_ sendmsg(__VA_ARGS__)
#define pfs_recvmsg(...) PFS_PLAIN_ recvmsg(__VA_ARGS__)
#define pfs_sendmmsg(...) PFS_PLAIN_ sendmmsg(__VA_ARGS__)
#define pfs_recvmmsg(...) PFS_PLAIN_ recvmmsg(__VA_ARGS__)
#define pfs_getsockopt(...) PFS_PLAIN_ getsockopt(__VA_ARGS__)
#define pfs_setsockopt(...) PFS_PLAIN_ setsockopt(__VA_ARGS__)
#define pfs_sockatmark(...) PFS_PLAIN_ sockatmark(__VA_ARGS__)

#endif /* PFS_DISABLE */
/* clang-format on */

#ifdef __cplusplus
}
#endif
#endif /* PERFSCHEMA_SOCKET_CALLS_H */
