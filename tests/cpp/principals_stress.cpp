// Accounts, users and hosts: no count is lost, doubled or missing while numbers move up to them.
//
// Contract. Threads come and go and change their accounts. A reading of by_account, by_user or by_host shows, for
// every row, at least the events that had ended before the reading began and at most those that had begun when it
// ended. It never shows less because a number was on its way from a thread to its account. With random TRUNCATEs of
// all levels the same holds for the events since the last TRUNCATE that empties the level. At rest the sums are
// exact.
//
// How it is checked. Every thread enters each event in a ledger, before and after it. The truncater enters the events
// that had ended before its call and those that had begun when it returned. Two things show that the check can fail:
// principals_broken, which is this file with a reader that ignores moving numbers (see CMakeLists.txt), and
// the_ledger_* below.
#include <array>

#include "live.h"

namespace perfschema {
namespace {

constexpr char kName[] = "wait/synch/mutex/live/party";
constexpr int kUsers = 3, kHosts = 2, kNobody = kUsers * kHosts, kAccounts = kNobody + 1;

enum ReadLevel { kByAccount = 0, kByUser, kByHost, kLevels };
constexpr const char* kSummaries[kLevels] = {"events_waits_summary_by_account_by_event_name", "events_waits_summary_by_user_by_event_name",
                                             "events_waits_summary_by_host_by_event_name"};
constexpr char kByThreadSummary[] = "events_waits_summary_by_thread_by_event_name";
struct Truncation {
  const char* table;
  bool empties[kLevels];
};
constexpr Truncation kTruncations[] = {{kByThreadSummary, {false, false, false}},
                                       {kSummaries[0], {true, false, false}},
                                       {kSummaries[1], {true, true, false}},
                                       {kSummaries[2], {true, false, true}},
                                       {"accounts", {true, false, false}},
                                       {"users", {true, true, false}},
                                       {"hosts", {true, false, true}}};

std::string User(int account) { return account == kNobody ? "" : "u" + std::to_string(account / kHosts); }
std::string Host(int account) { return account == kNobody ? "" : "h" + std::to_string(account % kHosts); }
// Returns the row of a level that an account counts for.
std::string KeyOf(int level, int account) {
  return level == kByAccount ? User(account) + "@" + Host(account) : level == kByUser ? User(account) : Host(account);
}
using Counts = std::array<uint64_t, kAccounts>;
using Rows = std::map<std::string, uint64_t>;
Rows ByKey(int level, const Counts& counts) {
  Rows rows;
  for (int a = 0; a < kAccounts; ++a) rows[KeyOf(level, a)] += counts[static_cast<size_t>(a)];
  return rows;
}

// Threads: any thread.
class Ledger {
 public:
  void Begin(int account) { begun_[static_cast<size_t>(account)].fetch_add(1); }
  void End(int account) { ended_[static_cast<size_t>(account)].fetch_add(1); }
  Counts begun() const { return Load(begun_); }
  Counts ended() const { return Load(ended_); }

  // The bounds that a truncater knows. `sequence_number` is odd during a truncation.
  struct Floor {
    uint64_t sequence_number = 0;
    Counts surely_gone{};   // had ended before the last TRUNCATE of the level was called
    Counts perhaps_gone{};  // had begun when it returned
  };
  Floor floor(int level) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return floors_[level];
  }
  void Truncate(const Truncation& what) {
    const Counts before = ended();
    Update(what, [](Floor&) {});
    perfschema::Truncate(what.table);
    const Counts after = begun();
    Update(what, [&](Floor& floor) { floor.surely_gone = before, floor.perhaps_gone = after; });
  }

 private:
  static Counts Load(const std::array<std::atomic<uint64_t>, kAccounts>& from) {
    Counts counts;
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = from[i].load();
    return counts;
  }
  template <typename Change>
  void Update(const Truncation& what, Change change) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int level = 0; level < kLevels; ++level) {
      if (!what.empties[level]) continue;
      ++floors_[level].sequence_number;
      change(floors_[level]);
    }
  }
  std::array<std::atomic<uint64_t>, kAccounts> begun_{}, ended_{};
  mutable std::mutex mutex_;
  Floor floors_[kLevels];
};

