#include "snapshot/kernel_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shm/place.h"
#include "shm/writer.h"

namespace perfschema {
namespace {

constexpr int64_t kFilesOfOthers = 256;  // descriptors that the sampler leaves to its process
constexpr uint64_t kPicosPerNano = 1000;

std::string PathOf(uint64_t pid, uint64_t tid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/" + name;
}

}  // namespace

std::vector<uint64_t> ThreadsInProc(uint64_t pid) {
  std::vector<uint64_t> tids;
  DIR* const folder = opendir(("/proc/" + std::to_string(pid) + "/task").c_str());
  if (folder == nullptr) return tids;
  while (const dirent* const entry = readdir(folder)) {
    if (const uint64_t tid = std::strtoull(entry->d_name, nullptr, 10); tid != 0) tids.push_back(tid);
  }
  closedir(folder);
  return tids;
}

std::string TextInProc(uint64_t pid, uint64_t tid, const char* name) {
  char text[4096];
  return ReadSmallFile(PathOf(pid, tid, name).c_str(), text, sizeof text) ? text : std::string();
}

KernelThreads::KernelThreads(const ShmHeader& header, bool keeps_files) : pid_(header.pid) {
  const std::optional<ProcessStat> stat = StatOfWriter(header);
  is_there_ = stat && stat->state != 'Z';
  rlimit limit;
  if (keeps_files && getrlimit(RLIMIT_NOFILE, &limit) == 0)
    files_left_ = std::max<int64_t>(static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) - kFilesOfOthers, 0);
}

bool KernelThreads::ReadFile(int* fd, uint64_t tid, const char* name, char* text, size_t size) {
  if (*fd < 0) {
    if (files_left_ <= 0) return ReadSmallFile(PathOf(pid_, tid, name).c_str(), text, size);
    *fd = open(PathOf(pid_, tid, name).c_str(), O_RDONLY | O_CLOEXEC);
    if (*fd < 0) return false;
    --files_left_;
  }
  const ssize_t got = pread(*fd, text, size - 1, 0);
  if (got <= 0) return false;
  text[got] = 0;
  return true;
}

void KernelThreads::Read(Thread* thread, bool wants_state) {
  char text[512];
  thread->computed_now.reset();
  thread->waited_now.reset();
  if (ReadFile(&thread->schedstat, thread->tid, "schedstat", text, sizeof text)) {
    const auto [computed, waited] = ParseSchedulerTimes(text);
    if (thread->has_times) {
      thread->computed_now = (computed - std::min(thread->computed, computed)) * kPicosPerNano;
      thread->waited_now = (waited - std::min(thread->waited, waited)) * kPicosPerNano;
    }
    thread->computed = computed;
    thread->waited = waited;
    thread->has_times = true;
  }
  if (!wants_state) return;
  thread->state = 0;
  if (!ReadFile(&thread->stat, thread->tid, "stat", text, sizeof text)) return;
  const char* const name_end = std::strrchr(text, ')');  // the name may have blanks and parentheses
  if (name_end != nullptr && name_end[1] == ' ') thread->state = name_end[2];
}

void KernelThreads::Close(Thread* thread) {
  for (int* const fd : {&thread->stat, &thread->schedstat}) {
    if (*fd < 0) continue;
    close(*fd);
    ++files_left_;
    *fd = -1;
  }
}

std::string KernelThreads::NameOf(uint64_t tid) const {
  std::string name = TextInProc(pid_, tid, "comm");
  name.resize(std::min(name.find('\n'), name.size()));
  return name;
}

}  // namespace perfschema
