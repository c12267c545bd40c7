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

// Reads what the kernel says about the threads of a process. It may keep the files of /proc open, which halves the price of a reading.
// Threads: external lock.
class KernelThreads {
 public:
  struct Thread {
    uint64_t tid = 0;
    int stat = -1, schedstat = -1;  // descriptors
    char state = 0;                 // R, S, D ...; 0 = not known
    uint64_t computed = 0, waited = 0;
    bool has_times = false;
    std::optional<uint64_t> computed_now, waited_now;  // picoseconds since the reading before; not set at the first one
  };
  KernelThreads(const ShmHeader& header, bool keeps_files);
  bool is_there() const { return is_there_; }  // the process may be asked about
  void Read(Thread* thread, bool wants_state);
  void Close(Thread* thread);
  std::vector<uint64_t> List() const;  // of threads
  std::string NameOf(uint64_t tid) const;

 private:
  bool ReadFile(int* fd, uint64_t tid, const char* name, char* text, size_t size);
  const uint64_t pid_;
  bool is_there_ = false;
  int64_t files_left_ = 0;  // that may be kept open
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

  // Appends a row for each thread. `weight`, `lateness`: of the rows. `now`: picoseconds since the program's epoch. `left_out`: a thread of
  // the system that has no row, 0 = none. `lists_strangers`: threads that pfs has not recorded have rows, too, with the time since they
  // last had.
  struct Moment {
    uint64_t id, weight, lateness, now;
    int64_t unix_micros;
    uint64_t left_out;
    bool lists_strangers;
  };
  void Sample(const Moment& moment, std::vector<SessionRow>* rows);
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
    SessionRow row{};  // of the last sample: what is the same is not read again
    KernelThreads::Thread kernel;
  };
  struct Seen {
    uint32_t lap = 0, slot = 0;
    uint64_t thread_id = 0, settled = 0;
  };
  struct Digest {
    std::optional<Text<64>> digest;
    std::optional<LongText> text;
  };
  struct Lock {
    size_t row;
    const Open* wait;
    const ShmInstance* instance;
    uint64_t owner;
  };

  void RenewSnapshot();
  const ClassRow* ClassAt(uint64_t index);
  void MeetThreads();
  void ScanPool(Kind kind, Open Thread::*open);
  void Meet(Kind kind, const ShmRecord& record, uint64_t capacity, Thread* thread);
  void MeetWait(const ShmRecord& record, uint64_t capacity, uint64_t state, SessionRow* row);
  void MeetStatement(const ShmStatementRecord& record, SessionRow* row);
  void AddRow(const Moment& moment, Thread* thread, std::vector<SessionRow>* rows);
  void AddStrangers(const Moment& moment, std::vector<SessionRow>* rows);
  void AddBlockers(std::vector<SessionRow>* rows, size_t first);
  const ShmInstance* InstanceOf(uint64_t identity);
  SessionState OffCpuState(const SessionRow& row, const KernelThreads::Thread& kernel);
  bool Draw(uint64_t part, uint64_t whole);

  const SegmentView view_;
  KernelThreads kernel_;
  std::vector<std::unique_ptr<Snapshot>> snapshots_;  // the last one is in use; texts of the others are in rows
  const Snapshot* snapshot_ = nullptr;
  uint64_t classes_asked_ = 0;
  std::vector<Seen> seen_[kEventKinds];
  std::vector<Thread> threads_;
  std::unordered_map<std::string, Digest> digests_;
  std::unordered_map<uint64_t, uint32_t> instances_;  // by identity
  uint64_t instances_tick_ = 0;
  std::vector<Lock> locks_;
  std::unordered_map<uint64_t, KernelThreads::Thread> strangers_;
  std::unordered_set<uint64_t> known_tids_;
  uint64_t strangers_at_ = 0;
  uint64_t tick_ = 0, random_ = 0x9e3779b97f4a7c15u, text_bytes_ = 0;
};

// Returns one sample of the moment of the reading.
std::vector<SessionRow> Sessions(const Snapshot& snapshot);

}  // namespace perfschema
