// Many locks and short lives, with known numbers of operations.
//
//     lock_lives stack N    std::mutex at one address of the stack: N of first() and 2 N of second(), in turn
//     lock_lives heap N     std::mutex on the heap: N of first() and 2 N of second(). Prints KiB in memory at the end
//     lock_lives live N     N mutexes at a time, each locked once
//     lock_lives copy N     a mutex that is copied N times with the object around it
//     lock_lives shared N   one process makes N locks, another one N more, in memory that both have mapped
//     lock_lives together N locks of 8 addresses, made N times each: four threads take each of them at once, first() and second() in turn.
//                           Every other time they are made and destroyed by calls
//     lock_lives conditions N  a condition at one address, made N times, by a call or without one: each is waited for once
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<int> sum{0};

[[gnu::noinline]] void Use(std::mutex& mutex) {
  mutex.lock();
  ++sum;
  mutex.unlock();
}

[[gnu::noinline]] void OnStack(bool is_first) {
  std::mutex mutex;
  asm volatile("" : : "r"(&mutex) : "memory");
  if (is_first) {
    pthread_mutex_lock(mutex.native_handle());
    ++sum;
    mutex.unlock();
  } else {
    Use(mutex);
    Use(mutex);
  }
}

struct Node {
  char before[40];
  std::mutex mutex;
};

[[gnu::noinline]] void first(Node& node) {
  pthread_mutex_lock(node.mutex.native_handle());
  ++sum;
  pthread_mutex_unlock(node.mutex.native_handle());
}

[[gnu::noinline]] void second(Node& node) {
  pthread_mutex_lock(node.mutex.native_handle());
  ++sum;
  pthread_mutex_unlock(node.mutex.native_handle());
}

void Heap(int count) {
  for (int i = 0; i < 3 * count; ++i) {
    const auto node = std::make_unique<Node>();
    i % 3 == 0 ? first(*node) : second(*node);
  }
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  std::printf("%ld\n", resident * sysconf(_SC_PAGESIZE) / 1024);
}

void Live(int count) {
  const auto nodes = std::make_unique<Node[]>(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) first(nodes[i]);
}

// Copies of an object with an unlocked mutex in it: not allowed, and done.
void Copy(int count) {
  auto* nodes = static_cast<Node*>(std::calloc(static_cast<size_t>(count) + 1, sizeof(Node)));
  first(nodes[0]);
  for (int i = 0; i < count; ++i) {
    std::memcpy(static_cast<void*>(&nodes[i + 1]), &nodes[i], sizeof(Node));
    second(nodes[i + 1]);
    first(nodes[i]);
  }
  std::free(nodes);
}

// Locks that are not declared as shared, in shared memory: not allowed, and done.
void Shared(int count) {
  void* const memory = mmap(nullptr, sizeof(Node), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& node = *new (memory) Node;
  first(node);
  if (fork() == 0) {
    for (int i = 0; i < count; ++i) second(node);
    _exit(0);
  }
  wait(nullptr);
  for (int i = 0; i < count; ++i) first(node);
}

constexpr int kThreads = 4, kNodes = 8;

// Waits until all threads have come so far. No lock, and nothing that pfs sees.
void Meet(std::atomic<int>& arrived, int wanted) {
  ++arrived;
  while (arrived.load() < wanted) std::this_thread::yield();
}

void Together(int count) {
  const auto nodes = std::make_unique<Node[]>(kNodes);
  std::atomic<int> arrived{0};
  const auto work = [&](int number) {
    for (int round = 0, meeting = 0; round < count; ++round) {
      if (number == 0) {
        for (int i = 0; i < kNodes; ++i) {
          round % 2 == 0 ? static_cast<void>(new (&nodes[i].mutex) std::mutex)
                         : static_cast<void>(pthread_mutex_init(nodes[i].mutex.native_handle(), nullptr));
        }
      }
      Meet(arrived, kThreads * ++meeting);
      for (int i = 0; i < kNodes; ++i) (round + number) % 2 == 0 ? first(nodes[i]) : second(nodes[i]);
      Meet(arrived, kThreads * ++meeting);
      for (int i = 0; number == 0 && round % 2 == 1 && i < kNodes; ++i) pthread_mutex_destroy(nodes[i].mutex.native_handle());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

void Conditions(int count) {
  const auto condition = std::make_unique<pthread_cond_t>();
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = 0; i < count; ++i) {
    if (i % 2 == 0) {
      pthread_cond_init(condition.get(), nullptr);
    } else {
      *condition = PTHREAD_COND_INITIALIZER;
    }
    const timespec past = {0, 0};
    pthread_mutex_lock(&mutex);
    sum += pthread_cond_timedwait(condition.get(), &mutex, &past) == ETIMEDOUT ? 1 : 0;
    pthread_mutex_unlock(&mutex);
    if (i % 3 != 0) pthread_cond_destroy(condition.get());
  }
}

}  // namespace

int main(int, char** arguments) {
  const std::string what = arguments[1];
  const int count = std::atoi(arguments[2]);
  if (what == "stack") {
    for (int i = 0; i < 2 * count; ++i) OnStack(i % 2 == 0);
  } else if (what == "heap") {
    Heap(count);
  } else if (what == "live") {
    Live(count);
  } else if (what == "copy") {
    Copy(count);
  } else if (what == "together") {
    Together(count);
  } else if (what == "conditions") {
    Conditions(count);
  } else {
    Shared(count);
  }
  return sum == 0 ? 1 : 0;
}