// Returns the rows of a summary. Adds the number of missing rows to `skipped`.
Rows Shown(int level, uint64_t* skipped) {
  std::vector<std::string_view> columns = {"EVENT_NAME", "COUNT_STAR"};
  if (level != kByHost) columns.push_back("USER");
  if (level != kByUser) columns.push_back("HOST");
  const Frame frame(kSummaries[level], columns);
  Rows rows;
  for (size_t i = 0; i < frame.rows(); ++i) {
    if (frame.text(i, 0) != kName) continue;
    const std::string first(frame.text(i, 2));
    const std::string key = level == kByAccount ? first + "@" + std::string(frame.text(i, 3)) : first;
    EXPECT_TRUE(rows.emplace(key, frame.number(i, 1)).second) << key << " twice";
  }
  *skipped += frame.skipped();
  return rows;
}

// Reads a level once. Returns true if it is right; prints errors.
bool CheckOnce(const Ledger& ledger, int level, uint64_t* skipped, uint64_t* rows_checked) {
  const Ledger::Floor before = ledger.floor(level);
  Rows low = ByKey(level, ledger.ended());
  const Rows shown = Shown(level, skipped);
  Rows high = ByKey(level, ledger.begun());
  const Ledger::Floor after = ledger.floor(level);
  const bool at_rest = before.sequence_number == after.sequence_number && before.sequence_number % 2 == 0;
  Rows gone = ByKey(level, before.surely_gone), may_be_gone = ByKey(level, before.perhaps_gone);
  bool right = true;
  for (auto& [key, most] : high) {
    const auto found = shown.find(key);
    const uint64_t count = found == shown.end() ? 0 : found->second;
    most -= gone[key];
    const uint64_t least = !at_rest || low[key] < may_be_gone[key] ? 0 : low[key] - may_be_gone[key];
    ++*rows_checked;
    if (count >= least && count <= most) continue;
    right = false;
    std::printf("%s, %s: %llu <= %llu <= %llu is wrong\n", kSummaries[level], key.c_str(), static_cast<unsigned long long>(least),
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(most));
  }
  return right;
}

class Load {
 public:
  Load() { pfs_mutex_init(MutexKey("party"), &mutex_, nullptr); }
  ~Load() { pfs_mutex_destroy(&mutex_); }
  void Events(Ledger* ledger, int account, uint64_t count) {
    for (; count > 0; --count) {
      ledger->Begin(account);
      pfs_mutex_lock(&mutex_);
      pfs_mutex_unlock(&mutex_);
      ledger->End(account);
    }
  }
  // Runs a whole thread that belongs to several accounts in sequence.
  void LiveOnce(Ledger* ledger, uint64_t seed) {
    std::mt19937_64 random(seed);
    int account = kNobody;
    for (uint64_t i = random() % 4 + 1; i > 0; --i) {
      if (random() % 3 != 0) {
        account = static_cast<int>(random() % kAccounts);
        pfs_set_account(User(account).c_str(), Host(account).c_str());
      }
      Events(ledger, account, random() % 40);
    }
  }

 private:
  pfs_mutex_t mutex_;
};

void EmptyAll() {
  for (const Truncation& what : kTruncations) Truncate(what.table);
}

TEST(Principals, the_ledger_sees_a_count_that_is_missing_and_one_too_many) {
  EmptyAll();
  Load load;
  Ledger ledger;
  uint64_t skipped = 0, rows = 0;
  std::thread([&] { load.LiveOnce(&ledger, 1); }).join();
  for (int level = 0; level < kLevels; ++level) EXPECT_TRUE(CheckOnce(ledger, level, &skipped, &rows));
  ledger.Begin(kNobody);
  ledger.End(kNobody);  // an event that did not happen
  for (int level = 0; level < kLevels; ++level) EXPECT_FALSE(CheckOnce(ledger, level, &skipped, &rows));
  Ledger nothing_happened;
  for (int level = 0; level < kLevels; ++level) EXPECT_FALSE(CheckOnce(nothing_happened, level, &skipped, &rows));
  EXPECT_EQ(skipped, 0u);
}

