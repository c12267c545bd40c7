// allocator and memory_resource: they behave as those of the standard library, with and without PFS_DISABLE.
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <list>
#include <map>
#include <memory_resource>
#include <perfschema/pfs.hpp>
#include <string>
#include <vector>

struct alignas(64) Line {
  char bytes[64];
};

int main() {
  using perfschema::allocator;
  std::vector<int, allocator<int>> numbers{allocator<int>("class/numbers")};
  for (int i = 0; i < 1000; ++i) numbers.push_back(i);
  std::vector<int, allocator<int>> copy = numbers;
  assert(copy == numbers && copy.get_allocator() == numbers.get_allocator());
  copy.clear();
  copy.shrink_to_fit();
  std::vector<int, allocator<int>> moved = std::move(numbers);
  assert(moved.size() == 1000 && moved[999] == 999);
  std::vector<Line, allocator<Line>> lines(10, allocator<Line>("class/lines"));
  assert(reinterpret_cast<uintptr_t>(lines.data()) % 64 == 0);
  std::list<std::string, allocator<std::string>> list{allocator<std::string>("class/list")};
  for (int i = 0; i < 10; ++i) list.emplace_back(std::to_string(i));
  bool thrown = false;
  try {
    allocator<Line>().allocate(SIZE_MAX / 2);
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  assert(thrown);

  perfschema::memory_resource resource{"class/resource"}, other{"class/resource"};
  assert(resource.is_equal(other) && !resource.is_equal(*std::pmr::new_delete_resource()));
  {
    std::pmr::map<int, std::pmr::string> map{&resource};
    for (int i = 0; i < 100; ++i) map.emplace(i, std::string(100, 'x'));
    assert(map.at(50).size() == 100);
  }
  void* const page = resource.allocate(5000, 4096);
  assert(reinterpret_cast<uintptr_t>(page) % 4096 == 0);
  resource.deallocate(page, 5000, 4096);
  std::printf("memory_class: ok\n");
  return 0;
}
