// Sockets that close while threads use them: no event is lost, and none is counted for another socket's instrument.
//
// Contract. An event counts for the instrument of the socket that it began on, whatever happens to that socket
// meanwhile: it may be open, closed, or its number and slot taken by a socket of another instrument. At rest the
// tables have, for each instrument, the exact number of reads, writes, other operations and bytes. While threads run
// these totals never go back.
//
// How it is checked. Every thread counts its own operations, for each instrument. Waits begin while the socket cannot
// be closed, and may end long after its close. To show that the comparison can fail, a test closes sockets without
// logging it.
#include <netinet/in.h>
#include <sys/socket.h>

#include <shared_mutex>

#include "live.h"

namespace perfschema {
namespace {

constexpr char kTable[] = "socket_summary_by_event_name";
constexpr int kKinds = 3;
constexpr const char* kNames[kKinds] = {"wait/io/socket/live/a", "wait/io/socket/live/b", "wait/io/socket/live/c"};

pfs_key_t SocketKey(const char* name) {
  pfs_key_t key = 0;
  pfs_socket_info_t info[] = {{&key, name, 0, nullptr}};
  EXPECT_EQ(pfs_register_socket("live", info, 1), PFS_OK) << pfs_last_error();
  EXPECT_NE(key, 0u);
  return key;
}
pfs_key_t KeyOf(int kind) {
  static const pfs_key_t keys[kKinds] = {SocketKey("a"), SocketKey("b"), SocketKey("c")};
  return keys[kind];
}

struct Counts {
  uint64_t reads = 0, writes = 0, others = 0, bytes_read = 0, bytes_written = 0;
  Counts& operator+=(const Counts& more) {
    reads += more.reads, writes += more.writes, others += more.others, bytes_read += more.bytes_read, bytes_written += more.bytes_written;
    return *this;
  }
  bool operator==(const Counts&) const = default;
  bool IsBefore(const Counts& later) const {
    return reads <= later.reads && writes <= later.writes && others <= later.others && bytes_read <= later.bytes_read &&
           bytes_written <= later.bytes_written;
  }
};
std::ostream& operator<<(std::ostream& out, const Counts& counts) {
  return out << counts.reads << " reads of " << counts.bytes_read << ", " << counts.writes << " writes of " << counts.bytes_written << ", "
             << counts.others << " others";
}

struct Log {
  Counts kinds[kKinds];
  Log& operator+=(const Log& more) {
    for (int i = 0; i < kKinds; ++i) kinds[i] += more.kinds[i];
    return *this;
  }
};

Log Shown() {
  const Frame frame(kTable,
                    {"EVENT_NAME", "COUNT_READ", "COUNT_WRITE", "COUNT_MISC", "SUM_NUMBER_OF_BYTES_READ", "SUM_NUMBER_OF_BYTES_WRITE"});
  EXPECT_EQ(frame.skipped(), 0u);
  Log log;
  for (size_t row = 0; row < frame.rows(); ++row) {
    for (int kind = 0; kind < kKinds; ++kind) {
      if (frame.text(row, 0) != kNames[kind]) continue;
      log.kinds[kind] = {frame.number(row, 1), frame.number(row, 2), frame.number(row, 3), frame.number(row, 4), frame.number(row, 5)};
    }
  }
  return log;
}

uint64_t Rows(const char* table) { return Frame(table, {"EVENT_NAME"}).rows(); }

uint64_t Losses() {
  uint64_t sum = 0;
  for (const char* name : {"socket_instances", "file_handles", "locker", "object_cells", "thread_statistics", "events", "names"}) {
    sum += StatusNumber(std::string("Performance_schema_") + name + "_lost");
  }
  return sum;
}

// Pairs of sockets of some kind that any thread uses, closes and replaces.
class Slots {
 public:
  static constexpr int kCount = 4;

