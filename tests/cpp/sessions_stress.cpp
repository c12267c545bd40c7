// Sessions of a thread pool: any thread attaches them, one at a time, and hands them over without a lock.
//
// Contract. A thread that attaches a session sees everything that the previous thread did under it. Its events are
// counted exactly, in the order of their EVENT_IDs, and plain memory that belongs to the session needs no other lock.
// An attached session is refused to other threads. A reader of threads sees each text whole, whichever thread changes
// it.
//
// How it is checked. Each session has a plain counter that only the attached thread changes: under ThreadSanitizer a
// missing pair of release and acquire is a race. Texts are one character repeated. sessions_broken shows that the
// check of texts can fail.
#include <memory>

#include "live.h"
#include "perfschema/server.h"

namespace perfschema {
namespace {

constexpr char kName[] = "wait/synch/mutex/live/session";

pfs_key_t SessionKey() {
  pfs_key_t key = 0;
  pfs_thread_info_t info[] = {{&key, "session", PFS_USER, nullptr}};
  EXPECT_EQ(pfs_register_thread("live", info, 1), PFS_OK);
  return key;
}

struct Session {
  pfs_thread_t thread = 0;
  uint64_t events = 0;  // plain: owned by the attached thread
  uint64_t attached = 0;
};

bool IsOneCharacter(std::string_view text) { return text.empty() || text.find_first_not_of(text[0]) == text.npos; }

constexpr char kByUser[] = "events_waits_summary_by_user_by_event_name";
uint64_t CountOfAll() { return SumWhere(kByUser, "EVENT_NAME", kName, "COUNT_STAR"); }

void Pool(int workers, int sessions) {
  Truncate(kByUser);
  const pfs_key_t key = SessionKey();
  pfs_mutex_t mutex;
  pfs_mutex_init(MutexKey("session"), &mutex, nullptr);
  std::vector<Session> all(static_cast<size_t>(sessions));
  for (Session& session : all) session.thread = pfs_thread_new(key, &session, 0);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> refused{0}, hand_overs{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937_64 random(Seed() + static_cast<uint64_t>(w));
      char text[1100];
      while (!stop.load(std::memory_order_relaxed)) {
        Session& session = all[random() % all.size()];
        if (const int rc = pfs_thread_attach(session.thread); rc != PFS_OK) {
          EXPECT_EQ(rc, PFS_E_STATE);
          refused.fetch_add(1, std::memory_order_relaxed);
          continue;
        }
        EXPECT_EQ(pfs_thread_identity(session.thread), &session);
        EXPECT_EQ(pfs_thread_id(), pfs_thread_id_of(session.thread));
        ++session.attached;
        for (uint64_t i = random() % 20; i > 0; --i) {
          pfs_mutex_lock(&mutex);
          pfs_mutex_unlock(&mutex);
          ++session.events;
        }
        const size_t length = random() % sizeof text;
        std::fill_n(text, length, static_cast<char>('a' + random() % 26));
        pfs_thread_set_info(text, length);
        if (random() % 16 == 0) pfs_set_account(std::string(random() % 32, 'u').c_str(), std::string(random() % 200, 'h').c_str());
        if (random() % 2 == 0) {  // else the next attach does it
          EXPECT_EQ(pfs_thread_detach(), PFS_OK);
        }
        hand_overs.fetch_add(1, std::memory_order_relaxed);
      }
      pfs_thread_detach();
    });
  }
  uint64_t torn = 0, readings = 0;
  const uint64_t end = NowNanos() + 1'000'000 * static_cast<uint64_t>(StressTime().count());
  while (NowNanos() < end) {
    const Frame frame("threads", {"PROCESSLIST_INFO", "PROCESSLIST_USER", "PROCESSLIST_HOST"});
    for (size_t i = 0; i < frame.rows(); ++i) {
      for (size_t column = 0; column < 3; ++column) torn += IsOneCharacter(frame.text(i, column)) ? 0 : 1;
    }
    ++readings;
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  uint64_t events = 0, attached = 0;
  for (Session& session : all) {
    events += session.events;
    attached += session.attached;
  }
  EXPECT_EQ(attached, hand_overs.load());
  EXPECT_EQ(CountOfAll(), events);
  EXPECT_GT(readings, 0u);
  std::printf("%d workers, %d sessions: %llu hand-overs, %llu refused, %llu events, %llu readings\ntorn texts: %llu\n", workers, sessions,
              static_cast<unsigned long long>(hand_overs.load()), static_cast<unsigned long long>(refused.load()),
              static_cast<unsigned long long>(events), static_cast<unsigned long long>(readings), static_cast<unsigned long long>(torn));
  EXPECT_EQ(torn, 0u);
  if (workers == 1) {
    EXPECT_EQ(refused.load(), 0u);
  } else if (workers > sessions) {
    EXPECT_GT(refused.load(), 0u);
  }
  // Each session's events had consecutive numbers: the last number is the number of events.
  const Frame history("events_waits_history", {"THREAD_ID", "EVENT_ID"});
  std::map<uint64_t, uint64_t> last;
  for (size_t i = 0; i < history.rows(); ++i) last[history.number(i, 0)] = std::max(last[history.number(i, 0)], history.number(i, 1));
  for (Session& session : all) {
    EXPECT_EQ(last[pfs_thread_id_of(session.thread)], session.events);
    EXPECT_EQ(pfs_thread_delete(session.thread), PFS_OK);
    EXPECT_EQ(pfs_thread_attach(session.thread), PFS_E_NOT_FOUND);
  }
  pfs_mutex_destroy(&mutex);
}

TEST(Sessions, of_one_thread) { Pool(1, 3); }
TEST(Sessions, of_concurrent_threads) { Pool(4, 6); }
TEST(Sessions, of_more_concurrent_threads_than_sessions) { Pool(6, 2); }

// Sessions are made, used and deleted while other threads try to attach them: a handle of a deleted session is
// refused, whichever session has its slot.
TEST(Sessions, come_and_go_under_concurrent_attachers) {
  const pfs_key_t key = SessionKey();
  pfs_mutex_t mutex;
  pfs_mutex_init(MutexKey("session"), &mutex, nullptr);
  Truncate(kByUser);
  constexpr int kWorkers = 4, kPlaces = 3;
  std::atomic<pfs_thread_t> places[kPlaces] = {};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> made{0}, gone{0}, taken{0}, counted{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937_64 random(Seed() + 100 + static_cast<uint64_t>(w));
      while (!stop.load(std::memory_order_relaxed)) {
        std::atomic<pfs_thread_t>& place = places[random() % kPlaces];
        const pfs_thread_t session = place.load();
        if (session == 0) {
          pfs_thread_t fresh = pfs_thread_new(key, nullptr, 0), nobody = 0;
          ASSERT_NE(fresh, 0u);
          if (place.compare_exchange_strong(nobody, fresh)) {
            made.fetch_add(1);
          } else {
            EXPECT_EQ(pfs_thread_delete(fresh), PFS_OK);
          }
          continue;
        }
        switch (pfs_thread_attach(session)) {
          case PFS_OK:
            break;
          case PFS_E_STATE:
            taken.fetch_add(1);
            continue;
          case PFS_E_NOT_FOUND:
            gone.fetch_add(1);
            continue;
          default:
            ADD_FAILURE() << pfs_last_error();
        }
        for (uint64_t i = random() % 10; i > 0; --i) {
          pfs_mutex_lock(&mutex);
          pfs_mutex_unlock(&mutex);
          counted.fetch_add(1);
        }
        if (random() % 4 == 0) {
          pfs_thread_t mine = session;
          place.compare_exchange_strong(mine, 0);
          EXPECT_EQ(pfs_thread_delete(session), PFS_OK);
          EXPECT_EQ(pfs_thread_current(), 0u);
        } else {
          EXPECT_EQ(pfs_thread_detach(), PFS_OK);
        }
      }
    });
  }
  std::this_thread::sleep_for(StressTime());
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  std::printf("%llu sessions, refused: %llu taken, %llu gone\n", static_cast<unsigned long long>(made.load()),
              static_cast<unsigned long long>(taken.load()), static_cast<unsigned long long>(gone.load()));
  for (std::atomic<pfs_thread_t>& place : places) EXPECT_EQ(pfs_thread_delete(place.load()), PFS_OK);
  EXPECT_EQ(CountOfAll(), counted.load());
  EXPECT_GT(made.load(), 10u);
  EXPECT_EQ(StatusNumber("Performance_schema_thread_instances_lost"), 0u);
  pfs_mutex_destroy(&mutex);
}

}  // namespace
}  // namespace perfschema
