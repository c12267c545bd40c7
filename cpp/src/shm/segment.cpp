#include "shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "base/settings.h"
#include "perfschema/pfs.h"
#include "shm/attach.h"
#include "shm/extents.h"
#include "shm/place.h"
#include "shm/plan.h"

namespace perfschema {
namespace {

// Returns the first end of an extent at or behind `bytes`. REQUIRES: bytes <= WholeBytes(array).
uint64_t EndOfExtents(const ShmArray& array, uint64_t bytes) {
  uint64_t end = array.first_extent;
  while (end < bytes) end *= 2;
  return std::min(end, WholeBytes(array));
}

// Returns whether MADV_POPULATE_WRITE works. qemu-user accepts it and does nothing. Checked once, with a page that has no memory before.
bool PopulateWorks(char* populated) {
  enum : int { kNotAsked = 0, kYes, kNo };
  static std::atomic<int> answer{kNotAsked};
  if (answer.load(kRelaxed) == kNotAsked) {
    unsigned char is_resident = 1;
    const bool is_known = mincore(populated, kPageBytes, &is_resident) == 0;
    answer.store(is_known && (is_resident & 1) == 0 ? kNo : kYes, kRelaxed);
  }
  return answer.load(kRelaxed) == kYes;
}

// Writes all bytes, even if single writes stop early.
bool WriteAll(int fd, const char* from, uint64_t bytes, uint64_t at) {
  while (bytes != 0) {
    const ssize_t done = pwrite(fd, from, bytes, static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      if (done == 0) errno = ENOSPC;
      return false;
    }
    from += done;
    at += static_cast<uint64_t>(done);
    bytes -= static_cast<uint64_t>(done);
  }
  return true;
}

constexpr uint64_t kPoolBytes = 4 << 20;

// Returns whether all programs have elements in an array, or may get some from an outsider.
bool NeedsExtentAtStart(ArrayId id) {
  switch (id) {
    case ArrayId::kThreadTexts:
    case ArrayId::kHolds:
    case ArrayId::kFiles:
    case ArrayId::kTables:
    case ArrayId::kIndexes:
    case ArrayId::kTableHandles:
    case ArrayId::kMetadataLocks:
    case ArrayId::kStatementCells:
    case ArrayId::kStatementRests:
    case ArrayId::kHistograms:
    case ArrayId::kHistogramBlocks:
    case ArrayId::kDigests:
    case ArrayId::kDigestTexts:
    case ArrayId::kPrograms:
    case ArrayId::kPrepared:
    case ArrayId::kStageChunks:
    case ArrayId::kStageRecords:
    case ArrayId::kStatementChunks:
    case ArrayId::kStatementRecords:
    case ArrayId::kTransactionChunks:
    case ArrayId::kTransactionRecords:
    case ArrayId::kErrorLog:
      return false;
    default:
      return true;
  }
}

// Makes a file longer by a hole. Where a sandbox (Landlock) forbids ftruncate of what a program may write, a zero ends the hole.
bool Lengthen(int fd, uint64_t length) {
  return ftruncate(fd, static_cast<off_t>(length)) == 0 || ((errno == EACCES || errno == EPERM) && WriteAll(fd, "", 1, length - 1));
}

// Returns whether a file may have this length. Otherwise SIGXFSZ would end the program.
bool MayBeAsLong(uint64_t bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes;
}

}  // namespace

// The header of a forked child is its parent's. If the parent has its number here, too, both are in one namespace, whose inode takes long
// to ask for. In another namespace, or after its end, the parent has no number.
void Segment::FillIdentity() {
  ShmHeader* const header = this->header();
  const bool is_child = header->pid != 0 && header->pid == static_cast<uint64_t>(getppid()) && !is_grandchild_;
  is_grandchild_ = false;
  header->pid = static_cast<uint64_t>(getpid());
  ProcessStat self;
  if (!ReadProcessStat(0, &self)) self = {};
  header->process_start_ticks = self.start_ticks;
  header->parent = self.parent;
  if (!is_child) {
    header->pid_namespace = PidNamespace();
    const std::string boot = BootId();
    std::memcpy(header->boot_id, boot.data(), std::min(boot.size(), sizeof header->boot_id));
  }
  std::memset(header->library_version, 0, sizeof header->library_version);
  std::memcpy(header->library_version, PFS_VERSION, std::min(sizeof PFS_VERSION, sizeof header->library_version) - 1);
  char command[sizeof header->command + 1] = {};  // `command` may be cut short: the rest is zero
  (void)ReadSmallFile("/proc/self/cmdline", command, sizeof command);
  std::memcpy(header->command, command, sizeof header->command);
}

uint64_t SegmentView::used(ArrayId id) const {
  const ShmArray& array = header().arrays[static_cast<uint32_t>(id)];
  return std::min(array.used.load(kAcquire), array.capacity);
}

const void* SegmentView::Element(ArrayId id, uint64_t index, size_t size) const {
  const ShmArray& array = header().arrays[static_cast<uint32_t>(id)];
  const uint64_t offset = array.offset, stride = array.stride, capacity = array.capacity;
  if (index >= capacity || stride < size || stride > bytes_ || offset >= bytes_ || offset % alignof(uint64_t) != 0) return nullptr;
  if (index > (bytes_ - offset) / stride) return nullptr;
  const uint64_t at = offset + index * stride;
  return bytes_ - at < size ? nullptr : base_ + at;
}

ByteRun SegmentView::RunAt(uint64_t offset, uint64_t wanted) const {
  return file_ == nullptr ? ByteRun{0, bytes_, true} : file_->RunAt(offset, wanted);
}

// ---- Creation ------------------------------------------------------------------------------------------------------------------

Status Segment::Create(const Options& options, std::string* reason, bool is_private) {
  const Plan plan(options);
  const char* mode = Setting("PFS_SEGMENT");
  wants_file_ = !is_private && (mode == nullptr || std::strcmp(mode, "private") != 0);
  if (!range_.Find(plan.bytes, AddressRange::Prefer::kFree) || !range_.MapAnonymous(0, kHeaderCapacity)) {
    *reason = Reason("cannot map", std::to_string(kHeaderCapacity) + " bytes", errno);
    range_.Release();
    return Status(Code::kIo, *reason);
  }
  FillHeader(plan, options);
  wants_file_ = wants_file_ && MoveToFile(reason);
  if (!wants_file_ && !MapFirstExtents()) {
    *reason = Reason("cannot map", "the tables of this process", errno);
    return Status(Code::kIo, *reason);
  }
  return {};
}

void Segment::FillHeader(const Plan& plan, const Options& options) {
  ShmHeader* head = header();
  head->layout_major = kLayoutMajor;
  head->layout_minor = kLayoutMinor;
  head->endian_mark = kEndianMark;
  head->word_bytes = sizeof(void*);
  head->segment_bytes = plan.bytes;
  head->header_bytes = kHeaderCapacity;
  head->array_count = kArrayCount;
  FillIdentity();
  std::copy(std::begin(plan.order), std::end(plan.order), order_);
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    ShmArray& array = head->arrays[i];
    array.offset = plan.arrays[i].offset;
    array.stride = plan.arrays[i].stride;
    array.capacity = plan.arrays[i].capacity;
    array.first_extent = plan.arrays[i].first_extent;
    array.used.store(1, kRelaxed);  // element 0 stays unused
  }
  for (uint32_t i = 0; i < kEventKinds; ++i) head->record_bytes[i] = RecordBytesFor(static_cast<Kind>(i), options);
  head->long_text_bytes = LongTextBytesFor(options);
  std::memcpy(head->text_options, options.texts, sizeof head->text_options);
  for (uint32_t i = 0; i < kOptionCount; ++i) head->options[i] = static_cast<uint64_t>(options.Get(static_cast<OptionId>(i)));
  for (uint32_t i = 0; i < kOptionCount; ++i) head->program.option_is_set[i] = options.is_set[i] ? 1 : 0;
}

