// shm/segment_limit.cpp: how much memory a segment may take; budget.h tells the rules.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "shm/budget.h"
#include "shm/dead_segments.h"
#include "shm/segment.h"

namespace perfschema {

// Returns whether some descriptors below RLIMIT_NOFILE are free. Another thread of the program may need the last one while this one has it:
// its open() would fail. The kernel gives the lowest free number, so a high one in use means that few are left.
bool HasDescriptorsToSpare() {
  constexpr rlim_t kSpare = 4;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT_MAX) return true;
  if (limit.rlim_cur <= kSpare) return false;
  for (rlim_t i = 1; i <= kSpare; ++i) {
    if (fcntl(static_cast<int>(limit.rlim_cur - i), F_GETFD) >= 0) return false;
  }
  return true;
}

// Finds out what the segment may take of the file system that the file lies in.
void Segment::FindLimit(int fd) {
  const auto option = [this](OptionId id) { return header()->options[static_cast<uint32_t>(id)]; };
  const uint64_t megabytes = option(OptionId::max_segment_megabytes), part = option(OptionId::max_file_system_part);
  limit_ = megabytes << 20;
  beside_the_dead_ = 0;
  struct statvfs system {};
  if (part != 0 && fstatvfs(fd, &system) == 0 && system.f_blocks != 0) {
    const uint64_t most = std::max<uint64_t>(system.f_blocks * system.f_frsize / part, kPageBytes);
    limit_ = limit_ == 0 ? most : std::min(limit_, most);
  }
}

// Asked when the segment has become large: most never do.
uint64_t Segment::LimitBesideTheDead() {
  if (beside_the_dead_ != 0) return beside_the_dead_;
  const uint64_t least = limit_ / 4;
  char* const end = std::strrchr(path_, '/');
  if (end == nullptr || !HasDescriptorsToSpare()) return least;
  *end = 0;
  const uint64_t dead = BytesOfTheDead(path_);
  *end = '/';
  beside_the_dead_ = dead + least > limit_ ? least : limit_ - dead;
  return beside_the_dead_;
}

// Returns whether an array may take this many bytes more.
bool Segment::Fits(ArrayId id, uint64_t more, uint64_t spare) {
  if (limit_ == 0 || !is_shared_ || is_adopted_) return true;
  ShmHeader& header = *this->header();
  const ArrayBudget wanted = BudgetOf(id);
  if (IsChosen(header, wanted)) return true;
  uint64_t used[kShares] = {}, all = kHeaderCapacity + more;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ArrayBudget budget = BudgetOf(static_cast<ArrayId>(i));
    const uint64_t reserved = header.arrays[i].reserved.load(kRelaxed);
    if (reserved == 0 || IsChosen(header, budget)) continue;
    used[static_cast<uint32_t>(budget.share)] += reserved;
    all += reserved;
  }
  if (all <= limit_ / 8) return true;
  const uint64_t limit = LimitBesideTheDead();
  // A thread without a row loses all of its events. So nothing else takes what as many threads again would need for theirs.
  const ShmArray& rows = header.arrays[static_cast<uint32_t>(ArrayId::kThreads)];
  const uint64_t of_rows = rows.reserved.load(kRelaxed), for_rows = std::min(of_rows, rows.capacity * rows.stride - of_rows);
  const uint64_t kept = limit / kPartsOfLimit * spare + (id == ArrayId::kThreads ? 0 : for_rows);
  all += kept;
  for (uint32_t i = 0; i < kShares; ++i) {
    const uint64_t own = limit / kPartsOfLimit * kOwnParts[i];
    if (i != static_cast<uint32_t>(wanted.share) && used[i] < own) all += own - used[i];
  }
  const uint64_t left = wanted.share == Share::kThreads ? kept : limit / kPartsOfLimit * spare;
  const bool is_within_own =
      used[static_cast<uint32_t>(wanted.share)] + more + left <= limit / kPartsOfLimit * kOwnParts[static_cast<uint32_t>(wanted.share)];
  return all <= limit || is_within_own;
}

bool Segment::HasSpace(ArrayId id, uint64_t count, uint64_t spare) {
  const ShmArray& array = this->array(id);
  const uint64_t end = array.used.load(kRelaxed) + count, reserved = array.reserved.load(kRelaxed);
  return end <= array.capacity && (end * array.stride <= reserved || Fits(id, RoundToPages(end * array.stride) - reserved, spare));
}

// Notes that something does not fit into the limit. Events are no loss: older ones make place.
void Segment::NoteLimit(ArrayId id) {
  if (BudgetOf(id).share == Share::kEvents || id == ArrayId::kErrorLog) return;
  ShmHeader& header = *this->header();
  header.losses[static_cast<uint32_t>(Loss::kSegmentMemory)].fetch_add(1, kRelaxed);
  auto* const text = reinterpret_cast<char*>(header.status_reason);
  if (text[0] != 0) return;
  std::snprintf(text, sizeof header.status_reason,
                "the segment may take %llu KiB (performance_schema_max_segment_megabytes, performance_schema_max_file_system_part), "
                "and is full: global_status counts what is lost",
                static_cast<unsigned long long>(LimitBesideTheDead() >> 10));
}

uint64_t Segment::MostRows(Kind kind) const {
  const auto at = static_cast<uint32_t>(kind);
  if (limit_ == 0 || IsChosen(*header(), BudgetOf(kRecordsOf[at]))) return UINT64_MAX;
  const uint64_t bytes = header()->record_bytes[at] * 5 / 4 + sizeof(ShmChunk) / PerChunk(kind);  // ChunksInPool has a quarter of slack
  return std::max<uint64_t>(limit_ / kPartsOfLimit * kPartsOfHistory / bytes, PerChunk(kind));
}

}  // namespace perfschema
