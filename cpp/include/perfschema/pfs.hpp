// perfschema/pfs.hpp: C++17 classes on top of pfs.h. Header-only.
//
//     perfschema::mutex queue{"myapp/LOCK_queue"};
//     { std::lock_guard guard{queue}; ... }
//     perfschema::file log{"myapp/log", path, O_RDONLY};
//     std::vector<perfschema::mutex> many(1000);                  named wait/synch/mutex/PROGRAM/mutex; base.hpp names them otherwise
//
// Names are "component/name"; the family comes from the class. A name without '/' gets the program's name as its component. If a name
// breaks the rules (convention 5 of pfs.h), a table is full or pfs is off, the object works and is not instrumented. The first refused name
// is reported on stderr.
//
// SOURCE is the line that calls lock(), read() ...: __builtin_FILE() and __builtin_LINE() as default arguments. std::lock_guard,
// unique_lock, scoped_lock of one mutex and shared_lock show the line of the guard, too (std_guards.hpp).
//
// The classes compile without exceptions and without RTTI. Where they would throw, a program without exceptions is aborted.
//
// Threads: many threads may use a mutex or condition; all other objects are for one thread at a time. With PFS_DISABLE all calls are
// plain calls, and the classes are in another inline namespace: files compiled either way may be linked.
#ifndef PERFSCHEMA_PFS_HPP
#define PERFSCHEMA_PFS_HPP

#if __cplusplus < 201703L
#error "the C++ classes of perfschema need C++17: -std=c++17"
#endif

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "perfschema/mutex.hpp"

// Throws in a program with exceptions, and aborts any other.
#ifdef __cpp_exceptions
#define PFS_THROW_(...) throw __VA_ARGS__
#else
#define PFS_THROW_(...) std::abort()
#endif

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

// Is thrown by set_account() and similar functions. what() is pfs_last_error().
class error : public std::runtime_error {
 public:
  error(int code, const char* message) : std::runtime_error(message), code_(code) {}
  int code() const noexcept { return code_; }  // PFS_E_...

 private:
  int code_;
};

namespace detail {

inline void check_pfs(int code) {
  if (code != PFS_OK) PFS_THROW_(error(code, pfs_last_error()));
}

template <class Duration>
timespec to_timespec(Duration since_epoch) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const auto rest = std::chrono::ceil<std::chrono::nanoseconds>(since_epoch - seconds);
  return {static_cast<time_t>(seconds.count()), static_cast<long>(rest.count())};
}

#ifdef __SANITIZE_THREAD__
using wait_clock = std::chrono::system_clock;  // ThreadSanitizer of gcc 12 knows no pthread_mutex_clocklock, no pthread_rwlock_clockrdlock
#else
using wait_clock = std::chrono::steady_clock;
#endif

// Locks until a moment of any clock: with_clock(clockid_t, const timespec*) and with_system(const timespec*) are pthread's timed calls.
template <class Clock, class Duration, class WithClock, class WithSystem>
bool lock_until(const std::chrono::time_point<Clock, Duration>& deadline, WithClock with_clock, WithSystem with_system) {
  if constexpr (std::is_same_v<Clock, std::chrono::steady_clock> && std::is_same_v<Clock, wait_clock>) {
    const timespec when = to_timespec(deadline.time_since_epoch());
    return with_clock(CLOCK_MONOTONIC, &when) == 0;
  } else if constexpr (std::is_same_v<Clock, std::chrono::system_clock>) {
    const timespec when = to_timespec(deadline.time_since_epoch());
    return with_system(&when) == 0;
  } else {
    // Any other clock may run at its own pace, so it is read again each time.
    do {
      if (lock_until(wait_clock::now() + std::chrono::ceil<wait_clock::duration>(deadline - Clock::now()), with_clock, with_system))
        return true;
    } while (Clock::now() < deadline);
    return false;
  }
}

