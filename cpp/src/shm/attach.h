// shm/attach.h: the segment file of another process, or of one that is no more, mapped for reading.
//
// The file is compact; the reader maps its extents where the writer has them, at the addresses of a room of its own, and those that a running program adds
// when it meets them. Whoever wrote the file is not trusted, and it may change at any time:
// - Where the file has no memory nothing is read: on tmpfs a look at a hole gives it memory. A reader would write, and on a full file
//   system be ended. A program reserves memory before it uses it, so a hole in what is in use means that the file was copied by a tool that makes
//   holes of zeros (cp): the reader maps zeros there, up to as much as the file has memory. That also bounds every loop over a segment that claims
//   more than it has.
// - A file that is cut short while it is mapped raises SIGBUS in whoever reads on. While a segment is attached, a handler of ours puts pages of
//   zeros there instead: the read goes on to its end, and is told then (Check). What is not ours to handle goes where it would have gone.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "shm/segment.h"

namespace perfschema {

struct GuardedMapping;

// Threads: any thread, all of it. Valid until it is destroyed, which must not happen while somebody reads.
class SegmentFile {
 public:
  // A plain file, not a link to one, whose layout this library reads. Never waits (a pipe, say, is refused unopened).
  static Status Open(const std::string& path, std::unique_ptr<SegmentFile>* file);
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  SegmentView view() const { return SegmentView(room_.base(), room_.bytes(), this); }
  const std::string& path() const { return path_; }
  // The longest run of bytes around `offset` that is known to have memory, or to have none. It holds [offset, offset + wanted) if all of
  // that has memory, or had where the file was copied from. REQUIRES: the segment says that they are in use.
  ByteRun RunAt(uint64_t offset, uint64_t wanted) const;
  // After a read: was everything there? Once it is not, it never is again.
  Status Check() const;

  // What this reader has left out, and what it has shown as a dead or stopped writer left it.
  void CountRows(uint64_t skipped, uint64_t repaired) const {
    rows_skipped_.fetch_add(skipped, std::memory_order_relaxed);
    rows_repaired_.fetch_add(repaired, std::memory_order_relaxed);
  }
  uint64_t rows_skipped() const { return rows_skipped_.load(std::memory_order_relaxed); }
  uint64_t rows_repaired() const { return rows_repaired_.load(std::memory_order_relaxed); }

 private:
  // An extent, or a part of one, as it is mapped.
  struct Piece {
    uint64_t end;      // its begin is its key
    uint64_t in_file;
    GuardedMapping* guard;
  };
  using Pieces = std::map<uint64_t, Piece>;

  SegmentFile() = default;
  bool IsStillOurs() const;
  Status CheckHeader(const ShmHeader& head, uint64_t bytes) const;
  bool MapMore() const;
  bool MapPiece(uint64_t begin, uint64_t end, uint64_t in_file) const;
  Pieces::const_iterator PieceAt(uint64_t offset) const;
  ByteRun RunInPiece(uint64_t begin, const Piece& piece, uint64_t offset, uint64_t wanted) const;
  ByteRun RunInFile(uint64_t offset, uint64_t wanted) const;
  bool FillHole(uint64_t begin, const Piece& piece, uint64_t from, uint64_t to) const;
  void NoteMemory(uint64_t begin, uint64_t end) const;

  std::string path_;
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;
  mutable AddressRange room_;
  uint64_t array_offset_[kArrayCount] = {};
  mutable std::atomic<uint64_t> rows_skipped_{0}, rows_repaired_{0};
  mutable std::mutex mutex_;
  mutable uint64_t array_mapped_[kArrayCount] = {};
  mutable Pieces pieces_;
  mutable std::map<uint64_t, uint64_t> runs_;  // of the file, with memory: begin -> end; what an honest writer has once reserved stays
  mutable uint64_t zeros_left_ = 0, holes_left_ = 16384;  // bytes and holes that may still be mapped as zeros
};

// While it lives, this thread may read a segment of another process: the handler is in force, and the signal is not blocked here.
// Threads: the thread that made it.
class ReadGuard {
 public:
  explicit ReadGuard(const SegmentFile* file);  // nullptr: one's own segment needs none
  ~ReadGuard();
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;

 private:
  bool is_set_ = false;
  sigset_t before_;
};

}  // namespace perfschema
