// perfschema/cond.hpp: std::condition_variable and condition_variable_any, recorded; rows for the program's own conditions. Included by
// pfs.hpp only.
//
//     perfschema::condition_variable not_empty{"myapp/not_empty"};
//     perfschema::unique_lock guard{queue};
//     not_empty.wait(guard, [&] { return !items.empty(); });
//
// Each sleep of a thread is one event: a wait whose predicate is already true has none, and a spurious wakeup adds one.
#ifndef PERFSCHEMA_COND_HPP
#define PERFSCHEMA_COND_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

#include <condition_variable>
#include <memory>

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

inline pfs_key_t cond_key(detail::name_view name) { return detail::key_of(pfs_register_cond, name); }

namespace detail {

// Returns the key of default-constructed conditions.
inline pfs_key_t own_cond_key() {
  static const pfs_key_t key = cond_key("condition_variable");
  return key;
}

// Implements deadlines and predicates for both conditions. Self has wait(lock, file, line), and timed_wait(lock, clock, when, file,
// line), which returns pthread's result.
template <class Self>
class waits {
 public:
  template <class Lock, class Predicate>
  void wait(Lock& lock, Predicate is_ready, PFS_CALLER_) {
    while (!is_ready()) self().wait(lock, source_file, source_line);
  }

  template <class Lock, class Clock, class Duration>
  std::cv_status wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& deadline, PFS_CALLER_) {
    using steady = std::chrono::steady_clock;
    if constexpr (std::is_same_v<Clock, std::chrono::system_clock>) {
      return wait_until_time(lock, CLOCK_REALTIME, deadline.time_since_epoch(), source_file, source_line);
    } else if constexpr (std::is_same_v<Clock, steady>) {
      return wait_until_time(lock, CLOCK_MONOTONIC, deadline.time_since_epoch(), source_file, source_line);
    } else {
      // Any other clock may run at its own pace, so that clock decides.
      const auto moment = steady::now() + std::chrono::ceil<steady::duration>(deadline - Clock::now());
      const std::cv_status status = wait_until(lock, moment, source_file, source_line);
      return status == std::cv_status::timeout && Clock::now() >= deadline ? std::cv_status::timeout : std::cv_status::no_timeout;
    }
  }
  template <class Lock, class Clock, class Duration, class Predicate>
  bool wait_until(Lock& lock, const std::chrono::time_point<Clock, Duration>& deadline, Predicate is_ready, PFS_CALLER_) {
    while (!is_ready()) {
      if (wait_until(lock, deadline, source_file, source_line) == std::cv_status::timeout) return is_ready();
    }
    return true;
  }

  template <class Lock, class Rep, class Period>
  std::cv_status wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& duration, PFS_CALLER_) {
    return wait_until(lock, moment_after(duration), source_file, source_line);
  }
  template <class Lock, class Rep, class Period, class Predicate>
  bool wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& duration, Predicate is_ready, PFS_CALLER_) {
    return wait_until(lock, moment_after(duration), std::move(is_ready), source_file, source_line);
  }

 private:
  Self& self() { return static_cast<Self&>(*this); }

  template <class Duration>
  static auto moment_after(const Duration& duration) {
    using steady = std::chrono::steady_clock;
    return steady::now() + std::chrono::ceil<steady::duration>(duration);
  }
  template <class Lock, class Duration>
  std::cv_status wait_until_time(Lock& lock, clockid_t clock, const Duration& since_epoch, const char* source_file, uint32_t source_line) {
    const timespec when = to_timespec(since_epoch);
    const int rc = self().timed_wait(lock, clock, &when, source_file, source_line);
    if (rc == ETIMEDOUT) return std::cv_status::timeout;
    check(rc);
    return std::cv_status::no_timeout;
  }
};

// Tells whether Lock::lock() takes the call site.
template <class Lock, class = void>
inline constexpr bool takes_source = false;
template <class Lock>
inline constexpr bool takes_source<Lock, std::void_t<decltype(std::declval<Lock&>().lock("", uint32_t{}))>> = true;

// Releases a lock, and takes it again at the end.
template <class Lock>
class unlocked {
 public:
  unlocked(Lock& lock, PFS_CALLER_) : lock_(lock), source_file_(source_file), source_line_(source_line) { lock_.unlock(); }
  ~unlocked() noexcept(false) {
    if constexpr (takes_source<Lock>) {
      lock_.lock(source_file_, source_line_);
    } else {
      lock_.lock();
    }
  }
  unlocked(const unlocked&) = delete;
  unlocked& operator=(const unlocked&) = delete;

 private:
  Lock& lock_;
  const char* source_file_;
  uint32_t source_line_;
};

}  // namespace detail

// std::condition_variable for a unique_lock of perfschema or std on a perfschema::mutex, recorded. Not copyable, not movable. It may be
// destroyed once all waiters were woken. If the caller does not hold the mutex, pthread's error is thrown as std::system_error.
class condition_variable : public detail::waits<condition_variable> {
 public:
  using native_handle_type = pthread_cond_t*;

  condition_variable() : condition_variable(detail::own_cond_key()) {}
  // `name` is "component/name".
  explicit condition_variable(detail::name_view name) : condition_variable(cond_key(name)) {}
  explicit condition_variable(pfs_key_t key) { detail::check(pfs_cond_init(key, &cond_, nullptr)); }
  ~condition_variable() { pfs_cond_destroy(&cond_); }
  condition_variable(const condition_variable&) = delete;
  condition_variable& operator=(const condition_variable&) = delete;

  void notify_one() noexcept { pfs_cond_signal(&cond_); }
  void notify_all() noexcept { pfs_cond_broadcast(&cond_); }

