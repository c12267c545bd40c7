// snapshot/sessions.h: what each thread does at one moment: a sample. One sample is the table active_sessions; `pfs record` takes many.
//
// Samples of one program cost little after the first. A record never opens again in its chunk's lap, so the sampler remembers which ones
// have ended. A thread that is in the same wait as before needs neither names nor the kernel. All texts of a row, as its object and its
// digest, are read at the moment the open record is met: an event of 10 us has gone when the scan is over.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "shm/records.h"
#include "snapshot/kernel_threads.h"
#include "snapshot/snapshot.h"
#include "snapshot/text.h"

namespace perfschema {

enum class SessionState : uint8_t { kOnCpu = 0, kRunnable, kWaiting, kSleeping, kIdle, kUnknown };

// A row of active_sessions. Times are picoseconds.
struct SessionRow {
  uint64_t sample_id;
  int64_t sample_micros;  // since 1970
  uint64_t weight, lateness;
  std::optional<uint64_t> thread_id, processlist_id, os_id;
  std::optional<Text<128>> thread_name;
  SessionState state;
  Text<64> wait_class;
  std::optional<Text<128>> event_name;
  std::optional<uint64_t> event_id;
  std::optional<Text<32>> operation;
  std::optional<Text<64>> source;
  std::optional<Text<64>> object_schema;
  std::optional<Text<512>> object_name;
  std::optional<uint64_t> object, wait;
  std::optional<uint64_t> statement_id;
  std::optional<Text<128>> statement_name;
  std::optional<Text<64>> digest;
  std::optional<LongText> digest_text;
  std::optional<uint64_t> statement_wait;
  std::optional<Text<128>> stage;
  std::optional<uint64_t> transaction_id;
  std::optional<uint64_t> blocker, final_blocker, chain_depth;
  int64_t is_deadlocked;
  std::optional<uint64_t> cpu_time, runnable_time;
};

// Holds the rows of samples. A thread that does the same as in its row before takes a few words, not a row.
// Threads: external lock.
class SessionRows {
 public:
  struct Moment {
    uint64_t id, weight, lateness;
    int64_t unix_micros;
  };
  size_t size() const { return places_.size(); }
  bool empty() const { return places_.empty(); }
  void Clear();
  void Begin(const Moment& moment) { moments_.push_back(moment); }  // a sample
  // Appends a row of the sample. `has_weight`: the row says for which time it stands. Returns its number for Repeat().
  uint32_t Add(const SessionRow& row, bool has_weight = false);
  // Appends a row that differs from row `number` in these times only.
  void Repeat(uint32_t number, const std::optional<uint64_t>& wait, const std::optional<uint64_t>& statement_wait);
  template <typename Use>
  void ForEach(const Use& use) const {
    SessionRow row;
    for (const Place& place : places_) {
      Fill(place, &row);
      use(row);
    }
  }

 private:
  struct Place {
    uint32_t row, moment;
    uint64_t wait, statement_wait;
    bool is_repeated, has_weight;
  };
  void Fill(const Place& place, SessionRow* row) const;
  std::vector<SessionRow> rows_;
  std::vector<Moment> moments_;
  std::vector<Place> places_;
};

// Takes samples of one program.
// Threads: external lock.
class SessionSampler {
 public:
  // `keeps_files`: the caller's process is no program of a user, so that its descriptors may be used up.
  SessionSampler(const SegmentView& view, bool keeps_files);
  // Takes one sample, whose texts live as long as `snapshot`.
  explicit SessionSampler(const Snapshot& snapshot);
  ~SessionSampler();
  SessionSampler(const SessionSampler&) = delete;
  SessionSampler& operator=(const SessionSampler&) = delete;

  // Appends a row for each thread. `now`: picoseconds since the program's epoch. `left_out`: a thread of the system that has no row, 0 =
  // none. `lists_strangers`: threads that pfs has not recorded have rows, too, with the time since they last had.
  struct Moment : SessionRows::Moment {
    uint64_t now;
    uint64_t left_out;
    bool lists_strangers;
  };
  void Sample(const Moment& moment, SessionRows* rows);
  // The caller has no row any more: texts may go.
  void Forget();

 private:
  struct Open {
    uint64_t tick = 0;  // of the sample that has seen it last
    uint64_t event_id = 0, start = 0, state = 0;
    uint32_t lap = 0;
    const ShmRecord* record = nullptr;
    const ShmChunk* chunk = nullptr;
  };
  struct Thread {
    uint64_t id = 0;
    uint32_t name_seq = 1;  // odd: not read yet
    Open waits, statement, transaction;
    SessionRow row{};                                  // of the last sample: what is the same is not read again
    uint32_t number = kNone;                           // of that row in this batch
    uint32_t stage = 0;                                // class of the row's
    bool may_be_idle = false, may_be_blocked = false;  // by the kind of the wait
    bool is_changed = true;                            // something besides the times
    KernelThreads::Thread kernel;
  };
  struct Seen {
    uint32_t lap = 0, slot = 0;
    uint64_t thread_id = 0, settled = 0;
    PoolView::Records records{};  // its memory stays where it is
  };
  struct Digest {
    std::optional<Text<64>> digest;
    std::optional<LongText> text;
  };
  struct Lock {
    Thread* thread;
    uint64_t owner;
  };
  static constexpr uint32_t kNone = ~uint32_t{0};

  void RenewSnapshot();
  const ClassRow* ClassAt(uint64_t index);
  uint32_t StateOf(uint64_t index, const ClassRow& instrument);  // of threads that wait so
  void MeetThreads();
  void ScanPool(Kind kind, uint64_t now, Open Thread::*open);
  // `pool`: the view in which the record was found. Another one may be of other sizes: a damaged segment changes while it is read.
  void Meet(Kind kind, const PoolView& pool, const ShmRecord& record, uint64_t capacity, Thread* thread);
  void MeetWait(const ShmRecord& record, uint64_t capacity, uint64_t state, SessionRow* row);
  void MeetStatement(const PoolView& pool, const ShmStatementRecord& record, SessionRow* row);
  void Describe(const Moment& moment, Thread* thread);
  void AddStrangers(const Moment& moment, SessionRows* rows);
  void FindBlockers();
  Thread* ThreadOf(uint64_t thread_id);
  const ShmInstance* InstanceOf(uint64_t identity);
  SessionState OffCpuState(const SessionRow& row, const KernelThreads::Thread& kernel);
  bool Draw(uint64_t part, uint64_t whole);

  const SegmentView view_;
  KernelThreads kernel_;
  std::vector<std::unique_ptr<Snapshot>> snapshots_;  // the last one is in use; texts of the others are in rows
  const Snapshot* snapshot_ = nullptr;
  uint64_t classes_asked_ = 0;
  std::vector<uint32_t> states_;  // by instrument
  std::vector<Seen> seen_[kEventKinds];
  std::vector<Thread> threads_;
  std::unordered_map<std::string, Digest> digests_;
  std::unordered_map<uint64_t, uint32_t> instances_;  // by identity
  uint64_t instances_tick_ = 0;
  std::vector<Lock> locks_;
  std::unordered_map<uint64_t, KernelThreads::Thread> strangers_;
  std::unordered_map<uint64_t, uint32_t> slots_;  // by THREAD_ID
  uint64_t strangers_at_ = 0;
  uint64_t tick_ = 0, random_ = 0x9e3779b97f4a7c15u, text_bytes_ = 0;
};

// Returns one sample of the moment of the reading.
SessionRows Sessions(const Snapshot& snapshot);

}  // namespace perfschema
