// A C++ user's program: mutexes with the guards of std and of perfschema, files that close themselves, a spin lock of
// its own.
//   g++ -std=c++17 raii.cpp $(pkg-config --cflags --libs perfschema) -o raii
// Takes a directory to write to. Exits with 0 if everything behaved as its std counterpart. Works with -DPFS_DISABLE as well.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <perfschema/pfs.hpp>
#include <thread>
#include <vector>

namespace {

int failures = 0;
#define EXPECT(condition)             \
  ((condition) ? static_cast<void>(0) \
               : static_cast<void>((std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), ++failures)))

class spin_lock {
 public:
  void lock() {
    perfschema::wait wait{row_};
    uint32_t spins = 0;
    while (taken_.test_and_set(std::memory_order_acquire)) ++spins;
    wait.acquired(spins);
  }
  bool try_lock() {
    perfschema::wait wait{row_, PFS_TRY_LOCK};
    if (taken_.test_and_set(std::memory_order_acquire)) return false;
    wait.acquired();
    return true;
  }
  void unlock() {
    row_.released();
    taken_.clear(std::memory_order_release);
  }

 private:
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
  perfschema::lock_instance row_{"raii/spin", this};
};

template <class Lock>
void count_under(Lock& lock) {
  long counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      perfschema::set_thread_name("raii/counter");
      for (int i = 0; i < 5000; ++i) {
        std::lock_guard guard{lock};
        ++counter;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(counter == 10000);
}

void test_mutexes() {
  perfschema::mutex queue{"raii/LOCK_queue"}, list{"raii/LOCK_list"};
  perfschema::mutex unnamed{"no slash: not instrumented, and works"};
  spin_lock spin;
  count_under(queue);
  count_under(unnamed);
  count_under(spin);
  {
    std::scoped_lock both{queue, list};
    std::thread([&] { EXPECT(!queue.try_lock() && !list.try_lock()); }).join();
  }
  { std::scoped_lock both{queue, spin}; }

  perfschema::timed_mutex timed{"raii/LOCK_timed"};
  timed.lock();
  std::thread([&] {
    using namespace std::chrono_literals;
    EXPECT(!timed.try_lock());
    EXPECT(!timed.try_lock_for(1ms));
    EXPECT(!timed.try_lock_for(-1s));
    EXPECT(!timed.try_lock_until(std::chrono::system_clock::now() + 1ms));
    EXPECT(!timed.try_lock_until(std::chrono::steady_clock::now() + 1ms));
  }).join();
  timed.unlock();
  EXPECT(timed.try_lock_for(std::chrono::hours(1)));
  timed.unlock();

  perfschema::unique_lock guard{queue};
  EXPECT(guard.owns_lock() && guard.mutex() == &queue);
  perfschema::unique_lock other{std::move(guard)};
  EXPECT(!guard && other);
  other.unlock();
  try {
    other.unlock();
    EXPECT(!"unlock of an unlocked unique_lock throws");
  } catch (const std::system_error& error) {
    EXPECT(error.code() == std::errc::operation_not_permitted);
  }
  other.lock();
  try {
    other.lock();
    EXPECT(!"lock of a locked unique_lock throws");
  } catch (const std::system_error& error) {
    EXPECT(error.code() == std::errc::resource_deadlock_would_occur);
  }

  std::condition_variable_any changed;
  bool ready = false;
  std::thread setter([&] {
    perfschema::lock_guard lock{queue};
    ready = true;
    changed.notify_one();
  });
  changed.wait(other, [&] { return ready; });
  other.unlock();
  setter.join();
}

void test_files(const std::string& directory) {
  const std::string path = directory + "/raii.log";
  {
    perfschema::file log{"raii/log", path, O_RDWR | O_CREAT | O_TRUNC, 0600};
    EXPECT(log && log.write("hello, world", 12) == 12);
    EXPECT(log.tell() == 12 && log.size() == 12);
    EXPECT(log.pwrite("J", 1, 0) == 1 && log.seek(7) == 7);
    char text[16] = {};
    EXPECT(log.read(text, sizeof text) == 5 && std::strcmp(text, "world") == 0);
    EXPECT(log.read(text, sizeof text) == 0);
    EXPECT(log.pread(text, 5, 0) == 5 && std::memcmp(text, "Jello", 5) == 0);
    EXPECT(log.sync() == 0 && log.datasync() == 0 && log.truncate(5) == 0 && log.size() == 5);
    const int fd = log.native_handle();
    perfschema::file moved{std::move(log)};
    EXPECT(!log.is_open() && moved.native_handle() == fd);
    perfschema::file assigned;
    assigned = std::move(moved);
    EXPECT(!moved && assigned.size() == 5);
    EXPECT(assigned.close() == 0 && !assigned);
    errno = 0;
    EXPECT(assigned.close() == -1 && errno == EBADF);
    EXPECT(assigned.read(text, 1) == -1 && errno == EBADF);
  }
  try {
    perfschema::file missing{"raii/log", directory + "/missing", O_RDONLY};
    EXPECT(!"opening a missing file throws");
  } catch (const std::system_error& error) {
    EXPECT(error.code() == std::errc::no_such_file_or_directory);
  }
  EXPECT(pfs_unlink(perfschema::file_key("raii/log"), path.c_str()) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  perfschema::set_account("someone", "somewhere");
#ifndef PFS_DISABLE
  try {
    perfschema::set_thread_name("");
    EXPECT(!"an empty name throws");
  } catch (const perfschema::error& error) {
    EXPECT(error.code() == PFS_E_INVALID_ARGUMENT && std::strlen(error.what()) > 0);
  }
#endif
  test_mutexes();
  test_files(argc > 1 ? argv[1] : "/tmp");
  std::puts(failures == 0 ? "raii: ok" : "raii: FAILED");
  return failures != 0;
}
