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

#include "perfschema/pfs.h"
#include "shm/attach.h"
#include "shm/extents.h"
#include "shm/place.h"
#include "shm/plan.h"

namespace perfschema {
namespace {

uint64_t WholeBytes(const ShmArray& array) { return RoundToPages(array.capacity * array.stride); }

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

void Segment::FillIdentity(ShmHeader* header) {
  header->pid = static_cast<uint64_t>(getpid());
  header->pid_namespace = PidNamespace();
  ProcessFacts self;
  header->process_start_ticks = ReadProcessFacts(0, &self) ? self.start_ticks : 0;
  const std::string boot = BootId();
  std::memcpy(header->boot_id, boot.data(), std::min(boot.size(), sizeof header->boot_id));
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
  const char* mode = secure_getenv("PFS_SEGMENT");
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
  FillIdentity(head);
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    ShmArray& array = head->arrays[i];
    array.offset = plan.arrays[i].offset;
    array.stride = plan.arrays[i].stride;
    array.capacity = plan.arrays[i].capacity;
    array.first_extent = plan.arrays[i].first_extent;
    array.used.store(1, kRelaxed);  // element 0 stays unused
  }
  for (uint32_t i = 0; i < kEventKinds; ++i) head->record_bytes[i] = RecordBytesFor(static_cast<Kind>(i), options);
  std::memcpy(head->text_options, options.texts, sizeof head->text_options);
  for (uint32_t i = 0; i < kOptionCount; ++i) head->options[i] = static_cast<uint64_t>(options.Get(static_cast<OptionId>(i)));
  for (uint32_t i = 0; i < kOptionCount; ++i) head->program.option_is_set[i] = options.is_set[i] ? 1 : 0;
}

bool Segment::MapFirstExtents() {
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    if (!MapUpTo(header()->arrays[i], header()->arrays[i].first_extent)) return false;
  }
  return true;
}

// ---- The file ------------------------------------------------------------------------------------------------------------------

// Moves the private segment, with its contents, to a file of this process's name. Returns false if it fails: the segment is unchanged.
bool Segment::MoveToFile(std::string* reason) {
  ShmHeader* const head = header();
  uint64_t length = kHeaderCapacity;
  for (ShmArray& array : std::span(head->arrays, kArrayCount)) {
    const uint64_t end = EndOfExtents(array, array.mapped.load(kRelaxed));
    for (uint32_t i = 0; ExtentBegin(array.first_extent, i) < end; ++i) {
      const uint64_t begin = ExtentBegin(array.first_extent, i);
      array.extents[i].store(static_cast<uint32_t>(length / kPageBytes), kRelaxed);
      length += std::min(ExtentBegin(array.first_extent, i + 1), end) - begin;
    }
  }
  if (!MayBeAsLong(length)) {
    *reason = "the file size limit (ulimit -f) is below the " + std::to_string(length) + " bytes of a segment";
    return false;
  }
  std::string path, remark;
  mode_t mode = 0600;
  const int fd = MakeSegmentFile(&path, &mode, &remark, reason);
  if (fd < 0) return false;
  struct stat info {};
  int error = 0;
  if (fstat(fd, &info) != 0 || !FillFile(fd, length) || fchmod(fd, mode) != 0 /* whatever the umask */ || !MapFile(fd)) error = errno;
  close(fd);  // the program may close descriptors that it does not know, so we keep none open
  if (error != 0) {
    *reason = Reason("cannot allocate the file", path, error);
    unlink(path.c_str());
    return false;
  }
  path_ = std::move(path);
  device_ = info.st_dev;
  inode_ = info.st_ino;
  file_length_ = length;
  if (!remark.empty()) *reason = std::move(remark);
  return true;
}

// Writes the contents of the private segment. Writing gives the pages their memory, or fails. The header comes first, so that the file of
// a process that dies here says whose it is. It has no magic yet: see Finish.
bool Segment::FillFile(int fd, uint64_t length) {
  if (!Lengthen(fd, length)) return false;
  ShmHeader* const head = header();
  head->file_bytes.store(length, kRelaxed);
  if (!WriteAll(fd, range_.base(), kHeaderCapacity, 0)) return false;
  for (const ShmArray& array : std::span(head->arrays, kArrayCount)) {
    const uint64_t held = array.mapped.load(kRelaxed);
    for (const FilePiece& piece : PiecesOf(array, 0, held)) {
      if (!WriteAll(fd, range_.base() + array.offset + piece.begin, piece.bytes, piece.in_file)) return false;
    }
  }
  return true;
}

