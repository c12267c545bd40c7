// segment_fork.cpp: gives a forked child its own segment. The parent's is shared memory, which the child must never store to:
//
//   before, in the parent           CopyBeforeFork()   puts the child's initial contents aside, while the cold lock keeps them consistent
//   at its first event, the child   LeaveParents()     takes pages of that copy in place of the shared ones that programs touch by
//                                                      themselves: no copying, no allocation
//                                   ContinueInChild()  makes a file of its own, writes the contents of the copy there, and maps it in
//                                                      place of what is still its parent's; without a file it takes the rest of the copy
//
// A child that execs or ends without an event never gets there: it makes no system call, and leaves nothing behind. Until its first event
// it reads flag words in its parent's memory. Where it could store to that memory without an event, LeaveParents() comes at once
// (record/fork.cpp decides). The parent's side is also cheap if it forks often: UpdateCopy stores to no page of the copy that is still
// right, so the kernel need not copy that page again.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <span>

#include "base/private_memory.h"
#include "shm/plan.h"
#include "shm/segment.h"

namespace perfschema {

namespace {

// Updates `copy` to the present contents of `shared`. Stores only to pages that differ.
void UpdateCopy(char* copy, const char* shared, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kPageBytes) {
    const uint64_t part = std::min(kPageBytes, bytes - at);
    if (!EqualsShared(shared + at, copy + at, part)) CopyFromShared(copy + at, shared + at, part);
  }
}

}  // namespace

bool Segment::CopyBeforeFork(KeepInChild keep) {
  copy_.is_filled = false;
  if (!is_shared_) return true;  // the kernel copies private memory
  uint64_t bytes = kHeaderCapacity;
  bool fits = copy_.base != nullptr;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = header()->arrays[i];
    const uint64_t used = keep(static_cast<ArrayId>(i)) == Keep::kNothing ? 1 : array.used.load(kRelaxed);
    const uint64_t size = used <= 1 ? 0 : RoundToPages(std::min(used * array.stride, array.reserved.load(kRelaxed)));
    fits = fits && copy_.size[i] == size;
    copy_.at[i] = bytes;
    copy_.size[i] = size;
    bytes += size;
  }
  if (!fits) {  // where the segment has no elements yet, the copy is zeros
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      copy_.size[0] = 0;  // marks the copy as empty
      return false;
    }
    if (copy_.base != nullptr) munmap(copy_.base, copy_.bytes);
    copy_.base = static_cast<char*>(mapped);
    copy_.bytes = bytes;
  }
  UpdateCopy(copy_.base, range_.base(), kHeaderCapacity);
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = header()->arrays[i];
    // Stops where the memory ends: element 0 is never stored to, and reading a hole of a full file system is SIGBUS.
    const uint64_t held = std::min(copy_.size[i], array.used.load(kRelaxed) * array.stride);
    UpdateCopy(copy_.base + copy_.at[i], range_.base() + array.offset, held);
  }
  copy_.is_filled = true;
  return true;
}

// Replaces pages of the parent's by pages of the copy, which then leave the copy.
bool Segment::TakeFromCopy(uint64_t offset, uint64_t from, uint64_t bytes) {
  if (bytes == 0) return true;
  char* const source = copy_.base + from;
  char* const target = range_.base() + offset;
  const auto moves = [&] { return mremap(source, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target) != MAP_FAILED; };
  const auto copies = [&] {
    if (!range_.MapAnonymous(offset, bytes, AddressRange::Over::kOwn)) return false;
    std::memcpy(target, source, bytes);
    munmap(source, bytes);
    return true;
  };
  return bytes == kPageBytes ? copies() || moves() : moves() || copies();  // moving one page takes longer
}

// Does the same for [offset, offset + bytes), then for all arrays not taken yet, or for those that are kept at once. Takes adjacent pages
// in one step.
bool Segment::TakeArraysFromCopy(KeepInChild keep, bool all, uint64_t offset, uint64_t from, uint64_t bytes) {
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    if (copy_.size[i] == 0 || copy_.is_taken[i] || (!all && keep(static_cast<ArrayId>(i)) != Keep::kAtOnce)) continue;
    copy_.is_taken[i] = true;
    const uint64_t begin = header()->arrays[i].offset;
    if (begin == offset + bytes && copy_.at[i] == from + bytes) {
      bytes += copy_.size[i];
      continue;
    }
    if (!TakeFromCopy(offset, from, bytes)) return false;
    offset = begin;
    from = copy_.at[i];
    bytes = copy_.size[i];
  }
  return TakeFromCopy(offset, from, bytes);
}

