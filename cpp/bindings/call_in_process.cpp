#include "call_in_process.h"

#if defined(__x86_64__)

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "carrier.h"
#include "other_process.h"
#include "snapshot/kernel_threads.h"

// What the new thread runs, in the rest of a page of the C library's code. %rdi: the Mail. It waits for three seconds at most. It runs
// dlopen(), dlsym() and the function, and then tells the result. A program without dlerror() gets libdl, which the library needs, first.
asm(R"(
.pushsection .rodata
.globl pfs_helper_begin, pfs_helper_end
.hidden pfs_helper_begin, pfs_helper_end
pfs_helper_begin:
  push %rbx
  push %rbp
  sub $16392, %rsp
  mov %rdi, %rbx
  mov %fs:0x10, %rdi
  call *24(%rbx)
  mov $186, %eax
  syscall
  mov %rax, 72(%rbx)
  mov %rsp, 48(%rbx)
  cmpq $0, 32(%rbx)
  jne 1f
  mov $319, %eax
  lea 9f(%rip), %rdi
  mov $1, %esi
  syscall
  mov %rax, 56(%rbx)
1:
  movq $1, 40(%rbx)
  mov $3000, %ebp
2:
  cmpq $2, 40(%rbx)
  je 3f
  mov $7, %eax
  xor %edi, %edi
  xor %esi, %esi
  mov $1, %edx
  syscall
  dec %ebp
  jnz 2b
  mov $1, %eax
  mov $3, %ecx
  lock cmpxchg %rcx, 40(%rbx)
  jne 3f
  mov $3, %ebp
  jmp 6f
3:
  mov 32(%rbx), %rax
  test %rax, %rax
  jne 4f
  cmpq $0, 80(%rbx)
  jne 8f
  lea 10f(%rip), %rdi
  mov 88(%rbx), %esi
  call *8(%rbx)
8:
  mov %rsp, %rdi
  mov 88(%rbx), %esi
  call *8(%rbx)
  test %rax, %rax
  je 5f
  mov %rax, %rdi
  lea 64(%rsp), %rsi
  call *16(%rbx)
  test %rax, %rax
  je 5f
4:
  lea 128(%rsp), %rdi
  call *%rax
  cltq
  mov %rax, 64(%rbx)
  mov $4, %ebp
  jmp 6f
5:
  mov 80(%rbx), %rax
  test %rax, %rax
  je 8f
  call *%rax
8:
  mov %rax, 64(%rbx)
  movq $5, 40(%rbx)
  mov $7, %eax
  xor %edi, %edi
  xor %esi, %esi
  mov $200, %edx
  syscall
  mov $6, %ebp
6:
  cmpq $0, 32(%rbx)
  jne 7f
  mov 56(%rbx), %edi
  mov $3, %eax
  syscall
7:
  mov %rbp, 40(%rbx)
  add $16392, %rsp
  pop %rbp
  pop %rbx
  xor %eax, %eax
  ret
9:
  .string "pfs"
10:
  .string "libdl.so.2"
pfs_helper_end:
.popsection
)");
extern "C" const char pfs_helper_begin[] __attribute__((visibility("hidden")));
extern "C" const char pfs_helper_end[] __attribute__((visibility("hidden")));

namespace perfschema::bindings {
namespace {

using Clock = std::chrono::steady_clock;

// Is what the two sides write to each other, in the rest of a page of the C library's variables.
struct Mail {
  static constexpr uint64_t kMagic = 0x6a6f696e2d706673;
  enum State : uint64_t { kNone, kWaits, kTold, kGaveUp, kDone, kFailed, kFailedAndEnded };
  uint64_t magic, open, search, detach, function, state, scratch, descriptor, result, thread, error, mode;
  uint64_t was_alone;  // it had never had another thread before that of the first join
};
static_assert(offsetof(Mail, function) == 32 && offsetof(Mail, state) == 40 && offsetof(Mail, error) == 80 && offsetof(Mail, mode) == 88);
// Parts of that scratch memory: the path, the name of the function, its argument.
constexpr uint64_t kNamePlace = 64, kTextPlace = 128, kScratchBytes = 16384;

constexpr uint64_t kMostSpan = uint64_t{1} << 32;  // of an object

// A text of the process, which may be sent to a terminal.
std::string Printable(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }, '?');
  return text;
}