bool Segment::MapFirstExtents() {
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    if (!MapUpTo(header()->arrays[i], BytesAtStart(i))) return false;
  }
  return true;
}

// ---- The file ------------------------------------------------------------------------------------------------------------------

// Returns how much of an array has a place in a new file: extents that hold its contents, at least the first one of an array in which
// every program has elements, or an outsider, who cannot grow the file, may add some. Where a tool checks all mappings, or the addresses
// are few, each array gets its first extent: there is no pool.
uint64_t Segment::BytesAtStart(uint32_t id) const {
  const ShmArray& array = header()->arrays[id];
  const uint64_t mapped = array.mapped.load(kRelaxed);
  return mapped != 0 || NeedsExtentAtStart(static_cast<ArrayId>(id)) || range_.is_reserved() ? EndOfExtents(array, mapped) : 0;
}

// Calls `visit` for each run of bytes that are adjacent in the file and in the addresses, from the lowest address on, until it returns
// false. `part` says which bytes of an array count: begin and end.
template <typename Part, typename Visit>
bool Segment::VisitRuns(Part part, Visit visit) const {
  FilePiece run{};  // `begin` counts from the header
  for (const ArrayId id : order_) {
    const ShmArray& array = this->array(id);
    const auto [begin, end] = part(static_cast<uint32_t>(id));
    for (const FilePiece& piece : PiecesOf(array, begin, end)) {
      const uint64_t at = array.offset + piece.begin;
      if (run.bytes != 0 && at == run.begin + run.bytes && piece.in_file == run.in_file + run.bytes) {
        run.bytes += piece.bytes;
        continue;
      }
      if (run.bytes != 0 && !visit(run)) return false;
      run = {at, piece.bytes, piece.in_file};
    }
  }
  return run.bytes == 0 || visit(run);
}