// Implements the calls of a guard on its mutex.
struct exclusive_access {
  template <class Mutex>
  static void lock(Mutex& lockable, PFS_CALLER_) {
    lockable.lock(source_file, source_line);
  }
  template <class Mutex>
  static bool try_lock(Mutex& lockable, PFS_CALLER_) {
    return lockable.try_lock(source_file, source_line);
  }
  template <class Mutex, class Moment>
  static bool try_lock_until(Mutex& lockable, const Moment& deadline, PFS_CALLER_) {
    return lockable.try_lock_until(deadline, source_file, source_line);
  }
  template <class Mutex>
  static void unlock(Mutex& lockable) {
    lockable.unlock();
  }
};
struct shared_access {
  template <class Mutex>
  static void lock(Mutex& lockable, PFS_CALLER_) {
    lockable.lock_shared(source_file, source_line);
  }
  template <class Mutex>
  static bool try_lock(Mutex& lockable, PFS_CALLER_) {
    return lockable.try_lock_shared(source_file, source_line);
  }
  template <class Mutex, class Moment>
  static bool try_lock_until(Mutex& lockable, const Moment& deadline, PFS_CALLER_) {
    return lockable.try_lock_shared_until(deadline, source_file, source_line);
  }
  template <class Mutex>
  static void unlock(Mutex& lockable) {
    lockable.unlock_shared();
  }
};

// Implements std::unique_lock and std::shared_lock.
template <class Mutex, class Access>
class [[nodiscard]] movable_lock {
 public:
  using mutex_type = Mutex;

  movable_lock() noexcept = default;
  explicit movable_lock(Mutex& lockable, PFS_CALLER_) : mutex_(&lockable) { lock(source_file, source_line); }
  movable_lock(Mutex& lockable, std::defer_lock_t) noexcept : mutex_(&lockable) {}
  movable_lock(Mutex& lockable, std::try_to_lock_t, PFS_CALLER_) : mutex_(&lockable) { try_lock(source_file, source_line); }
  movable_lock(Mutex& lockable, std::adopt_lock_t) noexcept : mutex_(&lockable), owns_(true) {}
  template <class Clock, class Duration>
  movable_lock(Mutex& lockable, const std::chrono::time_point<Clock, Duration>& deadline, PFS_CALLER_) : mutex_(&lockable) {
    try_lock_until(deadline, source_file, source_line);
  }
  template <class Rep, class Period>
  movable_lock(Mutex& lockable, const std::chrono::duration<Rep, Period>& duration, PFS_CALLER_) : mutex_(&lockable) {
    try_lock_for(duration, source_file, source_line);
  }
  ~movable_lock() {
    if (owns_) Access::unlock(*mutex_);
  }
  movable_lock(movable_lock&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)), owns_(std::exchange(other.owns_, false)) {}
  movable_lock& operator=(movable_lock&& other) noexcept {
    movable_lock taken{std::move(other)};
    taken.swap(*this);
    return *this;
  }

  // These throw std::system_error: operation_not_permitted without a mutex, resource_deadlock_would_occur if this guard has locked it
  // already.
  void lock(PFS_CALLER_) {
    check_lockable();
    Access::lock(*mutex_, source_file, source_line);
    owns_ = true;
  }
  bool try_lock(PFS_CALLER_) {
    check_lockable();
    return owns_ = Access::try_lock(*mutex_, source_file, source_line);
  }
  // These exist for timed mutexes only.
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline, PFS_CALLER_) {
    check_lockable();
    return owns_ = Access::try_lock_until(*mutex_, deadline, source_file, source_line);
  }
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& duration, PFS_CALLER_) {
    return try_lock_until(wait_clock::now() + std::chrono::ceil<wait_clock::duration>(duration), source_file, source_line);
  }
  void unlock() {
    if (!owns_) PFS_THROW_(std::system_error(std::make_error_code(std::errc::operation_not_permitted)));
    owns_ = false;
    Access::unlock(*mutex_);
  }
  void swap(movable_lock& other) noexcept {
    std::swap(mutex_, other.mutex_);
    std::swap(owns_, other.owns_);
  }
  // Releases ownership of the mutex without unlocking it.
  Mutex* release() noexcept {
    owns_ = false;
    return std::exchange(mutex_, nullptr);
  }
  Mutex* mutex() const noexcept { return mutex_; }
  bool owns_lock() const noexcept { return owns_; }
  explicit operator bool() const noexcept { return owns_; }

 private:
  void check_lockable() const {
    if (mutex_ == nullptr) PFS_THROW_(std::system_error(std::make_error_code(std::errc::operation_not_permitted)));
    if (owns_) PFS_THROW_(std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur)));
  }

  Mutex* mutex_ = nullptr;
  bool owns_ = false;
};

}  // namespace detail

