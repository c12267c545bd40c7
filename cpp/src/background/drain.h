// background/drain.h: turns records of traced events into lines of files, one pass after the other.
//
// A pass reads the pools of the kinds one after the other while the threads go on, so it sees events of different moments. If one pass
// saw an event, the next pass at the latest sees everything that its thread did before. So each pass writes rows, in order, up to the
// newest row that the previous pass had seen, and keeps the others for the next one. That needs no comparison of clocks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "background/file.h"
#include "record/probe/trace.h"
#include "snapshot/snapshot.h"
#include "snapshot/traced.h"
#include "table/table_def.h"

namespace perfschema {

// Threads: external lock.
class TraceDrain {
 public:
  explicit TraceDrain(const TraceFolder& folder);
  ~TraceDrain();
  TraceDrain(const TraceDrain&) = delete;
  TraceDrain& operator=(const TraceDrain&) = delete;

  // Returns how many rows were new. `ended`: threads that had ended before. `is_last`: all rows are written.
  uint64_t Pass(std::span<const EndedThread> ended, bool is_last);
  bool has_pending() const { return pending_ != 0; }
  // Closes files until at most `most` are open.
  void CloseFiles(size_t most);

 private:
  struct Row {
    uint64_t id, minor;   // sort key: the order of time
    size_t begin, bytes;  // of the line
    bool is_end, is_new;
    bool operator<(const Row& other) const { return id != other.id ? id < other.id : minor < other.minor; }
  };
  struct Thread {
    TraceNames names;
    std::string user, host;
    uint32_t slot = 0;
    bool is_known = false, is_stopped = false;
    int passes_without_row = 0;  // passes without a row of the table threads
    std::string lines;
    std::vector<Row> rows;
    TraceFile file;
    uint64_t begun_before[kEventKinds] = {};  // as of the last pass
    uint64_t lost = 0;                        // lost events that were counted: never seen
    uint64_t last_used = 0;
  };

  void Read(const Snapshot& snapshot, bool is_fresh);
  void Add(uint32_t kind, const TracedRow& row);
  void LearnNames(const Snapshot& snapshot, uint64_t thread_id, Thread& thread, const EndedThread* end);
  void WriteRows(Thread& thread, bool all);
  void CountNeverSeen(uint64_t thread_id, Thread& thread, const EndedThread* end);
  bool IsForgotten(uint64_t thread_id, const Thread& thread) const;
  void Forget(uint64_t thread_id);

  TraceFolder folder_;
  std::string beginnings_[kEventKinds];  // of lines
  TraceCursor cursors_[kEventKinds];
  std::unordered_map<uint64_t, std::unique_ptr<Thread>> threads_;
  std::unique_ptr<Snapshot> snapshot_;
  uint64_t snapshot_elements_ = 0, passes_ = 0, pending_ = 0, bytes_since_snapshot_ = 0;
  std::string buffer_;
};

}  // namespace perfschema
