// The operating system as leveldb sees it (leveldb/env.h), every call through pfs: files by what they are for, threads, the clock.
//
// Tables are read with pread, so that every block that is not cached is an event. SHIM_MMAP=1 in the environment maps them instead, as
// leveldb's own Env does: to compare with it.
// At the end of the process one line on stderr says what the benchmark's own threads took: "shim: wall NS cpu NS", the processor time of the
// whole process meanwhile.
#include "leveldb/env.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "leveldb/slice.h"
#include "leveldb/status.h"
#include "port/port.h"

namespace leveldb {
namespace {

uint64_t NowOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// ---- Names -----------------------------------------------------------------------------------------------------------------------

pfs_key_t key_log, key_table, key_manifest, key_current, key_info_log, key_lock, key_directory, key_other;
pfs_file_info_t files[] = {
    {&key_log, "log", 0, "Writes that no table has yet."},
    {&key_table, "table", 0, "Sorted tables."},
    {&key_manifest, "manifest", 0, "Which tables there are."},
    {&key_current, "current", 0, "Which manifest is the valid one."},
    {&key_info_log, "info_log", 0, "Messages for people."},
    {&key_lock, "lock", 0, "Keeps other processes out."},
    {&key_directory, "directory", 0, "The folder itself."},
    {&key_other, "other", 0, "Anything else."},
};
pfs_key_t key_background, key_benchmark;
pfs_thread_info_t threads[] = {
    {&key_background, "background", 0, "Compacts."},
    {&key_benchmark, "benchmark", 0, "Runs a workload."},
};

void Register() {
  static const bool once = [] {
    pfs_register_file("leveldb", files, static_cast<int>(std::size(files)));
    pfs_register_thread("leveldb", threads, static_cast<int>(std::size(threads)));
    return true;
  }();
  static_cast<void>(once);
}

std::string_view BaseOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool EndsWith(std::string_view name, std::string_view end) {
  return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
}

// By name: keys are all 0 with PFS_DISABLE.
bool IsManifest(std::string_view path) { return BaseOf(path).substr(0, 8) == "MANIFEST"; }

pfs_key_t KeyOf(const std::string& path) {
  const std::string_view name = BaseOf(path);
  if (EndsWith(name, ".log")) return key_log;
  if (EndsWith(name, ".ldb") || EndsWith(name, ".sst")) return key_table;
  if (IsManifest(path)) return key_manifest;
  if (name == "CURRENT" || EndsWith(name, ".dbtmp")) return key_current;
  if (name == "LOG" || name == "LOG.old") return key_info_log;
  if (name == "LOCK") return key_lock;
  return key_other;
}

Status Failed(const std::string& path) {
  const int error = errno;
  return error == ENOENT ? Status::NotFound(path, std::strerror(error)) : Status::IOError(path, std::strerror(error));
}

Status Checked(const std::string& path, bool good) { return good ? Status::OK() : Failed(path); }

// ---- Files -----------------------------------------------------------------------------------------------------------------------

class Descriptor {
 public:
  Descriptor(std::string path, int flags) : path_(std::move(path)), fd_(pfs_open(KeyOf(path_), path_.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool good() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }
  bool Close() { return fd_ < 0 || pfs_close(std::exchange(fd_, -1)) == 0; }

 private:
  const std::string path_;
  int fd_;
};

class Sequential final : public SequentialFile {
 public:
  explicit Sequential(const std::string& path) : file_(path, O_RDONLY) {}
  bool good() const { return file_.good(); }

  Status Read(size_t n, Slice* result, char* scratch) override {
    ssize_t got;
    do {
      got = pfs_read(file_.fd(), scratch, n);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return Failed(file_.path());
    *result = Slice(scratch, static_cast<size_t>(got));
    return Status::OK();
  }
  Status Skip(uint64_t n) override {
    return Checked(file_.path(), pfs_lseek(file_.fd(), static_cast<off_t>(n), SEEK_CUR) >= 0);
  }

 private:
  Descriptor file_;
};

class RandomAccess final : public RandomAccessFile {
 public:
  explicit RandomAccess(const std::string& path) : file_(path, O_RDONLY) {}
  bool good() const { return file_.good(); }

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    const ssize_t got = pfs_pread(file_.fd(), scratch, n, static_cast<off_t>(offset));
    *result = Slice(scratch, got < 0 ? 0 : static_cast<size_t>(got));
    return got < 0 ? Failed(file_.path()) : Status::OK();
  }

