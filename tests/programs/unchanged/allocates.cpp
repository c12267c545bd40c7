// Allocates memory in every way, from several threads, and says how often and how many bytes: "COUNT BYTES KEPT".
// Blocks go from thread to thread. A forked child frees its copies.
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

namespace {

std::atomic<long> count{0}, bytes{0};

// Notes a block, and uses all of it.
template <typename T>
T* Note(T* block, size_t size) {
  assert(block != nullptr && malloc_usable_size(block) >= size);
  std::memset(static_cast<void*>(block), 0x5a, size);
  count += 1;
  bytes += static_cast<long>(size);
  return block;
}

struct alignas(128) Aligned {
  char data[256];
};

constexpr int kRounds = 2000, kSlots = 64;
std::atomic<void*> slots[kSlots];

void Work(int seed) {
  for (int i = 0; i < kRounds; ++i) {
    void* block = Note(std::malloc(static_cast<size_t>(1 + i % 300)), static_cast<size_t>(1 + i % 300));
    if (i % 3 == 0) block = Note(std::realloc(block, 1000), 1000);
    std::free(slots[(seed + i * 7) % kSlots].exchange(block));  // perhaps another thread's
    auto* const text = Note(new char[20], 20);
    auto* const number = Note(new uint64_t, sizeof(uint64_t));
    auto* const aligned = static_cast<Aligned*>(static_cast<void*>(Note(reinterpret_cast<char*>(new Aligned), sizeof(Aligned))));
    assert(reinterpret_cast<uintptr_t>(aligned) % alignof(Aligned) == 0);
    delete aligned;
    delete number;
    delete[] text;
    void* more = nullptr;
    assert(posix_memalign(&more, 64, 100) == 0 && reinterpret_cast<uintptr_t>(more) % 64 == 0);
    std::free(Note(more, 100));
    std::free(Note(std::aligned_alloc(256, 512), 512));
    std::free(Note(std::calloc(3, 11), 33));
  }
}

}  // namespace

int main(int arguments, char**) {
  std::vector<std::thread> threads;
  threads.reserve(4);
  const size_t of_vector = 4 * sizeof(std::thread);
  count += 1;
  bytes += static_cast<long>(of_vector);
  for (int i = 0; i < 4; ++i) threads.emplace_back(Work, i);
  count += 4;  // the states of the threads
  for (std::thread& thread : threads) thread.join();
  if (fork() == 0) {
    for (auto& slot : slots) std::free(slot.exchange(nullptr));
    _exit(0);
  }
  int status = 0;
  wait(&status);
  for (auto& slot : slots) std::free(slot.exchange(nullptr));
  assert(std::malloc(SIZE_MAX / 2) == nullptr);
  bool is_thrown = false;
  try {
    if (arguments == 1) (void)!::operator new(SIZE_MAX / 2);  // that of mimalloc ends the program
  } catch (const std::bad_alloc&) {
    is_thrown = true;
  }
  assert(is_thrown == (arguments == 1) && ::operator new(SIZE_MAX / 2, std::nothrow) == nullptr);
  void* const kept = Note(std::malloc(5000), 5000);
  std::printf("%ld %ld %d\n", count.load(), bytes.load(), kept != nullptr ? 5000 : 0);
  return status;
}
