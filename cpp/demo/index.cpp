// demo/index.cpp: the program that `pfs demo` watches. Several threads read all .py files below some folders, count their words in one
// shared table, write a sorted index, read it back and check it. Instrumented with the public C++ API only.
//
//     pfs-demo-index [--threads N] --out DIR ROOT...        a ROOT is a folder, a file, or "-": names of files on the standard input
//
// The standard output says how far it is, one fact a line: "progress DONE TOTAL", "segment PATH", "result FILES BYTES WORDS DISTINCT".
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <perfschema/pfs.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Counts = std::unordered_map<std::string, uint64_t>;

constexpr size_t kReadSize = 64 * 1024;
constexpr size_t kWriteSize = 16 * 1024;

// The files to read. Each is handed out once.
// Threads: any thread.
class Queue {
 public:
  explicit Queue(std::vector<std::string> files) : files_(std::move(files)) {}

  const std::string* Take() {
    perfschema::lock_guard guard(mutex_);
    return next_ < files_.size() ? &files_[next_++] : nullptr;
  }

  void Done(uint64_t bytes) {
    perfschema::lock_guard guard(mutex_);
    bytes_ += bytes;
    if (++done_ % 50 == 0 || done_ == files_.size()) std::printf("progress %zu %zu\n", done_, files_.size());
    if (done_ % 50 == 0) std::fflush(stdout);
  }

  size_t size() const { return files_.size(); }
  uint64_t bytes() const { return bytes_; }  // REQUIRES: all threads are done

 private:
  const std::vector<std::string> files_;
  perfschema::mutex mutex_{"demo/LOCK_queue"};
  size_t next_ = 0;     // guarded by mutex_
  size_t done_ = 0;     // guarded by mutex_
  uint64_t bytes_ = 0;  // guarded by mutex_
};

// Words and how often they came up, in a few parts with a mutex each.
// Threads: any thread.
class WordTable {
 public:
  void Add(const Counts& counts) {
    for (Part& part : parts_) {
      const auto index = static_cast<size_t>(&part - parts_.data());
      perfschema::lock_guard guard(part.mutex);
      for (const auto& [word, count] : counts) {
        if (PartOf(word) == index) part.counts[word] += count;
      }
    }
  }

  std::vector<std::pair<std::string, uint64_t>> Sorted() {
    std::vector<std::pair<std::string, uint64_t>> all;
    for (Part& part : parts_) {
      perfschema::lock_guard guard(part.mutex);
      all.insert(all.end(), part.counts.begin(), part.counts.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  struct Part {
    perfschema::mutex mutex{"demo/LOCK_words"};
    Counts counts;  // guarded by mutex
  };
  static constexpr size_t kParts = 3;

  static size_t PartOf(const std::string& word) { return std::hash<std::string>{}(word) % kParts; }

  std::array<Part, kParts> parts_;
};

[[noreturn]] void Fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

// The whole file, read until nothing comes.
void ReadWhole(perfschema::file& file, const std::string& path, std::string* text) {
  text->clear();
  for (;;) {
    const size_t used = text->size();
    text->resize(used + kReadSize);
    const ssize_t got = file.read(text->data() + used, kReadSize);
    if (got < 0) Fail(path);
    text->resize(used + static_cast<size_t>(got));
    if (got == 0) return;
  }
}

bool IsWordByte(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

void CountWords(std::string_view text, Counts* counts) {
  size_t at = 0;
  while (at < text.size()) {
    while (at < text.size() && !IsWordByte(text[at])) ++at;
    const size_t begin = at;
    while (at < text.size() && IsWordByte(text[at])) ++at;
    if (at > begin) ++(*counts)[std::string(text.substr(begin, at - begin))];
  }
}

void Work(int number, Queue* queue, WordTable* words) {
  pfs_set_thread_name(("demo/worker_" + std::to_string(number)).c_str());
  std::string text;
  Counts counts;
  while (const std::string* path = queue->Take()) {
    perfschema::file file("demo/source", *path, O_RDONLY | O_CLOEXEC);
    ReadWhole(file, *path, &text);
    file.close();
    counts.clear();
    CountWords(text, &counts);
    words->Add(counts);
    queue->Done(text.size());
  }
}

// One "word count" a line. Returns what it wrote.
std::string WriteIndex(const std::string& path, const std::vector<std::pair<std::string, uint64_t>>& words) {
  std::string text;
  for (const auto& [word, count] : words) text += word + ' ' + std::to_string(count) + '\n';
  perfschema::file file("demo/index", path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
  for (size_t at = 0; at < text.size();) {
    const ssize_t put = file.write(text.data() + at, std::min(kWriteSize, text.size() - at));
    if (put < 0) Fail(path);
    at += static_cast<size_t>(put);
  }
  if (file.sync() != 0 || file.close() != 0) Fail(path);
  return text;
}

void CollectFiles(const std::string& root, std::vector<std::string>* files) {
  if (root == "-") {
    for (std::string line; std::getline(std::cin, line);) {
      if (!line.empty()) files->push_back(line);
    }
    return;
  }
  if (!fs::is_directory(root)) {
    files->push_back(root);
    return;
  }
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied)) {
    std::error_code ignored;
    if (entry.path().extension() == ".py" && entry.is_regular_file(ignored) && access(entry.path().c_str(), R_OK) == 0) {
      files->push_back(entry.path().string());
    }
  }
}

int Run(int argc, char** argv) {
  int threads = 4;
  std::string out;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--threads" && i + 1 < argc) {
      threads = std::atoi(argv[++i]);
    } else if (argument == "--out" && i + 1 < argc) {
      out = argv[++i];
    } else {
      CollectFiles(argv[i], &files);
    }
  }
  if (out.empty() || threads < 1 || threads > 256) {
    std::fprintf(stderr, "usage: pfs-demo-index [--threads 1..256] --out DIR ROOT...\n");
    return 2;
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  pfs_set_thread_name("demo/main");
  std::printf("progress 0 %zu\n", files.size());
  std::fflush(stdout);

  Queue queue(std::move(files));
  WordTable words;
  std::vector<std::thread> workers;
  std::vector<std::exception_ptr> failures(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      try {
        Work(i + 1, &queue, &words);
      } catch (...) {
        failures[static_cast<size_t>(i)] = std::current_exception();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }

  const auto sorted = words.Sorted();
  const std::string path = out + "/index.txt";
  const std::string written = WriteIndex(path, sorted);
  perfschema::file file("demo/index", path, O_RDONLY | O_CLOEXEC);
  std::string found;
  ReadWhole(file, path, &found);
  file.close();
  if (found != written) {
    std::fprintf(stderr, "pfs-demo-index: %s does not hold what was written\n", path.c_str());
    return 1;
  }
  uint64_t total = 0;
  for (const auto& [word, count] : sorted) total += count;
  std::printf("segment %s\n", pfs_segment_path());
  std::printf("result %zu %llu %llu %zu\n", queue.size(), static_cast<unsigned long long>(queue.bytes()),
              static_cast<unsigned long long>(total), sorted.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pfs-demo-index: %s\n", error.what());
    return 1;
  }
}
