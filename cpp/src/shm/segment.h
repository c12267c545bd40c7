// shm/segment.h: the one mapping in which all shared structs lie: made by the program that is watched, read by anybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "shm/layout.h"

namespace perfschema {

class SegmentFile;  // shm/attach.h

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

// The writer's side: creation, reservation, slots. One per process.
// Threads: external lock (the cold lock of record/runtime.h), except element().
class Segment {
 public:
  // Makes a segment for `options`. Falls back to private memory if the file cannot be made; `reason` says why (empty = all well). A private one
  // is never a file.
  Status Create(const Options& options, std::string* reason, bool is_private = false);
  // After fork(), in the child: the same addresses, a file (or private memory) of its own. The header and the arrays that `keep` names
  // hold what they held; the others are empty.
  void CopyForChild(bool (*keep)(ArrayId), std::string* reason);
  // Before fork(), in the parent: puts aside what the child will need. The segment is shared memory: while the child copies, the parent's other
  // threads go on changing it. ForgetCopy() in the parent afterwards.
  void CopyBeforeFork(bool (*keep)(ArrayId));
  void ForgetCopy();
  // Maps the file of another process for writing; `options` become that process's. The file must be laid out as this library would: what is checked
  // here is all that is checked. The descriptor is the caller's.
  Status Adopt(const std::string& path, Options* options, int* descriptor);
  // Removes the file. The mapping stays until exit: late probes may still store.
  void Remove();

  bool ok() const { return base_ != nullptr; }
  ShmHeader* header() const { return reinterpret_cast<ShmHeader*>(base_); }
  SegmentView view() const { return SegmentView(base_, bytes_); }
  const std::string& path() const { return path_; }  // empty = private memory

  template <typename T>
  T* element(ArrayId id, uint64_t index) const {
    return reinterpret_cast<T*>(base_ + header()->arrays[static_cast<uint32_t>(id)].offset) + index;
  }
  // Of the copy that a forked child starts with. REQUIRES: has_copy().
  bool has_copy() const { return copy_ != nullptr; }
  template <typename T>
  T* copied_element(ArrayId id, uint64_t index) const {
    return reinterpret_cast<T*>(copy_ + header()->arrays[static_cast<uint32_t>(id)].offset) + index;
  }
  ShmArray& array(ArrayId id) const { return header()->arrays[static_cast<uint32_t>(id)]; }

  // Makes the first `elements` of an array safe to store to (never SIGBUS). False: no room, nothing may be stored.
  bool ReserveUpTo(ArrayId id, uint64_t elements);
  // The same for bytes [begin, end) of an array, for arrays that do not grow from their start.
  bool ReserveRange(ArrayId id, uint64_t begin, uint64_t end);
  // Takes a never-used element: its index, or -1 if there is no room.
  int64_t TakeFresh(ArrayId id, uint64_t count = 1);

 private:
  bool OpenFile(size_t bytes, std::string* reason);
  bool MapPrivate(size_t bytes);
  bool CopyArrays(const char* from, bool (*keep)(ArrayId));
  bool Reserve(uint64_t offset, uint64_t bytes);

  char* base_ = nullptr;
  size_t bytes_ = 0;
  char* copy_ = nullptr;  // same size, private memory
  std::string path_;
};

}  // namespace perfschema
