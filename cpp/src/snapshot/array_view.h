// snapshot/array_view.h: a view of one array of a segment; its directory entry is checked once.
//
// The segment may be another process's file, or damaged. So sizes are read once through SegmentView::at(), and every index is compared
// with them. Elements whose pages have no memory are not touched: a read would give them memory. The directory claims which pages have
// memory; for another process's file, its file system is asked.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shm/segment.h"

namespace perfschema {

// Threads: external lock. Valid as long as the mapping.
template <typename T>
class ArrayView {
 public:
  // Says how far elements may be read: to the end of what ReserveUpTo reserved, or anywhere (arrays that are reserved in ranges).
  enum class Extent { kReserved, kWhole };

  ArrayView() = default;
  ArrayView(const SegmentView& view, ArrayId id, Extent extent = Extent::kReserved) : view_(view), id_(id), extent_(extent) {
    const ShmArray& array = view.header().arrays[static_cast<uint32_t>(id)];
    const uint64_t stride = array.stride;
    const uint64_t capacity = array.capacity;
    if (stride < sizeof(T) || stride % alignof(T) != 0 || stride > view.bytes()) return;
    const T* const first = view.at<T>(id, 0);
    if (first == nullptr || reinterpret_cast<uintptr_t>(first) % alignof(T) != 0) return;
    base_ = reinterpret_cast<const char*>(first);
    stride_ = stride;
    // Counts only bytes inside the mapping, whatever the directory claims.
    const uint64_t bytes_left = view.bytes() - static_cast<uint64_t>(base_ - reinterpret_cast<const char*>(&view.header()));
    capacity_ = std::min(capacity, bytes_left / stride);
    used_ = std::min(view.used(id), capacity_);
    if (extent_ == Extent::kWhole) return;
    reserved_ = ReservedNow();
    used_ = std::min(used_, reserved_);  // memory is reserved before it is used
    sure_ = std::max<uint64_t>(reserved_, 1) - 1;
  }

  bool ok() const { return base_ != nullptr; }
  uint64_t used() const { return used_; }  // elements to scan: [1, used)
  uint64_t UsedNow() const { return base_ == nullptr ? 0 : std::min(view_.used(id_), capacity_); }
  uint64_t capacity() const { return capacity_; }

  // Returns element `index`, or nullptr: index 0 is no element.
  const T* at(uint64_t index) const { return index - 1 < sure_ ? Element(index) : AtEdge(index); }
  // Returns the first of `count` elements in a row, or nullptr if one of them is missing, or they are not adjacent.
  const T* at(uint64_t index, uint64_t count) const {
    const T* const first = at(index);
    if (count == 1 || first == nullptr) return first;
    if (!is_packed() || at(index + count - 1) == nullptr) return nullptr;
    return extent_ == Extent::kReserved || HasMemory(index, count * sizeof(T)) ? first : nullptr;
  }
  // Returns whether the first `bytes` of an element have memory. For arrays that are reserved in ranges.
  bool HasMemory(uint64_t index, uint64_t bytes) const { return HasMemoryAt(index * stride_, bytes); }
  // Returns `bytes` of the array, counted from its begin, or nullptr if they are not in it, or have no memory.
  const T* Bytes(uint64_t offset, uint64_t bytes) const {
    const uint64_t all = capacity_ * stride_;
    if (base_ == nullptr || offset > all || bytes > all - offset || offset % alignof(T) != 0 || !HasMemoryAt(offset, bytes)) return nullptr;
    return reinterpret_cast<const T*>(base_ + offset);
  }
  uint64_t stride() const { return stride_; }
  const char* base() const { return base_; }

 private:
  bool HasMemoryAt(uint64_t offset, uint64_t bytes) const {
    const uint64_t begin = Offset() + offset, end = begin + bytes;
    if (begin < run_.begin || begin >= run_.end || (run_.has_memory && end > run_.end)) run_ = view_.RunAt(begin, bytes);
    return run_.has_memory && begin >= run_.begin && end <= run_.end;
  }
  bool is_packed() const { return stride_ == sizeof(T); }  // at(i)+1 is at(i+1)
  const T* Element(uint64_t index) const { return reinterpret_cast<const T*>(base_ + index * stride_); }
  // Finds elements beyond those that were known when the view was made.
  [[gnu::noinline]] const T* AtEdge(uint64_t index) const {
    if (index == 0 || index >= capacity_) return nullptr;
    if (extent_ == Extent::kReserved && index >= reserved_) {
      if (index >= ReservedNow()) return nullptr;  // grown since this view was made?
    }
    if (extent_ == Extent::kWhole && !HasMemory(index, sizeof(T))) return nullptr;
    return Element(index);
  }
  uint64_t Offset() const { return static_cast<uint64_t>(base_ - reinterpret_cast<const char*>(&view_.header())); }
  uint64_t ReservedNow() const {
    const uint64_t claimed = view_.header().arrays[static_cast<uint32_t>(id_)].reserved.load(kAcquire);  // pairs with ReserveUpTo
    const uint64_t wanted = std::min(claimed, capacity_ * stride_);
    const ByteRun run = view_.RunAt(Offset(), wanted);
    return run.has_memory ? std::min(wanted, run.end - Offset()) / stride_ : 0;
  }

  SegmentView view_;
  ArrayId id_{};
  Extent extent_{};
  const char* base_ = nullptr;
  uint64_t stride_ = 1;
  uint64_t capacity_ = 0, used_ = 0, reserved_ = 0;
  uint64_t sure_ = 0;    // elements [1, sure_] have memory
  mutable ByteRun run_;  // the run that was checked last
};

}  // namespace perfschema
