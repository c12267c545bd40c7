// event_source.h: makes waits in a thread, and reads their numbers back. For the tests of views of events.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <vector>

#include "live.h"

namespace perfschema {

// A mutex and a file of the source's own thread: without contention events come as fast as possible. A lock takes one
// place in a chunk, an operation on a file two: `files_of_8` of 8 events are on files.
class Source {
 public:
  explicit Source(uint32_t files_of_8 = 0) : files_of_8_(files_of_8), descriptor_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {
    pfs_mutex_init(MutexKey("source"), &mutex_, nullptr);
    EXPECT_EQ(pfs_file_bind(FileKey("source"), descriptor_, "null"), PFS_OK);
  }
  ~Source() {
    pfs_mutex_destroy(&mutex_);
    pfs_file_unbind(descriptor_);
    close(descriptor_);
  }
  void Make(uint64_t events) {
    for (uint64_t i = 0; i < events; ++i) MakeOne(i, files_of_8_);
  }
  // Makes the event number `i` of a row with so many on files.
  void MakeOne(uint64_t i, uint32_t files_of_8) {
    if (i * 3 % 8 < files_of_8) {
      pfs_lseek(descriptor_, 0, SEEK_CUR);
    } else {
      Lock();
    }
  }
  void Lock() {
    pfs_mutex_lock(&mutex_);
    pfs_mutex_unlock(&mutex_);
  }

 private:
  const uint32_t files_of_8_;
  const int descriptor_;
  pfs_mutex_t mutex_;
};

// EVENT_IDs by thread, in order.
inline std::map<uint64_t, std::vector<uint64_t>> Ids(const char* table) {
  const Frame frame(table, {"THREAD_ID", "EVENT_ID"});
  std::map<uint64_t, std::vector<uint64_t>> ids;
  for (size_t i = 0; i < frame.rows(); ++i) ids[frame.number(i, 0)].push_back(frame.number(i, 1));
  for (auto& [thread, list] : ids) std::sort(list.begin(), list.end());
  return ids;
}
// Returns whether these are numbers without a gap, one at least.
inline bool IsRun(const std::vector<uint64_t>& ids) {
  for (size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] != ids[i - 1] + 1) return false;
  }
  return !ids.empty();
}

}  // namespace perfschema
