// A C++ user's program with read-write locks and conditions, next to the classes of std: results, exceptions and
// SOURCE.
//   g++ -std=c++17 raii_sync.cpp $(pkg-config --cflags --libs perfschema) -o raii_sync
// Prints its results and source lines, as "name value"; then waits for a line of input. Works with -DPFS_DISABLE as
// well.
#include <atomic>
#include <cstdio>
#include <perfschema/pfs.hpp>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

int failures = 0;
#define EXPECT(condition)             \
  ((condition) ? static_cast<void>(0) \
               : static_cast<void>((std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), ++failures)))

template <class Function>
std::string thrown_by(Function function) {
  try {
    function();
  } catch (const std::system_error& error) {
    return error.code().message();
  }
  return "nothing";
}

// Both kinds of lock must do the same.
template <class Shared, class Timed>
std::vector<std::string> behaviour(Shared& plain, Timed& timed) {
  std::vector<std::string> seen;
  const auto see = [&](bool value) { seen.emplace_back(value ? "yes" : "no"); };
  const auto elsewhere = [&](auto function) { std::thread([&] { see(function()); }).join(); };
  plain.lock();
  elsewhere([&] { return plain.try_lock(); });
  elsewhere([&] { return plain.try_lock_shared(); });
  plain.unlock();
  plain.lock_shared();
  elsewhere([&] { return plain.try_lock(); });
  elsewhere([&] { return plain.try_lock_shared() ? plain.unlock_shared(), true : false; });
  see(plain.try_lock_shared());
  plain.unlock_shared();
  plain.unlock_shared();
  seen.push_back(thrown_by([&] {
    plain.lock();
    try {
      plain.lock();
    } catch (...) {
      plain.unlock();
      throw;
    }
  }));

  timed.lock();
  elsewhere([&] { return timed.try_lock_for(1ms); });
  elsewhere([&] { return timed.try_lock_for(-1s); });
  elsewhere([&] { return timed.try_lock_until(std::chrono::system_clock::now() + 1ms); });
  elsewhere([&] { return timed.try_lock_shared_for(1ms); });
  elsewhere([&] { return timed.try_lock_shared_until(std::chrono::steady_clock::now() + 1ms); });
  elsewhere([&] { return timed.try_lock_shared_until(std::chrono::system_clock::now() - 1h); });
  timed.unlock();
  see(timed.try_lock_for(1h));
  timed.unlock();
  see(timed.try_lock_shared_for(1h));
  elsewhere([&] { return timed.try_lock_shared_until(std::chrono::steady_clock::now() + 1ms) ? timed.unlock_shared(), true : false; });
  elsewhere([&] { return timed.try_lock_until(std::chrono::steady_clock::now() + 1ms); });
  timed.unlock_shared();
  return seen;
}

template <template <class> class Lock, class Shared, class Timed>
std::vector<std::string> guards(Shared& plain, Timed& timed) {
  std::vector<std::string> seen;
  const auto see = [&](bool value) { seen.emplace_back(value ? "yes" : "no"); };
  Lock<Shared> none;
  see(none.owns_lock());
  see(none.mutex() == nullptr);
  seen.push_back(thrown_by([&] { none.lock(); }));
  see(thrown_by([&] { none.unlock(); }) != "nothing");  // libstdc++'s shared_lock throws another error than the standard requires
  Lock<Shared> guard{plain};
  see(static_cast<bool>(guard));
  seen.push_back(thrown_by([&] { guard.lock(); }));
  seen.push_back(thrown_by([&] { static_cast<void>(guard.try_lock()); }));
  Lock<Shared> moved{std::move(guard)};
  see(guard.owns_lock());
  see(moved.mutex() == &plain);
  guard = std::move(moved);
  see(moved.owns_lock());
  guard.unlock();
  see(guard.try_lock());
  see(guard.release() == &plain);
  Lock<Shared> adopted{plain, std::adopt_lock};
  see(adopted.owns_lock());
  Lock<Shared> deferred{plain, std::defer_lock};
  see(deferred.owns_lock());
  adopted.swap(deferred);
  see(deferred.owns_lock());
  deferred.unlock();
  {
    Lock<Shared> tried{plain, std::try_to_lock};
    see(tried.owns_lock());
  }
  {
    Lock<Timed> waited{timed, 1h};
    see(waited.owns_lock());
  }
  {
    Lock<Timed> waited{timed, std::chrono::system_clock::now() + 1h};
    see(waited.owns_lock());
  }
  Lock<Timed> later{timed, std::defer_lock};
  see(later.try_lock_for(1ms));
  later.unlock();
  see(later.try_lock_until(std::chrono::steady_clock::now()));
  return seen;
}

