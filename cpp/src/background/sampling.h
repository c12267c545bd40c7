// background/sampling.h: takes samples of a program (snapshot/sessions.h) at random moments.
//
// The time between two samples is the period times a random number from 0.5 to 1.5: what the program does in step with a fixed period is
// never seen, or always. A sampler that was late goes on from there, without a burst. At normal priority it gets a processor when the
// program blocks, and sees too few threads that compute. So it asks for SCHED_FIFO, else for the shortest slice; scheduling() tells.
#pragma once

#include <atomic>
#include <memory>

#include "snapshot/sessions.h"
#include "table/registry.h"

namespace perfschema {

// Threads: Run by one thread at a time, Stop by any. The file of the view must live as long.
class Sampling {
 public:
  // `hz`: samples a second. A view without a file is that of this process: the thread that runs it has no row.
  PFS_API Sampling(const SegmentView& view, double hz);
  PFS_API ~Sampling();

  // Takes samples for so long, and returns their rows, of the table active_sessions. kNotFound: the program has ended; rows until then are
  // in `data`. kCorrupt: its file was cut.
  PFS_API Status Run(uint64_t nanoseconds, TableData* data);
  void Stop() { is_stopped_.store(true, std::memory_order_relaxed); }  // Run returns within 50 ms
  bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }

  const char* scheduling() const { return scheduling_; }  // fifo, slice, or normal
  uint64_t samples() const { return samples_; }
  uint64_t missed() const { return missed_; }             // periods in which the sampler did not get a processor
  uint64_t processor_time() const { return processor_; }  // nanoseconds that samples took

 private:
  void TakeSample(uint64_t due, uint64_t now);
  Status StateOfProgram();

  const SegmentView view_;
  const uint64_t period_;
  std::unique_ptr<SessionSampler> sampler_;
  SessionRows rows_;
  std::atomic<bool> is_stopped_{false};
  const char* scheduling_ = "normal";
  uint64_t next_ = 0, last_ = 0, strangers_ = 0, checked_ = 0, compared_ = 0;
  int64_t ahead_ = 0;  // microseconds: the wall clock is ahead of the program's
  uint64_t random_, samples_ = 0, missed_ = 0, processor_ = 0;
  const uint64_t first_id_;  // microseconds since 1970: no later sampler gives the same SAMPLE_ID
};

}  // namespace perfschema