 private:
  Descriptor file_;
};

class Mapped final : public RandomAccessFile {
 public:
  explicit Mapped(const std::string& path) : path_(path) {
    Descriptor file(path, O_RDONLY);
    struct stat facts;
    if (!file.good() || pfs_fstat(file.fd(), &facts) != 0) return;
    size_ = static_cast<size_t>(facts.st_size);
    void* const where = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd(), 0);
    if (where != MAP_FAILED) bytes_ = static_cast<char*>(where);
  }
  ~Mapped() override {
    if (bytes_ != nullptr) munmap(bytes_, size_);
  }
  bool good() const { return bytes_ != nullptr; }

  Status Read(uint64_t offset, size_t n, Slice* result, char*) const override {
    if (n > size_ || offset > size_ - n) {
      *result = Slice();
      errno = EINVAL;
      return Failed(path_);
    }
    *result = Slice(bytes_ + offset, n);
    return Status::OK();
  }

 private:
  const std::string path_;
  char* bytes_ = nullptr;
  size_t size_ = 0;
};

class Writable final : public WritableFile {
 public:
  Writable(const std::string& path, int flags) : file_(path, O_WRONLY | O_CREAT | flags), room_(new char[kRoom]) {}
  ~Writable() override { Flush(); }
  bool good() const { return file_.good(); }

  Status Append(const Slice& data) override {
    if (data.size() > kRoom - used_) {
      const Status status = Flush();
      if (!status.ok()) return status;
      if (data.size() > kRoom) return Write(data.data(), data.size());
    }
    std::memcpy(room_.get() + used_, data.data(), data.size());
    used_ += data.size();
    return Status::OK();
  }
  Status Flush() override { return Write(room_.get(), std::exchange(used_, 0)); }
  Status Sync() override {
    Status status = Flush();
    // A manifest counts on the tables that it names being in their folder.
    if (status.ok() && IsManifest(file_.path())) status = SyncFolder();
    return status.ok() ? Checked(file_.path(), pfs_fdatasync(file_.fd()) == 0) : status;
  }
  Status Close() override {
    const Status status = Flush();
    return file_.Close() || !status.ok() ? status : Failed(file_.path());
  }

 private:
  static constexpr size_t kRoom = 65536;

  Status Write(const char* bytes, size_t size) {
    while (size > 0) {
      const ssize_t done = pfs_write(file_.fd(), bytes, size);
      if (done < 0 && errno != EINTR) return Failed(file_.path());
      if (done < 0) continue;
      bytes += done;
      size -= static_cast<size_t>(done);
    }
    return Status::OK();
  }
  Status SyncFolder() {
    const size_t slash = file_.path().rfind('/');
    const std::string folder = slash == std::string::npos ? "." : file_.path().substr(0, slash);
    const int fd = pfs_open(key_directory, folder.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return Failed(folder);
    const Status status = Checked(folder, pfs_fsync(fd) == 0);
    pfs_close(fd);
    return status;
  }

  Descriptor file_;
  const std::unique_ptr<char[]> room_;
  size_t used_ = 0;
};

class Messages final : public Logger {
 public:
  explicit Messages(const std::string& path) : stream_(pfs_fopen(KeyOf(path), path.c_str(), "w")) {}
  ~Messages() override {
    if (stream_ != nullptr) pfs_fclose(stream_);
  }
  bool good() const { return stream_ != nullptr; }

  void Logv(const char* format, va_list arguments) override {
    char text[2048];
    int used = std::snprintf(text, sizeof text, "%.6f ", static_cast<double>(NowOf(CLOCK_REALTIME)) * 1e-9);
    used += std::vsnprintf(text + used, sizeof text - static_cast<size_t>(used), format, arguments);
    size_t size = std::min(static_cast<size_t>(used), sizeof text - 2);
    if (size == 0 || text[size - 1] != '\n') text[size++] = '\n';
    pfs_fwrite(text, 1, size, stream_);
    pfs_fflush(stream_);
  }