// A clock that runs like the steady one, with another type.
struct own_clock {
  using duration = std::chrono::milliseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<own_clock>;
  static constexpr bool is_steady = true;
  static time_point now() { return time_point(std::chrono::duration_cast<duration>(std::chrono::steady_clock::now().time_since_epoch())); }
};

template <class Condition, class Mutex, class Lock>
std::vector<std::string> conditions(Condition& changed, Mutex& mutex) {
  std::vector<std::string> seen;
  const auto see = [&](bool value) { seen.emplace_back(value ? "yes" : "no"); };
  std::atomic<int> step{0};
  Lock lock{mutex};
  see(changed.wait_for(lock, 1ms) == std::cv_status::timeout);
  see(changed.wait_for(lock, -1h) == std::cv_status::timeout);
  see(changed.wait_until(lock, std::chrono::steady_clock::now() + 1ms) == std::cv_status::timeout);
  see(changed.wait_until(lock, std::chrono::system_clock::now() + 1ms) == std::cv_status::timeout);
  see(changed.wait_until(lock, own_clock::now() + 2ms) == std::cv_status::timeout);
  see(changed.wait_for(lock, 1ms, [] { return false; }));
  see(changed.wait_until(lock, std::chrono::system_clock::now() + 1ms, [] { return true; }));
  see(lock.owns_lock());
  std::thread other([&] {
    for (int next = 1; next <= 4; ++next) {
      while (step.load() != 2 * next - 1) std::this_thread::yield();
      Lock own{mutex};
      step.store(2 * next);
      if (next % 2 == 0) {
        changed.notify_one();
      } else {
        changed.notify_all();
      }
    }
  });
  step.store(1);
  changed.wait(lock, [&] { return step.load() == 2; });
  step.store(3);
  while (step.load() != 4) changed.wait(lock);
  step.store(5);
  see(changed.wait_for(lock, 1h, [&] { return step.load() == 6; }));
  step.store(7);
  while (step.load() != 8)
    see(changed.wait_until(lock, std::chrono::steady_clock::now() + 1h) == std::cv_status::no_timeout || step.load() != 8);
  lock.unlock();
  other.join();
  return seen;
}

void test_conditions() {
  perfschema::condition_variable ours{"sync/changed"};
  perfschema::mutex our_mutex{"sync/LOCK_changed"};
  std::condition_variable theirs;
  std::mutex their_mutex;
  const auto seen = conditions<perfschema::condition_variable, perfschema::mutex, perfschema::unique_lock<>>(ours, our_mutex);
  const auto expected = conditions<std::condition_variable, std::mutex, std::unique_lock<std::mutex>>(theirs, their_mutex);
  EXPECT(seen.size() >= 9 &&
         std::vector<std::string>(seen.begin(), seen.begin() + 9) == std::vector<std::string>(expected.begin(), expected.begin() + 9));

  perfschema::condition_variable_any any{"sync/any"};
  std::condition_variable_any std_any;
  EXPECT((conditions<perfschema::condition_variable_any, perfschema::mutex, perfschema::unique_lock<>>(any, our_mutex).size() >= 9));
  EXPECT((conditions<perfschema::condition_variable_any, std::mutex, std::unique_lock<std::mutex>>(any, their_mutex).size() >= 9));
  perfschema::shared_mutex shared{"sync/any_shared"};
  EXPECT((conditions<perfschema::condition_variable_any, perfschema::shared_mutex, perfschema::unique_lock<perfschema::shared_mutex>>(
              any, shared)
              .size() >= 9));

  // A woken thread may destroy the condition at once, while the others are still leaving it.
  for (int i = 0; i < 200; ++i) {
    auto* last = new perfschema::condition_variable("sync/short");
    auto* last_any = new perfschema::condition_variable_any("sync/short_any");
    int waiting = 0;
    bool woken = false;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        perfschema::unique_lock lock{our_mutex};
        ++waiting;
        while (!woken) {
          if (t == 0) {
            last_any->wait(lock);
          } else {
            last->wait(lock);
          }
        }
      });
    }
    for (bool all = false; !all; std::this_thread::yield()) {
      perfschema::lock_guard lock{our_mutex};
      all = waiting == 3;
      if (!all) continue;
      woken = true;
      last->notify_all();
      last_any->notify_all();
      delete last;
      delete last_any;
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// A read-write lock and a condition of the program's own.
class spin_rwlock {
 public:
  void lock_shared() {
    perfschema::rwlock_wait wait{row_, PFS_SHARED_LOCK};
    uint32_t spins = 0;
    for (int readers = state_.load(); readers < 0 || !state_.compare_exchange_weak(readers, readers + 1); readers = state_.load()) ++spins;
    wait.acquired(spins);
  }
  void unlock_shared() {
    row_.released(PFS_SHARED_LOCK);
    state_.fetch_sub(1);
  }
  bool try_lock() {
    perfschema::rwlock_wait wait{row_, PFS_TRY_EXCLUSIVE_LOCK};
    int nobody = 0;
    if (!state_.compare_exchange_strong(nobody, -1)) return false;
    wait.acquired();
    return true;
  }
  void unlock() {
    row_.released(PFS_TRY_EXCLUSIVE_LOCK);
    state_.store(0);
  }

 private:
  std::atomic<int> state_{0};
  perfschema::rwlock_instance row_{"sync/spin", this, PFS_RWLOCK_SX};
};

}  // namespace

