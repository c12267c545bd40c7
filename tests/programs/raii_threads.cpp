// Threads in C++: perfschema::thread in place of std::thread, sessions of a thread pool.
//   g++ -std=c++17 raii_threads.cpp $(pkg-config --cflags --libs perfschema) -o raii_threads
// Exits with 0 if everything behaved as its std counterpart. Works with -DPFS_DISABLE as well.
#include <cstdio>
#include <future>
#include <memory>
#include <perfschema/pfs.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace {

int failures = 0;
#define EXPECT(condition)             \
  ((condition) ? static_cast<void>(0) \
               : static_cast<void>((std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), ++failures)))

static_assert(!std::is_copy_constructible_v<perfschema::thread> && std::is_nothrow_move_constructible_v<perfschema::thread>);
static_assert(!std::is_copy_constructible_v<perfschema::thread_instance> && !std::is_copy_constructible_v<perfschema::thread_attachment>);

struct Adder {
  int sum = 0;
  void add(int a, int b) { sum = a + b; }
};

void test_threads() {
  int seen = 0;
  perfschema::thread none;
  EXPECT(!none.joinable() && none.get_id() == std::thread::id());
  perfschema::thread one{"raii/worker", [&seen](int a, const std::string& b) { seen = a + static_cast<int>(b.size()); }, 40, "ab"};
  EXPECT(one.joinable() && one.get_id() != std::thread::id());
  perfschema::thread two = std::move(one);
  EXPECT(!one.joinable() && two.joinable());
  two.join();
  EXPECT(seen == 42 && !two.joinable());

  // Arguments are copied; references need std::ref; what can only be moved is moved; members can be called.
  int target = 1;
  std::unique_ptr<int> owned = std::make_unique<int>(5);
  perfschema::thread by_reference{perfschema::thread_key("raii/worker"), [](int& t, std::unique_ptr<int> p) { t += *p; }, std::ref(target),
                                  std::move(owned)};
  Adder adder;
  perfschema::thread member{std::string("raii/worker"), &Adder::add, &adder, 1, 2};
  by_reference.swap(member);
  swap(by_reference, member);
  by_reference.join();
  member.join();
  EXPECT(target == 6 && adder.sum == 3);

  std::promise<uint64_t> promise;
  std::future<uint64_t> future = promise.get_future();
  perfschema::thread apart{"raii/worker", [](std::promise<uint64_t> p) { p.set_value(pfs_thread_id()); }, std::move(promise)};
  apart.detach();
  const uint64_t id = future.get();
  EXPECT((id != pfs_thread_id()) == (pfs_is_on() != 0));

  perfschema::thread unnamed{"a name that is none", [&seen] { ++seen; }};  // works, and is not instrumented
  unnamed.join();
  EXPECT(seen == 43);
  try {
    one.join();
    EXPECT(!"joining a thread that is none throws");
  } catch (const std::system_error& error) {
    EXPECT(error.code() == std::errc::invalid_argument || error.code() == std::errc::no_such_process);
  }
}

void test_sessions() {
  const int identity = 0;
  perfschema::thread_instance first{"raii/session", &identity, 4711}, second{std::string("raii/session")};
  perfschema::mutex mutex{"raii/LOCK"};
  const uint64_t own = pfs_thread_id();
  {
    perfschema::thread_attachment as{first};
    EXPECT(pfs_thread_id() == first.thread_id());
    {
      perfschema::thread_attachment inner{second};
      EXPECT(pfs_thread_id() == second.thread_id());
    }
    EXPECT(pfs_thread_id() == first.thread_id());
    std::lock_guard guard{mutex};
    if (pfs_is_on()) {
      EXPECT(pfs_thread_identity(first.get()) == &identity);
      perfschema::thread other{"raii/worker", [&first] {
                                 try {
                                   perfschema::thread_attachment as_well{first};
                                   EXPECT(!"attaching what another thread has throws");
                                 } catch (const perfschema::error& error) {
                                   EXPECT(error.code() == PFS_E_STATE);
                                 }
                               }};
      other.join();
    }
  }
  EXPECT(pfs_thread_id() == own);
}

}  // namespace

int main() {
  perfschema::set_account("someone", "somewhere");
  test_threads();
  test_sessions();
  std::puts(failures == 0 ? "raii_threads: ok" : "raii_threads: FAILED");
  return failures != 0;
}
