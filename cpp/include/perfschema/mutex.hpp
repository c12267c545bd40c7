// perfschema/mutex.hpp: mutexes and their guard alone, for a build of many files. pfs.hpp includes it.
//
//     perfschema::mutex queue{"myapp/LOCK_queue"};
//     { perfschema::lock_guard guard{queue}; ... }
//
// std::lock_guard and its relatives work, too. With pfs.hpp they show the line of the guard as SOURCE, without it a line of <mutex>:
// include pfs.hpp in all files that use std::lock_guard with these classes, or in none.
#ifndef PERFSCHEMA_MUTEX_HPP
#define PERFSCHEMA_MUTEX_HPP

#include "perfschema/base.hpp"

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

// For many objects of one name: register once, and pass the key to each.
inline pfs_key_t mutex_key(detail::name_view name) { return detail::key_of(pfs_register_mutex, name); }

// std::mutex, recorded. Not copyable, not movable. Destroying it while it is held is undefined, as with std::mutex.
class mutex {
 public:
  using native_handle_type = pthread_mutex_t*;

  mutex() : mutex(own_key()) {}
  // `name` is "component/name".
  explicit mutex(detail::name_view name) : mutex(mutex_key(name)) {}
  explicit mutex(pfs_key_t key) : mutex(key, nullptr) {}
  ~mutex() { pfs_mutex_destroy(&mutex_); }
  mutex(const mutex&) = delete;
  mutex& operator=(const mutex&) = delete;

  // Throws std::system_error if the lock cannot be taken.
  void lock(PFS_CALLER_) { detail::check(PFS_CALL_(mutex_lock, &mutex_)); }
  bool try_lock(PFS_CALLER_) { return PFS_CALL_(mutex_trylock, &mutex_) == 0; }
  void unlock() { pfs_mutex_unlock(&mutex_); }

  // Locking through this handle is not recorded.
  native_handle_type native_handle() { return &mutex_.mutex; }
  // Returns the mutex for the C API.
  pfs_mutex_t* get() noexcept { return &mutex_; }

  static pfs_key_t key_for(detail::name_view name) { return mutex_key(name); }

 protected:
  mutex(pfs_key_t key, const pthread_mutexattr_t* attributes) { detail::check(pfs_mutex_init(key, &mutex_, attributes)); }

  pfs_mutex_t mutex_;

 private:
  static pfs_key_t own_key() {
    static const pfs_key_t key = mutex_key("mutex");
    return key;
  }
};

// std::recursive_mutex, recorded: each lock() is an event, and LOCKED_BY_THREAD_ID stays until the last unlock().
class recursive_mutex : public mutex {
 public:
  recursive_mutex() : recursive_mutex(own_key()) {}
  // `name` is "component/name".
  explicit recursive_mutex(detail::name_view name) : recursive_mutex(mutex_key(name)) {}
  explicit recursive_mutex(pfs_key_t key) : mutex(key, attributes().get()) {}

 private:
  class attributes {
   public:
    attributes() {
      pthread_mutexattr_init(&attributes_);
      pthread_mutexattr_settype(&attributes_, PTHREAD_MUTEX_RECURSIVE);
    }
    ~attributes() { pthread_mutexattr_destroy(&attributes_); }
    attributes(const attributes&) = delete;
    attributes& operator=(const attributes&) = delete;
    const pthread_mutexattr_t* get() const noexcept { return &attributes_; }

   private:
    pthread_mutexattr_t attributes_;
  };
  static pfs_key_t own_key() {
    static const pfs_key_t key = mutex_key("recursive_mutex");
    return key;
  }
};

// std::lock_guard whose SOURCE is the line of the guard. For any mutex of perfschema, and a shared_mutex (rwlock.hpp), which it locks
// exclusively.
template <class Mutex = mutex>
class [[nodiscard]] lock_guard {
 public:
  using mutex_type = Mutex;

  explicit lock_guard(Mutex& lockable, PFS_CALLER_) : mutex_(lockable) { mutex_.lock(source_file, source_line); }
  template <class Adopt, typename detail::only_if<detail::is_adopt<Adopt>>::type = 0>
  lock_guard(Mutex& lockable, Adopt) noexcept : mutex_(lockable) {}
  ~lock_guard() { mutex_.unlock(); }
  lock_guard(const lock_guard&) = delete;
  lock_guard& operator=(const lock_guard&) = delete;

 private:
  Mutex& mutex_;
};
template <class Mutex, class... More>
lock_guard(Mutex&, More...) -> lock_guard<Mutex>;

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_MUTEX_HPP