// Moves the private segment, with its contents, to a file of this process's name. Returns false if it fails: the segment is unchanged.
bool Segment::MoveToFile(std::string* reason) {
  ShmHeader* const head = header();
  uint64_t length = kHeaderCapacity;
  for (const ArrayId id : order_) {
    ShmArray& array = this->array(id);
    const uint64_t end = BytesAtStart(static_cast<uint32_t>(id));
    for (uint32_t i = 0; ExtentBegin(array.first_extent, i) < end; ++i) {
      const uint64_t begin = ExtentBegin(array.first_extent, i);
      array.extents[i].store(static_cast<uint32_t>(length / kPageBytes), kRelaxed);
      length += std::min(ExtentBegin(array.first_extent, i + 1), end) - begin;
    }
  }
  const uint64_t with_pool = length + (range_.is_reserved() ? 0 : kPoolBytes);
  if (!MayBeAsLong(with_pool)) {
    *reason = "the file size limit (ulimit -f) is below the " + std::to_string(with_pool) + " bytes of a segment";
    return false;
  }
  std::string path, remark;
  mode_t mode = 0600;
  const auto option = [head](OptionId id) { return head->options[static_cast<uint32_t>(id)]; };
  const DeadLimits limits{option(OptionId::max_dead_segments), option(OptionId::max_dead_megabytes) << 20,
                          head->program.option_is_set[static_cast<uint32_t>(OptionId::max_dead_megabytes)] != 0 ? 4u : 16u};
  head->file_bytes.store(length, kRelaxed);
  struct stat info {};
  int fd = -1, error = 0;
  // A process that takes the file for one of the dead has it locked before it removes it, or finds that we have it locked.
  bool is_ours = false;
  for (int attempts_left = 3; !is_ours && attempts_left > 0 && error == 0; --attempts_left) {
    if (fd >= 0) close(fd);
    fd = MakeSegmentFile(limits, head->pid_namespace, &path, &mode, &remark, reason);
    if (fd < 0) return false;
    if (TryLockFile(fd, F_WRLCK) == EAGAIN && attempts_left > 1) continue;
    if (!FillFile(fd, with_pool) || fstat(fd, &info) != 0) error = errno;
    is_ours = info.st_nlink != 0;
  }
  (void)TryLockFile(fd, F_UNLCK);
  if (error == 0 && (fchmod(fd, mode) != 0 /* whatever the umask */ || !MapFile(fd))) error = errno;
  if (error == 0 && with_pool != length) MapPool(fd, length, with_pool - length);
  if (error == 0) FindLimit(fd);
  close(fd);  // the program may close descriptors that it does not know, so we keep none open
  if (error != 0) {
    *reason = Reason("cannot allocate the file", path, error);
    unlink(path.c_str());
    return false;
  }
  path_[path.copy(path_, kMostPath - 1)] = 0;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  file_length_ = with_pool;
  if (!remark.empty()) *reason = std::move(remark);
  return true;
}

// Writes the contents of the private segment. Writing gives the pages their memory, or fails. The header comes first, so that the file of
// a process that dies here says whose it is. It has no magic yet: see Finish.
bool Segment::FillFile(int fd, uint64_t length) {
  if (!Lengthen(fd, length) || !WriteAll(fd, range_.base(), kHeaderCapacity, 0)) return false;
  for (const ArrayId id : order_) {
    const char* const contents = ContentsOf(static_cast<uint32_t>(id));
    for (const FilePiece& piece : PiecesOf(array(id), 0, array(id).mapped.load(kRelaxed))) {
      if (!WriteAll(fd, contents + piece.begin, piece.bytes, piece.in_file)) return false;
    }
  }
  return true;
}

