// Names that are no known file's (record/family/passing_names.h). Calls find them without a lock while others replace them.
//
// Contract. From the moment a call holds a name until it lets go, the name's word is that text, byte for byte, whatever other calls add.
// No name is released twice. Half of the threads add names without the cold lock. IsNoFile() says true only if the index had no file of
// that name at some moment of the search.
//
// How it is checked. Texts are longer than two cache lines and follow from their number, so any mixture of two is found. Holders keep a
// name until others have replaced more names than the segment keeps freed ones: a name that was released is another one by then. The
// negative control is this program with a library that replaces names that are held (PFS_BREAK_PASSING_NAMES): the test must fail.
#include <fcntl.h>
#include <unistd.h>

#include "live.h"
#include "record/engine/cold_lock.h"
#include "record/engine/names.h"
#include "record/family/file_index.h"
#include "record/family/files.h"
#include "record/family/passing_names.h"

namespace perfschema {
namespace {

std::string TextOf(uint64_t number) {
  std::string text = "/" + std::to_string(number) + "/";
  while (text.size() < 160) text += static_cast<char>('a' + (number * 7 + text.size() * text.size()) % 26);
  return text;
}

struct Held {
  uint32_t place = 0;
  uint64_t word = 0;
};

// Does what a begin does. `names`: those that the thread has in advance, which need no lock.
Held Hold(const std::string& text, NameStash* names = nullptr) {
  Held held;
  const uint32_t hash = HashName(text);
  held.place = HoldPassingName(text, hash, &held.word);
  if (held.place != 0) return held;
  if (names != nullptr && names->MayReplace(text.size())) {
    held.place = AddPassingName(text, hash, &held.word, *names);
  } else if (const ColdLock lock; lock) {
    held.place = AddPassingName(text, hash, &held.word);
    if (names != nullptr) names->Refill(text.size());
  }
  return held;
}

// Few freed names wait before they are used again: as many as the holders below wait for.
bool StartWithShortHistory() {
  static const bool is_started = pfs_init("performance_schema_events_waits_history_long_size=500") == PFS_OK && EnsureStarted();
  return is_started;
}

TEST(PassingNames, stay_until_another_name_has_their_place) {
  ASSERT_TRUE(StartWithShortHistory());
  const std::string text = TextOf(1);
  const uint32_t hash = HashName(text);
  uint64_t word = 7;
  EXPECT_EQ(HoldPassingName(text, hash, &word), 0u);
  EXPECT_EQ(word, 7u);
  const Held first = Hold(text);
  ASSERT_NE(first.place, 0u);
  EXPECT_TRUE(IsNameNow(first.word, text));
  LetPassingNameGo(first.place);
  const Held again = Hold(text);
  EXPECT_EQ(again.place, first.place);
  EXPECT_EQ(again.word, first.word);
  // A name that is held keeps its place, and is nobody's to take.
  uint64_t rival = 2;
  while (HashName(TextOf(rival)) >> 24 != hash >> 24) ++rival;
  EXPECT_EQ(Hold(TextOf(rival)).place, 0u);
  const Held other = Hold(text);
  if (const ColdLock lock; lock) {
    EXPECT_EQ(TakePassingName(other.place), 0u);
  }
  EXPECT_TRUE(IsNameNow(first.word, text));
  if (const ColdLock lock; lock) {
    const uint64_t taken = TakePassingName(again.place);
    EXPECT_EQ(taken, first.word);
    ReleaseName(static_cast<uint32_t>(taken));
  }
  EXPECT_EQ(HoldPassingName(text, hash, &word), 0u);
  const Held replaced = Hold(TextOf(rival));
  ASSERT_NE(replaced.place, 0u);
  LetPassingNameGo(replaced.place);
}

TEST(PassingNames, of_a_thread_are_taken_in_advance) {
  NameStash names = {};
  EXPECT_FALSE(names.MayReplace(160));
  uint64_t number = 2000, without_lock = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = TextOf(number++);
    if (names.MayReplace(text.size())) ++without_lock;
    const Held held = Hold(text, &names);
    ASSERT_NE(held.place, 0u);
    EXPECT_TRUE(IsNameNow(held.word, text));
    LetPassingNameGo(held.place);
  }
  EXPECT_GT(without_lock, 950u);
  EXPECT_FALSE(names.MayReplace(10));  // names of another size
  EXPECT_LE(names.ready_count[3], NameStash::kMost);
}

TEST(PassingNames, know_the_class_of_the_last_site) {
  const Held held = Hold(TextOf(1000));
  ASSERT_NE(held.place, 0u);
  const int here = 0, there = 0;
  EXPECT_EQ(ClassOfPassingName(held.place, &here), 0u);
  NoteSiteOfPassingName(held.place, &here, 65535);
  EXPECT_EQ(ClassOfPassingName(held.place, &here), 65535u);
  EXPECT_EQ(ClassOfPassingName(held.place, &there), 0u);
  NoteSiteOfPassingName(held.place, &here, 65536);  // does not fit
  EXPECT_EQ(ClassOfPassingName(held.place, &here), 0u);
  NoteSiteOfPassingName(held.place, &there, 1);
  ForgetSiteOfPassingName(held.place);
  EXPECT_EQ(ClassOfPassingName(held.place, &there), 0u);
  LetPassingNameGo(held.place);
}

TEST(PassingNames, of_holders_stay_their_texts_concurrently) {
  ASSERT_TRUE(StartWithShortHistory());
  std::atomic<uint64_t> added{0}, wrong{0}, checks{0};
  std::atomic<bool> stop{false};
  const uint64_t seed = Seed();
  const auto work = [&](uint64_t number, uint64_t patience) {
    std::mt19937_64 draws(seed + number);
    NameStash names = {};
    while (!stop.load(kRelaxed)) {
      const std::string text = TextOf(draws() % 3000);
      const Held held = Hold(text, number % 2 == 0 ? &names : nullptr);
      if (held.place == 0) continue;
      const uint64_t until = added.fetch_add(1) + patience;
      do {
        if (!IsNameNow(held.word, text)) wrong.fetch_add(1);
        checks.fetch_add(1, kRelaxed);
        if (patience != 0) std::this_thread::yield();
      } while (added.load(kRelaxed) < until && !stop.load(kRelaxed));
      LetPassingNameGo(held.place);
    }
  };
  std::vector<std::thread> threads;
  for (const uint64_t patience : {0, 0, 0, 2000, 3000, 4000}) threads.emplace_back(work, threads.size(), patience);
  std::this_thread::sleep_for(StressTime());
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  std::printf("%llu names, %llu checks; wrong names: %llu\n", static_cast<unsigned long long>(added.load()),
              static_cast<unsigned long long>(checks.load()), static_cast<unsigned long long>(wrong.load()));
}

// One file stays; others in its chain and elsewhere come and go, and it is renamed from one name to another and back.
TEST(PassingNames, of_a_file_are_never_no_files_concurrently) {
  pfs_key_t key = 0;
  pfs_file_info_t file[] = {{&key, "passing", 0, nullptr}};
  ASSERT_EQ(pfs_register_file("names", file, 1), PFS_OK);
  const std::string folder = "/tmp/pfs-passing-names-" + std::to_string(getpid());
  const std::string stays = folder + "-stays";
  const int fd = pfs_open(key, stays.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  std::atomic<bool> stop{false};
  std::thread changes([&] {
    for (uint64_t turn = 0; !stop.load(kRelaxed); ++turn) {
      const std::string name = folder + "-" + std::to_string(turn % 5000);
      const int other = pfs_open(key, name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
      if (other >= 0) pfs_close(other);
      pfs_unlink(key, name.c_str());
    }
  });
  const auto end = std::chrono::steady_clock::now() + StressTime();
  uint64_t wrong = 0, unsure = 0, searches = 0;
  const std::string missing = folder + "-missing";
  for (; std::chrono::steady_clock::now() < end; ++searches) {
    if (IsNoFile(stays, HashName(stays))) ++wrong;
    if (!IsNoFile(missing, HashName(missing))) ++unsure;
  }
  stop.store(true);
  changes.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_LT(unsure, searches);
  EXPECT_TRUE(IsNoFile(missing, HashName(missing)));
  std::printf("%llu searches, %llu while the index changed; wrong answers: %llu\n", static_cast<unsigned long long>(searches),
              static_cast<unsigned long long>(unsure), static_cast<unsigned long long>(wrong));
  pfs_close(fd);
  EXPECT_EQ(pfs_unlink(key, stays.c_str()), 0);
  EXPECT_TRUE(IsNoFile(stays, HashName(stays)));
}

}  // namespace
}  // namespace perfschema
