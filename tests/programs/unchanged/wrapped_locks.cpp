// Waits 100 ms for each of two locks that std::mutex has, and for a condition: by functions that the library has between pthreads and here.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace {

std::atomic<int> held = 0;

struct Shop {
  std::mutex orders, stock;
};

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

[[gnu::noinline]] void HoldOrders(Shop& shop) {
  std::lock_guard guard(shop.orders);  // held: orders
  ++held;
  Sleep(100);
}

[[gnu::noinline]] void HoldStock(Shop& shop) {
  shop.stock.lock();  // held: stock
  ++held;
  Sleep(100);
  shop.stock.unlock();
}

[[gnu::noinline]] void WaitForOrders(Shop& shop) {
  std::lock_guard guard(shop.orders);  // waits: orders
}

[[gnu::noinline]] void WaitForStock(Shop& shop) {
  std::unique_lock guard(shop.stock);  // waits: stock
}

std::mutex ready_lock;
std::condition_variable is_ready;
bool ready = false;

[[gnu::noinline]] void WaitUntilReady() {
  std::unique_lock guard(ready_lock);
  while (!ready) is_ready.wait(guard);  // waits: ready
}

}  // namespace

int main() {
  const auto shop = std::make_unique<Shop>();
  std::thread orders([&] { HoldOrders(*shop); }), stock([&] { HoldStock(*shop); }), waiter(WaitUntilReady);
  while (held < 2) Sleep(1);
  std::thread first([&] { WaitForOrders(*shop); }), second([&] { WaitForStock(*shop); });
  first.join();
  second.join();
  {
    const std::lock_guard guard(ready_lock);
    ready = true;
  }
  is_ready.notify_all();
  for (std::thread* const thread : {&orders, &stock, &waiter}) thread->join();
}
