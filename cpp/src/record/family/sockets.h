// record/family/sockets.h: instrumented sockets, reached by descriptor from creation (or pfs_socket_bind) to close.
//
// A socket is a ShmFile (record/family/files.h) that cannot be found by name. Its name is its address, which may be
// unset and may change. It disappears with its descriptor, and leaves its statistics to its class.
//
//   call             instance, IP and PORT                                          event on
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
// path: files pay nothing for it. A socket may be closed, and its slot reused, while threads wait in calls on it. An
// operation therefore remembers the slot's `version` and counts for the class if it has changed. Each bind, connect
// and accept reads the address again.
#pragma once

#include <sys/socket.h>

#include "record/family/files.h"

namespace perfschema {

// Returns nullptr if the descriptor names no instrumented socket.
inline ShmFile* SocketOfDescriptor(int fd) {
  ShmFile* file = FileOfDescriptor(fd);
  return file != nullptr && (g_runtime.classes[file->class_index.load(kRelaxed)].family == static_cast<uint32_t>(Family::kSocket))
             ? file
             : nullptr;
}

// Returns the class of a key; 0 if the key is bad, or pfs is off.
uint32_t ClassOfSocketKey(uint32_t key);

// A Begin that returns false asks the caller to make the call uninstrumented and to hand nullptr to End. Sockets are
// followed even if their events are not instrumented (semantics.md C7). Every End preserves errno.

// socket and socketpair, which made `count` descriptors. Class 0: the sockets are not followed.
bool BeginSocketMake(FileWait* call, uint32_t class_index, const char* source_file, uint32_t line);
void EndSocketMake(FileWait* call, uint32_t class_index, const int* fds, uint32_t count, bool is_local);

// These functions instrument bind, connect and accept.
bool BeginSocketChange(FileWait* call, int fd, Operation operation, const char* source_file, uint32_t line);
// Sets the socket's address if that has changed. kNoChange: the thread was cancelled in the call.
enum class AddressChange { kNoChange, kFailed, kChanged };
void EndSocketAddress(FileWait* call, int fd, AddressChange change, const sockaddr* address, socklen_t length);
// `fd` is a new socket of the class, kFailed, or kCancelled. `peer` nullptr: read the address from the system. Class 0:
// the socket is not followed.
void EndSocketAccept(FileWait* call, uint32_t class_index, int fd, const sockaddr* peer, socklen_t length);

// ---- For programs that make their own system calls

// Starts to follow a descriptor that was made elsewhere. The system supplies its address.
enum class SocketBinding { kDone, kNotASocket, kFull };
SocketBinding BindSocket(uint32_t class_index, int fd);

// These functions do nothing if the descriptor is no followed socket.
void SetSocketAddress(int fd, const sockaddr* address, socklen_t length);  // nullptr: read the address from the system
void SetSocketThread(int fd);                                              // sets the socket's thread to the calling thread
void SetSocketState(int fd, bool is_idle);

}  // namespace perfschema
