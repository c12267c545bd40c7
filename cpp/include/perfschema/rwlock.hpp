// perfschema/rwlock.hpp: std::shared_mutex and its relatives, recorded; rows for the program's own read-write locks. Included by pfs.hpp
// only.
//
//     perfschema::shared_mutex tree{"myapp/tree"};
//     { perfschema::shared_lock guard{tree}; ... }          read_lock
//     { perfschema::lock_guard guard{tree}; ... }           write_lock
#ifndef PERFSCHEMA_RWLOCK_HPP
#define PERFSCHEMA_RWLOCK_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

// `flags`: PFS_RWLOCK_PR or PFS_RWLOCK_SX for the families prlock and sxlock.
inline pfs_key_t rwlock_key(detail::name_view name, uint32_t flags = 0) { return detail::key_of(pfs_register_rwlock, name, flags); }

#ifdef PTHREAD_RWLOCK_INITIALIZER
// std::shared_mutex, recorded. Not copyable, not movable.
class shared_mutex {
 public:
  using native_handle_type = pthread_rwlock_t*;

  shared_mutex() : shared_mutex(own_key()) {}
  // `name` is "component/name".
  explicit shared_mutex(detail::name_view name) : shared_mutex(rwlock_key(name)) {}
  explicit shared_mutex(pfs_key_t key) { detail::check(pfs_rwlock_init(key, &lock_, nullptr)); }
  ~shared_mutex() { pfs_rwlock_destroy(&lock_); }
  shared_mutex(const shared_mutex&) = delete;
  shared_mutex& operator=(const shared_mutex&) = delete;

  // Takes the lock exclusively. Throws std::system_error if that is impossible (resource_deadlock_would_occur).
  void lock(PFS_CALLER_) { detail::check(PFS_CALL_(rwlock_wrlock, &lock_)); }
  bool try_lock(PFS_CALLER_) { return PFS_CALL_(rwlock_trywrlock, &lock_) == 0; }
  void unlock() { pfs_rwlock_unlock(&lock_); }

  // Takes the lock shared. If there are too many readers (EAGAIN), waits, as std does.
  void lock_shared(PFS_CALLER_) {
    int rc;
    do rc = PFS_CALL_(rwlock_rdlock, &lock_);
    while (rc == EAGAIN);
    detail::check(rc);
  }
  bool try_lock_shared(PFS_CALLER_) { return PFS_CALL_(rwlock_tryrdlock, &lock_) == 0; }
  void unlock_shared() { pfs_rwlock_unlock(&lock_); }

  // Locking through this handle is not recorded.
  native_handle_type native_handle() { return &lock_.lock; }
  // Returns the lock for the C API.
  pfs_rwlock_t* get() noexcept { return &lock_; }

  static pfs_key_t key_for(detail::name_view name) { return rwlock_key(name); }

 protected:
  pfs_rwlock_t lock_;

 private:
  static pfs_key_t own_key() {
    static const pfs_key_t key = rwlock_key("shared_mutex");
    return key;
  }
};

// std::shared_timed_mutex, recorded.
class shared_timed_mutex : public shared_mutex {
 public:
  using shared_mutex::shared_mutex;

  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& duration, PFS_CALLER_) {
    return try_lock_until(detail::wait_clock::now() + std::chrono::ceil<detail::wait_clock::duration>(duration), source_file, source_line);
  }
  template <class Clock, class Duration>
  bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline, PFS_CALLER_) {
    return detail::lock_until(
        deadline, [&](clockid_t clock, const timespec* when) { return PFS_CALL_(rwlock_clockwrlock, &lock_, clock, when); },
        [&](const timespec* when) { return PFS_CALL_(rwlock_timedwrlock, &lock_, when); });
  }
  template <class Rep, class Period>
  bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& duration, PFS_CALLER_) {
    return try_lock_shared_until(detail::wait_clock::now() + std::chrono::ceil<detail::wait_clock::duration>(duration), source_file,
                                 source_line);
  }
  template <class Clock, class Duration>
  bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline, PFS_CALLER_) {
    return detail::lock_until(
        deadline, [&](clockid_t clock, const timespec* when) { return PFS_CALL_(rwlock_clockrdlock, &lock_, clock, when); },
        [&](const timespec* when) { return PFS_CALL_(rwlock_timedrdlock, &lock_, when); });
  }
};

// std::shared_lock whose SOURCE is the line of the guard, or of the call on it.
template <class Mutex = shared_mutex>
class [[nodiscard]] shared_lock : public detail::movable_lock<Mutex, detail::shared_access> {
 public:
  using detail::movable_lock<Mutex, detail::shared_access>::movable_lock;
};
template <class Mutex, class... More>
shared_lock(Mutex&, More...) -> shared_lock<Mutex>;
#endif  // PTHREAD_RWLOCK_INITIALIZER

// ---- The program's own locks --------------------------------------------------------------------------------------------------------
//
//     void my_lock::lock_shared() {
//       perfschema::rwlock_wait wait{row_, PFS_READ_LOCK};
//       acquire_shared();
//       wait.acquired();
//     }
//     void my_lock::unlock_shared() { row_.released(PFS_READ_LOCK); release_shared(); }

// A row of rwlock_instances. `identity` is the address that it shows, in general that of the lock. `flags` as for rwlock_key().
class rwlock_instance {
 public:
  rwlock_instance(std::string_view name, const void* identity, uint32_t flags = 0) : rwlock_instance(rwlock_key(name, flags), identity) {}
  rwlock_instance(const char* name, const void* identity, uint32_t flags = 0) : rwlock_instance(std::string_view(name), identity, flags) {}
  rwlock_instance(pfs_key_t key, const void* identity) : instance_(pfs_rwlock_create(key, identity)) {}
  ~rwlock_instance() { pfs_rwlock_discard(instance_); }
  rwlock_instance(const rwlock_instance&) = delete;
  rwlock_instance& operator=(const rwlock_instance&) = delete;

  // The holder calls it right before it releases the lock that it took as `op`.
  void released(pfs_rwlock_op op) noexcept { pfs_rwlock_released(instance_, op); }
  pfs_instance_t* get() const noexcept { return instance_; }  // nullptr = not instrumented

 private:
  pfs_instance_t* instance_;
};

// A wait for such a lock, from construction to acquired() or failed(). If it is destroyed without either (an exception), it failed.
class [[nodiscard]] rwlock_wait {
 public:
  rwlock_wait(const rwlock_instance& lock, pfs_rwlock_op op, PFS_CALLER_) {
    wait_.instance = nullptr;
    PFS_CALL_(rwlock_wait_begin, &wait_, lock.get(), op);
  }
  ~rwlock_wait() { failed(); }
  rwlock_wait(const rwlock_wait&) = delete;
  rwlock_wait& operator=(const rwlock_wait&) = delete;

  // The caller calls it when it has the lock, as `op` says.
  void acquired(uint32_t spins = PFS_NO_SPINS) noexcept { pfs_rwlock_wait_end(&wait_, 0, spins); }
  void failed(int rc = EBUSY, uint32_t spins = PFS_NO_SPINS) noexcept { pfs_rwlock_wait_end(&wait_, rc, spins); }

 private:
  pfs_wait_t wait_;
};

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_RWLOCK_HPP
