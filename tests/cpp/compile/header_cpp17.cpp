// Both headers in C++17; also inside a class whose members have the names of system calls, and in namespaces.
#include <condition_variable>
#include <perfschema/pfs.hpp>

namespace app {

static pfs_key_t key_data;
static pfs_file_info_t files[] = {{&key_data, "data", 0, "Input."}};

struct Log {
  int fd = -1;
  bool open(const char* path) { return (fd = pfs_open(key_data, path, O_RDWR | O_CREAT, 0600)) >= 0; }
  ssize_t read(void* buffer, size_t size) { return pfs_read(fd, buffer, size); }
  ssize_t write(const void* buffer, size_t size) { return pfs_write(fd, buffer, size); }
  off_t lseek(off_t offset) { return pfs_lseek(fd, offset, SEEK_SET); }
  int unlink(const char* path) { return pfs_unlink(key_data, path); }
  int close() { return pfs_close(fd); }
};

static_assert(!std::is_copy_constructible_v<perfschema::mutex> && !std::is_move_constructible_v<perfschema::mutex>);
static_assert(!std::is_copy_constructible_v<perfschema::file> && std::is_nothrow_move_constructible_v<perfschema::file>);
static_assert(std::is_nothrow_move_assignable_v<perfschema::unique_lock<>>);

}  // namespace app

int main() {
  pfs_register_file("compile", app::files, 1);
  app::Log log;
  if (!log.open("/dev/null")) return 1;
  char buffer[4] = {};
  if (log.write(buffer, 4) != 4 || log.read(buffer, 4) != 0 || log.lseek(0) != 0 || log.unlink("/no/such/file") != -1 || log.close() != 0)
    return 1;

  perfschema::mutex one{"compile/one"}, two{"compile/two"};
  perfschema::timed_mutex timed{std::string("compile/timed")};
  { std::lock_guard guard{one}; }
  {
    std::unique_lock guard{one, std::try_to_lock};
    if (!guard) return 1;
  }
  { std::scoped_lock guard{one, two, timed}; }
  { perfschema::lock_guard guard{one}; }
  {
    perfschema::unique_lock guard{timed, std::defer_lock};
    if (!guard.try_lock()) return 1;
  }
  {
    std::unique_lock guard{timed, std::chrono::milliseconds{1}};
    if (!guard) return 1;
  }
  if (!timed.try_lock_until(std::chrono::system_clock::now())) return 1;
  timed.unlock();
  std::condition_variable_any condition;
  perfschema::unique_lock guard{one};
  condition.wait_for(guard, std::chrono::microseconds{1});
  perfschema::set_account("user", "host");
  perfschema::set_thread_name("compile/main");
  return 0;
}