// ---- Timed mutexes and movable guards -----------------------------------------------------------------------------------------------

namespace detail {
// Adds the timed calls to a mutex.
template <class Base>
class timed : public Base {
 public:
  using Base::Base;

  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& duration, PFS_CALLER_) {
    return try_lock_until(wait_clock::now() + std::chrono::ceil<wait_clock::duration>(duration), source_file, source_line);
  }

  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline, PFS_CALLER_) {
    return lock_until(
        deadline, [&](clockid_t clock, const timespec* when) { return PFS_CALL_(mutex_clocklock, &this->mutex_, clock, when); },
        [&](const timespec* when) { return PFS_CALL_(mutex_timedlock, &this->mutex_, when); });
  }
};
}  // namespace detail

// Are std::timed_mutex and std::recursive_timed_mutex, recorded.
class timed_mutex : public detail::timed<mutex> {
 public:
  using detail::timed<mutex>::timed;
};
class recursive_timed_mutex : public detail::timed<recursive_mutex> {
 public:
  using detail::timed<recursive_mutex>::timed;
};

namespace detail {
template <>
inline constexpr bool is_adopt<std::adopt_lock_t> = true;
}  // namespace detail

// std::unique_lock whose SOURCE is the line of the guard, or of the call on it.
template <class Mutex = mutex>
class [[nodiscard]] unique_lock : public detail::movable_lock<Mutex, detail::exclusive_access> {
 public:
  using detail::movable_lock<Mutex, detail::exclusive_access>::movable_lock;
};
template <class Mutex, class... More>
unique_lock(Mutex&, More...) -> unique_lock<Mutex>;

// ---- The program's own locks --------------------------------------------------------------------------------------------------------
//
//     void my_lock::lock() {
//       perfschema::wait wait{row_};
//       uint32_t spins = acquire();
//       wait.acquired(spins);
//     }
//     void my_lock::unlock() { row_.released(); release(); }

// A row of mutex_instances. `identity` is the address that it shows, in general that of the lock.
class lock_instance {
 public:
  lock_instance(std::string_view name, const void* identity) : lock_instance(mutex_key(name), identity) {}
  lock_instance(const char* name, const void* identity) : lock_instance(std::string_view(name), identity) {}
  lock_instance(pfs_key_t key, const void* identity) : instance_(pfs_mutex_create(key, identity)) {}
  ~lock_instance() { pfs_mutex_discard(instance_); }
  lock_instance(const lock_instance&) = delete;
  lock_instance& operator=(const lock_instance&) = delete;

  // The holder calls it right before it releases the lock.
  void released() noexcept { pfs_mutex_released(instance_); }
  pfs_instance_t* get() const noexcept { return instance_; }  // nullptr = not instrumented

 private:
  pfs_instance_t* instance_;
};

// A wait for such a lock, from construction to acquired() or failed(). If it is destroyed without either (an exception), it failed.
class [[nodiscard]] wait {
 public:
  explicit wait(const lock_instance& lock, pfs_lock_op op = PFS_LOCK, PFS_CALLER_) {
    wait_.instance = nullptr;
    PFS_CALL_(mutex_wait_begin, &wait_, lock.get(), op);
  }
  ~wait() { failed(); }
  wait(const wait&) = delete;
  wait& operator=(const wait&) = delete;

  // The caller calls it when it holds the lock, exclusively.
  void acquired(uint32_t spins = PFS_NO_SPINS) noexcept { pfs_mutex_wait_end(&wait_, 0, spins); }
  void failed(int rc = EBUSY, uint32_t spins = PFS_NO_SPINS) noexcept { pfs_mutex_wait_end(&wait_, rc, spins); }

 private:
  pfs_wait_t wait_;
};

// ---- Files -----------------------------------------------------------------------------------------------------------------------

