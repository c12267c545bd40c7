// Waits 100 ms for each of three locks that C++ has, and for a condition: by functions that the library has between pthreads and here.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>

namespace {

std::atomic<int> held = 0;

struct Shop {
  std::mutex orders, stock;
  std::shared_mutex prices;
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

[[gnu::noinline]] void HoldPrices(Shop& shop) {
  std::unique_lock guard(shop.prices);  // held: prices
  ++held;
  Sleep(100);
}

[[gnu::noinline]] void WaitForPrices(Shop& shop) {
  std::shared_lock guard(shop.prices);  // waits: prices
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
  std::thread orders([&] { HoldOrders(*shop); }), stock([&] { HoldStock(*shop); }), prices([&] { HoldPrices(*shop); }),
      waiter(WaitUntilReady);
  while (held < 3) Sleep(1);
  std::thread first([&] { WaitForOrders(*shop); }), second([&] { WaitForStock(*shop); }), third([&] { WaitForPrices(*shop); });
  first.join();
  second.join();
  third.join();
  {
    const std::lock_guard guard(ready_lock);
    ready = true;
  }
  is_ready.notify_all();
  for (std::thread* const thread : {&orders, &stock, &prices, &waiter}) thread->join();
}