 private:
  FILE* const stream_;
};

struct Held final : public FileLock {
  explicit Held(const std::string& path) : file(path, O_RDWR | O_CREAT) {}
  Descriptor file;
};

// ---- The Env ---------------------------------------------------------------------------------------------------------------------

// Ends of the benchmark's threads: from the first that starts until the last that ends.
class Stopwatch {
 public:
  void Start() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (running_++ == 0) {
      wall_ -= NowOf(CLOCK_MONOTONIC);
      cpu_ -= NowOf(CLOCK_PROCESS_CPUTIME_ID);
    }
  }
  void Stop() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (running_ > 0 && --running_ == 0) {
      cpu_ += NowOf(CLOCK_PROCESS_CPUTIME_ID);
      wall_ += NowOf(CLOCK_MONOTONIC);
    }
  }
  // The process may end between what a thread did last for the benchmark and its Stop().
  ~Stopwatch() {
    while (running() > 0) Stop();
    if (wall_ != 0) std::fprintf(stderr, "\nshim: wall %llu cpu %llu\n", static_cast<unsigned long long>(wall_), static_cast<unsigned long long>(cpu_));
  }

 private:
  int running() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return running_;
  }

  std::mutex mutex_;
  int running_ = 0;
  uint64_t wall_ = 0;
  uint64_t cpu_ = 0;
};
Stopwatch stopwatch;

struct Job {
  void (*function)(void*);
  void* argument;
};

void StartDetached(pfs_key_t key, void* (*start)(void*), void* argument) {
  pthread_t thread;
  const int error = pfs_thread_create(key, &thread, nullptr, start, argument);
  if (error != 0) {
    std::fprintf(stderr, "no thread: %s\n", std::strerror(error));
    std::abort();
  }
  pthread_detach(thread);
}

// Gives *result a new File if it could be opened.
template <class File, class Base, class... Arguments>
Status Opened(Base** result, const std::string& path, Arguments... arguments) {
  auto file = std::make_unique<File>(path, arguments...);
  const Status status = Checked(path, file->good());
  *result = status.ok() ? file.release() : nullptr;
  return status;
}

class RecordedEnv final : public Env {
 public:
  RecordedEnv() : work_arrives_(&mutex_) {}

  Status NewSequentialFile(const std::string& path, SequentialFile** result) override { return Opened<Sequential>(result, path); }
  Status NewRandomAccessFile(const std::string& path, RandomAccessFile** result) override {
    return mapped_ ? Opened<Mapped>(result, path) : Opened<RandomAccess>(result, path);
  }
  Status NewWritableFile(const std::string& path, WritableFile** result) override { return Opened<Writable>(result, path, O_TRUNC); }
  Status NewAppendableFile(const std::string& path, WritableFile** result) override { return Opened<Writable>(result, path, O_APPEND); }
  Status NewLogger(const std::string& path, Logger** result) override { return Opened<Messages>(result, path); }

  bool FileExists(const std::string& path) override { return access(path.c_str(), F_OK) == 0; }
  Status GetChildren(const std::string& folder, std::vector<std::string>* result) override {
    result->clear();
    DIR* const entries = opendir(folder.c_str());
    if (entries == nullptr) return Failed(folder);
    while (const dirent* entry = readdir(entries)) result->emplace_back(entry->d_name);
    closedir(entries);
    return Status::OK();
  }
  Status RemoveFile(const std::string& path) override { return Checked(path, pfs_unlink(KeyOf(path), path.c_str()) == 0); }
  Status CreateDir(const std::string& path) override { return Checked(path, pfs_mkdir(key_directory, path.c_str(), 0755) == 0); }
  Status RemoveDir(const std::string& path) override { return Checked(path, pfs_rmdir(key_directory, path.c_str()) == 0); }
  Status GetFileSize(const std::string& path, uint64_t* size) override {
    struct stat facts;
    const Status status = Checked(path, pfs_stat(KeyOf(path), path.c_str(), &facts) == 0);
    *size = status.ok() ? static_cast<uint64_t>(facts.st_size) : 0;
    return status;
  }
  Status RenameFile(const std::string& from, const std::string& to) override {
    return Checked(from, pfs_rename(KeyOf(from), from.c_str(), to.c_str()) == 0);
  }