Status Refused(const std::string& why) { return {Code::kNotAllowed, why}; }

void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

std::string FolderOf(pid_t pid) { return "/proc/" + std::to_string(pid); }

// Returns the user to whom the files of a process belong.
uid_t UserOf(pid_t pid) {
  unsigned user = ~0u;
  const std::string status = TextInProc(static_cast<uint64_t>(pid), static_cast<uint64_t>(pid), "status");
  if (const size_t at = status.find("\nUid:"); at != std::string::npos) std::sscanf(status.c_str() + at, " Uid: %*u %*u %*u %u", &user);
  return user;
}

// Keeps other joiners out.
class OneJoiner {
 public:
  explicit OneJoiner(pid_t pid) : fd_(open(FolderOf(pid).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    is_alone = fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0;
  }
  ~OneJoiner() {
    if (fd_ >= 0) close(fd_);
  }
  OneJoiner(const OneJoiner&) = delete;
  OneJoiner& operator=(const OneJoiner&) = delete;
  bool is_alone;

 private:
  const int fd_;
};

// The process as it is judged, and what is needed of it.
class Target {
 public:
  explicit Target(const CallInProcess& wanted) : wanted_(wanted), memory_(wanted.pid) {}

  Status Look();
  // Returns whether it has the mappings that it had then. It may have unloaded a library meanwhile.
  bool IsAsSeen() const { return memory_.Ranges() == ranges_; }
  Status CallThere(CallResult* result);

 private:
  std::string PathOf(uint64_t what) const;
  Status FindCLibrary();
  Status FindPlaces();
  Status Hand();
  int OpenMemory(const std::string& path) const;
  Status Await(CallResult* result);
  void ForgetThread(const Carried& carried) const;
  bool IsFree(const Mail& mail) const;
  uint64_t state() const { return memory_.Get<uint64_t>(mail_at_ + offsetof(Mail, state)); }

