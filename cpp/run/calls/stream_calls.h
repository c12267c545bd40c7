// run/calls/stream_calls.h: makes the event of a call on a stream around the real call. A stream belongs to the file of its descriptor.
// Calls on single characters are not replaced: they cost less than an event.
#pragma once

#include <cerrno>
#include <cstdio>

#include "run/calls/file_calls.h"

namespace perfschema::run {

// Returns the descriptor, or -1 for NULL and for streams without one. Preserves errno.
inline int DescriptorOf(FILE* stream) {
  if (stream == nullptr) return -1;
  const int error = errno;
  const int fd = fileno_unlocked(stream);
  errno = error;
  return fd;
}

// Whether programs make a call often: then it has a body of its own (capi/call.h).
enum class How { kOften, kSeldom };

template <How kHow = How::kSeldom, typename Call, typename Bytes>
[[gnu::always_inline]] inline auto OnStream(FILE* stream, Operation operation, size_t requested, const void* caller, Call call,
                                            Bytes bytes) {
  if (IsPlain()) return call();
  const int fd = DescriptorOf(stream);
  const capi::Site site = fd >= 0 ? KnownSite(fd, caller) : SiteAt(caller);
  const auto shown = static_cast<int64_t>(requested);
  if constexpr (kHow == How::kOften) {
    return capi::OnDescriptor(fd, operation, shown, capi::kNoOffset, site, call, bytes);
  } else {
    return capi::SeldomOnDescriptor<true>(fd, operation, shown, capi::kNoOffset, site, call, bytes);
  }
}

// Makes a call that writes by a format.
template <typename Call>
int Printed(int fd, const void* caller, Call call) {
  if (IsPlain()) return call();
  return capi::SeldomTransfer(fd, Operation::kWrite, 0, capi::kNoOffset, KnownSite(fd, caller), call);
}
template <typename Call>
[[gnu::always_inline]] inline auto Printed(FILE* stream, const void* caller, Call call) {
  return OnStream(stream, Operation::kWrite, 0, caller, call, [](int n) { return int64_t{n}; });
}

// Makes a call that reads by a format. How many bytes it takes is not known.
template <typename Call>
[[gnu::always_inline]] inline auto Scanned(FILE* stream, const void* caller, Call call) {
  return OnStream(stream, Operation::kRead, 0, caller, call, [](int) { return int64_t{0}; });
}

template <typename Real>
FILE* OpenedStream(const char* path, const char* mode, const void* caller, Real real) {
  if (IsPlain()) return real(path, mode);
  const Site& site = *SiteOf(caller);
  FILE* const stream = pfs_fopen_at(KeyOfFile(path, IsReadable(path), site), path, mode, site.text, kWholePlace);
  if (stream != nullptr) ForgetAdopted(DescriptorOf(stream));
  return stream;
}

// The stream may have another descriptor, or another file on the same one.
template <typename Real>
FILE* Reopened(const char* path, const char* mode, FILE* stream, Real real) {
  const int before = DescriptorOf(stream);
  FILE* const result = real(path, mode, stream);
  if (IsPlain()) return result;
  for (const int fd : {before, DescriptorOf(result)}) {
    if (fd < 0) continue;
    if (FileOfDescriptor(fd) != nullptr) UnbindFile(fd);
    ForgetAdopted(fd);
  }
  return result;
}

}  // namespace perfschema::run
