// Each of 3,000 tasks of std::async() has a thread.
#include <cstdio>
#include <future>

static long task(long number) {
  volatile long sum = number;
  for (int i = 0; i < 2000; i++) sum = sum * 31 + i;
  return sum;
}

int main() {
  long sum = 0;
  for (int i = 0; i < 3000; i++) {
    std::future<long> result = std::async(std::launch::async, task, i);
    sum += result.get();  // FAULT
  }
  std::printf("%ld\n", sum);
}