  // The system's lock is one of the process: the set keeps out those of this process.
  Status LockFile(const std::string& path, FileLock** result) override {
    *result = nullptr;
    const std::lock_guard<std::mutex> guard(locked_mutex_);
    if (locked_.count(path) != 0) return Status::IOError(path, "locked by this process");
    auto held = std::make_unique<Held>(path);
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (!held->file.good() || fcntl(held->file.fd(), F_SETLK, &whole) != 0) return Failed(path);
    locked_.insert(path);
    *result = held.release();
    return Status::OK();
  }
  Status UnlockFile(FileLock* lock) override {
    const std::unique_ptr<Held> held(static_cast<Held*>(lock));
    const std::lock_guard<std::mutex> guard(locked_mutex_);
    locked_.erase(held->file.path());
    return Status::OK();
  }

  void Schedule(void (*function)(void*), void* argument) override {
    mutex_.Lock();
    if (!started_) {
      started_ = true;
      StartDetached(key_background, Background, this);
    }
    jobs_.push_back({function, argument});
    work_arrives_.Signal();
    mutex_.Unlock();
  }
  void StartThread(void (*function)(void*), void* argument) override {
    stopwatch.Start();
    StartDetached(key_benchmark, Foreground, new Job{function, argument});
  }

  Status GetTestDirectory(std::string* path) override {
    const char* const folder = std::getenv("TMPDIR");
    *path = folder != nullptr ? folder : "/tmp";
    return Status::OK();
  }
  uint64_t NowMicros() override { return NowOf(CLOCK_REALTIME) / 1000; }
  void SleepForMicroseconds(int micros) override { usleep(static_cast<useconds_t>(micros)); }

 private:
  static void* Background(void* env) {
    static_cast<RecordedEnv*>(env)->Work();
    return nullptr;
  }
  static void* Foreground(void* argument) {
    const std::unique_ptr<Job> job(static_cast<Job*>(argument));
    job->function(job->argument);
    stopwatch.Stop();
    return nullptr;
  }
  [[noreturn]] void Work() {
    for (;;) {
      mutex_.Lock();
      while (jobs_.empty()) work_arrives_.Wait();
      const Job job = jobs_.front();
      jobs_.pop_front();
      mutex_.Unlock();
      job.function(job.argument);
    }
  }

  port::Mutex mutex_;
  port::CondVar work_arrives_;
  std::deque<Job> jobs_;
  bool started_ = false;
  const bool mapped_ = std::getenv("SHIM_MMAP") != nullptr;
  std::mutex locked_mutex_;
  std::set<std::string> locked_;
};

}  // namespace

Env* Env::Default() {
  // Never destroyed: its thread may still work when the process ends.
  static Env* const env = (Register(), new RecordedEnv);
  return env;
}

namespace port {
namespace {

// Few: the files of leveldb that make mutexes.
struct Origins {
  std::mutex mutex;
  std::deque<Origin> all;
  ~Origins() {
#ifdef SHIM_COUNT
    for (const Origin& one : all) {
      std::fprintf(stderr, "shim: count %s locks %llu waits %llu\n", one.name.c_str(), static_cast<unsigned long long>(one.locks),
                   static_cast<unsigned long long>(one.waits));
    }
#endif
  }
};

}  // namespace

Origin* OriginOf(const char* file) {
  static Origins origins;
  const std::lock_guard<std::mutex> guard(origins.mutex);
  std::string name(BaseOf(file));
  name = name.substr(0, name.find('.'));
  for (Origin& one : origins.all) {
    if (one.name == name) return &one;
  }
  Origin& made = origins.all.emplace_back();
  made.file = file;
  made.name = name;
  pfs_mutex_info_t mutex = {&made.mutex, made.name.c_str(), 0, "Mutexes that this file makes."};
  pfs_cond_info_t cond = {&made.cond, made.name.c_str(), 0, "Conditions of its mutexes."};
  pfs_register_mutex("leveldb", &mutex, 1);
  pfs_register_cond("leveldb", &cond, 1);
  return &made;
}

}  // namespace port
}  // namespace leveldb
