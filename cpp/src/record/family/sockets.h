// record/family/sockets.h: instrumented sockets: reached by descriptor from their making (or pfs_socket_bind) until they are closed.
//
// A socket is a ShmFile (record/family/files.h) that no name leads to: its name is its address, which it may not have yet, and which may change.
// It disappears with its descriptor, and leaves its numbers to its class.
//
//   made by          instance, IP and PORT                                          event on
//   socket           at success; none                                               itself; the class if it failed
//   socketpair       both at success; none                                          the first; the class if it failed
//   accept           at success; the peer's                                         the listener
//   bind             its own address, as the system has completed it                itself
//   connect          the peer's, also while the connection is still being made      itself
//
// An AF_UNIX socket has a path in place of IP and PORT: its own, or its peer's; an abstract one begins with '@'.
//
// A socket has the same three lanes as a file and shares the table from descriptor to object. kFlagSocket in the flag word sends a call
// that both have (close, read, write ...) to the socket's operation, in the one comparison that sends every uncommon case off the fast
// path: files pay nothing for it. A socket may be closed, and its slot reused, while threads wait in calls on it. An operation therefore
// remembers the slot's `version` and counts for the class if it has changed. The address is taken again with each bind, connect and
// accept.
#pragma once

#include <sys/socket.h>

#include "record/family/files.h"

namespace perfschema {

// nullptr: the descriptor names no socket that is followed.
inline ShmFile* SocketOfDescriptor(int fd) {
  ShmFile* file = FileOfDescriptor(fd);
  return file != nullptr && (g_runtime.classes[file->class_index.load(kRelaxed)].family == static_cast<uint32_t>(Family::kSocket)) ? file : nullptr;
}

// Of a key; 0 if it is none, or pfs is off.
uint32_t ClassOfSocketKey(uint32_t key);

// Every Begin: false = make the call plainly and hand nullptr to End: sockets are followed whether or not anybody looks at their events
// (SEMANTICS C7). Every End preserves errno.

// socket and socketpair, which made `count` descriptors. Class 0: they are not to be followed.
bool BeginSocketMake(FileWait* call, uint32_t class_index, const char* source_file, uint32_t line);
void EndSocketMake(FileWait* call, uint32_t class_index, const int* fds, uint32_t count, bool is_local);

// bind, connect and accept.
bool BeginSocketChange(FileWait* call, int fd, Operation operation, const char* source_file, uint32_t line);
// The socket has the address from now on, if `has_changed`.
void EndSocketAddress(FileWait* call, int fd, bool has_changed, const sockaddr* address, socklen_t length);
// `fd` is a new socket of the class, -1 if there is none. `peer` nullptr: whatever the system says. Class 0: it is not to be followed.
void EndSocketAccept(FileWait* call, uint32_t class_index, int fd, const sockaddr* peer, socklen_t length);

// ---- For programs that make their calls themselves

// A descriptor that was made elsewhere. It has the address that the system knows.
enum class SocketBinding { kDone, kNotASocket, kFull };
SocketBinding BindSocket(uint32_t class_index, int fd);

// Nothing happens if the descriptor is no socket that is followed.
void SetSocketAddress(int fd, const sockaddr* address, socklen_t length);  // nullptr: whatever the system says
void SetSocketThread(int fd);  // of the calling thread
void SetSocketState(int fd, bool is_idle);

}  // namespace perfschema
