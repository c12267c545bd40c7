#include "shm/attach.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/place.h"

namespace perfschema {

// An attached mapping, as the handler sees it. Never freed: the handler may be looking.
// Threads: changed under guard_mutex, except `is_broken`.
struct GuardedMapping {
  std::atomic<uintptr_t> begin{0}, end{0};  // 0 = free
  std::atomic<bool> is_broken{false};
  GuardedMapping* next = nullptr;
};

namespace {

constexpr uint64_t kPage = 4096;

std::mutex guard_mutex;
std::atomic<GuardedMapping*> mappings{nullptr};
uint32_t guarded = 0;

// What was in force before our handler. Two, so that one is whole at any time.
struct sigaction before[2];
std::atomic<uint32_t> current{0};
std::atomic<bool> has_passed_on{false};  // since our handler was set

// A signal that is not for us. What was there before takes its place again, and the access is repeated under it, or the signal sent again: so it runs
// exactly as if we had never been there. The next read sets ours again.
void PassOn(int signal, siginfo_t* info) {
  struct sigaction action = before[current.load(kAcquire)];
  // Once already, and it came back: whoever was set after us takes us for the one before him.
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
    // All of it: what is left of the file is not worth a signal a page.
    is_ours = mmap(reinterpret_cast<void*>(begin), end - begin, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
              MAP_FAILED;
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
  one->end.store((begin + bytes + kPage - 1) / kPage * kPage, kRelaxed);
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
    case S_IFLNK: return "a symbolic link";
    case S_IFDIR: return "a directory";
    case S_IFIFO: return "a pipe";
    case S_IFSOCK: return "a socket";
    default: return "a device";
  }
}

}  // namespace

ReadGuard::ReadGuard(const SegmentFile* file) : is_set_(file != nullptr) {
  if (!is_set_) return;
  {
    const std::lock_guard lock(guard_mutex);
    SetHandler();  // another may have been set since
  }
  sigset_t bus;  // one that is blocked ends the process, whatever the handler
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
  if (!S_ISREG(info.st_mode)) return Status(Code::kCorrupt, path + " is not a pfs segment: it is " + KindOfFile(info.st_mode) + ", not a plain file");
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return Status(errno == ENOENT ? Code::kNotFound : Code::kIo, Reason("cannot open", path, errno));
  std::unique_ptr<SegmentFile> opened(new SegmentFile);
  opened->path_ = path;
  opened->fd_ = fd;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) < kHeaderRoom) {
    return Status(Code::kCorrupt, path + " is not a pfs segment: too short or not a plain file");
  }
  opened->device_ = info.st_dev;
  opened->inode_ = info.st_ino;
  const auto bytes = static_cast<size_t>(info.st_size);
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (mapped == MAP_FAILED) return Status(Code::kIo, Reason("cannot map", path, errno));
  opened->base_ = static_cast<const char*>(mapped);
  opened->bytes_ = bytes;
  opened->guard_ = Guard(mapped, bytes);
  const ReadGuard reading(opened.get());
  if (Status bad = opened->CheckHeader(); !bad.ok()) return bad;
  if (Status bad = opened->Check(); !bad.ok()) return bad;
  *file = std::move(opened);
  return {};
}

SegmentFile::~SegmentFile() {
  if (guard_ != nullptr) Unguard(guard_);
  if (base_ != nullptr) munmap(const_cast<char*>(base_), bytes_);
  if (fd_ >= 0 && IsStillOurs()) close(fd_);
}

Status SegmentFile::CheckHeader() const {
  const auto* head = reinterpret_cast<const ShmHeader*>(base_);
  const auto corrupt = [&](const std::string& wrong) { return Status(Code::kCorrupt, path_ + wrong); };
  if (__atomic_load_n(&head->magic, __ATOMIC_ACQUIRE) != kSegmentMagic) {  // pairs with Start
    return corrupt(" is not a pfs segment: its first bytes are wrong, or it is still being made");
  }
  if (head->endian_mark != kEndianMark || head->word_bytes != sizeof(void*)) return corrupt(" was written by a machine of another kind");
  const uint32_t major = head->layout_major, minor = head->layout_minor;
  if (major != kLayoutMajor) {
    return corrupt(" was written with layout " + std::to_string(major) + "." + std::to_string(minor) + ", and this library reads layout " +
                   std::to_string(kLayoutMajor) + ".x: read it with " + (major < kLayoutMajor ? "an older" : "a newer") + " version of pfs");
  }
  if (head->segment_bytes > bytes_) return corrupt(" is cut short");
  if (head->header_bytes < kHeaderRoom || head->header_bytes > bytes_ || (minor >= kLayoutMinor && head->array_count < kArrayCount)) {
    return corrupt(" has a header that is not of layout " + std::to_string(major) + "." + std::to_string(minor));
  }
  return {};
}

Status SegmentFile::Check() const {
  if (!guard_->is_broken.load(kAcquire)) return {};
  return Status(Code::kCorrupt, path_ + " was cut short while it was mapped, or its file system is full: nothing of it can be read any more");
}

// The program may have closed our descriptor and opened something else: that is not to be touched.
bool SegmentFile::IsStillOurs() const {
  struct stat info;
  return fstat(fd_, &info) == 0 && info.st_dev == device_ && info.st_ino == inode_;
}

ByteRun SegmentFile::RunAt(uint64_t offset, uint64_t wanted) const {
  if (offset >= bytes_) return {offset, ~uint64_t{0}, false};
  wanted = std::min(wanted, bytes_ - offset);
  const std::lock_guard lock(mutex_);
  auto run = runs_.upper_bound(offset);
  const bool is_known = run != runs_.begin() && std::prev(run)->second > offset;
  if (is_known && std::prev(run)->second - offset >= wanted) return {std::prev(run)->first, std::prev(run)->second, true};
  if (fd_ < 0 || !IsStillOurs()) return {0, bytes_, true};  // cannot be asked: the guard is what is left
  const uint64_t from = is_known ? std::prev(run)->second : offset / kPage * kPage;
  const off_t data = lseek(fd_, static_cast<off_t>(from), SEEK_DATA);
  if (data < 0 && errno != ENXIO) return {0, bytes_, true};  // a file system that does not know
  if (data < 0 || static_cast<uint64_t>(data) > from) {
    if (is_known) return {std::prev(run)->first, from, true};
    return {from, data < 0 ? ~uint64_t{0} : static_cast<uint64_t>(data), false};
  }
  const off_t hole = lseek(fd_, static_cast<off_t>(from), SEEK_HOLE);
  uint64_t begin = is_known ? std::prev(run)->first : from;
  uint64_t end = hole < 0 ? bytes_ : std::min<uint64_t>(static_cast<uint64_t>(hole), bytes_);
  // One with what it meets.
  run = runs_.lower_bound(begin);
  if (run != runs_.begin() && std::prev(run)->second >= begin) begin = (--run)->first;
  while (run != runs_.end() && run->first <= end) {
    end = std::max(end, run->second);
    run = runs_.erase(run);
  }
  runs_.emplace(begin, end);
  return {begin, end, true};
}

}  // namespace perfschema
