// shm/place.h: makes the file of a segment, and checks the place for it.
//
// The directory is the user's own and closed to writes of others; the file is new. Where PFS_DIR is not, each user has a directory
// "pfs-<uid>" in it. No foreign file is followed, opened for writing,
// changed or removed. The one exception is the file of a dead process with the same pid.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "shm/dead_segments.h"

namespace perfschema {

std::string Reason(const char* what, const std::string& where, int error);  // "cannot open /a/b: No such file or directory"
bool ReadSmallFile(const char* path, char* buffer, size_t size);            // reads /proc or /sys; zero terminated
uint64_t PidNamespace();                                                    // pids are comparable within one only; 0 = not known
std::string BootId();                                                       // empty = not known
// Describes a process as /proc/PID/stat does; pid 0 = this one. Returns false if there is none, or it is hidden (errno tells).
struct ProcessStat {
  uint64_t parent = 0;       // field 4; 0 if it is in another pid namespace
  uint64_t start_ticks = 0;  // field 22
  uint64_t threads = 0;
  char state = 0;  // R, S, T, Z ...
};
bool ReadProcessStat(uint64_t pid, ProcessStat* found);

// What /proc/PID/task/TID/schedstat says: nanoseconds in which a thread had a processor, and in which it was runnable but had none.
struct SchedulerTimes {
  uint64_t computed, runnable;
};
SchedulerTimes ParseSchedulerTimes(const char* text);

// Returns whether the process has a file of this name mapped. Returns true, too, if the process hides its mappings.
bool MapsFile(uint64_t pid, const std::string& name);

// Returns whether the segment stays when its process has ended (PFS_KEEP=1). Needs no memory: the end of the process may have none.
bool KeepsSegment();

// Returns where segments of this user are: PFS_DIR, else /dev/shm/pfs-<uid>. Absolute.
std::string SegmentDirectory();

// Returns whether the last segment has no file because the directory that the user, and not `pfs run`, has chosen cannot be used. Threads:
// called under the cold lock.
bool ChosenDirectoryWasRefused();

// Makes the directory "pfs-<uid>" in PFS_DIR for a user that this process is about to become. Only root can do so, and only where PFS_DIR
// is its own. Returns whether the directory is there. Needs no memory and takes no lock: it may run in the child of a vfork(). Preserves
// errno.
bool MakeDirectoryOf(uid_t user);

// A note in the folder of a run: a process or a program is not recorded. It is a symbolic link whose target is "<kind> <what>": that takes
// one call, no descriptor, and no space in a file system that is full. `pfs run` reads and removes it (python/pfs/_process/run/watch.py).
// Needs no memory and takes no lock: it may be left in the child of a vfork(). Preserves errno.
class Note {
 public:
  // Leaves it: this process is about to run a program that is not recorded. `folder`: of the run; empty: nothing is left.
  Note(const char* folder, const char* kind, const char* what);
  // Takes it back: the program did not start.
  void Remove();
  // Leaves it, once: this process has no segment. Outside of `pfs run` nothing is left.
  static void OfThisProcess(const char* kind, const char* what);

 private:
  const char* const folder_;
  char name_[48];
};

// Says when this process became the program that it is, by what the program before has left; at = 0: it has been no other, or left nothing.
// Nanoseconds, as in ShmProgramEnd. Threads: called under the cold lock, after MakeSegmentFile().
struct EarlierProgram {
  uint64_t at = 0, computed = 0, runnable = 0;
};
const EarlierProgram& TheEarlierProgram();

// Locks all of a file for reading or for writing (F_RDLCK, F_WRLCK), or unlocks it (F_UNLCK). Returns 0; EAGAIN if another process has it
// locked, at once; another error where files have no locks. A mapping keeps the lock, too: closing the descriptor is not enough.
int TryLockFile(int fd, short type);

// Makes a new file of this process's name, readable by its owner alone so far, after it has removed dead segments beyond the limits.
// `pid_namespace` is this process's. A file without a header does not say whose it is: another process may remove it until the caller has
// locked it.
// Returns its descriptor and path, and the mode that it shall get (PFS_MODE). Returns -1 if it fails; `reason` says why. `remark` gets a
// warning for the user, or is empty.
int MakeSegmentFile(const DeadLimits& limits, uint64_t pid_namespace, std::string* path, mode_t* mode, std::string* remark,
                    std::string* reason);

}  // namespace perfschema