// Maps the file: in a new segment where nothing is yet, in a forked child in place of what it has there of its parent's and of the copy. If
// the kernel refuses, a new segment is unchanged. A child has no way back once it has mapped a part: is_shared_ says so.
bool Segment::MapFile(int fd) {
  const auto held = [this](uint32_t id) { return std::pair<uint64_t, uint64_t>(0, header()->arrays[id].mapped.load(kRelaxed)); };
  const auto whole = [this](uint32_t id) { return std::pair<uint64_t, uint64_t>(0, BytesAtStart(id)); };
  const bool is_child = has_copy();
  const AddressRange::Over over = is_child ? AddressRange::Over::kOwn : AddressRange::Over::kNothing;
  int mapped = 0;
  const auto map = [&](const FilePiece& run) {
    if (!range_.MapFile(run.begin, run.bytes, UnreservedProtection(), fd, run.in_file, over)) return false;
    ++mapped;
    return true;
  };
  if (!VisitRuns(whole, map)) {
    is_shared_ = is_child && mapped != 0;
    if (is_child) return false;
    const int error = errno;
    const auto unmap = [&](const FilePiece& run) {
      if (mapped-- == 0) return false;
      range_.Unmap(run.begin, run.bytes);
      return true;
    };
    (void)VisitRuns(whole, unmap);
    errno = error;
    return false;
  }
  is_shared_ = true;  // partly, if the kernel refuses what follows: then the header has private pages for good
  const auto open_up = [this](const FilePiece& run) { return mprotect(range_.base() + run.begin, run.bytes, PROT_READ | PROT_WRITE) == 0; };
  const bool is_whole = range_.MapFile(0, kHeaderCapacity, PROT_READ | PROT_WRITE, fd, 0, AddressRange::Over::kOwn) &&
                        (!range_.is_reserved() || VisitRuns(held, open_up));
  for (uint32_t i = 0; i < kArrayCount; ++i) header()->arrays[i].mapped.store(BytesAtStart(i), kRelease);
  return is_whole;
}

// Returns the protection of unreserved pages of the file. The leak check of valgrind reads all writable pages, and would give memory to
// every hole.
int Segment::UnreservedProtection() const { return range_.is_reserved() ? PROT_READ : PROT_READ | PROT_WRITE; }