  // wait(lock, predicate), wait_for(lock, duration), wait_until(lock, moment), both also with a predicate, work like std's.
  using waits::wait;
  template <class Lock>
  void wait(Lock& lock, PFS_CALLER_) {
    detail::check(PFS_CALL_(cond_wait, &cond_, mutex_of(lock)));
  }

  static pfs_key_t key_for(detail::name_view name) { return cond_key(name); }

  // A wait through this handle is not recorded.
  native_handle_type native_handle() { return &cond_.cond; }
  // Returns the condition for the C API.
  pfs_cond_t* get() noexcept { return &cond_; }

 private:
  friend waits;
  template <class Lock>
  int timed_wait(Lock& lock, clockid_t clock, const timespec* when, PFS_CALLER_) {
    if (clock == CLOCK_REALTIME) return PFS_CALL_(cond_timedwait, &cond_, mutex_of(lock), when);
    return PFS_CALL_(cond_clockwait, &cond_, mutex_of(lock), clock, when);
  }
  template <class Lock>
  static pfs_mutex_t* mutex_of(Lock& lock) {
    static_assert(std::is_base_of_v<mutex, typename Lock::mutex_type>,
                  "condition_variable needs a unique_lock of a perfschema::mutex; condition_variable_any takes any lock");
    return lock.mutex()->get();
  }

  pfs_cond_t cond_;
};

// std::condition_variable_any, recorded: for every lock that has lock() and unlock(). A lock of perfschema is taken again at the
// caller's SOURCE.
class condition_variable_any : public detail::waits<condition_variable_any> {
 public:
  condition_variable_any() : condition_variable_any(detail::own_cond_key()) {}
  // `name` is "component/name".
  explicit condition_variable_any(detail::name_view name) : condition_variable_any(cond_key(name)) {}
  explicit condition_variable_any(pfs_key_t key) : gate_(std::make_shared<std::mutex>()) {
    detail::check(pfs_cond_init(key, &cond_, nullptr));
  }
  ~condition_variable_any() { pfs_cond_destroy(&cond_); }
  condition_variable_any(const condition_variable_any&) = delete;
  condition_variable_any& operator=(const condition_variable_any&) = delete;

  void notify_one() noexcept {
    const std::lock_guard<std::mutex> inside(*gate_);
    pfs_cond_signal(&cond_);
  }
  void notify_all() noexcept {
    const std::lock_guard<std::mutex> inside(*gate_);
    pfs_cond_broadcast(&cond_);
  }

  static pfs_key_t key_for(detail::name_view name) { return cond_key(name); }

  using waits::wait;
  template <class Lock>
  void wait(Lock& lock, PFS_CALLER_) {
    detail::check(
        inside_gate(lock, source_file, source_line, [&](pthread_mutex_t* gate) { return PFS_CALL_(cond_wait_plain, &cond_, gate); }));
  }

 private:
  friend waits;
  template <class Lock>
  int timed_wait(Lock& lock, clockid_t clock, const timespec* when, PFS_CALLER_) {
    return inside_gate(lock, source_file, source_line, [&](pthread_mutex_t* gate) {
      if (clock == CLOCK_REALTIME) return PFS_CALL_(cond_timedwait_plain, &cond_, gate, when);
      return PFS_CALL_(cond_clockwait_plain, &cond_, gate, clock, when);
    });
  }

  // Keeps the gate closed, so that no notification comes between the unlock of the caller's lock and the wait.
  template <class Lock, class Call>
  int inside_gate(Lock& lock, const char* source_file, uint32_t source_line, Call call) {
    const std::shared_ptr<std::mutex> gate = gate_;  // *this may be gone before the caller has its lock again
    std::unique_lock<std::mutex> inside(*gate);
    const detail::unlocked<Lock> outside(lock, source_file, source_line);
    const std::unique_lock<std::mutex> until_woken(std::move(inside));  // the gate opens before the lock is taken
    return call(gate->native_handle());
  }

  std::shared_ptr<std::mutex> gate_;
  pfs_cond_t cond_;
};

// ---- The program's own conditions ------------------------------------------------------------------------------------------------

// A row of cond_instances. `identity` is the address that it shows, in general that of the condition.
class cond_instance {
 public:
  cond_instance(std::string_view name, const void* identity) : cond_instance(cond_key(name), identity) {}
  cond_instance(const char* name, const void* identity) : cond_instance(std::string_view(name), identity) {}
  cond_instance(pfs_key_t key, const void* identity) : instance_(pfs_cond_create(key, identity)) {}
  ~cond_instance() { pfs_cond_discard(instance_); }
  cond_instance(const cond_instance&) = delete;
  cond_instance& operator=(const cond_instance&) = delete;

  pfs_instance_t* get() const noexcept { return instance_; }  // nullptr = not instrumented

 private:
  pfs_instance_t* instance_;
};

// A wait for such a condition, from construction to ended() or destruction.
class [[nodiscard]] cond_wait {
 public:
  explicit cond_wait(const cond_instance& condition, pfs_cond_op op = PFS_WAIT, PFS_CALLER_) {
    wait_.instance = nullptr;
    PFS_CALL_(cond_wait_begin, &wait_, condition.get(), op);
  }
  ~cond_wait() { ended(); }
  cond_wait(const cond_wait&) = delete;
  cond_wait& operator=(const cond_wait&) = delete;

  void ended(int rc = 0) noexcept { pfs_cond_wait_end(&wait_, rc); }

 private:
  pfs_wait_t wait_;
};

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_COND_HPP
