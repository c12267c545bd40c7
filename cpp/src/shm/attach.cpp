#include "shm/attach.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "shm/extents.h"
#include "shm/place.h"
#include "shm/plan.h"

namespace perfschema {

// An attached mapping, as the handler sees it. Never freed: the handler may be reading it.
// Threads: changed under guard_mutex, except `is_broken`.
struct GuardedMapping {
  std::atomic<uintptr_t> begin{0}, end{0};  // 0 = free
  std::atomic<bool> is_broken{false};
  GuardedMapping* next = nullptr;
};

namespace {

constexpr uint64_t kMostAddresses = uint64_t{1} << 45;  // of a segment; more is a damaged header
constexpr uint64_t kZerosBesides = 4 * 1024 * 1024;     // zeros that a copied file may have lost, on top of as much as it has memory

std::mutex guard_mutex;
std::atomic<GuardedMapping*> mappings{nullptr};
uint32_t guarded = 0;

// Holds the action before our handler. There are two, so that one is whole at any time.
struct sigaction before[2];
std::atomic<uint32_t> current{0};
std::atomic<bool> has_passed_on{false};  // since our handler was installed

// Handles a signal that is not for us. It restores the previous action, then the access is repeated under it, or the signal sent again.
// The previous handler runs exactly as without us. The next read installs ours again.
void PassOn(int signal, siginfo_t* info) {
  struct sigaction action = before[current.load(kAcquire)];
  // It has been passed on already, and came back: the handler that was set after ours calls ours as its predecessor.
  if (has_passed_on.exchange(true)) {
    action = {};
    action.sa_handler = SIG_DFL;
  }
  sigaction(signal, &action, nullptr);
  if (info->si_code <= 0) syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
}

// Async-signal-safe: atomics and plain system calls.
void OnBusError(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  bool is_ours = false;
  for (GuardedMapping* one = mappings.load(kAcquire); one != nullptr && info->si_code > 0 && !is_ours; one = one->next) {
    const uintptr_t begin = one->begin.load(kAcquire), end = one->end.load(kAcquire);
    if (begin == 0 || address < begin || address >= end) continue;
    // Replaces the whole mapping: the rest of the file is not worth a signal per page.
    is_ours = mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                   0) != MAP_FAILED;
    one->is_broken.store(true, kRelease);
  }
  if (!is_ours) PassOn(signal, info);
  errno = error;
}

bool IsOurs(const struct sigaction& action) { return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnBusError; }

// REQUIRES: guard_mutex.
void SetHandler() {
  struct sigaction there {};
  if (sigaction(SIGBUS, nullptr, &there) != 0 || IsOurs(there)) return;
  const uint32_t next = 1 - current.load(kRelaxed);
  before[next] = there;
  current.store(next, kRelease);
  has_passed_on.store(false);
  struct sigaction ours {};
  ours.sa_sigaction = OnBusError;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, &ours, nullptr);
}

GuardedMapping* Guard(const void* base, size_t bytes) {
  const std::lock_guard lock(guard_mutex);
  GuardedMapping* one = mappings.load(kRelaxed);
  while (one != nullptr && one->begin.load(kRelaxed) != 0) one = one->next;
  const bool is_new = one == nullptr;
  if (is_new) one = new GuardedMapping;
  one->is_broken.store(false, kRelaxed);
  const auto begin = reinterpret_cast<uintptr_t>(base);
  one->end.store((begin + bytes + kPageBytes - 1) / kPageBytes * kPageBytes, kRelaxed);
  one->begin.store(begin, kRelease);
  if (is_new) {
    one->next = mappings.load(kRelaxed);
    mappings.store(one, kRelease);
  }
  ++guarded;
  SetHandler();
  return one;
}

void Unguard(GuardedMapping* one) {
  const std::lock_guard lock(guard_mutex);
  one->begin.store(0, kRelease);
  if (--guarded != 0) return;
  struct sigaction there {};
  if (sigaction(SIGBUS, nullptr, &there) == 0 && IsOurs(there)) sigaction(SIGBUS, &before[current.load(kRelaxed)], nullptr);
}

const char* KindOfFile(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFLNK:
      return "a symbolic link";
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

}  // namespace