// Maps the file in place of the private memory. The unmapped addresses come first, because that may fail.
bool Segment::MapFile(int fd) {
  ShmHeader* const head = header();
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = head->arrays[i];
    const uint64_t held = array.mapped.load(kRelaxed);
    if (MapExtents(array, held, EndOfExtents(array, held), UnreservedProtection(), fd, AddressRange::Over::kNothing)) continue;
    const int error = errno;
    for (uint32_t j = 0; j <= i; ++j) {
      const uint64_t from = head->arrays[j].mapped.load(kRelaxed);
      if (const uint64_t to = EndOfExtents(head->arrays[j], from); to > from) range_.Unmap(head->arrays[j].offset + from, to - from);
    }
    errno = error;
    return false;
  }
  is_shared_ = true;  // partly, if the kernel refuses what follows: then the rest has private pages for good
  bool is_whole = true;
  for (const ShmArray& array : std::span(head->arrays, kArrayCount)) {
    is_whole = MapExtents(array, 0, array.mapped.load(kRelaxed), PROT_READ | PROT_WRITE, fd, AddressRange::Over::kOwn) && is_whole;
  }
  is_whole = range_.MapFile(0, kHeaderCapacity, PROT_READ | PROT_WRITE, fd, 0, AddressRange::Over::kOwn) && is_whole;
  for (ShmArray& array : std::span(head->arrays, kArrayCount))
    array.mapped.store(EndOfExtents(array, array.mapped.load(kRelaxed)), kRelease);
  return is_whole;
}

// Returns the protection of unreserved pages of the file. The leak check of valgrind reads all writable pages, and would give memory to
// every hole.
int Segment::UnreservedProtection() const { return range_.is_reserved() ? PROT_READ : PROT_READ | PROT_WRITE; }

bool Segment::MapExtents(const ShmArray& array, uint64_t begin, uint64_t end, int protection, int fd, AddressRange::Over over) {
  for (const FilePiece& piece : PiecesOf(array, begin, end)) {
    if (!range_.MapFile(array.offset + piece.begin, piece.bytes, protection, fd, piece.in_file, over)) return false;
  }
  return true;
}

// Opens the file again by its name. Returns -1 if it is gone, another file has its name, or it may not be opened.
int Segment::OpenOwnFile() const {
  const int fd = open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
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
  if (!path_.empty()) unlink(path_.c_str());
}

// ---- Growth --------------------------------------------------------------------------------------------------------------------