  void Step(std::mt19937_64& random, Log* log) {
    Slot& slot = slots_[random() % kCount];
    switch (random() % 16) {
      case 0:
        return Renew(slot, static_cast<int>(random() % kKinds), log);
      case 1:
      case 2:
      case 3:
        return BeginAndEnd(slot, random, log);
      default:
        return Talk(slot, random(), log);
    }
  }

  void CloseAll(Log* log) {
    for (Slot& slot : slots_) Close(slot, log);
  }

 private:
  struct Slot {
    std::shared_mutex lifetime;
    int kind = 0;
    int fds[2] = {-1, -1};
  };

  void Close(Slot& slot, Log* log) {
    for (int& fd : slot.fds) {
      if (fd < 0) continue;
      EXPECT_EQ(pfs_close(fd), 0);
      ++log->kinds[slot.kind].others;
      fd = -1;
    }
  }

  void Renew(Slot& slot, int kind, Log* log) {
    const std::unique_lock<std::shared_mutex> lock(slot.lifetime);
    Close(slot, log);
    slot.kind = kind;
    EXPECT_EQ(pfs_socketpair(KeyOf(kind), AF_UNIX, SOCK_DGRAM, 0, slot.fds), 0);
    ++log->kinds[kind].others;
  }

  void Talk(Slot& slot, uint64_t dice, Log* log) {
    const std::shared_lock<std::shared_mutex> lock(slot.lifetime);
    if (slot.fds[0] < 0) return;
    Counts& counts = log->kinds[slot.kind];
    char bytes[64] = {};
    const ssize_t sent = pfs_send(slot.fds[dice % 2], bytes, 1 + dice / 2 % sizeof bytes, MSG_DONTWAIT);
    ++counts.writes;
    if (sent > 0) counts.bytes_written += static_cast<uint64_t>(sent);
    const ssize_t got = pfs_recv(slot.fds[1 - dice % 2], bytes, sizeof bytes, MSG_DONTWAIT);
    ++counts.reads;
    if (got > 0) counts.bytes_read += static_cast<uint64_t>(got);
  }

  // The wait ends when the socket may have been closed, and replaced.
  void BeginAndEnd(Slot& slot, std::mt19937_64& random, Log* log) {
    pfs_wait_t wait;
    int kind;
    const bool is_read = random() % 2 == 0;
    {
      const std::shared_lock<std::shared_mutex> lock(slot.lifetime);
      if (slot.fds[0] < 0) return;
      kind = slot.kind;
      EXPECT_EQ(pfs_socket_wait_begin(&wait, slot.fds[0], is_read ? PFS_SOCKET_RECV : PFS_SOCKET_SEND, 10), 1);
    }
    if (random() % 4 == 0) {
      Renew(slots_[random() % kCount], static_cast<int>(random() % kKinds), log);
    } else if (random() % 64 == 0) {
      std::this_thread::yield();  // others may be long
    }
    pfs_socket_wait_end(&wait, 3);
    Counts& counts = log->kinds[kind];
    (is_read ? counts.reads : counts.writes) += 1;
    (is_read ? counts.bytes_read : counts.bytes_written) += 3;
  }

