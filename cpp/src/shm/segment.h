// shm/segment.h: the one mapping that holds all shared structs: created by the watched program, read by any process.
//
// An array never moves and may grow to its capacity. It has addresses for all of it (shm/address_range.h). In the file it lies in
// extents, each of which doubles it (shm/extents.h). MapUpTo appends an extent to the file and maps it when the array needs it; `mapped`
// is stored last, and readers map new extents when they meet them. An outsider does so when its critical section begins (FollowGrowth).
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

// Returns whether this process may open a descriptor more without taking the program's last one.
bool HasDescriptorsToSpare();

// A run of bytes [begin, end) of a segment: either all of them have memory, or none has.
struct ByteRun {
  uint64_t begin = 0, end = 0;
  bool has_memory = false;
};

// A bounds-checked view of a segment, one's own or another's. It never stores.
// Threads: immutable; const methods safe. Valid as long as the mapping.
class SegmentView {
 public:
  SegmentView() = default;
  explicit SegmentView(const void* base, size_t bytes, const SegmentFile* file = nullptr)
      : base_(static_cast<const char*>(base)), bytes_(bytes), file_(file) {}

  bool ok() const { return base_ != nullptr; }
  const ShmHeader& header() const { return *reinterpret_cast<const ShmHeader*>(base_); }
  size_t bytes() const { return bytes_; }
  const SegmentFile* file() const { return file_; }  // nullptr: one's own segment
  // See SegmentFile::RunAt(). One's own segment may be read everywhere.
  ByteRun RunAt(uint64_t offset, uint64_t wanted) const;

  // Returns how many elements were ever taken, never more than lie inside the mapping.
  uint64_t used(ArrayId id) const;
  // Returns element `index` (0-based) or nullptr. REQUIRES: T is the array's type.
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

// The writer's side: creation, growth, slots. One per process. The file is compact: an array's extents get their places in the order
// in which they are needed, and pages get memory before the first store to them. The end of the file is a pool: it is mapped, and belongs
// to no array yet. New extents come from there as long as it lasts. So a program that may no longer open files can record more, and arrays
// that no event needs have no mapping, which fork() would copy.
//
//   private --- MoveToFile() ---> in a file        Create() does both; a forked child begins private (segment_fork.cpp)
//   in a file --- fork(), LeaveParents() ---> private
//
// Threads: external lock (the cold lock of record/engine/runtime.h), except element().
class Segment {
 public:
  // Makes a segment for `options`. Falls back to private memory if the file cannot be made; `reason` says why (empty = no problem). A
  // private segment never becomes a file.
  Status Create(const Options& options, std::string* reason, bool is_private = false);
  // Maps the file of another process for writing; `options` become that process's. The layout of the file must equal this library's. Only
  // this function checks that. The segment does not grow: only its own process can map new extents. The caller owns the descriptor.
  Status Adopt(const std::string& path, Options* options, int* descriptor);
  // Maps what an adopted segment's process has added since. Returns false if that cannot be mapped: then nothing may be changed.
  bool FollowGrowth(int descriptor);
  // Removes the file. The mapping stays until exit: late probes may still store.
  void Remove();

  // fork(), see segment_fork.cpp. In the child, the header and the arrays that `keep` names have their contents; the other arrays are
  // empty.
  enum class Keep { kNothing, kLater, kAtOnce };  // kAtOnce: the program touches it without a call, or before the call that continues
  using KeepInChild = Keep (*)(ArrayId);
  // Puts the child's initial contents aside, in the parent, before fork(). Returns false if there is no memory for them.
  bool CopyBeforeFork(KeepInChild keep);
  // Gives the child its own header and the arrays that are kept at once, at the same addresses; it may store nowhere else. Runs in the
  // child, without file or allocation, before it stores anywhere. Returns false if the kernel refuses: nothing may be stored.
  bool LeaveParents(KeepInChild keep);
  // Gives up what the parent had beyond the copy, and moves the segment to a file of the child's own. If there is none, the segment stays
  // in private memory, and `reason` says why. Runs in the child before its first event. Returns false if the kernel refuses: nothing may be
  // stored. REQUIRES: no other thread stores to the segment.
  bool ContinueInChild(KeepInChild keep, std::string* reason);
  // Tells readers that the segment is whole, after Create() or ContinueInChild(): they refuse it before. A process that dies before leaves
  // a file that the next one removes. Pairs with SegmentFile::CheckHeader.
  void Finish() { __atomic_store_n(&header()->magic, kSegmentMagic, __ATOMIC_RELEASE); }
  // These two serve the parent, after fork() and between two forks.
  bool has_copy() const { return copy_.base != nullptr && copy_.is_filled; }
  void ForgetCopy() { copy_.is_filled = false; }
  // Notes that a child forks before its first event: the header that it hands on is not its own.
  void NoteGrandchild() { is_grandchild_ = true; }

