// A C++ user's program with the classes as programs write them: in vectors, named by their type, with the guards of std, recursive,
// semaphores, latches, barriers and streams. Compiles with -fno-exceptions and -fno-rtti.
//   g++ -std=c++20 cpp_names.cpp $(pkg-config --cflags --libs perfschema) -o cpp_names
// Takes a directory to write to. Exits with 0 if all behaved as in std. SOURCE of LOCK_guarded: the lines marked so.
#include <atomic>
#include <cstdio>
#include <perfschema/pfs.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

int failures = 0;
#define EXPECT(condition)             \
  ((condition) ? static_cast<void>(0) \
               : static_cast<void>((std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), ++failures)))

PERFSCHEMA_NAME(node_lock, "index/LOCK_node");

template <class Function>
auto elsewhere(Function function) {
  decltype(function()) result{};
  std::thread([&] { result = function(); }).join();
  return result;
}

void vectors() {
  std::vector<perfschema::mutex> plain(3);
  std::vector<perfschema::named_by<perfschema::mutex, node_lock>> nodes(5);
  for (auto& node : nodes) std::lock_guard<perfschema::named_by<perfschema::mutex, node_lock>> guard{node};
  for (auto& mutex : plain) std::lock_guard guard{mutex};
  std::vector<perfschema::shared_mutex> trees(2);
  std::shared_lock shared{trees[0]};
  std::unique_lock unique{trees[1]};
#if __cplusplus >= 202002L
  std::vector<perfschema::named<perfschema::mutex, "index/LOCK_leaf">> leaves(2);
  std::scoped_lock both{leaves[0], leaves[1]};
#endif
}

void guards() {
  perfschema::mutex mutex{"index/LOCK_guarded"};
  {
    std::lock_guard guard{mutex};  // SOURCE
  }
  {
    std::unique_lock guard{mutex, std::defer_lock};
    guard.lock();  // SOURCE
    std::unique_lock<perfschema::mutex> other = std::move(guard);
    EXPECT(!guard.owns_lock() && other.owns_lock() && other.mutex() == &mutex);
    swap(guard, other);
    EXPECT(guard.owns_lock());
    EXPECT(!elsewhere([&] { return mutex.try_lock(); }));  // SOURCE
  }
  {
    std::scoped_lock guard{mutex};  // SOURCE
  }
  mutex.lock();  // SOURCE
  std::scoped_lock adopted{std::adopt_lock, mutex};
}

void conditions() {
  perfschema::mutex mutex{"index/LOCK_work"};
  perfschema::condition_variable ready{"index/ready"};
  bool is_ready = false;
  std::thread worker([&] {
    std::lock_guard guard{mutex};
    is_ready = true;
    ready.notify_one();
  });
  std::unique_lock guard{mutex};
  ready.wait(guard, [&] { return is_ready; });
  EXPECT(ready.wait_for(guard, 1ms) == std::cv_status::timeout);
  guard.unlock();
  worker.join();
}

void recursive() {
  perfschema::recursive_mutex mutex{"index/LOCK_recursive"};
  perfschema::recursive_timed_mutex timed{"index/LOCK_recursive_timed"};
  std::lock_guard outer{mutex};
  {
    std::lock_guard inner{mutex};
    EXPECT(mutex.try_lock());
    mutex.unlock();
  }
  EXPECT(!elsewhere([&] { return mutex.try_lock(); }));
  std::lock_guard first{timed};
  EXPECT(timed.try_lock_for(1ms));
  timed.unlock();
  EXPECT(!elsewhere([&] { return timed.try_lock_for(1ms); }));
}

void synchronization() {
  perfschema::counting_semaphore<4> slots{"index/slots", 1};
  slots.acquire();
  EXPECT(!slots.try_acquire());
  EXPECT(!slots.try_acquire_for(2ms));
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    slots.release(2);
  });
  slots.acquire();
  EXPECT(slots.try_acquire_until(std::chrono::system_clock::now() + 10s));
  later.join();

  perfschema::latch done{"index/done", 3};
  EXPECT(!done.try_wait());
  int phases = 0;
  perfschema::barrier phase{"index/phase", 3, [&phases]() noexcept { ++phases; }};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) phase.arrive_and_wait();
      phase.arrive_and_drop();
      done.count_down();
    });
  }
  done.wait();
  EXPECT(done.try_wait());
  for (std::thread& thread : threads) thread.join();
  EXPECT(phases == 11);
  perfschema::latch unnamed{1};
  unnamed.arrive_and_wait();
  perfschema::thread worker{[] {}};
  worker.join();
#ifdef __cpp_lib_jthread
  perfschema::jthread stoppable{"index/stoppable", [](std::stop_token stop) {
                                  while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);
                                }};
  std::atomic<int> given{0};
  perfschema::jthread{"index/tokenless", [&](int number) { given = number; }, 7}.join();
  perfschema::jthread{[&] { ++given; }}.join();
  EXPECT(given == 8);
#endif
}

void streams(const std::string& folder) {
  const std::string path = folder + "/stream";
  {
    perfschema::ofstream out{"index/stream", path};
    EXPECT(out.is_open());
    for (int i = 0; i < 5000; ++i) out << i << '\n';
    out << std::string(20000, 'x') << '\n';
    EXPECT(out.tellp() == 23890 + 20001);
  }
  {
    perfschema::ifstream in{"index/stream", path};
    for (int i = 0; i < 5000; ++i) {
      int number = -1;
      in >> number;
      if (number != i) EXPECT(number == i);
    }
    std::string text;
    in >> text;
    EXPECT(text == std::string(20000, 'x'));
    in.seekg(5);
    in.unget();
    EXPECT(in.get() == '\n' || in.good());
    in.seekg(-3, std::ios::end);
    EXPECT(in.get() == 'x' && in.get() == 'x' && in.get() == '\n' && in.get() == EOF && in.eof());
    in.clear();
    in.seekg(0);
    std::string block(30000, ' ');
    in.read(block.data(), 30000);
    EXPECT(in.gcount() == 30000 && block.substr(0, 4) == "0\n1\n");
  }
  perfschema::fstream both{"index/stream", path};
  std::string word;
  both >> word >> word;
  EXPECT(word == "1");
  both.seekp(0);
  both << "AB";
  both.seekg(0);
  both >> word;
  EXPECT(word == "AB1");
  both.close();
  EXPECT(both.good());
  perfschema::ifstream none{"index/stream", folder + "/there/is/none"};
  EXPECT(!none && !none.is_open());
  std::FILE* plain = std::fopen(path.c_str(), "r");
  EXPECT(plain != nullptr && std::fgetc(plain) == 'A');
  if (plain != nullptr) std::fclose(plain);
}

}  // namespace

int main(int, char** arguments) {
  vectors();
  guards();
  conditions();
  recursive();
  synchronization();
  streams(arguments[1]);
  perfschema::mutex named_by_program{"LOCK_noslash"};
  std::lock_guard inside{named_by_program};
  perfschema::mutex refused{"index/bad%name"};
  perfschema::mutex again{"index/bad%name"};
  std::lock_guard plain{refused};
  if (failures == 0) std::printf("cpp_names ok\n");
  return failures == 0 ? 0 : 1;
}