ReadGuard::ReadGuard(const SegmentFile* file) : is_set_(file != nullptr) {
  if (!is_set_) return;
  {
    const std::lock_guard lock(guard_mutex);
    SetHandler();  // another handler may have been set since
  }
  sigset_t bus;  // a blocked SIGBUS ends the process, whatever the handler
  sigemptyset(&bus);
  sigaddset(&bus, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &bus, &before_);
}

ReadGuard::~ReadGuard() {
  if (is_set_ && sigismember(&before_, SIGBUS) == 1) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Status SegmentFile::Open(const std::string& path, std::unique_ptr<SegmentFile>* file) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0) return Status(errno == ENOENT ? Code::kNotFound : Code::kIo, Reason("cannot open", path, errno));
  if (!S_ISREG(info.st_mode))
    return Status(Code::kCorrupt, path + " is not a pfs segment: it is " + KindOfFile(info.st_mode) + ", not a plain file");
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return Status(errno == ENOENT ? Code::kNotFound : Code::kIo, Reason("cannot open", path, errno));
  std::unique_ptr<SegmentFile> opened(new SegmentFile);
  opened->path_ = path;
  opened->fd_ = fd;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) < kHeaderCapacity) {
    return Status(Code::kCorrupt, path + " is not a pfs segment: too short or not a plain file");
  }
  opened->device_ = info.st_dev;
  opened->inode_ = info.st_ino;
  opened->zeros_left_ = static_cast<uint64_t>(info.st_blocks) * 512 + kZerosBesides;
  const auto copy = std::make_unique<ShmHeader>();
  if (pread(fd, copy.get(), sizeof *copy, 0) != static_cast<ssize_t>(sizeof *copy))
    return Status(Code::kIo, Reason("cannot read", path, errno));
  if (fstat(fd, &info) != 0) return Status(Code::kIo, Reason("cannot read", path, errno));  // again: a program grows its file, then says so
  const ShmHeader& head = *copy;
  if (Status bad = opened->CheckHeader(head, static_cast<uint64_t>(info.st_size)); !bad.ok()) return bad;
  AddressRange& range = opened->range_;
  if (!range.Find(head.segment_bytes, AddressRange::Prefer::kReserved))
    return Status(Code::kIo, Reason("cannot find addresses for", path, errno));
  for (uint32_t i = 0; i < kArrayCount; ++i) opened->array_offset_[i] = head.arrays[i].offset;
  const ReadGuard reading(opened.get());
  if (!opened->MapPiece(0, kHeaderCapacity, 0)) return Status(Code::kIo, Reason("cannot map", path, errno));
  opened->MapMore();
  if (Status bad = opened->Check(); !bad.ok()) return bad;
  *file = std::move(opened);
  return {};
}

void SegmentFile::ForgetPages() const { madvise(range_.base(), range_.bytes(), MADV_DONTNEED); }

SegmentFile::~SegmentFile() {
  for (const auto& [begin, piece] : pieces_) {
    Unguard(piece.guard);
    range_.Unmap(begin, piece.end - begin);
  }
  range_.Release();
  if (fd_ >= 0 && IsStillOurs()) close(fd_);
}

Status SegmentFile::CheckHeader(const ShmHeader& head, uint64_t bytes) const {
  const auto corrupt = [&](const std::string& wrong) { return Status(Code::kCorrupt, path_ + wrong); };
  if (__atomic_load_n(&head.magic, __ATOMIC_ACQUIRE) != kSegmentMagic) {  // pairs with Segment::Finish
    return corrupt(" is not a pfs segment: its first bytes are wrong, or it is still being made");
  }
  if (head.endian_mark != kEndianMark || head.word_bytes != sizeof(void*)) return corrupt(" was written by a machine of another kind");
  const uint32_t major = head.layout_major, minor = head.layout_minor;
  if (major != kLayoutMajor) {
    return corrupt(" was written with layout " + std::to_string(major) + "." + std::to_string(minor) + ", and this library reads layout " +
                   std::to_string(kLayoutMajor) + ".x: read it with " + (major < kLayoutMajor ? "an older" : "a newer") +
                   " version of pfs");
  }
  if (head.file_bytes.load(kRelaxed) > bytes) return corrupt(" is cut short");
  if (head.header_bytes < kHeaderCapacity || head.header_bytes > bytes || head.segment_bytes < head.header_bytes ||
      head.segment_bytes > kMostAddresses || (minor >= kLayoutMinor && head.array_count < kArrayCount)) {
    return corrupt(" has a header that is not of layout " + std::to_string(major) + "." + std::to_string(minor));
  }
  return {};
}