// Opens the file again by its name. Returns -1 if it is gone, another file has its name, it may not be opened, or the program may need the
// descriptor.
int Segment::OpenOwnFile() const {
  if (!HasDescriptorsToSpare()) return -1;
  const int fd = open(path_, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return -1;
  struct stat info;
  if (fstat(fd, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_) return fd;
  close(fd);
  return -1;
}

bool Segment::GrowFile(int fd, uint64_t bytes) {
  if (bytes <= file_length_) return true;
  if (!MayBeAsLong(bytes) || !Lengthen(fd, bytes)) return false;
  file_length_ = bytes;
  return true;
}

void Segment::Remove() {
  if (path_[0] != 0) unlink(path_);
}

// ---- Growth --------------------------------------------------------------------------------------------------------------------

void Segment::MapPool(int fd, uint64_t in_file, uint64_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(in_file));
  if (mapped != MAP_FAILED) pool_ = {static_cast<char*>(mapped), in_file, bytes};
}

void Segment::DropPool() {
  if (pool_.bytes != 0) munmap(pool_.base, pool_.bytes);
  pool_ = {};
}

// Maps the first bytes of the pool at an offset of the range. Returns false if they are too few, or the kernel refuses.
bool Segment::TakeFromPool(uint64_t offset, uint64_t bytes) {
  if (bytes > pool_.bytes) return false;
  // First makes sure that nothing else is there: mremap() would overwrite it.
  if (!range_.MapFile(offset, bytes, PROT_NONE, -1, 0)) return false;
  if (mremap(pool_.base, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, range_.base() + offset) == MAP_FAILED) {
    range_.Unmap(offset, bytes);
    return false;
  }
  pool_ = {pool_.base + bytes, pool_.in_file + bytes, pool_.bytes - bytes};
  return true;
}

// Gives the first `bytes` of an array addresses and a place in the file.
bool Segment::MapUpTo(ShmArray& array, uint64_t bytes) {
  uint64_t mapped = array.mapped.load(kRelaxed);
  if (__builtin_expect(bytes <= mapped, 1)) return true;
  if (is_adopted_ || bytes > WholeBytes(array)) return false;
  const uint64_t goal = EndOfExtents(array, bytes);
  if (!wants_file_ || path_[0] == 0) {
    if (!range_.MapAnonymous(array.offset + mapped, goal - mapped)) return false;
    array.mapped.store(goal, kRelease);
    return true;
  }
  int fd = -1;
  while (mapped < goal) {
    uint32_t i = 0;
    while (ExtentBegin(array.first_extent, i) < mapped) ++i;
    const uint64_t end = std::min(ExtentBegin(array.first_extent, i + 1), goal), bytes = end - mapped, offset = array.offset + mapped;
    uint64_t at = pool_.in_file;
    if (!TakeFromPool(offset, bytes)) {
      at = file_length_;
      if (fd < 0) fd = OpenOwnFile();
      if (fd < 0 || !GrowFile(fd, at + bytes) || !range_.MapFile(offset, bytes, UnreservedProtection(), fd, at)) break;
    }
    array.extents[i].store(static_cast<uint32_t>(at / kPageBytes), kRelaxed);
    Word& in_use = header()->file_bytes;
    in_use.store(std::max(in_use.load(kRelaxed), at + bytes), kRelaxed);
    array.mapped.store(mapped = end, kRelease);  // pairs with PiecesOf in readers
  }
  if (fd >= 0) close(fd);
  return mapped >= goal;
}

// Gives pages of a mapped range their memory now. If there is none, this fails, instead of SIGBUS at the first store.
bool Segment::Reserve(const ShmArray& array, uint64_t begin, uint64_t end) {
  if (!is_shared_ || begin >= end) return true;
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
  begin = begin / kPageBytes * kPageBytes;
  end = RoundToPages(end);
  char* const at = range_.base() + array.offset + begin;
  if (range_.is_reserved() && mprotect(at, end - begin, PROT_READ | PROT_WRITE) != 0) return false;
  if (madvise(at, end - begin, MADV_POPULATE_WRITE) == 0) {
    if (__builtin_expect(PopulateWorks(at), 1)) return true;
  } else if (errno != EINVAL) {
    return false;
  }
  return AllocateInFile(array, begin, end);
}

// Does the same on a kernel before 5.14: through the file, which is opened again by name.
bool Segment::AllocateInFile(const ShmArray& array, uint64_t begin, uint64_t end) {
  const int fd = OpenOwnFile();
  if (fd < 0) return false;
  int error = 0;
  for (const FilePiece& piece : PiecesOf(array, begin, end)) {
    if (error == 0) error = posix_fallocate(fd, static_cast<off_t>(piece.in_file), static_cast<off_t>(piece.bytes));
  }
  close(fd);
  // Touches the pages: otherwise a reader of the file still takes them for holes (shm/attach.h).
  char* const base = range_.base() + array.offset;
  for (uint64_t at = begin; error == 0 && at < end; at += kPageBytes) __atomic_fetch_or(base + at, 0, __ATOMIC_RELAXED);
  return error == 0;
}

bool Segment::ReserveUpTo(ArrayId id, uint64_t elements, uint64_t spare) {
  ShmArray& array = this->array(id);
  const uint64_t reserved = array.reserved.load(kRelaxed);
  const uint64_t needed = elements * array.stride;
  if (needed <= reserved) return true;
  if (elements > array.capacity) return false;
  // Reserves ahead of the need, so that a run of new objects rarely calls the kernel: a page first, for most arrays of a small program
  // need no other; then twice as much, and from 64 KiB on an eighth more.
  const uint64_t ahead = reserved < 64 * 1024 ? reserved : std::clamp<uint64_t>(reserved / 8, 16 * 1024, 128 * 1024);
  uint64_t goal = RoundToPages(std::max(needed, reserved + ahead));
  if (!Fits(id, goal - reserved, spare)) {
    goal = RoundToPages(needed);
    if (!Fits(id, goal - reserved, spare)) {
      NoteLimit(id);
      return false;
    }
  }
  if (!MapUpTo(array, RoundToPages(needed))) return false;
  goal = std::min(goal, array.mapped.load(kRelaxed));
  if (!Reserve(array, reserved, goal)) {
    goal = RoundToPages(needed);
    if (!Reserve(array, reserved, goal)) return false;
  }
  array.reserved.store(goal, kRelease);
  return true;
}

bool Segment::ReserveRange(ArrayId id, uint64_t begin, uint64_t end) {
  ShmArray& array = this->array(id);
  if (!Fits(id, end - begin, 0)) {
    NoteLimit(id);
    return false;
  }
  if (!MapUpTo(array, RoundToPages(end)) || !Reserve(array, begin, end)) return false;
  array.reserved.store(array.reserved.load(kRelaxed) + end - begin, kRelease);
  return true;
}

int64_t Segment::AllocateFresh(ArrayId id, uint64_t count, uint64_t spare) {
  ShmArray& array = this->array(id);
  const uint64_t index = array.used.load(kRelaxed);
  if (index + count > array.capacity || !ReserveUpTo(id, index + count, spare)) return -1;
  array.used.store(index + count, kRelease);
  return static_cast<int64_t>(index);
}

}  // namespace perfschema