// Gives the first `bytes` of an array addresses and a place in the file.
bool Segment::MapUpTo(ShmArray& array, uint64_t bytes) {
  uint64_t mapped = array.mapped.load(kRelaxed);
  if (__builtin_expect(bytes <= mapped, 1)) return true;
  if (is_adopted_ || bytes > WholeBytes(array)) return false;
  const uint64_t goal = EndOfExtents(array, bytes);
  if (!wants_file_ || path_.empty()) {
    if (!range_.MapAnonymous(array.offset + mapped, goal - mapped)) return false;
    array.mapped.store(goal, kRelease);
    return true;
  }
  const int fd = OpenOwnFile();
  bool is_done = fd >= 0;
  while (is_done && mapped < goal) {
    uint32_t i = 0;
    while (ExtentBegin(array.first_extent, i) < mapped) ++i;
    const uint64_t end = std::min(ExtentBegin(array.first_extent, i + 1), goal), at = header()->file_bytes.load(kRelaxed);
    is_done = GrowFile(fd, at + end - mapped) && range_.MapFile(array.offset + mapped, end - mapped, UnreservedProtection(), fd, at);
    if (!is_done) break;
    array.extents[i].store(static_cast<uint32_t>(at / kPageBytes), kRelaxed);
    header()->file_bytes.store(at + end - mapped, kRelaxed);
    array.mapped.store(mapped = end, kRelease);  // pairs with PiecesOf in readers
  }
  if (fd >= 0) close(fd);
  return is_done;
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

bool Segment::ReserveUpTo(ArrayId id, uint64_t elements) {
  ShmArray& array = this->array(id);
  const uint64_t reserved = array.reserved.load(kRelaxed);
  const uint64_t needed = elements * array.stride;
  if (needed <= reserved) return true;
  if (elements > array.capacity || !MapUpTo(array, RoundToPages(needed))) return false;
  // Reserves ahead of the need, so that a run of new objects rarely calls the kernel: 16 KiB, then a quarter of the present size.
  uint64_t goal = RoundToPages(std::max(needed, reserved + std::clamp<uint64_t>(reserved / 4, 16 * 1024, 1024 * 1024)));
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
  if (!MapUpTo(array, RoundToPages(end)) || !Reserve(array, begin, end)) return false;
  array.reserved.store(array.reserved.load(kRelaxed) + end - begin, kRelease);
  return true;
}

int64_t Segment::AllocateFresh(ArrayId id, uint64_t count) {
  ShmArray& array = this->array(id);
  const uint64_t index = array.used.load(kRelaxed);
  if (index + count > array.capacity || !ReserveUpTo(id, index + count)) return -1;
  array.used.store(index + count, kRelease);
  return static_cast<int64_t>(index);
}

// ---- Another process's ---------------------------------------------------------------------------------------------------------

Status Segment::Adopt(const std::string& path, Options* options, int* descriptor) {
  std::unique_ptr<SegmentFile> file;
  if (Status bad = SegmentFile::Open(path, &file); !bad.ok()) return bad;
  const ReadGuard reading(file.get());
  const SegmentView view = file->view();
  const ShmHeader& seen = view.header();
  for (uint32_t i = 0; i < kOptionCount; ++i) options->values[i] = static_cast<int64_t>(seen.options[i]);
  std::memcpy(options->texts, seen.text_options, sizeof options->texts);
  for (auto& text : options->texts) text[kTextOptionBytes - 1] = 0;
  bool is_ours = seen.layout_minor == kLayoutMinor;
  for (uint32_t i = 0; i < kOptionCount; ++i)
    is_ours = is_ours && options->values[i] >= kOptions[i].minimum && options->values[i] <= kOptions[i].maximum;
  const Plan plan(is_ours ? *options : Options());
  is_ours = is_ours && view.bytes() == plan.bytes;
  for (uint32_t i = 0; is_ours && i < kArrayCount; ++i) {
    const ShmArray& array = seen.arrays[i];
    const Plan::Place& place = plan.arrays[i];
    is_ours = array.offset == place.offset && array.stride == place.stride && array.capacity == place.capacity &&
              array.first_extent == place.first_extent && array.used.load(kRelaxed) <= place.capacity &&
              array.mapped.load(kAcquire) >= place.first_extent;
  }
  if (!is_ours || !file->Check().ok())
    return Status(Code::kCorrupt, path + " was written by another version of this library, or is damaged: it can be read but not changed");
  const int fd = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Status(errno == EACCES ? Code::kNotAllowed : Code::kIo, Reason("cannot open for writing", path, errno));
  struct stat info {};
  is_adopted_ = true;
  const bool is_mapped = fstat(fd, &info) == 0 && range_.Find(plan.bytes, AddressRange::Prefer::kReserved) &&
                         range_.MapFile(0, kHeaderCapacity, PROT_READ | PROT_WRITE, fd, 0) && FollowGrowth(fd);
  if (!is_mapped) {
    const int error = errno;
    close(fd);
    return Status(Code::kIo, Reason("cannot map", path, error));
  }
  path_ = path;
  device_ = info.st_dev;
  inode_ = info.st_ino;
  is_shared_ = wants_file_ = true;
  *descriptor = fd;
  return {};
}

bool Segment::FollowGrowth(int descriptor) {
  uint64_t length = 0;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    const ShmArray& array = header()->arrays[i];
    const uint64_t mapped = std::min(array.mapped.load(kAcquire), WholeBytes(array));  // pairs with MapUpTo
    for (const FilePiece& piece : PiecesOf(array, adopted_[i], mapped)) {
      if (const uint64_t end = piece.in_file + piece.bytes; end > length) {
        // The length must be younger than the piece: a program that grows now makes its file longer first.
        struct stat info {};
        if (fstat(descriptor, &info) != 0) return false;
        length = static_cast<uint64_t>(info.st_size);
        if (end > length) {
          errno = ENXIO;  // the file was cut
          return false;
        }
      }
      if (!range_.MapFile(array.offset + piece.begin, piece.bytes, PROT_READ | PROT_WRITE, descriptor, piece.in_file)) return false;
      adopted_[i] = piece.begin + piece.bytes;
    }
  }
  return true;
}

}  // namespace perfschema