bool Segment::LeaveParents(KeepInChild keep) {
  if (!is_shared_) return true;
  // Without a copy from before the fork, one is made now, of the data that the parent goes on with.
  if (!has_copy() && !CopyBeforeFork(keep)) return false;
  if (!TakeArraysFromCopy(keep, false, 0, 0, kHeaderCapacity)) return false;
  path_[0] = 0;
  is_shared_ = false;
  return true;
}

// Returns where the contents of an array are: in a forked child that has not taken them, in the copy.
const char* Segment::ContentsOf(uint32_t id) const {
  const bool is_in_copy = copy_.size[id] != 0 && !copy_.is_taken[id];
  return is_in_copy ? copy_.base + copy_.at[id] : range_.base() + header()->arrays[id].offset;
}

// Unmaps what is still the parent's: all of it, or what a file of the child's own does not replace.
void Segment::UnmapParents(bool all) {
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = header()->arrays[i];
    const uint64_t end = all ? array.mapped.load(kRelaxed) : BytesAtStart(i);
    if (copy_.in_parent[i] <= end) continue;
    range_.Unmap(array.offset + end, copy_.in_parent[i] - end);
    copy_.in_parent[i] = end;
  }
}

// Unmaps the pages of the copy that have not been taken. Where the others were, the program may have mappings of its own.
void Segment::DropCopy() {
  char* begin = copy_.base;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    if (copy_.size[i] == 0 || copy_.is_taken[i]) continue;
    char* const at = copy_.base + copy_.at[i];
    if (at != begin + bytes) {
      if (bytes != 0) munmap(begin, bytes);
      begin = at;
      bytes = 0;
    }
    bytes += copy_.size[i];
  }
  if (bytes != 0) munmap(begin, bytes);
  copy_ = {};
}

bool Segment::ContinueInChild(KeepInChild keep, std::string* reason) {
  const bool is_parents = has_copy();  // else it is private memory, which the kernel has copied
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    ShmArray& array = header()->arrays[i];
    if (is_parents) {
      copy_.in_parent[i] = array.mapped.load(kRelaxed);
      array.mapped.store(copy_.size[i], kRelaxed);
    }
    const uint64_t mapped = array.mapped.load(kRelaxed);
    if (keep(static_cast<ArrayId>(i)) != Keep::kNothing) {
      array.reserved.store(mapped, kRelaxed);
      continue;
    }
    if (mapped != 0) ClearPrivate(range_.base() + array.offset, mapped);  // of private memory: a copy has no part of this array
    array.used.store(1, kRelaxed);
    array.reserved.store(0, kRelaxed);
    array.free_head.store(0, kRelaxed);
  }
  if (is_parents) {
    DropPool();
    UnmapParents(false);
  }
  header()->magic = 0;  // until the caller has dropped the parent's statistics
  try {
    FillIdentity();
    wants_file_ = wants_file_ && MoveToFile(reason);
  } catch (const std::bad_alloc&) {  // a path needs memory, and a reason: is_shared_ says whether a part has moved
    wants_file_ = false;
  }
  if (is_parents && !wants_file_) {
    if (is_shared_ || !TakeArraysFromCopy(keep, true, 0, 0, 0)) return false;
    UnmapParents(true);
  }
  if (is_parents) DropCopy();
  if (!wants_file_) (void)MapFirstExtents();
  return ReserveInstanceLists();
}

// Gives each object a list, empty in the child, which the program uses without a check. Takes private memory for the lists if the file
// system is full: readers see empty lists then.
bool Segment::ReserveInstanceLists() {
  const uint64_t used = array(ArrayId::kInstances).used.load(kRelaxed);
  if (ReserveUpTo(ArrayId::kInstanceLists, used)) return true;
  ShmArray& lists = array(ArrayId::kInstanceLists);
  const uint64_t bytes = RoundToPages(used * lists.stride);
  if (!MapUpTo(lists, bytes) || !range_.MapAnonymous(lists.offset, bytes, AddressRange::Over::kOwn)) return false;
  lists.reserved.store(bytes, kRelease);
  return true;
}

}  // namespace perfschema