  Slot slots_[kCount];
};

void Check(const Log& expected, const char* when) {
  const Log shown = Shown();
  for (int kind = 0; kind < kKinds; ++kind) EXPECT_EQ(shown.kinds[kind], expected.kinds[kind]) << when << ", " << kNames[kind];
}

void Churn(int threads, std::chrono::milliseconds time) {
  Truncate(kTable);
  Slots slots;
  Log total;
  std::mutex total_mutex;
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
  const uint64_t seed = Seed();
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      std::mt19937_64 random(seed + static_cast<uint64_t>(t));
      // Threads come and go as well: their cells are taken over by the next in their slot.
      while (!stop.load()) {
        std::thread([&] {
          Log log;
          for (int i = 0; i < 2000 && !stop.load(); ++i) slots.Step(random, &log);
          const std::lock_guard<std::mutex> lock(total_mutex);
          total += log;
        }).join();
      }
    });
  }
  Log last;
  uint64_t frames = 0;
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end; ++frames) {
    const Log now = Shown();
    for (int kind = 0; kind < kKinds; ++kind) {
      EXPECT_TRUE(last.kinds[kind].IsBefore(now.kinds[kind])) << last.kinds[kind] << " then " << now.kinds[kind];
    }
    last = now;
  }
  stop.store(true);
  for (std::thread& worker : workers) worker.join();
  Check(total, "open");
  slots.CloseAll(&total);
  Check(total, "closed");
  EXPECT_EQ(Rows("socket_instances"), 0u);
  EXPECT_EQ(Losses(), 0u);
  std::printf("%d threads, %llu readings: %llu reads, %llu others\n", threads, static_cast<unsigned long long>(frames),
              static_cast<unsigned long long>(total.kinds[0].reads), static_cast<unsigned long long>(total.kinds[0].others));
}

TEST(Sockets, churn_of_one_thread) { Churn(1, StressTime() / 2); }
TEST(Sockets, churn_of_four_threads) { Churn(4, StressTime()); }

TEST(Sockets, a_close_that_the_log_is_not_told_of_is_found) {
  Truncate(kTable);
  int fds[2];
  ASSERT_EQ(pfs_socketpair(KeyOf(0), AF_UNIX, SOCK_STREAM, 0, fds), 0);
  Log log;
  log.kinds[0].others = 1;
  pfs_close(fds[0]);
  EXPECT_FALSE(Shown().kinds[0] == log.kinds[0]);
  pfs_close(fds[1]);
  log.kinds[0].others = 3;
  EXPECT_TRUE(Shown().kinds[0] == log.kinds[0]);
}

// A server: one thread accepts, others talk to a client and close; clients connect, talk, close.
TEST(Sockets, many_clients_of_one_listener) {
  constexpr int kClients = 4, kConversations = 200;
  constexpr ssize_t kBytes = 20;
  Truncate(kTable);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const int listener = pfs_socket(KeyOf(0), AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(pfs_bind(listener, any, sizeof address), 0);
  ASSERT_EQ(pfs_listen(listener, 64), 0);
  ASSERT_EQ(getsockname(listener, any, &length), 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kClients; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kConversations; ++i) {
        const int fd = pfs_accept(KeyOf(1), listener, nullptr, nullptr);
        char bytes[kBytes];
        EXPECT_EQ(pfs_recv(fd, bytes, sizeof bytes, MSG_WAITALL), kBytes);
        EXPECT_EQ(pfs_send(fd, bytes, sizeof bytes, 0), kBytes);
        EXPECT_EQ(pfs_close(fd), 0);
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < kConversations; ++i) {
        const int fd = pfs_socket(KeyOf(2), AF_INET, SOCK_STREAM, 0);
        EXPECT_EQ(pfs_connect(fd, any, sizeof address), 0);
        char bytes[kBytes] = {};
        EXPECT_EQ(pfs_write(fd, bytes, sizeof bytes), kBytes);
        EXPECT_EQ(pfs_recv(fd, bytes, sizeof bytes, MSG_WAITALL), kBytes);
        EXPECT_EQ(pfs_close(fd), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Log expected;
  constexpr uint64_t kAll = kClients * kConversations;
  expected.kinds[0] = {0, 0, 3 + kAll, 0, 0};  // socket, bind, listen, accepts
  expected.kinds[1] = {kAll, kAll, kAll, kAll * kBytes, kAll * kBytes};
  expected.kinds[2] = {kAll, kAll, 3 * kAll, kAll * kBytes, kAll * kBytes};
  Check(expected, "at rest");
  EXPECT_EQ(Rows("socket_instances"), 1u);
  EXPECT_EQ(pfs_close(listener), 0);
  EXPECT_EQ(Rows("socket_instances"), 0u);
  EXPECT_EQ(Losses(), 0u);
}

}  // namespace
}  // namespace perfschema
