// shm/place.h: where the file of a segment is made, and what must not be there.
//
// The directory is the user's own and closed to writes of others; the file is new. Nothing that somebody has put there is followed, opened for
// writing, changed or removed, but what a dead process of the same pid has left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace perfschema {

std::string Reason(const char* what, const std::string& where, int error);  // "cannot open /a/b: No such file or directory"
bool ReadSmallFile(const char* path, char* buffer, size_t size);            // of /proc or /sys; zero terminated
uint64_t PidNamespace();                                                    // pids are comparable within one only; 0 = not known
std::string BootId();                                                       // empty = not known
// A process as /proc/PID/stat has it; pid 0 = this one. False: there is none, or it is hidden (errno tells).
struct ProcessFacts {
  uint64_t start_ticks = 0;  // field 22
  uint64_t threads = 0;
  char state = 0;            // R, S, T, Z ...
};
bool ReadProcessFacts(uint64_t pid, ProcessFacts* facts);
// Has the process a file of this name mapped? True as well if nobody may know.
bool MapsFile(uint64_t pid, const std::string& name);

// Where segments of this user are: PFS_DIR, else /dev/shm/pfs-<uid>. Absolute.
std::string SegmentDirectory();

// A new file of this process's name, readable by its owner alone so far: its descriptor and path, and the mode that it is to have (PFS_MODE). -1: `reason`
// says why. `remark`: what is worth telling otherwise, or empty.
int MakeSegmentFile(std::string* path, mode_t* mode, std::string* remark, std::string* reason);

}  // namespace perfschema