  const CallInProcess& wanted_;
  const ProcessMemory memory_;
  std::vector<MappedRange> ranges_;
  std::vector<MappedObject> objects_;
  const MappedObject* c_library_ = nullptr;
  Mail mail_{};
  std::vector<uint64_t> single_threaded_;
  uint64_t create_ = 0, code_at_ = 0, mail_at_ = 0, restorer_ = 0;
  UnsafeCode unsafe_;
};

bool IsNamed(const std::string& path, std::string_view name) {
  const std::string_view file = std::string_view(path).substr(path.rfind('/') + 1);
  return file.starts_with(name);
}

Status Target::Look() {
  if (!memory_.is_open()) return Refused(std::string("the system does not let this user trace it: ") + std::strerror(errno));
  ranges_ = memory_.Ranges();
  if (ranges_.empty()) return Refused("it has ended, or has more mappings than pfs reads");
  const auto is_code = [&](const MappedObject& object) {  // else a file that the program reads
    return std::ranges::any_of(ranges_, [&](const MappedRange& range) {
      return range.path == object.path && range.protection[2] == 'x' && range.begin - object.parts[0].begin < kMostSpan;
    });
  };
  ReadingLimits limits;
  for (const MappedRange& range : ranges_) {
    const bool is_first = range.offset == 0 && !range.path.empty() && (range.path[0] == '/' || range.path.starts_with("[vdso]"));
    if (!is_first || range.path.starts_with("/dev/") || range.protection[0] != 'r') continue;
    MappedObject object(memory_, range, limits);
    if (object.is_damaged && is_code(object)) return Refused(Printable(object.path) + " has a damaged table of functions in its memory");
    if (!object.is_valid) continue;
    if (limits.objects-- == 0) return Refused("it has more libraries than pfs reads");
    objects_.push_back(std::move(object));
  }
  for (const MappedObject& object : objects_) {
    for (const char* const name : {"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init"}) {
      if (object.Find(name) != nullptr) return Refused("it was built with a sanitizer, whose library must be loaded first");
    }
  }
  if (Status bad = FindCLibrary(); !bad.ok()) return bad;
  for (const MappedObject& object : objects_) {
    const ExportedSymbol* const function = object.Find(wanted_.function);
    if (function != nullptr) mail_.function = function->begin;
    const bool is_allocator = &object != c_library_ && !IsNamed(object.path, "ld-") && object.Find("malloc") != nullptr;
    if (is_allocator && &object == &objects_[0]) return Refused("its allocator is a part of the program, which has no safe point then");
    if (is_allocator || IsNamed(object.path, "ld-")) unsafe_.AddObject(memory_, object);
  }
  if (!unsafe_.is_complete()) return Refused("its C library or its allocator is larger than pfs reads, or damaged");
  return FindPlaces();
}

// Finds the functions that are to be called. Before glibc 2.34 they are in three libraries, of which a program has the first, and threads
// need the second. A function of the first opens the third where it is absent, and says nothing of errors.
Status Target::FindCLibrary() {
  const MappedObject *threads = nullptr, *loader = nullptr;
  for (const MappedObject& object : objects_) {
    const auto is = [&](const char* name, const char* old_name) { return IsNamed(object.path, name) || IsNamed(object.path, old_name); };
    if (c_library_ == nullptr && is("libc.so.6", "libc-2.")) c_library_ = &object;
    if (threads == nullptr && is("libpthread.so.0", "libpthread-2.")) threads = &object;
    if (loader == nullptr && is("libdl.so.2", "libdl-2.")) loader = &object;
  }
  if (c_library_ == nullptr) return Refused("it has no glibc: it is static, or a program of Go or musl");
  const auto find_in = [](const MappedObject* object, const char* name) {
    const ExportedSymbol* const found = object != nullptr ? object->Find(name) : nullptr;
    return found != nullptr ? found->begin : 0;
  };
  const bool is_one = find_in(c_library_, "pthread_create") != 0;
  if (is_one || find_in(loader, "dlopen") == 0) loader = c_library_;
  if (is_one) threads = c_library_;
  constexpr uint64_t kNow = 2, kOpenedByCall = 0x80000000;  // RTLD_NOW, __RTLD_DLOPEN
  mail_.magic = Mail::kMagic;
  mail_.open = find_in(loader, "dlopen");
  mail_.search = find_in(loader, "dlsym");
  mail_.error = find_in(loader, "dlerror");
  mail_.mode = kNow;
  if (mail_.open == 0) {
    mail_.open = find_in(loader, "__libc_dlopen_mode");
    mail_.search = find_in(loader, "__libc_dlsym");
    mail_.mode = kNow | kOpenedByCall;
  }
  mail_.detach = find_in(threads, "pthread_detach");
  create_ = find_in(threads, "pthread_create");
  if (mail_.open == 0 || mail_.search == 0) return Refused("its C library cannot load another one");
  if (mail_.detach == 0 || create_ == 0) return Refused("its glibc is older than 2.34, and it has no libpthread: it can make no thread");
  unsafe_.AddCLibrary(memory_, *c_library_);
  if (threads != c_library_) unsafe_.AddCLibrary(memory_, *threads);
  if (loader != c_library_) unsafe_.AddObject(memory_, *loader);
  for (const MappedObject* const object : {c_library_, std::as_const(objects_).data()}) {
    if (object->single_threaded != 0) single_threaded_.push_back(object->single_threaded);  // a program may have a copy
  }
  mail_.was_alone = !single_threaded_.empty() && memory_.Get<uint8_t>(single_threaded_[0]) == 1;
  return {};
}

// Finds the rest of a page of code, and of one of variables.
Status Target::FindPlaces() {
  constexpr uint64_t kPage = 4096;
  const std::string code(pfs_helper_begin, pfs_helper_end);
  const auto look = [&](const MappedObject& object) {
    for (const MappedObject::Part& part : object.parts) {
      const uint64_t begin = (part.end + 15) & -uint64_t{16}, left = ((part.end + kPage - 1) & -kPage) - begin;
      const bool is_code = (part.flags & PF_X) != 0, is_data = (part.flags & PF_W) != 0;
      if (is_code && code_at_ == 0 && left >= code.size()) {
        std::string there(code.size(), 'x');
        const bool is_free =
            memory_.Read(begin, there.data(), there.size()) && (there == code || there.find_first_not_of('\0') == std::string::npos);
        if (is_free) code_at_ = begin;
      }
      if (is_data && mail_at_ == 0 && left >= sizeof(Mail)) {
        Mail there{};
        constexpr Mail kEmpty{};
        const bool is_free =
            memory_.Read(begin, &there, sizeof there) && (std::memcmp(&there, &kEmpty, sizeof there) == 0 || there.magic == Mail::kMagic);
        if (is_free) mail_at_ = begin;
        if (is_free && there.magic == Mail::kMagic) mail_.was_alone |= there.was_alone;
      }
    }
  };
  look(*c_library_);
  look(objects_[0]);
  for (const MappedObject& object : objects_) {
    if (!IsNamed(object.path, "ld-")) look(object);
  }
  restorer_ = unsafe_.restorer();
  if (code_at_ == 0 || mail_at_ == 0 || restorer_ == 0) return Refused("there is no space for a call in the C library that it has");
  if (!IsFree(memory_.Get<Mail>(mail_at_))) return {Code::kState, "another pfs is about to join it"};
  return {};
}

// Returns whether nobody waits for this mail: a joiner may have died.
bool Target::IsFree(const Mail& mail) const {
  if (mail.magic != Mail::kMagic || (mail.state != Mail::kWaits && mail.state != Mail::kTold)) return true;
  return access((FolderOf(wanted_.pid) + "/task/" + std::to_string(mail.thread)).c_str(), F_OK) != 0;
}

Status Target::CallThere(CallResult* result) {
  const std::string code(pfs_helper_begin, pfs_helper_end);
  if (!memory_.Write(mail_at_, &mail_, sizeof mail_) || !memory_.Write(code_at_, code.data(), code.size())) {
    return Refused("the system does not let this user write to its memory");
  }
  const bool was_alone = mail_.was_alone != 0 && ThreadsInProc(static_cast<uint64_t>(wanted_.pid)).size() == 1;
  CallFrames frames(memory_, objects_);
  const Carried carried{memory_, wanted_.pid, create_, restorer_, code_at_, mail_at_, unsafe_, frames, wanted_.checks_thread};
  if (Status bad = Carry(carried, wanted_.seconds, &result->stopped_seconds); !bad.ok()) return bad;
  const Status status = Await(result);
  if (was_alone) ForgetThread(carried);
  return status;
}

// Lets a program of one thread lock as before: glibc does so with atomic instructions once there was another thread.
void Target::ForgetThread(const Carried& carried) const {
  constexpr int kMostNaps = 500;
  for (int naps = 0; naps < kMostNaps && ThreadsInProc(static_cast<uint64_t>(wanted_.pid)).size() > 1; ++naps) Nap();
  (void)WriteIfAlone(carried, single_threaded_, wanted_.seconds / 4);
}

// Opens what the process says is the memory for the library. It may say any number: of a file that it may only read, and that this process
// may write.
int Target::OpenMemory(const std::string& path) const {
  constexpr long kMemory = 0x01021994;  // TMPFS_MAGIC
  const int place = open((FolderOf(wanted_.pid) + path).c_str(), O_PATH | O_CLOEXEC);
  if (place < 0) return -1;
  struct stat info {};
  struct statfs system {};
  const bool is_it = fstat(place, &info) == 0 && fstatfs(place, &system) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0 &&
                     info.st_size == 0 && info.st_uid == UserOf(wanted_.pid) && system.f_type == kMemory;
  const int opened = is_it ? open((FolderOf(getpid()) + "/fd/" + std::to_string(place)).c_str(), O_WRONLY | O_CLOEXEC) : -1;
  close(place);
  if (!is_it) errno = EBADF;
  return opened;
}

// Gives the thread what it waits for.
Status Target::Hand() {
  const auto mail = memory_.Get<Mail>(mail_at_);
  std::string scratch(kTextPlace, '\0');
  if (mail_.function == 0) {
    const auto number = static_cast<int64_t>(mail.descriptor);
    if (number < 0) return Refused(std::string("memfd_create() fails there: ") + std::strerror(static_cast<int>(-number)));
    const std::string path = "/fd/" + std::to_string(number);
    const int from = open(wanted_.library.c_str(), O_RDONLY | O_CLOEXEC);
    const int to = OpenMemory(path);
    struct stat info {};
    bool is_copied = from >= 0 && to >= 0 && fstat(from, &info) == 0;
    for (off_t left = info.st_size; is_copied && left > 0;) {
      char part[65536];
      const ssize_t got = read(from, part, sizeof part);
      is_copied = got > 0 && write(to, part, static_cast<size_t>(got)) == got;
      left -= got;
    }
    const int error = errno;
    if (from >= 0) close(from);
    if (to >= 0) close(to);
    if (!is_copied) return Refused(std::string("the library cannot be copied there: ") + std::strerror(error));
    scratch.replace(0, path.size() + 10, "/proc/self" + path);
    scratch.replace(kNamePlace, wanted_.function.size(), wanted_.function);
  }
  scratch += wanted_.text + '\0';
  constexpr uint64_t kTold = Mail::kTold;
  if (scratch.size() > kScratchBytes || !memory_.Write(mail.scratch, scratch.data(), scratch.size()) ||
      !memory_.Write(mail_at_ + offsetof(Mail, state), &kTold, sizeof kTold)) {
    return Refused("the system does not let this user write to its memory");
  }
  return {};
}

Status Target::Await(CallResult* result) {
  const auto end = Clock::now() + std::chrono::seconds(30);
  const auto begin_by = Clock::now() + std::chrono::seconds(15);  // a starved program takes long to make the thread
  bool is_told = false;
  for (uint64_t now = state(); Clock::now() < end; now = state()) {
    if (memory_.Get<uint64_t>(mail_at_) != Mail::kMagic) return Refused("it has ended");
    if (now == Mail::kWaits && !is_told) {
      if (Status bad = Hand(); !bad.ok()) return bad;
      is_told = true;
    } else if (now == Mail::kDone) {
      result->rc = static_cast<int>(memory_.Get<int64_t>(mail_at_ + offsetof(Mail, result)));
      return {};
    } else if (now == Mail::kFailed) {
      char text[256] = "it has no libdl that says why";
      if (mail_.error != 0) (void)memory_.Read(memory_.Get<uint64_t>(mail_at_ + offsetof(Mail, result)), text, sizeof text - 1);
      return Refused("its dynamic linker refuses: " + Printable(text));
    } else if (now == Mail::kGaveUp || now == Mail::kFailedAndEnded) {
      return {Code::kState, "this process was too slow for the thread that was to record it: not now"};
    } else if (now == Mail::kNone && Clock::now() > begin_by) {
      return {Code::kState, "it cannot make one more thread, or does not run: not now"};
    }
    Nap();
  }
  return {Code::kState, "its dynamic linker has been busy for 30 s: the recording begins when that ends"};
}

}  // namespace

Status Call(const CallInProcess& wanted, CallResult* result) {
  const OneJoiner one(wanted.pid);
  if (!one.is_alone) return errno == EWOULDBLOCK ? Status(Code::kState, "another pfs is about to join it") : Refused(std::strerror(errno));
  for (int tries = 1;; ++tries) {
    Target target(wanted);
    const Status status = target.Look();
    if (status.ok()) return wanted.is_dry ? status : target.CallThere(result);
    if (tries == 3 || target.IsAsSeen()) return status;
  }
}

}  // namespace perfschema::bindings

#else

namespace perfschema::bindings {

Status Call(const CallInProcess&, CallResult*) { return {Code::kNotAllowed, "pfs joins programs on x86-64 only"}; }

}  // namespace perfschema::bindings

#endif
