// Statements and transactions that end in another thread than they began in are counted once each, and their rows are whole.
//
// Contract. Owners begin statements and transactions, suspend some of the statements, and hand their memory over. Enders count rows, set
// errors and end them, while the owners go on with statements, stages, transactions and waits of their own, and end. Each event counts
// once, with its digest and all that both threads have set. No event is counted as lost. A row has what both have set, and belongs to the
// owner; one whose owner still lives is ended, however much the owner has recorded since.
//
// How it is checked. A number is in the text, in ROWS_SENT, which the owner sets, and in ROWS_AFFECTED, which the ender sets; a reader
// compares them in every row that has ended. other_threads_broken is this file with a library whose threads do not hold the chunks of
// suspended statements (see CMakeLists.txt): their rows are not ended.
#include <deque>
#include <memory>

#include "live.h"

namespace perfschema {
namespace {

constexpr const char* kOptions =
    "performance_schema_events_statements_history_long_size=2000,performance_schema_events_statements_history_size=10,"
    "performance_schema_max_thread_instances=64";
constexpr std::string_view kSummary = "events_statements_summary_global_by_event_name";
constexpr std::string_view kTransactions = "events_transactions_summary_global_by_event_name";
constexpr int kEnders = 3, kOwners = 3;
constexpr uint64_t kFactor = 3;

pfs_key_t Key(const char* name) {
  pfs_key_t key = 0;
  pfs_statement_info_t info[] = {{&key, name, 0, nullptr}};
  EXPECT_EQ(pfs_register_statement("live", info, 1), PFS_OK) << pfs_last_error();
  return key;
}
uint64_t CountOf(std::string_view table, std::string_view name) { return SumWhere(table, "EVENT_NAME", name, "COUNT_STAR"); }
std::map<std::string, uint64_t> Lost() {
  std::map<std::string, uint64_t> lost;
  for (const char* name : {"Performance_schema_locker_lost", "Performance_schema_nested_statement_lost", "Performance_schema_digest_lost"})
    lost[name] = StatusNumber(name);
  return lost;
}

// What is handed over.
struct Work {
  pfs_statement_t statement;
  pfs_transaction_t transaction;
  bool has_transaction = false;
  std::unique_ptr<char[]> saved;  // of a suspended statement
  uint64_t number = 0;
  std::atomic<int>* outstanding = nullptr;
};

// Threads: any thread.
class Queue {
 public:
  void Push(std::unique_ptr<Work> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.push_back(std::move(work));
    changed_.notify_one();
  }
  std::unique_ptr<Work> Pop() {  // nullptr: it is closed and empty
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !all_.empty() || is_closed_; });
    if (all_.empty()) return nullptr;
    std::unique_ptr<Work> work = std::move(all_.front());
    all_.pop_front();
    return work;
  }
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Work>> all_;
  bool is_closed_ = false;
};

void Begin(Work& work, pfs_key_t key, bool suspends) {
  EXPECT_EQ(pfs_statement_begin(&work.statement, key), 1);
  const std::string text = "select handed_over where a = " + std::to_string(work.number);
  pfs_statement_set_text(&work.statement, text.data(), text.size());
  pfs_statement_set(&work.statement, PFS_ROWS_SENT, work.number);
  if (!suspends) return;
  const size_t bytes = pfs_statement_suspend(&work.statement, nullptr, 0);
  if (bytes == 0) return;  // an ended one above it is not forgotten yet
  work.saved = std::make_unique<char[]>(bytes);
  EXPECT_EQ(pfs_statement_suspend(&work.statement, work.saved.get(), bytes), bytes);
}

void End(Work& work) {
  if (work.saved != nullptr) pfs_statement_resume(&work.statement, work.saved.get());
  pfs_statement_add(&work.statement, PFS_ROWS_AFFECTED, work.number * kFactor);
  if (work.number % 7 == 0) pfs_statement_set_error(&work.statement, 4711, "HY000", "of the other thread");
  if (work.has_transaction) pfs_transaction_end(&work.transaction, 1);
  pfs_statement_end(&work.statement);
}

// Returns the number of wrong rows among those that have ended.
uint64_t WrongRows(uint64_t* rows) {
  const Frame frame("events_statements_history_long", {"EVENT_NAME", "ROWS_SENT", "ROWS_AFFECTED", "SQL_TEXT", "MYSQL_ERRNO", "TIMER_END"});
  uint64_t wrong = 0;
  for (size_t i = 0; i < frame.rows(); ++i) {
    if (frame.text(i, 0) != "statement/live/handed") continue;
    const uint64_t number = frame.number(i, 1);
    ++*rows;
    wrong += frame.is_null(i, 5) || frame.number(i, 2) != number * kFactor ||
             frame.text(i, 3) != "select handed_over where a = " + std::to_string(number) ||
             (frame.number(i, 4) == 4711) != (number % 7 == 0);
  }
  return wrong;
}

class OtherThreads : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    EXPECT_EQ(pfs_init(kOptions), PFS_OK) << pfs_last_error();
    handed = Key("handed");
    own = Key("own");
  }
  static pfs_key_t handed, own;
};
pfs_key_t OtherThreads::handed, OtherThreads::own;

TEST_F(OtherThreads, one_thread_ends_what_another_began) {
  const std::map<std::string, uint64_t> before = Lost();
  Truncate(kSummary);
  for (uint64_t number = 1; number <= 40; ++number) {
    Work work;
    work.number = number;
    Begin(work, handed, number % 2 == 0);
    std::thread([&] { End(work); }).join();
  }
  EXPECT_EQ(CountOf(kSummary, "statement/live/handed"), 40u);
  uint64_t rows = 0;
  EXPECT_EQ(WrongRows(&rows), 0u);
  EXPECT_EQ(rows, 40u);
  EXPECT_EQ(Lost(), before);
}