Status SegmentFile::Check() const {
  const std::lock_guard lock(mutex_);
  const auto is_broken = [](const auto& entry) { return entry.second.guard->is_broken.load(kAcquire); };
  if (std::none_of(pieces_.begin(), pieces_.end(), is_broken)) return {};
  return Status(Code::kCorrupt,
                path_ + " was cut short while it was mapped, or its file system is full: nothing of it can be read any more");
}

// Returns whether our descriptor still names our file. If the program has closed it and opened another file, that one must not be
// touched.
bool SegmentFile::IsStillOurs() const {
  struct stat info;
  return fstat(fd_, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

// ---- Extents -------------------------------------------------------------------------------------------------------------------

// Maps bytes of the file at [begin, end) of the range. Returns false if they are not in the file, the addresses are taken, or the bytes
// are mapped elsewhere. The last would confuse holes: they are known by their place in the file, and filled by their address.
bool SegmentFile::MapPiece(uint64_t begin, uint64_t end, uint64_t in_file) const {
  const uint64_t end_in_file = in_file + (end - begin);
  for (const auto& [other, piece] : pieces_) {
    if (in_file < piece.in_file + (piece.end - other) && piece.in_file < end_in_file) return false;
  }
  const auto next = pieces_.lower_bound(begin);
  const bool is_taken = (next != pieces_.end() && next->first < end) || (next != pieces_.begin() && std::prev(next)->second.end > begin);
  struct stat info;
  if (is_taken || begin % kPageBytes != 0 || end > range_.bytes() || fstat(fd_, &info) != 0 ||
      end_in_file > static_cast<uint64_t>(info.st_size))
    return false;
  if (info.st_dev != device_ || info.st_ino != inode_) return false;  // as in IsStillOurs
  if (!range_.MapFile(begin, end - begin, PROT_READ, fd_, in_file)) return false;
  pieces_[begin] = {end, in_file, Guard(range_.base() + begin, end - begin)};
  return true;
}

// Maps extents that were added since. Returns true if there were some.
bool SegmentFile::MapMore() const {
  const auto& head = *reinterpret_cast<const ShmHeader*>(range_.base());
  bool has_more = false;
  for (uint32_t i = 0; i < kArrayCount; ++i) {
    if (array_offset_[i] > range_.bytes()) continue;
    const uint64_t mapped = std::min(head.arrays[i].mapped.load(kAcquire), range_.bytes() - array_offset_[i]);  // pairs with MapUpTo
    uint64_t& known = array_mapped_[i];
    if (mapped <= known) continue;
    for (const FilePiece& piece : PiecesOf(head.arrays[i], known, mapped)) {
      const uint64_t begin = array_offset_[i] + piece.begin;
      if (!MapPiece(begin, begin + piece.bytes, piece.in_file)) {
        known = ~uint64_t{0};  // not tried again: every access to a missing element calls this
        break;
      }
      known = piece.begin + piece.bytes;
      has_more = true;
    }
  }
  return has_more;
}

SegmentFile::Pieces::const_iterator SegmentFile::PieceAt(uint64_t offset) const {
  const auto next = pieces_.upper_bound(offset);
  if (next == pieces_.begin() || std::prev(next)->second.end <= offset) return pieces_.end();
  return std::prev(next);
}

uint64_t SegmentFile::NextPiece(uint64_t offset) const {
  const auto next = pieces_.upper_bound(offset);
  return next == pieces_.end() ? range_.bytes() : next->first;
}

ByteRun SegmentFile::RunAt(uint64_t offset, uint64_t wanted) const {
  if (offset >= range_.bytes()) return {offset, ~uint64_t{0}, false};
  wanted = std::min(wanted, range_.bytes() - offset);
  const std::lock_guard lock(mutex_);
  ByteRun run{offset, offset + 1, false};
  for (uint64_t at = offset; at - offset < wanted;) {
    auto piece = PieceAt(at);
    if (piece == pieces_.end() && MapMore()) piece = PieceAt(at);
    if (piece == pieces_.end()) {
      if (at == offset) run.end = NextPiece(offset);
      break;
    }
    const uint64_t left = wanted - (at - offset);
    ByteRun more = RunInPiece(piece->first, piece->second, at, left);
    const uint64_t end_wanted = std::min(piece->second.end, at + left);
    const uint64_t hole = more.has_memory ? more.end : at;
    if (hole < end_wanted && FillHole(piece->first, piece->second, hole, end_wanted))
      more = RunInPiece(piece->first, piece->second, at, left);
    if (!more.has_memory) {
      if (at == offset) run.end = std::max(run.end, more.end);
      break;
    }
    if (at == offset) run.begin = more.begin;
    run.has_memory = true;
    run.end = at = more.end;
    if (at < piece->second.end) break;
  }
  return run;
}

// Does the same for one piece.
ByteRun SegmentFile::RunInPiece(uint64_t begin, const Piece& piece, uint64_t offset, uint64_t wanted) const {
  const uint64_t length = piece.end - begin;
  const ByteRun run = RunInFile(piece.in_file + (offset - begin), std::min(wanted, piece.end - offset));
  return {begin + (run.begin > piece.in_file ? run.begin - piece.in_file : 0), begin + std::min(length, run.end - piece.in_file),
          run.has_memory};
}

// Does the same for the file, in offsets of the file.
ByteRun SegmentFile::RunInFile(uint64_t offset, uint64_t wanted) const {
  auto run = runs_.upper_bound(offset);
  const bool is_known = run != runs_.begin() && std::prev(run)->second > offset;
  if (is_known && std::prev(run)->second - offset >= wanted) return {std::prev(run)->first, std::prev(run)->second, true};
  const ByteRun all{0, ~uint64_t{0}, true};
  if (fd_ < 0 || !IsStillOurs()) return all;  // the file cannot be queried: only the guard remains
  const uint64_t from = is_known ? std::prev(run)->second : offset / kPageBytes * kPageBytes;
  // A page counts whole, whatever part of it has memory: blocks of a file system may be smaller, and a file cut short ends inside one.
  const off_t data = lseek(fd_, static_cast<off_t>(from), SEEK_DATA);
  if (data < 0 && errno != ENXIO) return all;  // a file system without SEEK_DATA
  const uint64_t next = data < 0 ? ~uint64_t{0} : static_cast<uint64_t>(data) / kPageBytes * kPageBytes;
  if (next > from) {
    if (is_known) return {std::prev(run)->first, from, true};
    return {from, next, false};
  }
  const off_t hole = lseek(fd_, static_cast<off_t>(from), SEEK_HOLE);
  NoteMemory(from, hole < 0 ? ~uint64_t{0} : std::max(from + kPageBytes, RoundToPages(static_cast<uint64_t>(hole))));
  run = std::prev(runs_.upper_bound(offset));
  return {run->first, run->second, true};
}

// Adds a run with memory, and merges it with those that it touches.
void SegmentFile::NoteMemory(uint64_t begin, uint64_t end) const {
  auto run = runs_.lower_bound(begin);
  if (run != runs_.begin() && std::prev(run)->second >= begin) begin = (--run)->first;
  while (run != runs_.end() && run->first <= end) {
    end = std::max(end, run->second);
    run = runs_.erase(run);
  }
  runs_.emplace(begin, end);
}

// Maps zeros over the holes of [from, to), which is in use: a tool has made holes of pages of zeros. Returns false if there is only a
// hole, or there were too many.
bool SegmentFile::FillHole(uint64_t begin, const Piece& piece, uint64_t from, uint64_t to) const {
  bool is_filled = false;
  while (from < to) {
    const ByteRun run = RunInPiece(begin, piece, from, to - from);
    if (run.has_memory) {
      from = run.end;
      continue;
    }
    const uint64_t first = from / kPageBytes * kPageBytes,
                   last = std::min((to + kPageBytes - 1) / kPageBytes * kPageBytes, std::min(run.end, piece.end));
    if (last - first > zeros_left_ || holes_left_ == 0 || !range_.MapZeros(first, last - first)) break;
    zeros_left_ -= last - first;
    --holes_left_;
    NoteMemory(piece.in_file + (first - begin), piece.in_file + (last - begin));
    from = last;
    is_filled = true;
  }
  return is_filled;
}

}  // namespace perfschema
