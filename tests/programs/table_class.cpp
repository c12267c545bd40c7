// perfschema::table and its related classes in a C++ user's program. Exits with 0 if they do not disturb the program.
// Works with -DPFS_DISABLE as well.
//   g++ -std=c++17 table_class.cpp $(pkg-config --cflags --libs perfschema) -o table_class
// With two arguments it waits for a line at the end, so that its tables can be read.
#include <cstdio>
#include <map>
#include <perfschema/pfs.hpp>
#include <perfschema/server.hpp>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

int failures = 0;
#define EXPECT(condition)             \
  ((condition) ? static_cast<void>(0) \
               : static_cast<void>((std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), ++failures)))

// A map whose rows and locks are instrumented.
class store {
 public:
  void put(int key, const std::string& value) {
    const perfschema::metadata_lock meaning{PFS_OBJECT_TABLE,    "app", "store", PFS_METADATA_SHARED_WRITE, PFS_METADATA_STATEMENT,
                                            PFS_METADATA_GRANTED};
    const std::unique_lock guard = lock();
    {
      perfschema::table_io wait{table_, PFS_TABLE_INSERT};
      rows_[key] = value;
    }
    table_.unlock();
  }
  size_t count(int from, int to) {
    perfschema::table_io wait{table_, PFS_TABLE_FETCH, 0};
    size_t found = 0;
    for (auto at = rows_.lower_bound(from); at != rows_.end() && at->first < to; ++at) ++found;
    wait.rows(found);
    return found;
  }
  std::string& at(int key) {
    perfschema::table_io wait{table_, PFS_TABLE_FETCH, 0};
    return rows_.at(key);  // may throw: no row
  }

 private:
  std::unique_lock<std::shared_mutex> lock() {
    perfschema::table_lock wait{table_, PFS_TABLE_WRITE_LOCK};
    std::unique_lock guard{mutex_};
    wait.acquired();
    return guard;
  }

  std::shared_mutex mutex_;
  std::map<int, std::string> rows_;
  perfschema::table table_{"app", "store", {"key"}, this};
};

void use_store(store& s) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&s, thread] {
      for (int i = 0; i < 100; ++i) s.put(100 * thread + i, "value");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(s.count(50, 150) == 100);
  EXPECT(s.at(7) == "value");
  try {
    s.at(1000);
    EXPECT(false);
  } catch (const std::out_of_range&) {
  }
}

void move_and_lock() {
  perfschema::table a{"app", "moved", {}, nullptr, PFS_OBJECT_TEMPORARY_TABLE}, b;
  EXPECT(b.get() == nullptr);
  b = std::move(a);
  perfschema::table c{std::move(b)};
  c.unbind();
  c.bind();
  {
    perfschema::table_lock wait{c, PFS_TABLE_READ_EXTERNAL};
    wait.acquired();
    wait.acquired();  // does nothing more
  }
  {
    perfschema::table_lock wait{c, PFS_TABLE_READ_LOCK};
    wait.failed();
  }
  c.unlock_internal();
  { perfschema::table_io wait{b, PFS_TABLE_DELETE}; }  // moved from: nothing
  perfschema::metadata_lock lock{PFS_OBJECT_SCHEMA, "app", "", PFS_METADATA_EXCLUSIVE};
  { perfschema::metadata_wait wait{lock}; }
  lock.type(PFS_METADATA_SHARED);
  lock.duration(PFS_METADATA_EXPLICIT);
  lock.granted();
  perfschema::metadata_lock other = std::move(lock);
  lock.granted();
  other.release();
  other.release();
  { perfschema::idle quiet; }
  c.close();
  perfschema::table::drop("app", "moved", PFS_OBJECT_TEMPORARY_TABLE);
}

}  // namespace

int main(int argc, char**) {
  store s;
  use_store(s);
  move_and_lock();
  static_assert(!std::is_copy_constructible_v<perfschema::table> && std::is_nothrow_move_assignable_v<perfschema::table>);
  static_assert(!std::is_move_constructible_v<perfschema::table_io> && !std::is_copy_constructible_v<perfschema::metadata_lock>);
  if (argc > 2) {
    std::printf("segment %s\nready yes\n", pfs_segment_path());
    std::fflush(stdout);
    if (std::getchar() == EOF) return 1;
  } else if (failures == 0) {
    std::puts("table_class: ok");
  }
  return failures == 0 ? 0 : 1;
}