TEST_F(OtherThreads, rows_of_suspended_statements_wait_for_their_end) {
  constexpr int kSuspended = 10;
  Truncate("events_statements_history_long");
  std::vector<std::unique_ptr<Work>> all;
  for (int i = 0; i < kSuspended; ++i) {
    all.push_back(std::make_unique<Work>());
    all.back()->number = 1000 + i;
    Begin(*all.back(), handed, true);
    EXPECT_NE(all.back()->saved, nullptr);
    // A chunk each: more than the pool has.
    for (int other = 0; other < 3000; ++other) {
      pfs_statement_t statement;
      pfs_statement_begin(&statement, own);
      pfs_statement_end(&statement);
    }
  }
  std::thread([&] {
    for (const std::unique_ptr<Work>& work : all) End(*work);
  }).join();
  const Frame frame("events_statements_history_long", {"EVENT_NAME", "ROWS_SENT", "ROWS_AFFECTED"});
  uint64_t found = 0;
  for (size_t i = 0; i < frame.rows(); ++i)
    found += frame.text(i, 0) == "statement/live/handed" && frame.number(i, 2) == frame.number(i, 1) * kFactor;
  std::printf("missing rows: %llu\n", static_cast<unsigned long long>(kSuspended - found));
  EXPECT_EQ(found, kSuspended);
}

TEST_F(OtherThreads, concurrent_ends_lose_nothing) {
  const std::map<std::string, uint64_t> before = Lost();
  Truncate(kSummary);
  Truncate(kTransactions);
  Truncate("events_statements_summary_by_digest");
  Queue queue;
  std::atomic<uint64_t> begun{0}, transactions{0}, numbers{0};
  std::atomic<bool> stop{false};
  const uint64_t stop_at = NowNanos() + static_cast<uint64_t>(StressTime().count()) * 1'000'000;
  const pfs_key_t key = MutexKey("of_owners");
  // An owner lives for some events: enders also end those of owners that have ended, and of which a later thread has the slot.
  const auto own_life = [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    std::atomic<int> outstanding{0};
    pfs_mutex_t mutex;
    pfs_mutex_init(key, &mutex, nullptr);
    const uint64_t events = 1 + random() % 500;
    for (uint64_t i = 0; i < events; ++i) {
      while (outstanding.load() >= 4) std::this_thread::yield();  // a thread keeps ten statements
      auto work = std::make_unique<Work>();
      work->number = ++numbers;
      work->outstanding = &outstanding;
      Begin(*work, handed, random() % 2 == 0);
      if (random() % 4 == 0) {
        work->has_transaction = true;
        ++transactions;
        EXPECT_EQ(pfs_transaction_begin(&work->transaction, PFS_SERIALIZABLE, 0, 0), 1);
      }
      ++outstanding;
      ++begun;
      queue.Push(std::move(work));
      for (uint64_t more = random() % 4; more > 0; --more) {
        pfs_statement_t statement;
        pfs_statement_begin(&statement, own);
        pfs_mutex_lock(&mutex);
        pfs_mutex_unlock(&mutex);
        pfs_statement_end(&statement);
      }
    }
    while (outstanding.load() != 0) std::this_thread::yield();
    pfs_mutex_destroy(&mutex);
  };
  std::vector<std::thread> owners, enders;
  for (int i = 0; i < kOwners; ++i) {
    owners.emplace_back([&, i] {
      for (uint64_t life = 0; NowNanos() < stop_at; ++life)
        std::thread(own_life, Seed() + static_cast<uint64_t>(i) * 1'000'003 + life).join();
    });
  }
  for (int i = 0; i < kEnders; ++i) {
    enders.emplace_back([&, i] {
      std::mt19937_64 random(Seed() + 77 + static_cast<uint64_t>(i));
      while (const std::unique_ptr<Work> work = queue.Pop()) {
        std::atomic<int>* const outstanding = work->outstanding;
        const bool is_late = random() % 8 == 0;  // the owner may have ended
        if (is_late) --*outstanding;
        if (is_late) std::this_thread::yield();
        End(*work);
        if (!is_late) --*outstanding;
      }
    });
  }
  uint64_t rows = 0, wrong = 0;
  while (NowNanos() < stop_at) {
    wrong += WrongRows(&rows);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (std::thread& owner : owners) owner.join();
  queue.Close();
  for (std::thread& ender : enders) ender.join();
  wrong += WrongRows(&rows);
  std::printf("%llu statements, %llu transactions, %llu rows; wrong rows: %llu\n", static_cast<unsigned long long>(begun.load()),
              static_cast<unsigned long long>(transactions.load()), static_cast<unsigned long long>(rows),
              static_cast<unsigned long long>(wrong));
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(rows, 0u);
  EXPECT_EQ(CountOf(kSummary, "statement/live/handed"), begun.load());
  EXPECT_EQ(CountOf(kTransactions, "transaction"), transactions.load());
  std::map<std::string, uint64_t> after = Lost();
  // The texts of a statement are gone with its owner, unless it was suspended.
  const uint64_t digested =
      SumWhere("events_statements_summary_by_digest", "DIGEST_TEXT", "SELECT `handed_over` WHERE `a` = ?", "COUNT_STAR");
  EXPECT_EQ(digested + after["Performance_schema_digest_lost"] - before.at("Performance_schema_digest_lost"), begun.load());
  after["Performance_schema_digest_lost"] = before.at("Performance_schema_digest_lost");
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace perfschema
