// tests/cpp/live.h: helpers for tests of a running library: its tables as numbers and texts, threads that start
// together, a printed seed.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "perfschema/pfs.h"
#include "table/table_def.h"

namespace perfschema {

// Some columns of a table of this process (or of a given segment), as they are now.
// Threads: immutable.
class Frame {
 public:
  Frame(std::string_view table, std::vector<std::string_view> columns, SegmentView view = OwnSegment()) {
    EXPECT_TRUE(FindTable(table, &table_).ok()) << table;
    for (const std::string_view name : columns) {
      size_t index = 0;
      while (index < table_->def->columns.size() && table_->def->columns[index].name.view() != name) ++index;
      EXPECT_LT(index, table_->def->columns.size()) << table << "." << name;
      chosen_.push_back(index);
    }
    EXPECT_TRUE(ReadTable(*table_, view, chosen_, &data_).ok());
  }
  size_t rows() const { return data_.rows; }
  uint64_t skipped() const { return data_.skipped; }
  bool is_null(size_t row, size_t column) const {
    const ColumnData& data = data_.columns[column];
    return !data.nulls.empty() && data.nulls[row] != 0;
  }
  uint64_t number(size_t row, size_t column) const { return is_null(row, column) ? 0 : data_.columns[column].words[row]; }
  std::string_view text(size_t row, size_t column) const {
    if (is_null(row, column)) return {};
    const ColumnData& data = data_.columns[column];
    const SqlType& type = table_->def->columns[chosen_[column]].type;
    return type.kind == ColumnKind::kEnum ? type.values[data.codes[row]] : std::string_view(data.texts[data.codes[row]]);
  }

 private:
  const NamedTable* table_ = nullptr;
  std::vector<size_t> chosen_;
  TableData data_;
};

// Returns the sum of a number column over the rows whose text in `key_column` is `key`.
inline uint64_t SumWhere(std::string_view table, std::string_view key_column, std::string_view key, std::string_view column) {
  const Frame frame(table, {key_column, column});
  uint64_t sum = 0;
  for (size_t i = 0; i < frame.rows(); ++i) {
    if (frame.text(i, 0) == key) sum += frame.number(i, 1);
  }
  return sum;
}

inline uint64_t StatusNumber(std::string_view name) {
  const Frame frame("global_status", {"VARIABLE_NAME", "VARIABLE_VALUE"});
  for (size_t i = 0; i < frame.rows(); ++i) {
    if (frame.text(i, 0) == name) return std::strtoull(std::string(frame.text(i, 1)).c_str(), nullptr, 10);
  }
  ADD_FAILURE() << "no status " << name;
  return 0;
}

inline void Truncate(std::string_view name) {
  const NamedTable* table = nullptr;
  ASSERT_TRUE(FindTable(name, &table).ok());
  ASSERT_TRUE(TruncateTable(*table).ok());
}

// Returns the seed of this process's stress tests. It is printed, so that a failure can be repeated with
// PFS_STRESS_SEED.
inline uint64_t Seed() {
  static const uint64_t seed = [] {
    const char* chosen = std::getenv("PFS_STRESS_SEED");
    const uint64_t value = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device()();
    std::printf("PFS_STRESS_SEED=%llu\n", static_cast<unsigned long long>(value));
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

// Takes all cases of a list, or, under a sanitizer, where each takes ten times as long, one in kOneIn of them: others in each run, and all
// of them with the seeds from 0 to kOneIn - 1.
class Sample {
 public:
#ifdef PFS_SANITIZED
  static constexpr uint64_t kOneIn = 15;
#else
  static constexpr uint64_t kOneIn = 1;
#endif
  bool TakesNext() { return at_++ % kOneIn == 0; }

 private:
  uint64_t at_ = Seed();
};

inline std::chrono::milliseconds StressTime() {
  const char* chosen = std::getenv("PFS_STRESS_SECONDS");
  return std::chrono::milliseconds(static_cast<int64_t>(1000 * (chosen != nullptr ? std::strtod(chosen, nullptr) : 1.5)));
}

inline uint64_t NowNanos() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); }

// A reusable barrier for `count` threads.
// Threads: any thread.
class Meeting {
 public:
  explicit Meeting(int count) : count_(count) {}
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t round = round_;
    if (++here_ == count_) {
      here_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int count_;
  int here_ = 0;
  uint64_t round_ = 0;
};

inline pfs_key_t MutexKey(const char* name) {
  pfs_key_t key = 0;
  pfs_mutex_info_t info[] = {{&key, name, 0, nullptr}};
  EXPECT_EQ(pfs_register_mutex("live", info, 1), PFS_OK) << pfs_last_error();
  EXPECT_NE(key, 0u);
  return key;
}
inline pfs_key_t FileKey(const char* name) {
  pfs_key_t key = 0;
  pfs_file_info_t info[] = {{&key, name, 0, nullptr}};
  EXPECT_EQ(pfs_register_file("live", info, 1), PFS_OK) << pfs_last_error();
  EXPECT_NE(key, 0u);
  return key;
}

// A temporary directory that is removed with its files.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char pattern[] = "/tmp/pfs-test-XXXXXX";
    path_ = mkdtemp(pattern);
  }
  ~TemporaryDirectory() {
    const std::string command = "rm -rf '" + path_ + "'";
    if (std::system(command.c_str()) != 0) std::perror("rm");
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace perfschema