  bool ok() const { return range_.base() != nullptr; }
  ShmHeader* header() const { return reinterpret_cast<ShmHeader*>(range_.base()); }
  SegmentView view() const { return SegmentView(range_.base(), range_.bytes()); }
  const char* path() const { return path_; }  // empty = private memory
  // Returns whether other processes share its memory: fork() does not copy it.
  bool is_shared() const { return is_shared_; }

  template <typename T>
  T* element(ArrayId id, uint64_t index) const {
    return reinterpret_cast<T*>(range_.base() + header()->arrays[static_cast<uint32_t>(id)].offset) + index;
  }
  // Returns an element of the copy that a forked child starts with. REQUIRES: has_copy().
  template <typename T>
  T* copied_element(ArrayId id, uint64_t index) const {
    return reinterpret_cast<T*>(copy_.base + copy_.at[static_cast<uint32_t>(id)]) + index;
  }
  // Returns how many bytes of an array, from its first element on, this process may touch.
  uint64_t MappedBytes(ArrayId id) const { return is_adopted_ ? adopted_[static_cast<uint32_t>(id)] : array(id).mapped.load(kRelaxed); }
  ShmArray& array(ArrayId id) const { return header()->arrays[static_cast<uint32_t>(id)]; }

  // Makes the first `elements` of an array safe to store to (never SIGBUS). Returns false if there is no memory: nothing may be stored.
  bool ReserveUpTo(ArrayId id, uint64_t elements, uint64_t spare = 0);
  // Does the same for bytes [begin, end) of an array that does not grow from its start.
  bool ReserveRange(ArrayId id, uint64_t begin, uint64_t end);
  // Takes a never-used element. Returns its index, or -1 if the array is full. `spare`: parts of the limit (shm/budget.h) that others keep.
  int64_t AllocateFresh(ArrayId id, uint64_t count = 1, uint64_t spare = 0);
  // Returns whether there is space for never-used elements. For who can do without: the limit is not noted if there is none.
  bool HasSpace(ArrayId id, uint64_t count, uint64_t spare);
  // Returns the rows of history_long that there is memory for; UINT64_MAX: no limit.
  uint64_t MostRows(Kind kind) const;

 private:
  // Holds the initial contents of a forked child, which the parent put aside: the header, and whole pages of each array that it keeps.
  struct Copy {
    char* base = nullptr;  // private memory, kept for the next fork()
    uint64_t bytes = 0;    // size of the copy
    bool is_filled = false;
    uint64_t at[kArrayCount] = {}, size[kArrayCount] = {};
    bool is_taken[kArrayCount] = {};       // in the child
    uint64_t in_parent[kArrayCount] = {};  // in the child, once it continues: bytes that are mapped, of the parent's beyond those taken
  };

  void FillIdentity();
  void FillHeader(const Plan& plan, const Options& options);
  struct Pool {
    char* base = nullptr;
    uint64_t in_file = 0, bytes = 0;
  };

  uint64_t BytesAtStart(uint32_t id) const;
  template <typename Part, typename Visit>
  bool VisitRuns(Part part, Visit visit) const;
  bool MoveToFile(std::string* reason);
  bool FillFile(int fd, uint64_t length);
  bool MapFile(int fd);
  int UnreservedProtection() const;
  bool MapFirstExtents();
  int OpenOwnFile() const;
  bool GrowFile(int fd, uint64_t bytes);
  void MapPool(int fd, uint64_t in_file, uint64_t bytes);
  void DropPool();
  void FindLimit(int fd);
  uint64_t LimitBesideTheDead();
  bool Fits(ArrayId id, uint64_t more, uint64_t spare);
  void NoteLimit(ArrayId id);
  bool TakeFromPool(uint64_t offset, uint64_t bytes);
  bool MapUpTo(ShmArray& array, uint64_t bytes);
  bool Reserve(const ShmArray& array, uint64_t begin, uint64_t end);
  bool AllocateInFile(const ShmArray& array, uint64_t begin, uint64_t end);
  bool TakeFromCopy(uint64_t offset, uint64_t from, uint64_t bytes);
  bool TakeArraysFromCopy(KeepInChild keep, bool all, uint64_t offset, uint64_t from, uint64_t bytes);
  const char* ContentsOf(uint32_t id) const;
  void UnmapParents(bool all);
  void DropCopy();
  bool ReserveInstanceLists();

  AddressRange range_;
  uint64_t file_length_ = 0, device_ = 0, inode_ = 0;
  bool wants_file_ = false;  // a forked child gets one, too
  bool is_shared_ = false;
  bool is_adopted_ = false;
  bool is_grandchild_ = false;          // of the process whose header it has, or it has made one
  uint64_t adopted_[kArrayCount] = {};  // bytes of each array that are mapped here
  ArrayId order_[kArrayCount] = {};     // by address
  Pool pool_;
  Copy copy_;
  uint64_t limit_ = 0;            // bytes that the arrays may take whose size no option sets; 0 = no limit
  uint64_t beside_the_dead_ = 0;  // what the dead leave of it; 0 = not known yet
  // No std::string: a segment needs no constructor at run time, and no destructor.
  static constexpr size_t kMostPath = 4096;
  char path_[kMostPath] = "";
};

}  // namespace perfschema