void Churn(bool with_truncates) {
  EmptyAll();
  Load load;
  Ledger ledger;
  constexpr int kWriters = 4;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> lives{0}, truncates{0}, seed{Seed()};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        std::thread([&] { load.LiveOnce(&ledger, seed.fetch_add(1)); }).join();
        lives.fetch_add(1);
      }
    });
  }
  if (with_truncates) {
    threads.emplace_back([&, random = std::mt19937_64(seed.fetch_add(1))]() mutable {
      while (!stop.load()) {
        ledger.Truncate(kTruncations[random() % std::size(kTruncations)]);
        truncates.fetch_add(1);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      }
    });
  }
  uint64_t skipped = 0, rows = 0, wrong = 0;
  const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count());
  while (NowNanos() < end) {
    for (int level = 0; level < kLevels; ++level) wrong += CheckOnce(ledger, level, &skipped, &rows) ? 0 : 1;
    const Frame accounts("accounts", {"CURRENT_CONNECTIONS", "TOTAL_CONNECTIONS"});
    for (size_t i = 0; i < accounts.rows(); ++i) EXPECT_LE(accounts.number(i, 0), accounts.number(i, 1));
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  for (int level = 0; level < kLevels; ++level) EXPECT_TRUE(CheckOnce(ledger, level, &skipped, &rows));
  std::printf("%llu threads, %llu truncates, %llu rows checked\nwrong sums: %llu\n", static_cast<unsigned long long>(lives.load()),
              static_cast<unsigned long long>(truncates.load()), static_cast<unsigned long long>(rows),
              static_cast<unsigned long long>(wrong));
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(skipped, 0u);
  EXPECT_GT(rows, 0u);
}

TEST(Principals, no_reading_misses_a_count_that_moves) { Churn(false); }
TEST(Principals, nor_with_concurrent_truncates_of_all_levels) { Churn(true); }

// At rest: N threads, M events each, in every table: while the threads live, as they end one by one, and afterwards.
TEST(Principals, sums_are_exact_at_rest) {
  pfs_thread_id();  // this thread is connected, too
  EmptyAll();
  Load load;
  Ledger ledger;
  constexpr int kThreads = 12, kEvents = 300;
  Meeting meeting(kThreads + 1);
  std::vector<std::thread> threads;
  std::atomic<int> may_end{-1};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      pfs_set_account(User(t % kAccounts).c_str(), Host(t % kAccounts).c_str());
      meeting.Wait();
      load.Events(&ledger, t % kAccounts, kEvents);
      meeting.Wait();
      while (may_end.load() < t) std::this_thread::sleep_for(std::chrono::microseconds(100));
    });
  }
  meeting.Wait();
  meeting.Wait();
  uint64_t skipped = 0, rows = 0;
  const auto check = [&](int ended) {
    for (int level = 0; level < kLevels; ++level) {
      uint64_t sum = 0;
      for (const auto& [key, count] : Shown(level, &skipped)) sum += count;
      EXPECT_EQ(sum, uint64_t{kThreads} * kEvents) << kSummaries[level];
      EXPECT_TRUE(CheckOnce(ledger, level, &skipped, &rows));
    }
    EXPECT_EQ(SumWhere(kByThreadSummary, "EVENT_NAME", kName, "COUNT_STAR"), static_cast<uint64_t>(kThreads - ended) * kEvents);
    const Frame accounts("accounts", {"USER", "CURRENT_CONNECTIONS"});
    uint64_t connections = 0;
    for (size_t i = 0; i < accounts.rows(); ++i) connections += accounts.number(i, 1);
    EXPECT_EQ(connections, static_cast<uint64_t>(kThreads - ended) + 1);  // and this thread
  };
  check(0);
  for (int t = 0; t < kThreads; ++t) {
    may_end.store(t);
    threads[static_cast<size_t>(t)].join();
    check(t + 1);
  }
  Truncate("accounts");
  EXPECT_EQ(SumWhere(kSummaries[0], "EVENT_NAME", kName, "COUNT_STAR"), 0u);
  for (const int level : {kByUser, kByHost})
    EXPECT_EQ(SumWhere(kSummaries[level], "EVENT_NAME", kName, "COUNT_STAR"), uint64_t{kThreads} * kEvents);
  EXPECT_EQ(skipped, 0u);
}

}  // namespace
}  // namespace perfschema
