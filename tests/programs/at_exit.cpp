// A C++ program that works before main, after it, and in what ends threads; six threads go on until the end.
//   at_exit return | exit | quick_exit | thread_exit | main_ends_first
// Prints what it saw, which is the same without pfs.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <perfschema/pfs.hpp>
#include <thread>

namespace {

// Gives 1 if all went well. `name` is one word.
int Work(const char* name) {
  perfschema::mutex lock{"at_exit/LOCK"};
  perfschema::shared_mutex tree{"at_exit/tree"};
  perfschema::statement statement{"at_exit/statement"};
  perfschema::file file{"at_exit/file", "/dev/zero", O_RDONLY};
  char bytes[8] = {1};
  {
    std::lock_guard guard{lock};
    std::shared_lock reading{tree};
    if (file.read(bytes, sizeof bytes) != sizeof bytes) return 0;
  }
  char line[64];
  const int length = std::snprintf(line, sizeof line, "%s %d\n", name, bytes[0] == 0);
  return write(1, line, static_cast<size_t>(length)) == length;
}

struct Static {
  const char* name;
  Static(const char* begin, const char* end) : name(end) { Work(begin); }
  ~Static() { Work(name); }
};
Static first{"first_begins", "first_ends"}, second{"second_begins", "second_ends"};

struct Local {
  const char* name = nullptr;
  ~Local() {
    if (name != nullptr) Work(name);
  }
};
thread_local Local local;

void AtExit() { Work("atexit"); }
void AtQuickExit() { Work("at_quick_exit"); }

auto& busy = *new perfschema::mutex{"at_exit/busy"};  // its users outlive every static object

void GoOn() {
  for (;;) {
    std::lock_guard guard{busy};
    perfschema::mutex own{"at_exit/own"};
    own.lock();
    own.unlock();
    perfschema::file file{"at_exit/file", "/dev/zero", O_RDONLY};
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const way = argc > 1 ? argv[1] : "";
  std::atexit(AtExit);
  std::at_quick_exit(AtQuickExit);
  for (int i = 0; i < 6; ++i) std::thread(GoOn).detach();
  std::thread([] {
    local.name = "thread_ends";
    Work("thread");
  }).join();
  local.name = "main_thread_ends";
  Work("main");
  if (std::strcmp(way, "exit") == 0) std::exit(3);
  if (std::strcmp(way, "quick_exit") == 0) std::quick_exit(4);
  if (std::strcmp(way, "thread_exit") == 0) std::thread([] { std::exit(5); }).join();
  if (std::strcmp(way, "main_ends_first") == 0) {
    std::thread([] {
      usleep(20000);
      std::exit(6);
    }).detach();
    pthread_exit(nullptr);
  }
  return 2;
}