int main() {
  {
    perfschema::shared_mutex plain{"sync/plain"};
    perfschema::shared_timed_mutex timed{"sync/timed"};
    std::shared_mutex std_plain;
    std::shared_timed_mutex std_timed;
    EXPECT(behaviour(plain, timed) == behaviour(std_plain, std_timed));
    EXPECT((guards<perfschema::shared_lock>(plain, timed) == guards<std::shared_lock>(std_plain, std_timed)));
    EXPECT((guards<perfschema::unique_lock>(plain, timed) == guards<std::unique_lock>(std_plain, std_timed)));
    { std::scoped_lock both{plain, timed}; }
    {
      perfschema::lock_guard guard{plain};
      EXPECT(!std_plain.try_lock() || (std_plain.unlock(), true));
    }
  }
  test_conditions();
  {
    spin_rwlock spin;
    std::vector<std::thread> threads;
    std::atomic<int> inside{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          if (spin.try_lock()) {
            EXPECT(inside.fetch_add(1) == 0);
            inside.fetch_sub(1);
            spin.unlock();
          } else {
            std::shared_lock guard{spin};
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    perfschema::cond_instance own{"sync/own", &spin};
    { perfschema::cond_wait wait{own}; }
    {
      perfschema::cond_wait wait{own, PFS_TIMED_WAIT};
      wait.ended(ETIMEDOUT);
    }
  }

  // SOURCE of each kind of call: line of this file, as an event of its own instrument.
  perfschema::shared_timed_mutex m{"sync/source"};
  perfschema::mutex held{"sync/source_mutex"};
  perfschema::condition_variable c{"sync/source_cond"};
  perfschema::condition_variable_any any{"sync/source_any"};
  const int line = __LINE__;
  { perfschema::shared_lock guard{m}; }                    // line + 1
  { perfschema::shared_lock guard{m, std::try_to_lock}; }  // line + 2
  {
    perfschema::shared_lock guard{m, 1h};  // line + 4
    guard.unlock();
    guard.lock();  // line + 6
  }
  { perfschema::unique_lock guard{m}; }  // line + 8
  { perfschema::lock_guard guard{m}; }   // line + 9
  {
    perfschema::unique_lock guard{held};                                          // line + 11
    c.wait_for(guard, 1ms);                                                       // line + 12
    c.wait_until(guard, std::chrono::system_clock::now(), [] { return false; });  // line + 13
    any.wait_for(guard, 1ms);                                                     // line + 14
  }
  std::printf("line %d\nresult %s\nsegment %s\n", line, failures == 0 ? "ok" : "FAILED", pfs_segment_path());
  std::fflush(stdout);
  std::getchar();
  return failures != 0;
}
