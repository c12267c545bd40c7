// shm/segment.h: the one mapping in which all shared structs lie: made by the program that is watched, read by anybody.
//
// An array never moves and may grow to its capacity. It has addresses for all of it (shm/address_range.h). In the file it lies in
// extents, each of which doubles it (shm/extents.h). MapUpTo appends an extent to the file and maps it when the array needs it; `mapped`
// is stored last, and readers map what was added when they meet it. An outsider does so at the begin of its turn (FollowGrowth).
//
// Before the first store to a page, ReserveUpTo gives it memory: by MADV_POPULATE_WRITE, else by posix_fallocate (kernels before 5.14,
// and qemu-user, which accepts the former and does nothing). If that fails, the record or object is lost and counted, and nothing
// faults. No descriptor stays open: the file is opened again by its name, and compared by device and inode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "shm/address_range.h"
#include "shm/layout.h"

namespace perfschema {

class SegmentFile;  // shm/attach.h
struct Plan;        // shm/plan.h

// Bytes [begin, end) of a segment, all of which have memory, or none has.
struct ByteRun {
  uint64_t begin = 0, end = 0;
  bool has_memory = false;
};

// A bounds-checked look at a segment, one's own or another's. Never stores.
// Threads: immutable; const methods safe. Valid as long as the mapping.
class SegmentView {
 public:
  SegmentView() = default;
  explicit SegmentView(const void* base, size_t bytes, const SegmentFile* file = nullptr)
      : base_(static_cast<const char*>(base)), bytes_(bytes), file_(file) {}

  bool ok() const { return base_ != nullptr; }
  const ShmHeader& header() const { return *reinterpret_cast<const ShmHeader*>(base_); }
  size_t bytes() const { return bytes_; }
  const SegmentFile* file() const { return file_; }  // nullptr: one's own
  // See SegmentFile::RunAt(). One's own segment may be read everywhere.
  ByteRun RunAt(uint64_t offset, uint64_t wanted) const;

  // Elements that were ever taken, never more than lie inside the mapping.
  uint64_t used(ArrayId id) const;
  // Element `index` (0-based) or nullptr. REQUIRES: T is the array's type.
  template <typename T>
  const T* at(ArrayId id, uint64_t index) const {
    return static_cast<const T*>(Element(id, index, sizeof(T)));
  }

 private:
  const void* Element(ArrayId id, uint64_t index, size_t size) const;
  const char* base_ = nullptr;
  size_t bytes_ = 0;
  const SegmentFile* file_ = nullptr;
};

// The writer's side: creation, growth, slots. One per process. The file is compact: an array's extents get their places in the order in which they are
// needed, and pages get memory before the first store to them.
//
//   private --- MoveToFile() ---> in a file        Create() does both; a forked child begins private (segment_fork.cpp)
//   in a file --- fork(), LeaveParents() ---> private
//
// Threads: external lock (the cold lock of record/engine/runtime.h), except element().
class Segment {
 public:
  // Makes a segment for `options`. Falls back to private memory if the file cannot be made; `reason` says why (empty = all well). A private one
  // is never a file.
  Status Create(const Options& options, std::string* reason, bool is_private = false);
  // Maps the file of another process for writing; `options` become that process's. The file must be laid out as this library would: what is checked
  // here is all that is checked. It does not grow: only its own process can map what is added. The descriptor is the caller's.
  Status Adopt(const std::string& path, Options* options, int* descriptor);
  // Of an adopted one: maps what its process has added since. False: that cannot be mapped, so nothing may be changed.
  bool FollowGrowth(int descriptor);
  // Removes the file. The mapping stays until exit: late probes may still store.
  void Remove();