inline pfs_key_t file_key(detail::name_view name) { return detail::key_of(pfs_register_file, name); }

// An open file. The destructor closes it and ignores errors: call close() where they matter.
class file {
 public:
  file() noexcept = default;
  // `name` is "component/name". Throws std::system_error with errno if the file cannot be opened.
  file(std::string_view name, const std::string& path, int flags, mode_t mode = 0666, PFS_CALLER_)
      : file(file_key(name), path, flags, mode, source_file, source_line) {}
  file(const char* name, const std::string& path, int flags, mode_t mode = 0666, PFS_CALLER_)
      : file(std::string_view(name), path, flags, mode, source_file, source_line) {}
  file(pfs_key_t key, const std::string& path, int flags, mode_t mode = 0666, PFS_CALLER_)
      : source_file_(source_file), source_line_(source_line) {
#ifdef PFS_DISABLE
    fd_ = pfs_open(key, path.c_str(), flags, mode);
#else
    fd_ = pfs_open_at(key, source_file, source_line, path.c_str(), flags, mode);
#endif
    if (fd_ < 0) PFS_THROW_(std::system_error(errno, std::generic_category(), path));
  }
  ~file() {
    if (fd_ >= 0) close(source_file_, source_line_);
  }
  file(file&& other) noexcept { swap(other); }
  file& operator=(file&& other) noexcept {
    file taken{std::move(other)};
    taken.swap(*this);
    return *this;
  }
  void swap(file& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(source_file_, other.source_file_);
    std::swap(source_line_, other.source_line_);
  }

  // These work like the system calls: they return bytes, or -1 and errno.
  ssize_t read(void* buffer, size_t size, PFS_CALLER_) { return PFS_CALL_(read, fd_, buffer, size); }
  ssize_t write(const void* buffer, size_t size, PFS_CALLER_) { return PFS_CALL_(write, fd_, buffer, size); }
  ssize_t pread(void* buffer, size_t size, off_t offset, PFS_CALLER_) { return PFS_CALL_(pread, fd_, buffer, size, offset); }
  ssize_t pwrite(const void* buffer, size_t size, off_t offset, PFS_CALLER_) { return PFS_CALL_(pwrite, fd_, buffer, size, offset); }
  // Returns the new offset in the file, or -1 and errno.
  off_t seek(off_t offset, int whence = SEEK_SET, PFS_CALLER_) { return PFS_CALL_(lseek, fd_, offset, whence); }
  off_t tell(PFS_CALLER_) { return PFS_CALL_(tell, fd_); }
  // Returns the size of the file in bytes, or -1 and errno. Event stat.
  off_t size(PFS_CALLER_) const {
    struct stat about;
    return PFS_CALL_(fstat, fd_, &about) == 0 ? about.st_size : -1;
  }
  // These return 0, or -1 and errno.
  int truncate(off_t length, PFS_CALLER_) { return PFS_CALL_(ftruncate, fd_, length); }
  int sync(PFS_CALLER_) { return PFS_CALL_(fsync, fd_); }
  int datasync(PFS_CALLER_) { return PFS_CALL_(fdatasync, fd_); }
  int close(PFS_CALLER_) {
    const int fd = std::exchange(fd_, -1);
    return PFS_CALL_(close, fd);
  }

  bool is_open() const noexcept { return fd_ >= 0; }
  explicit operator bool() const noexcept { return is_open(); }
  int native_handle() const noexcept { return fd_; }
  // Releases the descriptor, still open; close it with pfs_close().
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
  const char* source_file_ = nullptr;  // call site of the open: SOURCE of the close by the destructor
  uint32_t source_line_ = 0;
};

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#include "perfschema/cond.hpp"
#include "perfschema/counts.hpp"
#include "perfschema/fstream.hpp"
#include "perfschema/memory.hpp"
#include "perfschema/rwlock.hpp"
#include "perfschema/socket.hpp"
#include "perfschema/statement.hpp"
#include "perfschema/std_guards.hpp"
#include "perfschema/sync.hpp"
#include "perfschema/thread.hpp"

#endif  // PERFSCHEMA_PFS_HPP
