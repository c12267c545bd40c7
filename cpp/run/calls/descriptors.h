// run/calls/descriptors.h: which instrument a descriptor of the program belongs to.
//
// A descriptor that an interposed call has opened is known. Any other one (inherited, or opened inside the C library) is adopted at its
// first use: the kernel says what it is. The names of instruments say the kind: a file's extension, pipe, dev, proc, tcp, unix ...
#pragma once

#include "perfschema/pfs.h"
#include "record/family/files.h"
#include "run/loader/real.h"
#include "run/loader/sites.h"

namespace perfschema::run {

// Returns the key of a file of that name that this caller opens. `is_readable`: whether the name may be read (record/family/file_name.h);
// else the call fails with EFAULT. 0: it is a file of pfs, or what the thread does is not recorded. Slow.
pfs_key_t KeyOfFile(const char* path, bool is_readable, const Site& site);
// Returns the key of the memory that this caller allocates. Slow.
pfs_key_t KeyOfHeap(const Site& site);
// Returns the key of a socket: "tcp", "udp", "unix", "accepted" ... Slow.
pfs_key_t KeyOfSocket(const char* kind, const Site& site);
const char* KindOfSocket(int domain, int type);

// Gives a descriptor that nothing is known of its name. Does nothing for kinds that have no instrument. Slow.
[[gnu::noinline]] void Adopt(int fd, const Site& site);
// Says that the number is another file's now, of which nothing is to be recorded.
void LeaveAlone(int fd);
// Says that the number is another file's now.
void ForgetAdopted(int fd);
// Makes `to` the same file as `from`, whatever `to` was.
void Duplicated(int from, int to, const Site& site);

// Returns whether the descriptor is followed, or adoption has been tried.
bool IsKnown(int fd);
inline void MakeKnown(int fd, const void* caller) {
  if (__builtin_expect(FileOfDescriptor(fd) == nullptr, 0) && !IsKnown(fd)) Adopt(fd, *SiteOf(caller));
}

}  // namespace perfschema::run