  // fork(), see segment_fork.cpp. Header and the arrays that `keep` names hold in the child what they held; the others are empty.
  enum class Keep { kNothing, kLater, kAtOnce };  // kAtOnce: the program touches it without a call, or before the call that continues
  using KeepInChild = Keep (*)(ArrayId);
  // Before, in the parent: puts aside what the child begins with. False: no memory for it.
  bool CopyBeforeFork(KeepInChild keep);
  // In the child, at once: what it stores to the header and to what is kept at once is its own from here on, at the same addresses. It stores nowhere else.
  // No file, no allocation. False: the kernel refuses; nothing may be stored.
  bool LeaveParents(KeepInChild keep);
  // In the child, before its first event: gives up what the parent had beyond the copy, and moves the segment to a file of the child's own, or leaves
  // it in private memory; `reason` says why. False: the kernel refuses; nothing may be stored. REQUIRES: nobody else stores to it.
  bool ContinueInChild(KeepInChild keep, std::string* reason);
  // In the parent, after fork(), and between two.
  bool has_copy() const { return copy_.base != nullptr && copy_.is_filled; }
  void ForgetCopy() { copy_.is_filled = false; }

  bool ok() const { return room_.base() != nullptr; }
  ShmHeader* header() const { return reinterpret_cast<ShmHeader*>(room_.base()); }
  SegmentView view() const { return SegmentView(room_.base(), room_.bytes()); }
  const std::string& path() const { return path_; }  // empty = private memory
  // Its memory is shared with other processes: fork() does not copy it.
  bool is_shared() const { return is_shared_; }

  template <typename T>
  T* element(ArrayId id, uint64_t index) const {
    return reinterpret_cast<T*>(room_.base() + header()->arrays[static_cast<uint32_t>(id)].offset) + index;
  }
  // Of the copy that a forked child starts with. REQUIRES: has_copy().
  template <typename T>
  T* copied_element(ArrayId id, uint64_t index) const {
    return reinterpret_cast<T*>(copy_.base + copy_.at[static_cast<uint32_t>(id)]) + index;
  }
  // Bytes of an array, from its first element on, that this process may touch.
  uint64_t MappedBytes(ArrayId id) const { return is_adopted_ ? adopted_[static_cast<uint32_t>(id)] : array(id).mapped.load(kRelaxed); }
  ShmArray& array(ArrayId id) const { return header()->arrays[static_cast<uint32_t>(id)]; }

  // Makes the first `elements` of an array safe to store to (never SIGBUS). False: no room, nothing may be stored.
  bool ReserveUpTo(ArrayId id, uint64_t elements);
  // The same for bytes [begin, end) of an array, for arrays that do not grow from their start.
  bool ReserveRange(ArrayId id, uint64_t begin, uint64_t end);
  // Takes a never-used element: its index, or -1 if there is no room.
  int64_t AllocateFresh(ArrayId id, uint64_t count = 1);

 private:
  // What a forked child begins with, as the parent put it aside: the header, and whole pages of each array that it keeps.
  struct Copy {
    char* base = nullptr;  // private memory, kept for the next fork()
    uint64_t bytes = 0;    // of it
    bool is_filled = false;
    uint64_t at[kArrayCount] = {}, size[kArrayCount] = {};
    bool is_taken[kArrayCount] = {};  // in the child
  };

  static void FillIdentity(ShmHeader* header);
  void FillHeader(const Plan& plan, const Options& options);
  bool MoveToFile(std::string* reason);
  bool FillFile(int fd, uint64_t length);
  bool MapFile(int fd);
  bool MapExtents(const ShmArray& array, uint64_t begin, uint64_t end, int protection, int fd, AddressRange::Over over);
  int UnreservedProtection() const;
  bool MapFirstExtents();
  int OpenOwnFile() const;
  bool GrowFile(int fd, uint64_t bytes);
  bool MapUpTo(ShmArray& array, uint64_t bytes);
  bool Reserve(const ShmArray& array, uint64_t begin, uint64_t end);
  bool AllocateInFile(const ShmArray& array, uint64_t begin, uint64_t end);
  bool TakeFromCopy(uint64_t offset, uint64_t from, uint64_t bytes);
  bool TakeArraysFromCopy(KeepInChild keep, bool all, uint64_t offset, uint64_t from, uint64_t bytes);
  bool TakeRestOfCopy(KeepInChild keep);

  AddressRange room_;
  std::string path_;
  uint64_t file_length_ = 0, device_ = 0, inode_ = 0;
  bool wants_file_ = false;  // a forked child gets one, too
  bool is_shared_ = false;
  bool is_adopted_ = false;
  uint64_t adopted_[kArrayCount] = {};  // bytes of each array that are mapped here
  Copy copy_;
};

}  // namespace perfschema
