// What fork() does to a segment. The parent's is shared memory, which the child must never store to:
//
//   before, in the parent    CopyBeforeFork()   puts aside what the child begins with, while the cold lock keeps it consistent
//   at once, in the child    LeaveParents()     the pages of that copy take the place of the shared ones: no copying, no allocation, no file
//   at its first event       ContinueInChild()  a file of its own
//
// A child that execs or ends without an event never gets to the last step: it costs some page tables, and leaves nothing behind.
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <sys/mman.h>

#include "shm/plan.h"
#include "shm/segment.h"

namespace perfschema {

bool Segment::CopyBeforeFork(bool (*keep)(ArrayId)) {
  copy_.is_filled = false;
  if (!is_shared_) return true;  // the kernel copies private memory
  uint64_t bytes = kHeaderRoom;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = header()->arrays[i];
    copy_.at[i] = bytes;
    copy_.size[i] = keep(static_cast<ArrayId>(i)) ? RoundToPages(std::min(array.used.load(kRelaxed) * array.stride, array.reserved.load(kRelaxed))) : 0;
    bytes += copy_.size[i];
  }
  if (bytes > copy_.bytes) {
    const uint64_t wanted = RoundToPages(bytes + bytes / 4);
    void* const mapped = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return false;
    if (copy_.base != nullptr) munmap(copy_.base, copy_.bytes);
    copy_.base = static_cast<char*>(mapped);
    copy_.bytes = wanted;
  }
  CopyFromShared(copy_.base, room_.base(), kHeaderRoom);
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = header()->arrays[i];
    // Not beyond what has memory: element 0 is never stored to, and reading a hole of a full file system is SIGBUS.
    const uint64_t held = std::min(copy_.size[i], array.used.load(kRelaxed) * array.stride);
    CopyFromShared(copy_.base + copy_.at[i], room_.base() + array.offset, held);
    std::memset(copy_.base + copy_.at[i] + held, 0, copy_.size[i] - held);  // an earlier copy may have left something there
  }
  copy_.is_filled = true;
  return true;
}

// Pages of the copy take the place of the parent's.
bool Segment::TakeFromCopy(uint64_t offset, uint64_t from, uint64_t bytes) {
  char* const source = copy_.base + from;
  if (bytes == 0 || mremap(source, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, room_.base() + offset) != MAP_FAILED) return true;
  if (!room_.MapAnonymous(offset, bytes, AddressRoom::Over::kOwn)) return false;
  std::memcpy(room_.base() + offset, source, bytes);
  return true;
}

bool Segment::LeaveParents(bool (*keep)(ArrayId)) {
  if (!is_shared_) return true;
  // Without a copy of the parent's it is made now, of what the parent goes on with.
  if (!has_copy() && !CopyBeforeFork(keep)) return false;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    left_mapped_[i] = header()->arrays[i].mapped.load(kRelaxed);
    if (!TakeFromCopy(header()->arrays[i].offset, copy_.at[i], copy_.size[i])) return false;
  }
  if (!TakeFromCopy(0, 0, kHeaderRoom)) return false;
  for (uint32_t i = 0; i < kArrayCount; ++i) header()->arrays[i].mapped.store(copy_.size[i], kRelaxed);
  munmap(copy_.base, copy_.bytes);  // what is left of it
  copy_ = {};
  path_.clear();
  is_shared_ = false;
  return true;
}

void Segment::ContinueInChild(bool (*keep)(ArrayId), std::string* reason) {
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    ShmArray& array = header()->arrays[i];
    const uint64_t mapped = array.mapped.load(kRelaxed);
    if (left_mapped_[i] > mapped) room_.Unmap(array.offset + mapped, left_mapped_[i] - mapped);
    left_mapped_[i] = 0;
    if (keep(static_cast<ArrayId>(i))) {
      array.reserved.store(mapped, kRelaxed);
      continue;
    }
    if (mapped != 0) madvise(room_.base() + array.offset, mapped, MADV_DONTNEED);
    array.used.store(1, kRelaxed);
    array.reserved.store(0, kRelaxed);
    array.free_head.store(0, kRelaxed);
  }
  try {
    FillIdentity(header());
    wants_file_ = wants_file_ && MoveToFile(reason);
  } catch (const std::bad_alloc&) {  // of a path, before anything has moved
    wants_file_ = false;
  }
  (void)MapFirstExtents();
  // Each object has a list, empty in the child, that is read without asking.
  (void)ReserveUpTo(ArrayId::kInstanceLists, array(ArrayId::kInstances).used.load(kRelaxed));
}

}  // namespace perfschema
