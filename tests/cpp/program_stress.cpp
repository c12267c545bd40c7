// Rows that the program declares are read while they change.
//
// Contract. A reader gets a fact whole, as one call left it, or not at all. The same holds for an event of the error
// log; and the events that a reader gets are in order without a gap. No writer waits for a reader.
//
// How it is checked. All texts of a fact are the same letter, repeated by its number, over several blocks of its
// chain, which other facts use a moment later. An event of the log contains its length and its number; its text is
// made of both. The check itself is tried on half a text first. Built with PFS_BREAK_SEQLOCK the reader skips its
// checks, and both tests must report "torn rows: N".
#include "live.h"
#include "perfschema/server.h"

namespace perfschema {
namespace {

double Seconds() {
  const char* wanted = std::getenv("PFS_STRESS_SECONDS");
  return wanted != nullptr ? std::atof(wanted) / 4 : 2;
}

bool IsOneLetter(std::string_view text) { return text.find_first_not_of(text.substr(0, 1)) == std::string_view::npos; }

// "NUMBER:LENGTH:" and LENGTH letters that follow from the number.
std::string Message(uint64_t number, size_t length) {
  return std::to_string(number) + ":" + std::to_string(length) + ":" + std::string(length, static_cast<char>('a' + number % 26));
}
bool IsMessage(std::string_view text, uint64_t* number) {
  *number = std::strtoull(std::string(text.substr(0, 20)).c_str(), nullptr, 10);
  const size_t first = text.find(':'), second = first == text.npos ? text.npos : text.find(':', first + 1);
  if (second == text.npos) return false;
  return text == Message(*number, text.size() - second - 1);
}

class Program : public testing::Test {
 protected:
  void Report(uint64_t rows, uint64_t torn) {
    std::printf("rows: %llu, torn rows: %llu\n", static_cast<unsigned long long>(rows), static_cast<unsigned long long>(torn));
    EXPECT_GT(rows, 0u);
    EXPECT_EQ(torn, 0u);
  }
  bool goes_on() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() < Seconds(); }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST_F(Program, the_checks_reject_half_a_text) {
  uint64_t number = 0;
  EXPECT_TRUE(IsOneLetter("aaa") && IsOneLetter(""));
  EXPECT_FALSE(IsOneLetter("aab"));
  EXPECT_TRUE(IsMessage(Message(12345, 300), &number));
  EXPECT_EQ(number, 12345u);
  EXPECT_FALSE(IsMessage("12345:3:cccc", &number));
  EXPECT_FALSE(IsMessage(Message(7, 30).substr(0, 20), &number));
}

TEST_F(Program, facts_concurrent) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back([&, w] {
      std::minstd_rand random(static_cast<unsigned>(w + 1));
      pfs_set_account("user", "host");
      while (!stop) {
        const std::string text(1 + random() % 900, static_cast<char>('a' + random() % 26));
        pfs_thread_set_user_variable("v", text.data(), text.size());
        const pfs_connect_attr_t attributes[] = {{"one", text.c_str()}, {"two", text.c_str()}};
        pfs_thread_set_connect_attrs(attributes, text.size() < 240 ? 2 : 1);
        const std::string ip(1 + random() % 60, static_cast<char>('a' + w));
        pfs_host_seen(ip.c_str(), std::string(ip.size() * 4, ip[0]).c_str(), 0);
        if (random() % 4 == 0) pfs_host_forget(ip.c_str());
      }
    });
  }
  uint64_t rows = 0, torn = 0;
  const auto check = [&](bool is_whole) { ++rows, torn += is_whole ? 0 : 1; };
  while (goes_on()) {
    const Frame values("user_variables_by_thread", {"VARIABLE_NAME", "VARIABLE_VALUE"});
    for (size_t i = 0; i < values.rows(); ++i)
      check(values.text(i, 0) == "v" && !values.text(i, 1).empty() && IsOneLetter(values.text(i, 1)));
    const Frame attributes("session_connect_attrs", {"ATTR_NAME", "ATTR_VALUE", "PROCESSLIST_ID"});
    for (size_t i = 0; i < attributes.rows(); ++i) {
      if (attributes.text(i, 0) == "_truncated") continue;
      check(IsOneLetter(attributes.text(i, 1)));
      if (attributes.text(i, 0) == "two") check(attributes.text(i - 1, 0) == "one" && attributes.text(i - 1, 1) == attributes.text(i, 1));
    }
    const Frame hosts("host_cache", {"IP", "HOST"});
    for (size_t i = 0; i < hosts.rows(); ++i) {
      const std::string_view ip = hosts.text(i, 0), host = hosts.text(i, 1);
      check(IsOneLetter(ip) && IsOneLetter(host) && host.size() == 4 * ip.size() && host.substr(0, ip.size()) == ip);
    }
    EXPECT_EQ(values.skipped() + attributes.skipped() + hosts.skipped(), 0u);
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  Report(rows, torn);
}

TEST_F(Program, log_concurrent) {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> numbers{0};
  std::vector<std::thread> writers;
  std::vector<uint64_t> lost(3);
  for (size_t w = 0; w < 3; ++w) {
    writers.emplace_back([&, w] {
      std::minstd_rand random(static_cast<unsigned>(w + 1));
      while (!stop) {
        const std::string text = Message(numbers.fetch_add(1), random() % (random() % 50 == 0 ? 60000 : 3000));
        lost[w] += pfs_log_bytes(PFS_LOG_NOTE, "CODE", "stress", text.data(), text.size()) == PFS_OK ? 0 : 1;
      }
    });
  }
  uint64_t rows = 0, torn = 0;
  while (goes_on()) {
    const Frame log("error_log", {"LOGGED", "DATA", "ERROR_CODE", "SUBSYSTEM"});
    for (size_t i = 0; i < log.rows(); ++i) {
      uint64_t number = 0;
      const bool is_whole = IsMessage(log.text(i, 1), &number) && log.text(i, 2) == "CODE" && log.text(i, 3) == "stress" &&
                            (i == 0 || log.number(i, 0) > log.number(i - 1, 0));
      ++rows;
      torn += is_whole ? 0 : 1;
    }
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  Report(rows, torn);
  // Only the declared losses are lost, and the remaining events have no gap.
  const Frame log("error_log", {"DATA"});
  const Frame status("global_status", {"VARIABLE_NAME", "VARIABLE_VALUE"});
  uint64_t buffered = 0, expired = 0, said_lost = 0;
  for (size_t i = 0; i < status.rows(); ++i) {
    const uint64_t value = std::strtoull(std::string(status.text(i, 1)).c_str(), nullptr, 10);
    if (status.text(i, 0) == "Error_log_buffered_events") buffered = value;
    if (status.text(i, 0) == "Error_log_expired_events") expired = value;
    if (status.text(i, 0) == "Performance_schema_error_log_lost") said_lost = value;
  }
  EXPECT_EQ(buffered, log.rows());
  EXPECT_EQ(buffered + expired + said_lost, numbers.load());
  EXPECT_EQ(said_lost, lost[0] + lost[1] + lost[2]);
}

}  // namespace
}  // namespace perfschema
