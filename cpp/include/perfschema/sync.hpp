// perfschema/sync.hpp: std::counting_semaphore, latch and barrier, recorded. A part of pfs.hpp, which includes it.
//
//     perfschema::counting_semaphore<8> slots{"myapp/slots", 8};
//     slots.acquire();  ...  slots.release();
//     perfschema::latch ready{"myapp/ready", 4};
//     perfschema::barrier phase{"myapp/phase", 4, [] { next(); }};
//
// Each sleep of a thread is one event of wait/synch/cond/COMPONENT/NAME, with the caller's SOURCE. A call that need not wait has none.
#ifndef PERFSCHEMA_SYNC_HPP
#define PERFSCHEMA_SYNC_HPP

#ifndef PERFSCHEMA_PFS_HPP
#error "include <perfschema/pfs.hpp>"
#endif

#include <limits>

namespace perfschema {
inline namespace PERFSCHEMA_BUILD {

namespace detail {

// A recorded condition with a mutex that is not recorded: the mutex guards a few instructions.
class gate {
 public:
  class [[nodiscard]] guard {
   public:
    explicit guard(gate& of) noexcept : of_(of) { pthread_mutex_lock(&of_.mutex_); }
    ~guard() { pthread_mutex_unlock(&of_.mutex_); }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;

   private:
    gate& of_;
  };

  explicit gate(pfs_key_t key) { check(pfs_cond_init(key, &cond_, nullptr)); }
  ~gate() {
    pfs_cond_destroy(&cond_);
    pthread_mutex_destroy(&mutex_);
  }
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;

  // Need a guard of the caller.
  template <class Ready>
  void wait(Ready is_ready, PFS_CALLER_) {
    while (!is_ready()) check(PFS_CALL_(cond_wait_plain, &cond_, &mutex_));
  }
  template <class Clock, class Duration, class Ready>
  bool wait_until(const std::chrono::time_point<Clock, Duration>& deadline, Ready is_ready, PFS_CALLER_) {
    const auto once = [&](int rc) {
      if (rc != ETIMEDOUT) check(rc);
      return rc == ETIMEDOUT;
    };
    // lock_until() ends when a call returns 0, which is here: it is ready.
    const auto wait_with = [&](auto call) {
      while (!is_ready()) {
        if (once(call())) return is_ready() ? 0 : ETIMEDOUT;
      }
      return 0;
    };
    return lock_until(
        deadline,
        [&](clockid_t clock, const timespec* when) {
          return wait_with([&] { return PFS_CALL_(cond_clockwait_plain, &cond_, &mutex_, clock, when); });
        },
        [&](const timespec* when) { return wait_with([&] { return PFS_CALL_(cond_timedwait_plain, &cond_, &mutex_, when); }); });
  }
  void notify_one() noexcept { pfs_cond_signal(&cond_); }
  void notify_all() noexcept { pfs_cond_broadcast(&cond_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pfs_cond_t cond_;
};

inline constexpr ptrdiff_t kMostCount = std::numeric_limits<ptrdiff_t>::max();

}  // namespace detail

// std::counting_semaphore, recorded.
template <ptrdiff_t LeastMaxValue = detail::kMostCount>
class counting_semaphore {
 public:
  explicit counting_semaphore(ptrdiff_t desired) : counting_semaphore(own_key(), desired) {}
  // `name` is "component/name".
  counting_semaphore(detail::name_view name, ptrdiff_t desired) : counting_semaphore(cond_key(name), desired) {}
  counting_semaphore(pfs_key_t key, ptrdiff_t desired) : gate_(key), count_(desired) {}

  static constexpr ptrdiff_t max() noexcept { return LeastMaxValue; }
  void release(ptrdiff_t update = 1) {
    const detail::gate::guard inside{gate_};
    count_ += update;
    if (update == 1) {
      gate_.notify_one();
    } else {
      gate_.notify_all();
    }
  }
  void acquire(PFS_CALLER_) {
    const detail::gate::guard inside{gate_};
    gate_.wait([this] { return count_ > 0; }, source_file, source_line);
    --count_;
  }
  bool try_acquire() {
    const detail::gate::guard inside{gate_};
    return count_ > 0 && count_-- > 0;
  }
  template <class Rep, class Period>
  bool try_acquire_for(const std::chrono::duration<Rep, Period>& duration, PFS_CALLER_) {
    return try_acquire_until(detail::wait_clock::now() + std::chrono::ceil<detail::wait_clock::duration>(duration), source_file,
                             source_line);
  }
  template <class Clock, class Duration>
  bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& deadline, PFS_CALLER_) {
    const detail::gate::guard inside{gate_};
    if (!gate_.wait_until(
            deadline, [this] { return count_ > 0; }, source_file, source_line))
      return false;
    --count_;
    return true;
  }

  static pfs_key_t key_for(detail::name_view name) { return cond_key(name); }

 private:
  static pfs_key_t own_key() {
    static const pfs_key_t key = cond_key("semaphore");
    return key;
  }

  detail::gate gate_;
  ptrdiff_t count_;
};
using binary_semaphore = counting_semaphore<1>;

// std::latch, recorded.
class latch {
 public:
  explicit latch(ptrdiff_t expected) : latch(own_key(), expected) {}
  // `name` is "component/name".
  latch(detail::name_view name, ptrdiff_t expected) : latch(cond_key(name), expected) {}
  latch(pfs_key_t key, ptrdiff_t expected) : gate_(key), left_(expected) {}

  static constexpr ptrdiff_t max() noexcept { return detail::kMostCount; }
  void count_down(ptrdiff_t n = 1) {
    const detail::gate::guard inside{gate_};
    if ((left_ -= n) == 0) gate_.notify_all();
  }
  bool try_wait() {
    const detail::gate::guard inside{gate_};
    return left_ == 0;
  }
  void wait(PFS_CALLER_) {
    const detail::gate::guard inside{gate_};
    gate_.wait([this] { return left_ == 0; }, source_file, source_line);
  }
  void arrive_and_wait(ptrdiff_t n = 1, PFS_CALLER_) {
    const detail::gate::guard inside{gate_};
    if ((left_ -= n) == 0) gate_.notify_all();
    gate_.wait([this] { return left_ == 0; }, source_file, source_line);
  }

  static pfs_key_t key_for(detail::name_view name) { return cond_key(name); }

 private:
  static pfs_key_t own_key() {
    static const pfs_key_t key = cond_key("latch");
    return key;
  }

  detail::gate gate_;
  ptrdiff_t left_;
};

namespace detail {
struct nothing {
  void operator()() const noexcept {}
};
}  // namespace detail

// std::barrier, recorded. The last thread that arrives in a phase calls `completion`.
template <class Completion = detail::nothing>
class barrier {
 public:
  class [[nodiscard]] arrival_token {
   private:
    friend barrier;
    explicit arrival_token(uint64_t phase) noexcept : phase_(phase) {}
    uint64_t phase_;
  };

  explicit barrier(ptrdiff_t expected, Completion completion = {}) : barrier(own_key(), expected, std::move(completion)) {}
  // `name` is "component/name".
  barrier(detail::name_view name, ptrdiff_t expected, Completion completion = {})
      : barrier(cond_key(name), expected, std::move(completion)) {}
  barrier(pfs_key_t key, ptrdiff_t expected, Completion completion = {})
      : gate_(key), expected_(expected), left_(expected), completion_(std::move(completion)) {}

  static constexpr ptrdiff_t max() noexcept { return detail::kMostCount; }
  arrival_token arrive(ptrdiff_t n = 1) {
    const detail::gate::guard inside{gate_};
    return arrive_inside(n);
  }
  void wait(arrival_token&& arrival, PFS_CALLER_) {
    const detail::gate::guard inside{gate_};
    gate_.wait([&] { return phase_ != arrival.phase_; }, source_file, source_line);
  }
  void arrive_and_wait(PFS_CALLER_) {
    const detail::gate::guard inside{gate_};
    const arrival_token arrival = arrive_inside(1);
    gate_.wait([&] { return phase_ != arrival.phase_; }, source_file, source_line);
  }
  void arrive_and_drop() {
    const detail::gate::guard inside{gate_};
    --expected_;
    static_cast<void>(arrive_inside(1));
  }

  static pfs_key_t key_for(detail::name_view name) { return cond_key(name); }

 private:
  arrival_token arrive_inside(ptrdiff_t n) {
    const arrival_token arrival{phase_};
    if ((left_ -= n) == 0) {
      completion_();
      left_ = expected_;
      ++phase_;
      gate_.notify_all();
    }
    return arrival;
  }
  static pfs_key_t own_key() {
    static const pfs_key_t key = cond_key("barrier");
    return key;
  }

  detail::gate gate_;
  ptrdiff_t expected_;
  ptrdiff_t left_;
  uint64_t phase_ = 0;
  Completion completion_;
};

}  // namespace PERFSCHEMA_BUILD
}  // namespace perfschema

#endif  // PERFSCHEMA_SYNC_HPP
