// run/protocols/conversations.h: shows the bytes of accepted sockets to decoders, which make statements of them.
//
// Off unless PFS_RUN_DECODE names protocols: then each accepted socket has a conversation until it is closed. The first bytes that the
// program reads decide on the protocol. A statement begins when its request has been read and ends when its reply has been written; many
// may be under way. Decoding ends, and the conversation's statements with it, when two threads use the socket at one time, or when its
// bytes are no longer of the protocol.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "record/engine/runtime.h"

namespace perfschema::run {

// Reads PFS_RUN_DECODE: names with commas in between. Called once, at the start.
void StartConversations();

// Returns whether there is a protocol to decode.
inline bool IsDecoding() { return __builtin_expect(g_runtime.run_is_decoding, 0); }

// The descriptor is a new accepted socket. `site`: where.
void BeginConversation(int fd, const char* site);
// The descriptor will be closed.
void EndConversation(int fd);

// The program has read or written these bytes. They preserve errno.
void SawBytes(int fd, bool is_input, const void* bytes, size_t count);
// The kernel has written bytes of a file.
void SawHole(int fd, size_t count);
void SawParts(int fd, bool is_input, const iovec* parts, size_t part_count, size_t count);

// Shows the result of a call such as read(fd, buffer, ...) or writev(fd, parts, count).
template <typename... More>
void Saw(bool is_input, ssize_t done, int fd, const void* bytes, More...) {
  if (done > 0) SawBytes(fd, is_input, bytes, static_cast<size_t>(done));
}
template <typename... More>
void Saw(bool is_input, ssize_t done, int fd, const iovec* parts, int count, More...) {
  if (done > 0) SawParts(fd, is_input, parts, static_cast<size_t>(count), static_cast<size_t>(done));
}
inline void Saw(bool is_input, ssize_t done, int fd, const msghdr* message, int) {
  if (done > 0) SawParts(fd, is_input, message->msg_iov, message->msg_iovlen, static_cast<size_t>(done));
}

}  // namespace perfschema::run
